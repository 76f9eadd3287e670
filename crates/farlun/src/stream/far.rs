//! The far end: gathers the streams of a run, serves them at the same time, each on a thread of its own, and then those
//! of the next. Who comes meanwhile waits.

use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use engine::Pacing;
use event::{Host, Instant, SocketSample};
use net::{EndSignals, Events, Interest, Poll, clock, tcp};
use tables::Recorder;

use super::flow::{Flow, Role, Setup};
use super::inlet::Inlet;
use super::limits::Limits;
use super::message::{Greeting, Hello, Trailer};
use super::outlet::Outlet;
use super::{Progress, SOURCE_BYTES, STREAMS_MAX, pin, say, table};

/// How long somebody who connects may take to say what it wants, and its other streams to come; others wait for it.
const PATIENCE: Duration = Duration::from_secs(5);
/// Streams that may wait for others of their run, or for another run to begin.
const WAITING_MAX: usize = 2 * STREAMS_MAX as usize;

/// How streams are served.
pub(crate) struct Far<'a> {
    /// Congestion control of what is sent; the system's if `None`.
    pub(crate) congestion: Option<&'a str>,
    /// How what is sent is paced.
    pub(crate) pacing: Pacing,
    /// CPUs that threads are pinned to, in turn.
    pub(crate) pins: &'a [usize],
    /// Where the table goes, if anywhere.
    pub(crate) trace: Option<&'a Path>,
}

/// A stream that has said what it wants.
struct Arrival {
    stream: TcpStream,
    peer: SocketAddr,
    hello: Hello,
}

/// Streams that come, until a run has all of its own.
struct Gathering<'a> {
    listener: &'a TcpListener,
    signals: &'a EndSignals,
    poll: Poll,
    waiting: Vec<Arrival>,
}

/// Serves runs, one after the other, until a signal ends it.
pub(crate) fn serve(listener: &TcpListener, signals: &EndSignals, far: &Far<'_>) -> anyhow::Result<()> {
    let table = table(far.trace.map(|dir| dir.join("sockets-far.parquet")))?;
    let mut gathering = Gathering::new(listener, signals)?;
    while let Some(run) = gathering.next_run()? {
        thread::scope(|scope| {
            for arrival in run {
                // What goes wrong with one stream leaves the others and the table whole.
                scope.spawn(|| {
                    let peer = arrival.peer;
                    if let Err(error) = serve_one(arrival, far, signals, table.as_ref()) {
                        note!("farlun stream: {peer}: {error:#}");
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
    fn new(listener: &'a TcpListener, signals: &'a EndSignals) -> io::Result<Gathering<'a>> {
        let poll = Poll::new()?;
        poll.add(listener.as_fd(), 0, Interest::READ)?;
        poll.add(signals.as_fd(), 1, Interest::READ)?;
        Ok(Gathering { listener, signals, poll, waiting: Vec::new() })
    }

    /// Waits until a run is complete; `None` when a signal has come.
    fn next_run(&mut self) -> io::Result<Option<Vec<Arrival>>> {
        let mut events = Events::new();
        // The stream that has waited longest decides which run is next, and when it has waited enough.
        let mut deadline: Option<Instant> = None;
        loop {
            if let Some(run) = self.take_complete() {
                return Ok(Some(run));
            }
            let timeout = match self.waiting.is_empty() {
                true => {
                    deadline = None;
                    None
                }
                false => Some(deadline.get_or_insert_with(|| clock::now() + PATIENCE).since(clock::now())),
            };
            if timeout == Some(Duration::ZERO) {
                self.give_up_first();
                deadline = None;
                continue;
            }
            self.poll.wait(&mut events, timeout)?;
            if self.signals.came() {
                return Ok(None);
            }
            self.accept()?;
        }
    }

    /// The streams of the run that is first, if all are there.
    fn take_complete(&mut self) -> Option<Vec<Arrival>> {
        let Hello { run, streams, .. } = self.waiting.first()?.hello;
        let is_of_it = |arrival: &mut Arrival| arrival.hello.run == run;
        let found = self.waiting.iter().filter(|arrival| arrival.hello.run == run).count();
        (found >= usize::from(streams)).then(|| self.waiting.extract_if(.., is_of_it).collect())
    }

    /// Closes the streams of a run of which others have not come.
    fn give_up_first(&mut self) {
        let Some(first) = self.waiting.first() else { return };
        let (Hello { run, streams, .. }, peer) = (first.hello, first.peer);
        let before = self.waiting.len();
        self.waiting.retain(|arrival| arrival.hello.run != run);
        let found = before - self.waiting.len();
        note!(
            "farlun stream: {peer}: {found} of {streams} streams came within {PATIENCE:?}; they are closed"
        );
    }

    /// Takes one connection and hears what it wants.
    fn accept(&mut self) -> io::Result<()> {
        let (stream, peer) = match self.listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            // It was gone before it was accepted.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => return Ok(()),
            Err(error) => return Err(error),
        };
        match hear(&stream) {
            _ if self.waiting.len() >= WAITING_MAX => {
                note!("farlun stream: {peer}: {WAITING_MAX} streams wait already; the connection is closed");
            }
            Ok(hello) => self.waiting.push(Arrival { stream, peer, hello }),
            Err(error) => note!("farlun stream: {peer}: {error:#}"),
        }
        Ok(())
    }
}

/// Reads what the near end wants.
fn hear(mut stream: &TcpStream) -> anyhow::Result<Hello> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut bytes = [0; Hello::LEN];
    let hello = stream.read_exact(&mut bytes).ok().and_then(|()| Hello::parse(&bytes));
    hello.ok_or_else(|| {
        anyhow::anyhow!("it does not begin like a stream of this version of farlun; the connection is closed")
    })
}

fn serve_one(
    arrival: Arrival,
    far: &Far<'_>,
    signals: &EndSignals,
    table: Option<&Mutex<Recorder<SocketSample>>>,
) -> anyhow::Result<()> {
    let Arrival { mut stream, hello, .. } = arrival;
    tcp::prepare(&stream, far.congestion)?;
    pin(far.pins, hello.number)?;
    // Filled with something, since pages of zeros would all be the same one.
    let source = if hello.reverse { vec![0x5a; SOURCE_BYTES] } else { Vec::new() };
    let block_bytes = hello.block_bytes as usize;
    let role = match hello.reverse {
        true => {
            let outlet = Outlet::new(&source, 0, block_bytes);
            Role::Send(if hello.zero_copy { outlet.without_copy(&stream) } else { outlet })
        }
        false => Role::Receive(Inlet::new(block_bytes, 0)),
    };
    say(&mut stream, &Greeting { limits: Limits::here(far.pins) }.emit())?;
    let cpu = clock::thread_cpu_ns();
    let silent = |_: Progress| {};
    let setup = Setup {
        host: Host::Far,
        number: hello.number,
        role,
        signals: Some(signals),
        warmup: Duration::ZERO,
        time: hello.time,
        pacing: far.pacing,
        table,
    };
    let mut flow = Flow::new(stream, setup, &silent)?;
    engine::run(&mut flow)?;
    let (mut stream, outcome) = flow.finish();
    let mut account = outcome.account;
    // Before the trailer, which waits until all that was sent has room.
    account.cpu_ns = clock::thread_cpu_ns() - cpu;
    say(&mut stream, &Trailer { account }.emit())?;
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
        let mut gathering = Gathering::new(&listener, &signals).unwrap();
        let mut next = || {
            let run = gathering.next_run().unwrap().expect("no signal has come");
            run.iter().map(|arrival| (arrival.hello.run, arrival.hello.number)).collect::<Vec<_>>()
        };
        assert_eq!(next(), [(1, 0), (1, 1)]);
        assert_eq!(next(), [(2, 0)]);
        assert_eq!(next(), [(3, 0)]);
    }
}
