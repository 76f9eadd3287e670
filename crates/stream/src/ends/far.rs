//! The far end: gathers the streams of a run, serves them in parallel, each on a thread of its own, then those of the
//! next run. Connections that arrive meanwhile wait. A connection without a hello delays no other one.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use engine::{CongestionControl, Pacing};
use event::{Host, Instant, LineRate, SocketSample};
use net::{EndSignals, Events, Interest, Poll, clock, tcp};
use tables::Recorder;

use super::message::{Greeting, Hello, Trailer};
use crate::error::StreamError;
use crate::flow::sink::ByteSink;
use crate::flow::source::ByteSource;
use crate::flow::transfer::{Flow, FlowSetup, Role, StreamProgress, course};
use crate::limits::host::HostLimits;
use crate::socket::{pin, table, write_message};
use crate::spec::{SOURCE_BYTES, STREAMS_MAX};

/// Time allowed for the hello of a connection, and for the other streams of its run; other runs wait for the latter.
const PATIENCE: Duration = Duration::from_secs(5);
/// Upper limit of connections without a hello; beyond it the oldest one is closed.
const UNREAD_MAX: usize = 4 * STREAMS_MAX as usize;
const LISTENER_TOKEN: u64 = 0;
const SIGNALS_TOKEN: u64 = 1;
/// Token of the first connection.
const FIRST_TOKEN: u64 = 2;
/// Upper limit of streams that wait for others of their run, or for another run to end.
const WAITING_MAX: usize = 2 * STREAMS_MAX as usize;

/// Settings of the far end.
pub struct ServeOptions<'a> {
    /// Congestion control of the connections.
    pub congestion: &'a CongestionControl,
    /// Pacing of a sender at this end.
    pub pacing: Pacing,
    /// CPUs for the threads, in turn; empty for no pinning.
    pub pins: &'a [usize],
    /// Directory for the table of samples, if any.
    pub trace: Option<&'a Path>,
    /// Receiver of messages for people.
    pub notice: fn(&str),
}

/// A stream whose hello has arrived.
struct Arrival {
    stream: TcpStream,
    peer: SocketAddr,
    hello: Hello,
}

/// A connection whose hello is incomplete.
struct Unread {
    stream: TcpStream,
    peer: SocketAddr,
    bytes: [u8; Hello::LEN],
    /// Length of the part that has arrived.
    got: usize,
    deadline: Instant,
}

/// Streams that wait for the others of their run.
struct Gathering<'a> {
    listener: &'a TcpListener,
    signals: &'a EndSignals,
    notice: fn(&str),
    /// Notices of each host.
    lines: LineRate,
    poll: Poll,
    /// By token, so the oldest one comes first.
    unread: BTreeMap<u64, Unread>,
    next_token: u64,
    waiting: Vec<Arrival>,
}

/// Serves runs, one after the other, until a signal arrives.
pub fn serve(
    listener: &TcpListener,
    signals: &EndSignals,
    options: &ServeOptions<'_>,
) -> Result<(), StreamError> {
    let table = table(options.trace.map(|dir| dir.join("sockets-far.parquet")))?;
    let mut gathering = Gathering::new(listener, signals, options.notice)?;
    while let Some(run) = gathering.next_run()? {
        thread::scope(|scope| {
            for arrival in run {
                // An error of one stream leaves the others and the table whole.
                scope.spawn(|| {
                    let peer = arrival.peer;
                    if let Err(error) = serve_one(arrival, options, signals, table.as_ref()) {
                        (options.notice)(&format!("{peer}: {error}"));
                    }
                });
            }
        });
    }
    if let Some(table) = table {
        table.into_inner().unwrap_or_else(PoisonError::into_inner).finish()?;
    }
    Ok(())
}

impl<'a> Gathering<'a> {
    fn new(
        listener: &'a TcpListener,
        signals: &'a EndSignals,
        notice: fn(&str),
    ) -> io::Result<Gathering<'a>> {
        let poll = Poll::new()?;
        poll.add(listener.as_fd(), LISTENER_TOKEN, Interest::READ)?;
        poll.add(signals.as_fd(), SIGNALS_TOKEN, Interest::READ)?;
        let (unread, waiting) = (BTreeMap::new(), Vec::new());
        let lines = LineRate::default();
        Ok(Gathering { listener, signals, notice, lines, poll, unread, next_token: FIRST_TOKEN, waiting })
    }

    /// Waits until a run is complete; `None` after a signal.
    fn next_run(&mut self) -> io::Result<Option<Vec<Arrival>>> {
        let mut events = Events::new();
        // The stream that has waited longest decides which run is next, and its deadline.
        let mut deadline: Option<Instant> = None;
        // A hello that arrived while another run was served is not late.
        for token in self.unread.keys().copied().collect::<Vec<u64>>() {
            self.read(token)?;
        }
        loop {
            if let Some(run) = self.take_complete() {
                return Ok(Some(run));
            }
            let now = clock::now();
            deadline = (!self.waiting.is_empty()).then(|| deadline.unwrap_or(now + PATIENCE));
            if deadline.is_some_and(|deadline| now >= deadline) {
                self.give_up_first();
                deadline = None;
                continue;
            }
            self.give_up_silent(now)?;
            let hellos = self.unread.values().map(|unread| unread.deadline);
            let timeout = hellos.chain(deadline).min().map(|until| until.since(now));
            self.poll.wait(&mut events, timeout)?;
            if self.signals.came() {
                return Ok(None);
            }
            let ready: Vec<u64> = events.iter().map(|ready| ready.token).collect();
            for token in ready {
                match token {
                    LISTENER_TOKEN => self.accept()?,
                    SIGNALS_TOKEN => {}
                    token => self.read(token)?,
                }
            }
        }
    }

    /// Streams of the first run, if it is complete.
    fn take_complete(&mut self) -> Option<Vec<Arrival>> {
        let Hello { run, streams, .. } = self.waiting.first()?.hello;
        let is_of_it = |arrival: &mut Arrival| arrival.hello.run == run;
        let found = self.waiting.iter().filter(|arrival| arrival.hello.run == run).count();
        (found >= usize::from(streams)).then(|| self.waiting.extract_if(.., is_of_it).collect())
    }

    /// Closes the streams of a run whose others have not arrived.
    fn give_up_first(&mut self) {
        let Some(first) = self.waiting.first() else { return };
        let (Hello { run, streams, .. }, peer) = (first.hello, first.peer);
        let before = self.waiting.len();
        self.waiting.retain(|arrival| arrival.hello.run != run);
        let found = before - self.waiting.len();
        let text = format!("{found} of {streams} streams arrived within {PATIENCE:?}; they are closed");
        self.say("run", peer, &text);
    }

    /// Reports an event of a kind about a host, within the rate limit.
    fn say(&mut self, kind: &'static str, peer: SocketAddr, text: &str) {
        match self.lines.allow(kind, peer.ip(), clock::now()) {
            None => {}
            Some(0) => (self.notice)(&format!("{peer}: {text}")),
            Some(left_out) => (self.notice)(&format!(
                "{peer}: {text} (before it, {left_out} notices of this kind are left out)"
            )),
        }
    }

    /// Accepts one connection.
    fn accept(&mut self) -> io::Result<()> {
        let (stream, peer) = match self.listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            // The peer was gone before it was accepted.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => return Ok(()),
            Err(error) => return Err(error),
        };
        if self.unread.len() >= UNREAD_MAX
            && let Some(oldest) = self.unread.keys().next().copied()
        {
            self.refuse(oldest, &StreamError::NoHello)?;
        }
        stream.set_nonblocking(true)?;
        let token = self.next_token;
        self.next_token += 1;
        self.poll.add(stream.as_fd(), token, Interest::READ)?;
        let (bytes, deadline) = ([0; Hello::LEN], clock::now() + PATIENCE);
        self.unread.insert(token, Unread { stream, peer, bytes, got: 0, deadline });
        self.read(token)
    }

    /// Reads the received part of a hello.
    fn read(&mut self, token: u64) -> io::Result<()> {
        let Some(unread) = self.unread.get_mut(&token) else { return Ok(()) };
        while unread.got < Hello::LEN {
            match (&unread.stream).read(&mut unread.bytes[unread.got..]) {
                Ok(0) => return self.refuse(token, &StreamError::NoHello),
                Ok(more) => unread.got += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.refuse(token, &error.into()),
            }
        }
        let Some(hello) = Hello::parse(&unread.bytes) else {
            return self.refuse(token, &StreamError::NoHello);
        };
        let Some(Unread { stream, peer, .. }) = self.forget(token)? else { return Ok(()) };
        if self.waiting.len() >= WAITING_MAX {
            let text = format!("{WAITING_MAX} streams wait already; the connection is closed");
            self.say("waiting", peer, &text);
            return Ok(());
        }
        self.waiting.push(Arrival { stream, peer, hello });
        Ok(())
    }

    /// Closes connections whose hello is overdue.
    fn give_up_silent(&mut self, now: Instant) -> io::Result<()> {
        let overdue = self.unread.iter().filter(|(_, unread)| now >= unread.deadline);
        let overdue: Vec<u64> = overdue.map(|(token, _)| *token).collect();
        overdue.into_iter().try_for_each(|token| self.refuse(token, &StreamError::NoHello))
    }

    fn refuse(&mut self, token: u64, error: &StreamError) -> io::Result<()> {
        if let Some(Unread { peer, .. }) = self.forget(token)? {
            self.say("refused", peer, &error.to_string());
        }
        Ok(())
    }

    fn forget(&mut self, token: u64) -> io::Result<Option<Unread>> {
        let unread = self.unread.remove(&token);
        if let Some(unread) = &unread {
            self.poll.remove(unread.stream.as_fd())?;
        }
        Ok(unread)
    }
}

fn serve_one(
    arrival: Arrival,
    options: &ServeOptions<'_>,
    signals: &EndSignals,
    table: Option<&Mutex<Recorder<SocketSample>>>,
) -> Result<(), StreamError> {
    let Arrival { mut stream, hello, .. } = arrival;
    tcp::prepare(&stream, options.congestion.name())?;
    pin(options.pins, hello.number)?;
    // Not zero: pages of zeros are all the same one.
    let buffer = if hello.reverse { vec![0x5a; SOURCE_BYTES] } else { Vec::new() };
    let block_bytes = hello.block_bytes as usize;
    let role = match hello.reverse {
        true => {
            let source = ByteSource::new(&buffer, 0, block_bytes);
            Role::Send(if hello.zero_copy { source.without_copy(&stream) } else { source })
        }
        false => Role::Receive(ByteSink::new(block_bytes, 0)),
    };
    write_message(&mut stream, &Greeting { limits: HostLimits::here(options.pins) }.emit())?;
    let cpu = clock::thread_cpu_ns();
    let silent = |_: StreamProgress| {};
    let setup = FlowSetup {
        host: Host::Far,
        number: hello.number,
        role,
        signals: Some(signals),
        warmup: Duration::ZERO,
        time: hello.time,
        course: course(options.pacing, options.congestion),
        notice: options.notice,
        table,
    };
    let mut flow = Flow::new(stream, setup, &silent)?;
    engine::run(&mut flow)?;
    let (mut stream, outcome) = flow.finish();
    let mut counters = outcome.counters;
    // Before the trailer, which waits for room behind all data.
    counters.cpu_ns = clock::thread_cpu_ns() - cpu;
    write_message(&mut stream, &Trailer { counters }.emit())?;
    stream.shutdown(Shutdown::Write)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_run_begins_when_all_its_streams_are_there() {
        let signals = EndSignals::take_over().unwrap();
        let listener = tcp::listen("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let address = listener.local_addr().unwrap();
        let says = |bytes: &[u8]| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(bytes).unwrap();
            stream
        };
        let begins = |run, number, streams| {
            let (time, block_bytes) = (Duration::from_secs(1), 1 << 20);
            says(&Hello { reverse: false, zero_copy: false, time, run, block_bytes, number, streams }.emit())
        };
        let near = [
            begins(1, 0, 2),
            says(&[0x55; Hello::LEN]),
            begins(2, 0, 1),
            says(b"who are you?"),
            begins(1, 1, 2),
            begins(3, 0, 1),
        ];
        near[3].shutdown(Shutdown::Write).unwrap();
        let mut gathering = Gathering::new(&listener, &signals, |_| {}).unwrap();
        let mut next = || {
            let run = gathering.next_run().unwrap().expect("no signal has come");
            run.iter().map(|arrival| (arrival.hello.run, arrival.hello.number)).collect::<Vec<_>>()
        };
        assert_eq!(next(), [(1, 0), (1, 1)]);
        assert_eq!(next(), [(2, 0)]);
        assert_eq!(next(), [(3, 0)]);
    }

    #[test]
    fn connections_without_a_hello_delay_no_run() {
        let signals = EndSignals::take_over().unwrap();
        let listener = tcp::listen("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let address = listener.local_addr().unwrap();
        let connect = || TcpStream::connect(address).unwrap();
        let hello = Hello {
            reverse: false,
            zero_copy: false,
            time: Duration::from_secs(1),
            run: 1,
            block_bytes: 1 << 20,
            number: 0,
            streams: 1,
        };
        let (silent, mut slow, mut whole) = (connect(), connect(), connect());
        slow.write_all(&hello.emit()[..1]).unwrap();
        whole.write_all(&hello.emit()).unwrap();
        let mut gathering = Gathering::new(&listener, &signals, |_| {}).unwrap();
        let run = gathering.next_run().unwrap().expect("no signal has come");
        assert_eq!(run.len(), 1);
        // Neither was waited for: both are open, and the slow one may go on.
        for stream in [&silent, &slow] {
            stream.set_nonblocking(true).unwrap();
            let mut stream = stream;
            let error = stream.read(&mut [0]).expect_err("it is open and nothing was said");
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        }
        slow.write_all(&hello.emit()[1..]).unwrap();
        assert_eq!(gathering.next_run().unwrap().expect("no signal has come").len(), 1);
        assert_eq!(gathering.unread.len(), 1);
    }

    #[test]
    fn a_hello_that_arrives_while_another_run_is_served_is_not_late() {
        let signals = EndSignals::take_over().unwrap();
        let listener = tcp::listen("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let address = listener.local_addr().unwrap();
        let hello = |run| Hello {
            reverse: false,
            zero_copy: false,
            time: Duration::from_secs(1),
            run,
            block_bytes: 1 << 20,
            number: 0,
            streams: 1,
        };
        let mut gathering = Gathering::new(&listener, &signals, |_| {}).unwrap();
        let mut late = TcpStream::connect(address).unwrap();
        gathering.accept().unwrap();
        late.write_all(&hello(1).emit()).unwrap();
        // The time of another run, at whose end its deadline has passed.
        gathering.unread.values_mut().for_each(|unread| unread.deadline = Instant::ZERO);
        // Without it nothing would be waited for.
        let mut other = TcpStream::connect(address).unwrap();
        other.write_all(&hello(2).emit()).unwrap();
        let run = gathering.next_run().unwrap().expect("no signal has come");
        assert_eq!(run.iter().map(|arrival| arrival.hello.run).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn the_oldest_connection_without_a_hello_makes_room() {
        let signals = EndSignals::take_over().unwrap();
        let listener = tcp::listen("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let address = listener.local_addr().unwrap();
        let mut gathering = Gathering::new(&listener, &signals, |_| {}).unwrap();
        let mut silent = Vec::new();
        for _ in 0..=UNREAD_MAX {
            silent.push(TcpStream::connect(address).unwrap());
            gathering.accept().unwrap();
        }
        assert_eq!(gathering.unread.len(), UNREAD_MAX);
        assert_eq!(silent[0].read(&mut [0]).unwrap(), 0, "it is closed");
    }
}
