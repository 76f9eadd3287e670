//! One TCP connection in a loop: its socket, both halves, what it waits for, and what the kernel says
//! of it.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;

use event::{Host, Instant, SocketSample};
use net::{Interest, Poll, TcpInfo, tcp, tcp_info};

use crate::rx::{Receiver, Rx, Scratch, Stop};
use crate::tx::{Sender, Tx};

/// What one connection may move before others get their turn.
const QUANTUM_BYTES: usize = 4 << 20;
/// Unsent bytes the kernel may hold for a connection whose rate is not known yet.
const NOTSENT_BYTES: u32 = 256 << 10;

/// How far a turn of reading or writing got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Nothing is left to do until the socket or its owner says so.
    Waits,
    /// There is more to do at once; others come first.
    More,
}

/// A connection.
#[derive(Debug)]
pub struct Connection<P, D> {
    stream: TcpStream,
    token: u64,
    interest: Interest,
    rx: Rx<P>,
    tx: Tx<D>,
    notsent_bytes: u32,
    pacing_bytes_per_s: Option<u64>,
}

impl<P, D> Connection<P, D> {
    /// Adds a prepared socket to a loop under `token`.
    pub fn new(stream: TcpStream, poll: &Poll, token: u64) -> io::Result<Connection<P, D>> {
        tcp::set_notsent_lowat(&stream, NOTSENT_BYTES)?;
        poll.add(stream.as_fd(), token, Interest::READ)?;
        Ok(Connection {
            stream,
            token,
            interest: Interest::READ,
            rx: Rx::new(),
            tx: Tx::new(),
            notsent_bytes: NOTSENT_BYTES,
            pacing_bytes_per_s: None,
        })
    }

    /// Its socket.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Reads what has arrived.
    pub fn receive<R: Receiver<Place = P>>(
        &mut self,
        scratch: &mut Scratch,
        receiver: &mut R,
    ) -> Result<Progress, Stop<R::Error>> {
        let more = self.rx.receive(&self.stream, scratch, receiver, QUANTUM_BYTES)?;
        Ok(if more { Progress::More } else { Progress::Waits })
    }

    /// Writes what `sender` has, until it has no more, the socket is full, or others must come first.
    pub fn send<S: Sender<Data = D>>(&mut self, poll: &Poll, sender: &mut S) -> io::Result<Progress> {
        let mut total = 0;
        loop {
            self.tx.fill(sender);
            if self.tx.is_empty() {
                self.wait_for(poll, Interest { writable: false, ..self.interest })?;
                return Ok(Progress::Waits);
            }
            if total >= QUANTUM_BYTES {
                return Ok(Progress::More);
            }
            let queued = self.tx.queued_bytes();
            match self.tx.write(&self.stream, sender) {
                Ok(written) => {
                    total += written;
                    if written == queued {
                        continue;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            self.wait_for(poll, Interest { writable: true, ..self.interest })?;
            return Ok(Progress::Waits);
        }
    }

    /// Stops or resumes reading, so that a peer feels that we have no room.
    pub fn set_reading(&mut self, poll: &Poll, reading: bool) -> io::Result<()> {
        self.wait_for(poll, Interest { readable: reading, ..self.interest })
    }

    /// Whether something is queued that the socket has not taken.
    pub fn has_unsent(&self) -> bool {
        !self.tx.is_empty()
    }

    /// Paces this connection at no more than `bytes_per_s`, and lets the kernel hold about five
    /// milliseconds of it unsent: enough to keep the line busy, little enough that an urgent PDU does not
    /// wait behind megabytes.
    pub fn pace(&mut self, bytes_per_s: u64) -> io::Result<()> {
        if self.pacing_bytes_per_s != Some(bytes_per_s) {
            tcp::set_max_pacing_rate(&self.stream, bytes_per_s)?;
            self.pacing_bytes_per_s = Some(bytes_per_s);
        }
        Ok(())
    }

    /// Follows a measured delivery rate with the amount of unsent data the kernel may hold.
    pub fn follow_rate(&mut self, bytes_per_s: u64) -> io::Result<()> {
        let five_ms = u32::try_from(bytes_per_s / 200).unwrap_or(u32::MAX);
        let notsent = five_ms.clamp(NOTSENT_BYTES, 16 << 20).next_multiple_of(64 << 10);
        // The kernel is told only of changes worth a system call.
        if notsent.abs_diff(self.notsent_bytes) > self.notsent_bytes / 4 {
            tcp::set_notsent_lowat(&self.stream, notsent)?;
            self.notsent_bytes = notsent;
        }
        Ok(())
    }

    /// Application payload received so far.
    pub fn received_payload_bytes(&self) -> u64 {
        self.rx.payload_bytes()
    }

    /// Application payload handed to the socket so far.
    pub fn sent_payload_bytes(&self) -> u64 {
        self.tx.payload_bytes()
    }

    /// What the kernel says of the connection now, and the row of the table `sockets` for it.
    pub fn sample(&self, t: Instant, host: Host) -> io::Result<(TcpInfo, SocketSample)> {
        let info = tcp_info::read(&self.stream)?;
        let sample = SocketSample {
            t,
            host,
            connection: self.token as u32,
            app_rx_bytes: self.received_payload_bytes(),
            app_tx_bytes: self.sent_payload_bytes(),
            cwnd_packets: info.cwnd_packets,
            ssthresh_packets: info.ssthresh_packets,
            mss_bytes: info.mss_bytes,
            state: info.state,
            rtt_ns: info.rtt.as_nanos() as u64,
            min_rtt_ns: info.min_rtt.unwrap_or_default().as_nanos() as u64,
            unacked_packets: info.unacked_packets,
            retransmitted_packets: info.retransmitted_packets,
            delivery_rate_bytes_per_s: info.delivery_rate_bytes_per_s,
            pacing_rate_bytes_per_s: info.pacing_rate_bytes_per_s,
            notsent_bytes: info.notsent_bytes,
        };
        Ok((info, sample))
    }

    fn wait_for(&mut self, poll: &Poll, interest: Interest) -> io::Result<()> {
        if self.interest != interest {
            poll.modify(self.stream.as_fd(), self.token, interest)?;
            self.interest = interest;
        }
        Ok(())
    }
}
