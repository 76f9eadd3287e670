//! One TCP connection in a loop: its socket, both halves, what it waits for, and what the kernel says
//! of it.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;

use event::{Host, Instant, SocketSample};
use net::{Interest, Poll, TcpInfo, tcp_info};

use crate::rx::{Receiver, Rx, Scratch, Stop};
use crate::sample::{Moved, socket_sample};
use crate::tuning::Tuning;
use crate::tx::{Sender, Tx};

/// What one connection may move before others get their turn.
const QUANTUM_BYTES: usize = 4 << 20;

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
    tuning: Tuning,
}

impl<P, D> Connection<P, D> {
    /// Adds a prepared socket to a loop under `token`.
    pub fn new(stream: TcpStream, poll: &Poll, token: u64) -> io::Result<Connection<P, D>> {
        let tuning = Tuning::new(&stream)?;
        poll.add(stream.as_fd(), token, Interest::READ)?;
        Ok(Connection { stream, token, interest: Interest::READ, rx: Rx::new(), tx: Tx::new(), tuning })
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

    /// See [`Tuning::pace`].
    pub fn pace(&mut self, bytes_per_s: u64) -> io::Result<()> {
        self.tuning.pace(&self.stream, bytes_per_s)
    }

    /// See [`Tuning::follow_rate`].
    pub fn follow_rate(&mut self, bytes_per_s: u64) -> io::Result<()> {
        self.tuning.follow_rate(&self.stream, bytes_per_s)
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
        let moved = Moved { rx_bytes: self.received_payload_bytes(), tx_bytes: self.sent_payload_bytes() };
        let sample = socket_sample(t, host, self.token as u32, &info, moved);
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
