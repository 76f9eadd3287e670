//! The transfer of a stream in one direction, in a loop until its time is over or the peer closes.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use engine::{
    CongestionControl, Course, Moved, Pacing, SAMPLE_EVERY, Service, Steering, Turn, Work, socket_sample,
};
use event::{Host, Instant, Sink, SocketSample, Steered};
use net::{EndSignals, Interest, Poll, Ready, TcpInfo, clock, tcp_info};
use tables::Recorder;

use super::counters::EndCounters;
use super::history::{History, Reading};
use super::sink::{ByteSink, Readiness};
use super::source::ByteSource;

/// Unsent bytes of a sender, as the policy sees them: always more than it takes.
const ENDLESS_BYTES: u64 = 1 << 30;
const SIGNALS_TOKEN: u64 = 1;
/// Time beyond the flow's duration after which a receiver gives up a sender that does not end.
const GRACE: Duration = Duration::from_secs(30);
/// Time without a byte moved after which either end gives up the other one.
const SILENCE: Duration = Duration::from_secs(30);

/// End of the flow.
#[derive(Debug)]
pub(crate) enum Role<'a> {
    /// Sends until the time is over.
    Send(ByteSource<'a>),
    /// Receives until the peer closes.
    Receive(ByteSink),
}

/// Setup of a flow.
pub(crate) struct FlowSetup<'a> {
    /// End of the path.
    pub(crate) host: Host,
    /// Number of the stream in the run, for the table.
    pub(crate) number: u16,
    /// End of the flow.
    pub(crate) role: Role<'a>,
    /// Signals that end it early.
    pub(crate) signals: Option<&'a EndSignals>,
    /// Time from the start that the figures leave out.
    pub(crate) warmup: Duration,
    /// Duration.
    pub(crate) time: Duration,
    /// Pacing and permissions of a sender.
    pub(crate) course: Course,
    /// Receiver of messages for people.
    pub(crate) notice: fn(&str),
    /// Table of samples, shared by all streams.
    pub(crate) table: Option<&'a Mutex<Recorder<SocketSample>>>,
}

/// Policy of a stream: the default one, with the user's pacing and congestion control.
pub(crate) fn course(pacing: Pacing, congestion: &CongestionControl) -> Course {
    Course { pacing, may_change: congestion.may_change(), ..Course::default() }
}

/// Progress of a stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamProgress {
    /// Time since its start.
    pub elapsed: Duration,
    /// Bytes moved since the report before.
    pub fresh_bytes: u64,
}

/// Result of a flow.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) started: Instant,
    /// Bytes moved in all.
    pub(crate) moved_bytes: u64,
    /// Bytes moved between the warm-up and the end of the time.
    pub(crate) counted_bytes: u64,
    /// Time of these.
    pub(crate) counted_time: Duration,
    /// Counters of this end.
    pub(crate) counters: EndCounters,
    /// Rate and window over time.
    pub(crate) history: History,
    /// Last bytes received, as many as the sink keeps.
    pub(crate) tail: Vec<u8>,
}

/// Part of a flow's time that the figures cover.
struct CountedSpan {
    /// End of the warm-up.
    warm: Instant,
    /// End of the flow.
    ends: Instant,
    /// First sample that counts: its time, and the bytes acknowledged or received until then.
    base: Option<(Instant, u64)>,
    /// Last sample, likewise.
    last: (Instant, u64),
}

/// Functions of the caller for progress and messages.
struct Output<'a> {
    progress: &'a dyn Fn(StreamProgress),
    notice: fn(&str),
}

/// A flow at work.
pub(crate) struct Flow<'a> {
    poll: Poll,
    stream: TcpStream,
    steering: Steering,
    host: Host,
    number: u16,
    role: Role<'a>,
    table: Option<&'a Mutex<Recorder<SocketSample>>>,
    next_sample: Instant,
    outcome: Outcome,
    span: CountedSpan,
    /// Bytes reported as progress.
    reported_bytes: u64,
    /// Time of the last byte moved.
    moved: Instant,
    is_ready: bool,
    is_over: bool,
    output: Output<'a>,
}

impl<'a> Flow<'a> {
    /// A flow whose time begins now.
    pub(crate) fn new(
        stream: TcpStream,
        setup: FlowSetup<'a>,
        progress: &'a dyn Fn(StreamProgress),
    ) -> io::Result<Flow<'a>> {
        let FlowSetup { host, number, role, signals, warmup, time, course, notice, table } = setup;
        let now = clock::now();
        let poll = Poll::new()?;
        let interest = if matches!(role, Role::Receive(_)) { Interest::READ } else { Interest::WRITE };
        poll.add(stream.as_fd(), 0, interest)?;
        if let Some(signals) = signals {
            poll.add(signals.as_fd(), SIGNALS_TOKEN, Interest::READ)?;
        }
        let steering = Steering::new(&stream, course)?;
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
                counters: EndCounters::default(),
                history: History::default(),
                tail: Vec::new(),
            },
            span: CountedSpan { warm: now + warmup, ends: now + time, base: None, last: (now, 0) },
            reported_bytes: 0,
            moved: now,
            is_ready: true,
            is_over: false,
            output: Output { progress, notice },
        })
    }

    /// The socket and the result.
    pub(crate) fn finish(mut self) -> (TcpStream, Outcome) {
        let counters = &mut self.outcome.counters;
        if let Some(seconds) = self.outcome.history.full_window_s() {
            counters.full_window_ns = (seconds * 1e9) as u64;
        }
        match &self.role {
            Role::Send(source) => counters.zero_copy = source.zero_copy().word(),
            Role::Receive(sink) => self.outcome.tail = sink.tail().to_vec(),
        }
        if let Ok(info) = tcp_info::read(&self.stream) {
            counters.update(&info);
        }
        (self.stream, self.outcome)
    }

    /// Moves the bytes that are there, or that have room.
    fn transfer(&mut self, now: Instant) -> io::Result<()> {
        let (bytes, is_ready) = match &mut self.role {
            Role::Send(_) if now >= self.span.ends => {
                self.is_over = true;
                (0, false)
            }
            Role::Send(source) => source.write(&self.stream)?,
            Role::Receive(sink) => {
                let (bytes, readiness) = sink.read(&self.stream)?;
                self.is_over = readiness == Readiness::Closed;
                (bytes, readiness == Readiness::Now)
            }
        };
        self.outcome.moved_bytes += bytes;
        if bytes > 0 {
            self.moved = now;
        }
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
        if let Some(change) = self.steering.take_congestion_change() {
            (self.output.notice)(&change.to_string());
        }
        self.record(now, &info, steered);
        let arrived = if is_sender { info.acked_bytes } else { moved_bytes };
        self.outcome.counters.update(&info);
        let window_bytes = u64::from(info.cwnd_packets) * u64::from(info.mss_bytes);
        let ended = self.outcome.history.add(Reading {
            elapsed: now.since(self.outcome.started),
            arrived,
            window_bytes: is_sender.then_some(window_bytes),
            rtt: info.rtt,
            retransmitted: info.retransmitted_packets.into(),
        });
        if ended {
            self.outcome.counters.update_memory();
        }
        self.span.add(now, arrived, &mut self.outcome);
        self.next_sample = now + self.steering.decision().look_again.min(SAMPLE_EVERY);
        let elapsed = now.since(self.outcome.started);
        let fresh_bytes = moved_bytes - std::mem::replace(&mut self.reported_bytes, moved_bytes);
        (self.output.progress)(StreamProgress { elapsed, fresh_bytes });
        Ok(())
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

impl CountedSpan {
    /// Counts the bytes from the first sample after the warm-up to the last one before the end, or over two samples at
    /// least where a busy machine takes no more.
    fn add(&mut self, now: Instant, arrived: u64, outcome: &mut Outcome) {
        let last = std::mem::replace(&mut self.last, (now, arrived));
        if now < self.warm {
            return;
        }
        let first = if now > self.ends { last } else { (now, arrived) };
        let (since, base) = *self.base.get_or_insert(first);
        if now <= self.ends || outcome.counted_time == Duration::ZERO {
            outcome.counted_bytes = arrived - base;
            outcome.counted_time = now.since(since);
        }
    }
}

impl Service for Flow<'_> {
    type Error = io::Error;

    fn poll(&self) -> &Poll {
        &self.poll
    }

    fn ready(&mut self, ready: Ready, _now: Instant) -> io::Result<()> {
        if ready.token == SIGNALS_TOKEN {
            // The signal stays pending for the caller.
            return Err(io::Error::new(io::ErrorKind::Interrupted, "ended by a signal"));
        }
        if let (Role::Send(source), true) = (&mut self.role, ready.has_error) {
            source.read_completions(&self.stream)?;
        }
        self.is_ready = true;
        Ok(())
    }

    fn turn(&mut self, now: Instant) -> io::Result<Turn> {
        if std::mem::take(&mut self.is_ready) || now >= self.span.ends {
            self.transfer(now)?;
        }
        if now >= self.next_sample || self.is_over {
            self.sample(now)?;
        }
        if self.is_over {
            return Ok(Turn::Stop);
        }
        if now >= self.span.ends + GRACE {
            let silent = "the sender neither ended nor closed the stream";
            return Err(io::Error::new(io::ErrorKind::TimedOut, silent));
        }
        // A duration may be a day: a peer that only holds the connection must not hold up the runs behind it for so long.
        if now >= self.moved + SILENCE {
            let silent = "no byte moved for 30 s; the other end is silent";
            return Err(io::Error::new(io::ErrorKind::TimedOut, silent));
        }
        Ok(if self.is_ready { Turn::Again } else { Turn::WaitUntil(self.next_sample) })
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_peer_that_moves_nothing_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _silent = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let stream = listener.accept().unwrap().0;
        stream.set_nonblocking(true).unwrap();
        let setup = FlowSetup {
            host: Host::Far,
            number: 0,
            role: Role::Receive(ByteSink::new(4096, 0)),
            signals: None,
            warmup: Duration::ZERO,
            time: Duration::from_secs(24 * 3600),
            course: Course::default(),
            notice: |_| {},
            table: None,
        };
        let progress = |_: StreamProgress| {};
        let mut flow = Flow::new(stream, setup, &progress).unwrap();
        let began = flow.moved;
        assert!(flow.turn(began + SILENCE - Duration::from_millis(1)).is_ok());
        let error = flow.turn(began + SILENCE).expect_err("it was silent for too long");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
