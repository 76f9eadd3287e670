//! The near end of a run: opens all its streams, has each move its bytes on a thread of its own, and asks the far end
//! for its account.

use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use engine::Pacing;
use event::{BitRate, Host, SocketSample};
use initiator::Options;
use net::{clock, random, tcp_info};
use tables::Recorder;

use super::ceiling::Prospect;
use super::flow::{Flow, Outcome, Role, Setup};
use super::inlet::Inlet;
use super::limits::Limits;
use super::message::{Greeting, Hello, Trailer};
use super::outlet::Outlet;
use super::report::Report;
use super::{Order, Progress, pin, say, table};

/// How long the far end may take to give its account at the end.
const PATIENCE: Duration = Duration::from_secs(30);

/// A stream that is about to begin.
struct Opened {
    stream: TcpStream,
    number: u16,
    far: Limits,
}

/// A stream that is over.
pub(super) struct Ridden {
    pub(super) outcome: Outcome,
    pub(super) trailer: Trailer,
    pub(super) far: Limits,
}

/// Runs streams against a far end that serves, and says how they went.
pub(crate) fn run(
    address: SocketAddr,
    order: &Order<'_>,
    options: &Options,
    progress: &(dyn Fn(Progress) + Sync),
) -> anyhow::Result<Report> {
    let table = table(options.trace.as_deref().map(|dir: &Path| dir.join("sockets-near.parquet")))?;
    let mut run = [0; 8];
    random::fill(&mut run);
    let run = u64::from_ne_bytes(run);
    let numbers: Vec<u16> = (0..order.streams).collect();
    let opened = together(numbers, |number| open(address, &hello(order, run, number), options))?;
    let near = Limits::here(order.pins);
    let ceilings = match opened.first() {
        Some(first) => {
            let prospect = prospect(order, options, near, first)?;
            let ceilings = prospect.ceilings();
            (options.notice)(&prospect.sentence(&ceilings));
            ceilings
        }
        None => Vec::new(),
    };
    let ridden = together(opened, |opened| {
        let ridden = ride(opened, order, options, table.as_ref(), progress);
        ridden.map_err(|error| error.context(format!("the stream to {address} ended early")))
    })?;
    if let Some(table) = table {
        table.into_inner().unwrap_or_else(PoisonError::into_inner).finish()?;
    }
    Ok(Report::new(order, &ridden, near, ceilings))
}

/// Does `work` with each item on a thread of its own; what came of all of them, or what went wrong first.
fn together<T: Send, R: Send>(
    items: Vec<T>,
    work: impl Fn(T) -> anyhow::Result<R> + Sync,
) -> anyhow::Result<Vec<R>> {
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = items.into_iter().map(|item| scope.spawn(move || work(item))).collect();
        let ended = threads.into_iter().map(thread::ScopedJoinHandle::join);
        ended.map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

fn hello(order: &Order<'_>, run: u64, number: u16) -> Hello {
    let calls = order.calls;
    Hello {
        reverse: order.reverse,
        zero_copy: order.reverse && calls.zero_copy,
        time: order.time,
        run,
        block_bytes: if order.reverse { calls.write_bytes } else { calls.read_bytes },
        number,
        streams: order.streams,
    }
}

/// Connects, says what is wanted and waits until the far end is ready for it.
fn open(address: SocketAddr, hello: &Hello, options: &Options) -> anyhow::Result<Opened> {
    let mut stream = initiator::connect(address, options)?;
    say(&mut stream, &hello.emit())?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(options.timeout))?;
    let mut bytes = [0; Greeting::LEN];
    let greeting = match stream.read_exact(&mut bytes) {
        Ok(()) => Greeting::parse(&bytes),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            anyhow::bail!(
                "{address} accepted the connection and said nothing within {:?}; expected `farlun stream serve` that \
                 is not busy with another run",
                options.timeout
            );
        }
        Err(_) => None,
    };
    let Some(greeting) = greeting else {
        anyhow::bail!(
            "{address} does not answer like `farlun stream serve` of this version; start that there"
        );
    };
    stream.set_nonblocking(true)?;
    Ok(Opened { stream, number: hello.number, far: greeting.limits })
}

fn prospect(order: &Order<'_>, options: &Options, near: Limits, first: &Opened) -> anyhow::Result<Prospect> {
    let info = tcp_info::read(&first.stream)?;
    let [sender, receiver] = order.sender_first(near, first.far);
    let [sender_host, receiver_host] = order.sender_first("near", "far");
    let streams = u64::from(order.streams);
    let goal = match options.pacing {
        Pacing::AtMost(rate) => Some(BitRate(rate.0.saturating_mul(streams))),
        Pacing::Follow | Pacing::Off => None,
    };
    let rtt = info.min_rtt.unwrap_or(info.rtt);
    // A far end that sends decides that itself, and paces unless it is told not to.
    let is_paced = order.reverse || !matches!(options.pacing, Pacing::Off);
    Ok(Prospect { sender, receiver, sender_host, receiver_host, rtt, streams, is_paced, goal })
}

/// Moves the bytes of one stream, on the calling thread.
fn ride(
    opened: Opened,
    order: &Order<'_>,
    options: &Options,
    table: Option<&Mutex<Recorder<SocketSample>>>,
    progress: &(dyn Fn(Progress) + Sync),
) -> anyhow::Result<Ridden> {
    let Opened { stream, number, far } = opened;
    pin(order.pins, number)?;
    let calls = order.calls;
    let role = match order.reverse {
        true => Role::Receive(Inlet::new(calls.read_bytes as usize, Trailer::LEN)),
        false => {
            // Streams that send from one buffer do not send the same part of it at the same time.
            let at = order.source.len() / usize::from(order.streams) * usize::from(number);
            let outlet = Outlet::new(order.source, at, calls.write_bytes as usize);
            Role::Send(if calls.zero_copy { outlet.without_copy(&stream) } else { outlet })
        }
    };
    let cpu = clock::thread_cpu_ns();
    let setup = Setup {
        host: Host::Near,
        number,
        role,
        signals: None,
        warmup: order.warmup,
        time: order.time,
        pacing: options.pacing,
        table,
    };
    let mut flow = Flow::new(stream, setup, progress)?;
    engine::run(&mut flow)?;
    let (mut stream, mut outcome) = flow.finish();
    outcome.account.cpu_ns = clock::thread_cpu_ns() - cpu;
    let trailer = match order.reverse {
        // The trailer came last in the same stream of bytes.
        true => Trailer::parse(&outcome.last),
        false => {
            stream.shutdown(Shutdown::Write)?;
            let mut bytes = [0; Trailer::LEN];
            stream.set_nonblocking(false)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.read_exact(&mut bytes).ok().and_then(|()| Trailer::parse(&bytes))
        }
    };
    let Some(trailer) = trailer else {
        anyhow::bail!("the far end closed it without an account of it");
    };
    if order.reverse {
        outcome.moved_bytes = outcome.moved_bytes.saturating_sub(Trailer::LEN as u64);
    }
    Ok(Ridden { outcome, trailer, far })
}
