//! The raw TCP baseline: one stream of bytes under the same policy, pacing and socket settings as iSCSI.
//!
//! The near end connects and says in 16 bytes which way the bytes go and for how long; the sender sends,
//! and the far end adds 104 bytes at the end: what it counted, and what its end knows of itself.

mod account;
mod flow;
mod history;
mod message;
mod why;

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use engine::Pacing;
use event::{Host, SocketSample};
use initiator::Options;
use net::{EndSignals, Events, Interest, Poll, clock, tcp, tcp_info};
use store::manifest::{Cpu, Load};
use store::tables::Recorder;

use account::Account;
use flow::{Flow, Role, Setup};
use history::Interval;
use message::{Hello, Trailer};
use serde::Serialize;
use why::{Limit, Seen};

pub(crate) use flow::{CHUNK_BYTES, Progress};

/// How long the far end may take to give its account at the end.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long somebody who connects may take to say what it wants; others wait for it.
const HELLO_PATIENCE: Duration = Duration::from_secs(5);

/// What the near end wants.
pub(crate) struct Order {
    /// The far end sends.
    pub(crate) reverse: bool,
    /// How long.
    pub(crate) time: Duration,
    /// How much of that is not counted, from its start.
    pub(crate) warmup: Duration,
    /// What the near end sends from, if it does: larger than the caches, it costs what a store in memory costs.
    pub(crate) buffer_bytes: usize,
}

/// How a stream went: the figures that every load has, and what only a stream says.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    pub(crate) load: Load,
    /// Rate and window over time.
    intervals: Vec<Interval>,
    /// The middle rate of the second half, bits per second; null if it was too short.
    pub(crate) steady_bits_per_s: Option<f64>,
    /// When the first interval ended that was within 5 % of it.
    pub(crate) full_s: Option<f64>,
    /// What both ends know of themselves.
    near: Account,
    far: Account,
    /// What kept it from being faster.
    limit: Limit,
    /// The same as a sentence.
    pub(crate) why: String,
}

/// Runs a stream against a far end that serves, and says how it went.
pub(crate) fn run(
    address: SocketAddr,
    order: &Order,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> anyhow::Result<Report> {
    let mut stream = initiator::connect(address, options)?;
    let table = table(options.trace.as_deref(), "sockets-near.parquet")?;
    say(&mut stream, &Hello { reverse: order.reverse, time: order.time }.emit())?;
    let cpu = clock::process_cpu_ns();
    let role = match order.reverse {
        true => Role::Receive,
        false => Role::Send,
    };
    let Order { warmup, time, buffer_bytes, .. } = *order;
    let pacing = options.pacing;
    let setup = Setup { host: Host::Near, role, signals: None, warmup, time, pacing, buffer_bytes, table };
    let mut flow = Flow::new(stream, setup, progress)?;
    engine::run(&mut flow)?;
    let (mut stream, mut outcome) = flow.finish()?;
    let cpu = clock::process_cpu_ns() - cpu;
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
        anyhow::bail!("{address} closed the stream without an account of it; is it `farlun stream serve`?");
    };
    if order.reverse {
        outcome.moved_bytes = outcome.moved_bytes.saturating_sub(Trailer::LEN as u64);
    }
    outcome.account.cpu_ns = cpu;
    let counted = outcome.counted_time.as_secs_f64().max(1e-9);
    let bytes = outcome.counted_bytes;
    let (near, far) = (outcome.account, trailer.account);
    let (sender, receiver) = if order.reverse { (far, near) } else { (near, far) };
    let seen = Seen {
        elapsed_ns: order.time.as_nanos() as u64,
        bytes_per_s: bytes as f64 / counted,
        rtt_ns: sender.min_rtt_ns,
        sender,
        receiver,
    };
    let (limit, why) = seen.limit();
    let load = Load {
        kind: "stream".to_owned(),
        op: "stream".to_owned(),
        direction: Some(if order.reverse { "far-to-near" } else { "near-to-far" }.to_owned()),
        t_start_ns: outcome.started.as_nanos(),
        t_end_ns: (outcome.started + order.time).as_nanos(),
        warmup_ns: order.warmup.as_nanos() as u64,
        bytes,
        bytes_per_s: bytes as f64 / counted,
        base_rtt_ns: outcome.min_rtt.map(|rtt| rtt.as_nanos() as f64),
        cpu: Some(Cpu { near_ns: Some(cpu as f64), far_ns: Some(far.cpu_ns as f64), ..Cpu::default() }),
        peer: Some(proto::keys::SOFTWARE.to_owned()),
        ..Load::default()
    };
    let history = &outcome.history;
    let (steady_bits_per_s, full_s) = (history.steady(), history.full_s());
    let intervals = history.intervals().to_vec();
    Ok(Report { load, intervals, steady_bits_per_s, full_s, near, far, limit, why })
}

/// Serves streams, one after the other, until a signal ends it.
pub(crate) fn serve(
    listener: &TcpListener,
    signals: &EndSignals,
    congestion: Option<&str>,
    pacing: bool,
    trace: Option<&Path>,
) -> anyhow::Result<()> {
    let poll = Poll::new()?;
    poll.add(listener.as_fd(), 0, Interest::READ)?;
    poll.add(signals.as_fd(), 1, Interest::READ)?;
    let mut table = table(trace, "sockets-far.parquet")?;
    let mut events = Events::new();
    while !signals.came() {
        poll.wait(&mut events, None)?;
        let (stream, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error.into()),
        };
        // What goes wrong with one stream leaves the table whole for the next.
        if let Err(error) = serve_one(stream, congestion, pacing, signals, &mut table) {
            eprintln!("farlun stream: {peer}: {error:#}");
        }
    }
    if let Some(table) = table {
        table.finish()?;
    }
    Ok(())
}

fn serve_one(
    mut stream: TcpStream,
    congestion: Option<&str>,
    pacing: bool,
    signals: &EndSignals,
    table: &mut Option<Recorder<SocketSample>>,
) -> anyhow::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(HELLO_PATIENCE))?;
    let mut bytes = [0; Hello::LEN];
    let hello = stream.read_exact(&mut bytes).ok().and_then(|()| Hello::parse(&bytes));
    let Some(hello) = hello else {
        anyhow::bail!("it does not begin like a stream of farlun; the connection is closed");
    };
    tcp::prepare(&stream, congestion)?;
    let cpu = clock::process_cpu_ns();
    let role = match hello.reverse {
        true => Role::Send,
        false => Role::Receive,
    };
    let mut silent = |_: Progress| {};
    let setup = Setup {
        host: Host::Far,
        role,
        signals: Some(signals),
        warmup: Duration::ZERO,
        time: hello.time,
        pacing: if pacing { Pacing::Follow } else { Pacing::Off },
        buffer_bytes: CHUNK_BYTES,
        table: table.take(),
    };
    let mut flow = Flow::new(stream, setup, &mut silent)?;
    let result = engine::run(&mut flow);
    *table = flow.take_table();
    let (mut stream, mut account) = flow.into_parts();
    account.cpu_ns = clock::process_cpu_ns() - cpu;
    result?;
    let moved = tcp_info::read(&stream)?;
    let bytes = if hello.reverse { moved.acked_bytes } else { moved.received_bytes };
    say(&mut stream, &Trailer { bytes, account }.emit())?;
    stream.shutdown(Shutdown::Write)?;
    Ok(())
}

/// Says a few bytes before or after the flow; the socket has room for them in time.
fn say(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(bytes)?;
    stream.set_nonblocking(true)
}

fn table(dir: Option<&Path>, name: &str) -> anyhow::Result<Option<Recorder<SocketSample>>> {
    Ok(dir.map(|dir| Recorder::create(dir.join(name))).transpose()?)
}
