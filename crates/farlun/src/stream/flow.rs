//! One direction of bytes, sent or received in a loop until the time is over or the peer closes.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::Duration;

use engine::{Course, Moved, Pacing, SAMPLE_EVERY, Service, Steering, Turn, Work, socket_sample};
use event::{Host, Instant, Sink, SocketSample};
use net::{EndSignals, Interest, Poll, Ready, clock, tcp_info};
use store::tables::{Recorder, TableError};

use super::account::Account;
use super::history::{History, Moment};
use super::message::Trailer;

/// Bytes of one call: what a sender writes and a receiver reads at once.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;
/// Chunks written before the clock is looked at again.
const CHUNKS_PER_TURN: usize = 8;
/// What a sender has still to send, as the policy sees it: always more.
const ENDLESS_BYTES: u64 = 1 << 30;
const SIGNALS_TOKEN: u64 = 1;
/// A receiver gives a sender that says nothing so much longer than it meant to send.
const GRACE: Duration = Duration::from_secs(30);

/// Which end of the flow this is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Role {
    /// Sends until the time is over.
    Send,
    /// Receives until the peer closes.
    Receive,
}

/// What a flow is to be.
pub(super) struct Setup<'a> {
    /// At which end of the path.
    pub(super) host: Host,
    /// At which end of the flow.
    pub(super) role: Role,
    /// Signals that end it early.
    pub(super) signals: Option<&'a EndSignals>,
    /// How much is not counted, from the start.
    pub(super) warmup: Duration,
    /// How long.
    pub(super) time: Duration,
    /// Whether a sender is paced.
    pub(super) pacing: Pacing,
    /// Where a sender takes its bytes from, one chunk after another.
    pub(super) buffer_bytes: usize,
    /// Where samples go.
    pub(super) table: Option<Recorder<SocketSample>>,
}

/// What a flow says of itself while it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// Time since its start.
    pub(crate) elapsed: Duration,
    /// Bytes moved so far.
    pub(crate) bytes: u64,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) started: Instant,
    /// Bytes moved in all.
    pub(super) moved_bytes: u64,
    /// Bytes moved between the warm-up and the end of the time.
    pub(super) counted_bytes: u64,
    /// The time these took.
    pub(super) counted_time: Duration,
    pub(super) min_rtt: Option<Duration>,
    /// What this end knows of itself.
    pub(super) account: Account,
    /// How it went.
    pub(super) history: History,
    /// The last bytes received, as many as a trailer has.
    pub(super) last: Vec<u8>,
}

/// A flow at work.
pub(super) struct Flow<'a> {
    poll: Poll,
    stream: TcpStream,
    steering: Steering,
    host: Host,
    role: Role,
    buffer: Vec<u8>,
    /// Where in the buffer the next chunk to send begins.
    at: usize,
    table: Option<Recorder<SocketSample>>,
    next_sample: Instant,
    outcome: Outcome,
    /// When the warm-up had ended, and the bytes acknowledged or received until then.
    base: Option<(Instant, u64)>,
    warm: Instant,
    ends: Instant,
    is_ready: bool,
    is_over: bool,
    progress: &'a mut dyn FnMut(Progress),
}

impl<'a> Flow<'a> {
    pub(super) fn new(
        stream: TcpStream,
        setup: Setup<'a>,
        progress: &'a mut dyn FnMut(Progress),
    ) -> io::Result<Flow<'a>> {
        let Setup { host, role, signals, warmup, time, pacing, buffer_bytes, table } = setup;
        // Filled with something, since pages of zeros would all be the same one; the time begins after that.
        let buffer = vec![0x5a; buffer_bytes];
        let now = clock::now();
        let poll = Poll::new()?;
        let interest = if matches!(role, Role::Receive) { Interest::READ } else { Interest::WRITE };
        poll.add(stream.as_fd(), 0, interest)?;
        if let Some(signals) = signals {
            poll.add(signals.as_fd(), SIGNALS_TOKEN, Interest::READ)?;
        }
        let steering = Steering::new(&stream, Course { pacing, ..Course::default() })?;
        Ok(Flow {
            poll,
            steering,
            stream,
            host,
            role,
            buffer,
            at: 0,
            table,
            next_sample: now,
            outcome: Outcome {
                started: now,
                moved_bytes: 0,
                counted_bytes: 0,
                counted_time: Duration::ZERO,
                min_rtt: None,
                account: Account::new(),
                history: History::default(),
                last: Vec::new(),
            },
            base: None,
            warm: now + warmup,
            ends: now + time,
            is_ready: true,
            is_over: false,
            progress,
        })
    }

    /// Closes the table; the socket and what came of it.
    pub(super) fn finish(mut self) -> Result<(TcpStream, Outcome), TableError> {
        self.outcome.min_rtt = tcp_info::read(&self.stream).ok().and_then(|info| info.min_rtt);
        if let Some(table) = self.table {
            table.finish()?;
        }
        Ok((self.stream, self.outcome))
    }

    pub(super) fn take_table(&mut self) -> Option<Recorder<SocketSample>> {
        self.table.take()
    }

    pub(super) fn into_parts(self) -> (TcpStream, Account) {
        (self.stream, self.outcome.account)
    }

    fn send(&mut self, now: Instant) -> io::Result<()> {
        if now >= self.ends {
            self.is_over = true;
        }
        for _ in 0..CHUNKS_PER_TURN {
            if self.is_over {
                return Ok(());
            }
            let end = self.buffer.len().min(self.at + CHUNK_BYTES);
            match (&self.stream).write(&self.buffer[self.at..end]) {
                Ok(written) => {
                    self.outcome.moved_bytes += written as u64;
                    self.at += written;
                    if self.at < end {
                        return Ok(());
                    }
                    if self.at == self.buffer.len() {
                        self.at = 0;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.is_ready = true;
        Ok(())
    }

    fn receive(&mut self) -> io::Result<()> {
        match (&self.stream).read(&mut self.buffer) {
            Ok(0) => self.is_over = true,
            Ok(read) => {
                self.outcome.moved_bytes += read as u64;
                self.remember_last(read);
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn remember_last(&mut self, read: usize) {
        let last = &mut self.outcome.last;
        let fresh = &self.buffer[read.saturating_sub(Trailer::LEN)..read];
        last.extend_from_slice(fresh);
        let excess = last.len().saturating_sub(Trailer::LEN);
        last.drain(..excess);
    }

    fn sample(&mut self, now: Instant) -> io::Result<()> {
        let info = tcp_info::read(&self.stream)?;
        let is_sender = matches!(self.role, Role::Send);
        let (rx_bytes, tx_bytes) = match is_sender {
            true => (0, self.outcome.moved_bytes),
            false => (self.outcome.moved_bytes, 0),
        };
        let steered = match is_sender {
            true => {
                let work = Work { unsent_bytes: ENDLESS_BYTES, ..Work::default() };
                Some(self.steering.look(&self.stream, now, &info, work)?.1)
            }
            false => None,
        };
        if let Some(table) = &mut self.table {
            let unsent_bytes = if is_sender { ENDLESS_BYTES } else { 0 };
            let moved = Moved { rx_bytes, tx_bytes, unsent_bytes, request_bytes: 0 };
            let sample = socket_sample(now, self.host, 0, &info, moved);
            table.record(&SocketSample { steered, ..sample });
        }
        let arrived = if is_sender { info.acked_bytes } else { rx_bytes };
        self.outcome.account.look(&info);
        let window_bytes = u64::from(info.cwnd_packets) * u64::from(info.mss_bytes);
        let ended = self.outcome.history.look(Moment {
            elapsed: now.since(self.outcome.started),
            arrived,
            window_bytes: is_sender.then_some(window_bytes),
            rtt: info.rtt,
            retransmitted: info.retransmitted_packets.into(),
        });
        if ended {
            self.outcome.account.look_at_memory();
        }
        if now >= self.warm && now <= self.ends {
            let (since, base) = *self.base.get_or_insert((now, arrived));
            self.outcome.counted_bytes = arrived - base;
            self.outcome.counted_time = now.since(since);
        }
        self.next_sample = now + self.steering.decision().look_again.min(SAMPLE_EVERY);
        let elapsed = now.since(self.outcome.started);
        (self.progress)(Progress { elapsed, bytes: self.outcome.moved_bytes });
        Ok(())
    }
}

impl Service for Flow<'_> {
    type Error = io::Error;

    fn poll(&self) -> &Poll {
        &self.poll
    }

    fn ready(&mut self, ready: Ready, _now: Instant) -> io::Result<()> {
        if ready.token == SIGNALS_TOKEN {
            // The signal stays for whoever started this flow.
            return Err(io::Error::new(io::ErrorKind::Interrupted, "ended by a signal"));
        }
        self.is_ready = true;
        Ok(())
    }

    fn turn(&mut self, now: Instant) -> io::Result<Turn> {
        if std::mem::take(&mut self.is_ready) || now >= self.ends {
            match self.role {
                Role::Send => self.send(now)?,
                Role::Receive => self.receive()?,
            }
        }
        if now >= self.next_sample || self.is_over {
            self.sample(now)?;
        }
        if self.is_over {
            return Ok(Turn::Stop);
        }
        if now >= self.ends + GRACE {
            let silent = "the sender neither ended nor closed the stream";
            return Err(io::Error::new(io::ErrorKind::TimedOut, silent));
        }
        Ok(if self.is_ready { Turn::Again } else { Turn::WaitUntil(self.next_sample) })
    }
}
