//! The near end of a run: opens its streams, moves the bytes of each on a thread of its own, and reads the far end's
//! counters.

use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use engine::Pacing;
use event::{BitRate, Host, SocketSample};
use net::{clock, random, tcp_info};
use tables::Recorder;

use super::message::{Greeting, Hello, Trailer};
use crate::error::StreamError;
use crate::flow::sink::ByteSink;
use crate::flow::source::ByteSource;
use crate::flow::transfer::{Flow, FlowSetup, Role, StreamProgress, course};
use crate::limits::ceiling::Forecast;
use crate::limits::host::HostLimits;
use crate::report::{FinishedStream, StreamReport};
use crate::socket::{connect, pin, table, write_message};
use crate::spec::{StreamOptions, StreamSpec};

/// Time allowed for the far end's counters at the end.
const PATIENCE: Duration = Duration::from_secs(30);

/// A stream that is about to begin.
struct Opened {
    stream: TcpStream,
    number: u16,
    far: HostLimits,
}

/// Runs the streams of `spec` against the far end at `address`; `progress` is called on the streams' threads.
pub fn run(
    address: SocketAddr,
    spec: &StreamSpec<'_>,
    options: &StreamOptions,
    progress: &(dyn Fn(StreamProgress) + Sync),
) -> Result<StreamReport, StreamError> {
    let table = table(options.trace.as_deref().map(|dir| dir.join("sockets-near.parquet")))?;
    let mut run = [0; 8];
    random::fill(&mut run);
    let run = u64::from_ne_bytes(run);
    let numbers: Vec<u16> = (0..spec.streams).collect();
    let opened = together(numbers, |number| open(address, &hello(spec, run, number), options))?;
    let near = HostLimits::here(spec.pins);
    let ceilings = match opened.first() {
        Some(first) => {
            let forecast = forecast(spec, options, near, first)?;
            let ceilings = forecast.ceilings();
            (options.notice)(&forecast.sentence(&ceilings));
            ceilings
        }
        None => Vec::new(),
    };
    let finished = together(opened, |opened| {
        let finished = transfer(opened, spec, options, table.as_ref(), progress);
        finished.map_err(|error| StreamError::EndedEarly { address, source: Box::new(error) })
    })?;
    if let Some(table) = table {
        table.into_inner().unwrap_or_else(PoisonError::into_inner).finish()?;
    }
    Ok(StreamReport::new(spec, options.software, &finished, near, ceilings))
}

/// Results of `work` on each item, on a thread of its own, or the first error.
fn together<T: Send, R: Send>(
    items: Vec<T>,
    work: impl Fn(T) -> Result<R, StreamError> + Sync,
) -> Result<Vec<R>, StreamError> {
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = items.into_iter().map(|item| scope.spawn(move || work(item))).collect();
        let ended = threads.into_iter().map(thread::ScopedJoinHandle::join);
        ended.map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

fn hello(spec: &StreamSpec<'_>, run: u64, number: u16) -> Hello {
    let calls = spec.calls;
    Hello {
        reverse: spec.reverse,
        zero_copy: spec.reverse && calls.zero_copy,
        time: spec.time,
        run,
        block_bytes: if spec.reverse { calls.write_bytes } else { calls.read_bytes },
        number,
        streams: spec.streams,
    }
}

/// Connects, sends the hello and waits for the far end's greeting.
fn open(address: SocketAddr, hello: &Hello, options: &StreamOptions) -> Result<Opened, StreamError> {
    let mut stream = connect(address, options)?;
    write_message(&mut stream, &hello.emit())?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(options.timeout))?;
    let mut bytes = [0; Greeting::LEN];
    let greeting = match stream.read_exact(&mut bytes) {
        Ok(()) => Greeting::parse(&bytes),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            return Err(StreamError::Silent { address, after: options.timeout });
        }
        Err(_) => None,
    };
    let greeting = greeting.ok_or(StreamError::NoGreeting { address })?;
    stream.set_nonblocking(true)?;
    Ok(Opened { stream, number: hello.number, far: greeting.limits })
}

fn forecast(
    spec: &StreamSpec<'_>,
    options: &StreamOptions,
    near: HostLimits,
    first: &Opened,
) -> io::Result<Forecast> {
    let info = tcp_info::read(&first.stream)?;
    let [sender, receiver] = spec.sender_first(near, first.far);
    let [sender_host, receiver_host] = spec.sender_first("near", "far");
    let streams = u64::from(spec.streams);
    let goal = match options.pacing {
        Pacing::AtMost(rate) => Some(BitRate(rate.0.saturating_mul(streams))),
        Pacing::Follow | Pacing::Off => None,
    };
    let rtt = info.min_rtt.unwrap_or(info.rtt);
    // A sending far end decides that itself, and paces by default.
    let is_paced = spec.reverse || !matches!(options.pacing, Pacing::Off);
    Ok(Forecast { sender, receiver, sender_host, receiver_host, rtt, streams, is_paced, goal })
}

/// Moves the bytes of one stream, on the calling thread.
fn transfer(
    opened: Opened,
    spec: &StreamSpec<'_>,
    options: &StreamOptions,
    table: Option<&Mutex<Recorder<SocketSample>>>,
    progress: &(dyn Fn(StreamProgress) + Sync),
) -> Result<FinishedStream, StreamError> {
    let Opened { stream, number, far } = opened;
    pin(spec.pins, number)?;
    let calls = spec.calls;
    let role = match spec.reverse {
        true => Role::Receive(ByteSink::new(calls.read_bytes as usize, Trailer::LEN)),
        false => {
            // Streams with a common buffer start at different places in it.
            let at = spec.source.len() / usize::from(spec.streams) * usize::from(number);
            let source = ByteSource::new(spec.source, at, calls.write_bytes as usize);
            Role::Send(if calls.zero_copy { source.without_copy(&stream) } else { source })
        }
    };
    let cpu = clock::thread_cpu_ns();
    let setup = FlowSetup {
        host: Host::Near,
        number,
        role,
        signals: None,
        warmup: spec.warmup,
        time: spec.time,
        course: course(options.pacing, &options.congestion),
        notice: options.notice,
        table,
    };
    let mut flow = Flow::new(stream, setup, progress)?;
    engine::run(&mut flow)?;
    let (mut stream, mut outcome) = flow.finish();
    outcome.counters.cpu_ns = clock::thread_cpu_ns() - cpu;
    let trailer = match spec.reverse {
        // The trailer came last in the same stream of bytes.
        true => Trailer::parse(&outcome.tail),
        false => {
            stream.shutdown(Shutdown::Write)?;
            let mut bytes = [0; Trailer::LEN];
            stream.set_nonblocking(false)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.read_exact(&mut bytes).ok().and_then(|()| Trailer::parse(&bytes))
        }
    };
    let trailer = trailer.ok_or(StreamError::NoTrailer)?;
    if spec.reverse {
        outcome.moved_bytes = outcome.moved_bytes.saturating_sub(Trailer::LEN as u64);
    }
    Ok(FinishedStream { outcome, far_counters: trailer.counters, far_limits: far })
}
