//! One direction of bytes, sent or received in a loop until the time is over or the peer closes.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use engine::{Course, Moved, Pacing, SAMPLE_EVERY, Service, Steering, Turn, Work, socket_sample};
use event::{Host, Instant, Sink, SocketSample, Steered};
use net::{EndSignals, Interest, Poll, Ready, TcpInfo, clock, tcp_info};
use tables::Recorder;

use super::account::Account;
use super::history::{History, Moment};
use super::inlet::{Inlet, More};
use super::outlet::Outlet;

/// What a sender has still to send, as the policy sees it: always more.
const ENDLESS_BYTES: u64 = 1 << 30;
const SIGNALS_TOKEN: u64 = 1;
/// A receiver gives a sender that says nothing so much longer than it meant to send.
const GRACE: Duration = Duration::from_secs(30);

/// Which end of the flow this is.
#[derive(Debug)]
pub(super) enum Role<'a> {
    /// Sends until the time is over.
    Send(Outlet<'a>),
    /// Receives until the peer closes.
    Receive(Inlet),
}

/// What a flow is to be.
pub(super) struct Setup<'a> {
    /// At which end of the path.
    pub(super) host: Host,
    /// Which stream of the run, for the table.
    pub(super) number: u16,
    /// At which end of the flow.
    pub(super) role: Role<'a>,
    /// Signals that end it early.
    pub(super) signals: Option<&'a EndSignals>,
    /// How much is not counted, from the start.
    pub(super) warmup: Duration,
    /// How long.
    pub(super) time: Duration,
    /// Whether a sender is paced.
    pub(super) pacing: Pacing,
    /// Where samples go, those of all streams.
    pub(super) table: Option<&'a Mutex<Recorder<SocketSample>>>,
}

/// What a flow says of itself while it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// Time since its start.
    pub(crate) elapsed: Duration,
    /// Bytes moved since it said so last.
    pub(crate) fresh_bytes: u64,
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
    /// What this end knows of itself.
    pub(super) account: Account,
    /// How it went.
    pub(super) history: History,
    /// The last bytes received, as many as were to be kept.
    pub(super) last: Vec<u8>,
}

/// A flow at work.
pub(super) struct Flow<'a> {
    poll: Poll,
    stream: TcpStream,
    steering: Steering,
    host: Host,
    number: u16,
    role: Role<'a>,
    table: Option<&'a Mutex<Recorder<SocketSample>>>,
    next_sample: Instant,
    outcome: Outcome,
    /// When the warm-up had ended, and the bytes acknowledged or received until then.
    base: Option<(Instant, u64)>,
    /// The same at the last look.
    last: (Instant, u64),
    warm: Instant,
    ends: Instant,
    /// Bytes that were told of.
    told_bytes: u64,
    is_ready: bool,
    is_over: bool,
    progress: &'a dyn Fn(Progress),
}

impl<'a> Flow<'a> {
    /// Its time begins now.
    pub(super) fn new(
        stream: TcpStream,
        setup: Setup<'a>,
        progress: &'a dyn Fn(Progress),
    ) -> io::Result<Flow<'a>> {
        let Setup { host, number, role, signals, warmup, time, pacing, table } = setup;
        let now = clock::now();
        let poll = Poll::new()?;
        let interest = if matches!(role, Role::Receive(_)) { Interest::READ } else { Interest::WRITE };
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
            number,
            role,
            table,
            next_sample: now,
            outcome: Outcome {
                started: now,
                moved_bytes: 0,
                counted_bytes: 0,
                counted_time: Duration::ZERO,
                account: Account::default(),
                history: History::default(),
                last: Vec::new(),
            },
            base: None,
            last: (now, 0),
            warm: now + warmup,
            ends: now + time,
            told_bytes: 0,
            is_ready: true,
            is_over: false,
            progress,
        })
    }

    /// The socket and what came of it.
    pub(super) fn finish(mut self) -> (TcpStream, Outcome) {
        let account = &mut self.outcome.account;
        if let Some(seconds) = self.outcome.history.full_window_s() {
            account.full_window_ns = (seconds * 1e9) as u64;
        }
        match &self.role {
            Role::Send(outlet) => account.zero_copy = outlet.zero_copy().word(),
            Role::Receive(inlet) => self.outcome.last = inlet.last().to_vec(),
        }
        if let Ok(info) = tcp_info::read(&self.stream) {
            account.look(&info);
        }
        (self.stream, self.outcome)
    }

    /// Moves what there is to be moved, or room for.
    fn transfer(&mut self, now: Instant) -> io::Result<()> {
        let (bytes, is_ready) = match &mut self.role {
            Role::Send(_) if now >= self.ends => {
                self.is_over = true;
                (0, false)
            }
            Role::Send(outlet) => outlet.write(&self.stream)?,
            Role::Receive(inlet) => {
                let (bytes, more) = inlet.read(&self.stream)?;
                self.is_over = more == More::Never;
                (bytes, more == More::Now)
            }
        };
        self.outcome.moved_bytes += bytes;
        self.is_ready = is_ready;
        Ok(())
    }

    fn sample(&mut self, now: Instant) -> io::Result<()> {
        let info = tcp_info::read(&self.stream)?;
        let moved_bytes = self.outcome.moved_bytes;
        let is_sender = matches!(self.role, Role::Send(_));
        let steered = match is_sender {
            true => {
                let work = Work { unsent_bytes: ENDLESS_BYTES, ..Work::default() };
                Some(self.steering.look(&self.stream, now, &info, work)?.1)
            }
            false => None,
        };
        self.record(now, &info, steered);
        let arrived = if is_sender { info.acked_bytes } else { moved_bytes };
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
        self.count(now, arrived);
        self.next_sample = now + self.steering.decision().look_again.min(SAMPLE_EVERY);
        let elapsed = now.since(self.outcome.started);
        let fresh_bytes = moved_bytes - std::mem::replace(&mut self.told_bytes, moved_bytes);
        (self.progress)(Progress { elapsed, fresh_bytes });
        Ok(())
    }

    /// Counts what arrived from the warm-up to the end: from the first look to the last one in between, or at least over
    /// two looks, where a busy machine leaves no time for more.
    fn count(&mut self, now: Instant, arrived: u64) {
        let last = std::mem::replace(&mut self.last, (now, arrived));
        if now < self.warm {
            return;
        }
        let first = if now > self.ends { last } else { (now, arrived) };
        let (since, base) = *self.base.get_or_insert(first);
        if now <= self.ends || self.outcome.counted_time == Duration::ZERO {
            self.outcome.counted_bytes = arrived - base;
            self.outcome.counted_time = now.since(since);
        }
    }

    fn record(&self, now: Instant, info: &TcpInfo, steered: Option<Steered>) {
        let Some(table) = self.table else { return };
        let moved_bytes = self.outcome.moved_bytes;
        let moved = match steered.is_some() {
            true => {
                Moved { rx_bytes: 0, tx_bytes: moved_bytes, unsent_bytes: ENDLESS_BYTES, request_bytes: 0 }
            }
            false => Moved { rx_bytes: moved_bytes, tx_bytes: 0, unsent_bytes: 0, request_bytes: 0 },
        };
        let sample = socket_sample(now, self.host, self.number.into(), info, moved);
        table.lock().unwrap_or_else(PoisonError::into_inner).record(&SocketSample { steered, ..sample });
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
        if let (Role::Send(outlet), true) = (&mut self.role, ready.has_error) {
            outlet.look(&self.stream)?;
        }
        self.is_ready = true;
        Ok(())
    }

    fn turn(&mut self, now: Instant) -> io::Result<Turn> {
        if std::mem::take(&mut self.is_ready) || now >= self.ends {
            self.transfer(now)?;
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
