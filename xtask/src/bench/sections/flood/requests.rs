//! Floods of requests that cost the target more time than their bytes say: READ FULL STATUS of a LUN with all
//! registrations that it takes, and WARM RESET of many LUNs with many sessions.
//!
//! Victim and flood are threads here, on sockets of their own: a reset gives each of the victim's reads a unit attention,
//! which a real initiator gives up after a while. Any answer to a read counts, and the time
//! until it arrives is measured.

use std::fs;
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use e2e::ours::Target;
use wire::iscsi::{Pdu, RESERVED_TAG};

use super::priority::{Priority, WARMUP_SECONDS, prioritised};
use super::raw::Session;
use crate::bench::program::{Build, start_target};

/// LUNs of the victim and of the flood, and all of them.
const VICTIM: u16 = 0;
const FLOODED: u16 = 1;
const LUNS: usize = 256;
/// Initiator ports that are registered with the flooded LUN.
const REGISTRATIONS: u32 = 1023;
/// Idle sessions beside the flood of resets.
const IDLE_SESSIONS: u32 = 500;
/// Ports of sessions that are not registered.
const OTHER_PORTS: u32 = 10_000;

const READ_BYTES: u32 = 4096;
const LUN_BLOCKS: u64 = (1 << 20) / 512;
/// Requests that are outstanding all the time.
const DEPTH: u32 = 64;

#[derive(Clone, Copy)]
pub(super) enum Request {
    FullStatus,
    WarmReset,
}

pub(super) const REQUESTS: [(Request, &str); 2] = [
    (Request::FullStatus, "48 bytes of READ FULL STATUS, 1023 registrations, depth 64"),
    (Request::WarmReset, "WARM RESET, 256 LUNs, 500 idle sessions, depth 64"),
];

/// Targets of one build: the victim's first.
pub(super) struct RequestBench {
    has_priorities: bool,
    targets: Vec<Target>,
}

impl RequestBench {
    pub(super) fn start(build: &Build, count: usize, has_priorities: bool) -> Result<RequestBench> {
        let mut targets = Vec::new();
        for _ in 0..count {
            let mut command = prioritised(build, has_priorities, Priority::LoopOrVictim);
            command.args(["target", "--json", "--listen", "127.0.0.1:0"]);
            for _ in 0..LUNS {
                command.args(["--lun", "memory:1MiB"]);
            }
            let target = start_target(&mut command)?;
            for port in 0..REGISTRATIONS {
                let mut session = Session::open(target.address(), target.iqn(), port)?;
                session.register(FLOODED, u64::from(port) + 1)?;
                session.close();
            }
            targets.push(target);
        }
        Ok(RequestBench { has_priorities, targets })
    }

    /// 99th percentile of the victim's latency in µs, beside a flood of the target with that number if any.
    pub(super) fn p99_us(&self, flood: Option<(Request, usize)>, seconds: u32) -> Result<f64> {
        let flood = match flood {
            Some((request, target)) => Some(Flood::start(&self.targets[target], request)?),
            None => None,
        };
        let (target, has_priorities) = (&self.targets[0], self.has_priorities);
        let victim = Session::open(target.address(), target.iqn(), OTHER_PORTS)?;
        let times = thread::scope(|scope| {
            let thread = scope.spawn(|| {
                if has_priorities {
                    raise_own(Priority::LoopOrVictim)?;
                }
                read_for(victim, Duration::from_secs((seconds + WARMUP_SECONDS).into()))
            });
            thread.join().map_err(|_| anyhow!("the victim panicked"))?
        });
        if let Some(flood) = flood {
            let answers = flood.stop()?;
            ensure!(answers > 0, "the flood got no answer: nothing was measured beside it");
        }
        p99_us(times?)
    }
}

/// Reads at depth 1; the times of those after the warm-up.
fn read_for(mut session: Session, time: Duration) -> Result<Vec<Duration>> {
    let begin = Instant::now();
    let warmup = Duration::from_secs(WARMUP_SECONDS.into());
    let mut times = Vec::new();
    let mut lba = 0;
    while begin.elapsed() < time {
        let sent = Instant::now();
        session.send_read(VICTIM, lba, READ_BYTES)?;
        // Data with status, or a unit attention.
        while !matches!(session.receive()?, Pdu::DataIn(_) | Pdu::ScsiResponse(_)) {}
        if begin.elapsed() >= warmup {
            times.push(sent.elapsed());
        }
        lba = (lba + 1031) % (LUN_BLOCKS - 8);
    }
    session.close();
    Ok(times)
}

fn p99_us(mut times: Vec<Duration>) -> Result<f64> {
    times.sort_unstable();
    let place = (times.len() * 99 / 100).min(times.len().saturating_sub(1));
    let p99 = times.get(place).context("the victim's reads were not answered within the time")?;
    Ok(p99.as_secs_f64() * 1e6)
}

/// Gives this thread a real-time priority.
fn raise_own(priority: Priority) -> Result<()> {
    let path = fs::read_link("/proc/thread-self").context("cannot tell this thread's number")?;
    let thread = path.file_name().and_then(|name| name.to_str()).context("a thread without a number")?;
    let args = ["-f", "-p", &(priority as u32).to_string(), thread];
    let status = Command::new("chrt").args(args).status()?;
    ensure!(status.success(), "chrt cannot change the priority of thread {thread}");
    Ok(())
}

/// A session that always has requests outstanding.
struct Flood {
    is_over: Arc<AtomicBool>,
    handle: TcpStream,
    thread: JoinHandle<Result<u64>>,
    idle: Vec<Session>,
}

impl Flood {
    fn start(target: &Target, request: Request) -> Result<Flood> {
        let open = |port| Session::open(target.address(), target.iqn(), port);
        let idle = match request {
            Request::FullStatus => Vec::new(),
            Request::WarmReset => {
                (0..IDLE_SESSIONS).map(|n| open(OTHER_PORTS + 2 + n)).collect::<Result<_>>()?
            }
        };
        let session = open(OTHER_PORTS + 1)?;
        let handle = session.handle()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let is_wanted = Arc::clone(&is_over);
        let thread = thread::spawn(move || ask_on(session, request, &is_wanted));
        Ok(Flood { is_over, handle, thread, idle })
    }

    /// Ends it; returns the number of answers.
    fn stop(self) -> Result<u64> {
        self.is_over.store(true, Ordering::Relaxed);
        // Fails if the flood has ended before, which its result says.
        let _ = self.handle.shutdown(Shutdown::Both);
        self.idle.into_iter().for_each(Session::close);
        self.thread.join().map_err(|_| anyhow!("the flood panicked"))?
    }
}

fn ask_on(mut session: Session, request: Request, is_over: &AtomicBool) -> Result<u64> {
    let mut answers = 0;
    let result = (|| -> Result<()> {
        for _ in 0..DEPTH {
            ask(&mut session, request)?;
        }
        loop {
            // A ping of the target needs no answer: requests show that this end is there.
            if session.receive()?.itt() != RESERVED_TAG {
                answers += 1;
                ask(&mut session, request)?;
            }
        }
    })();
    match result {
        Err(error) if !is_over.load(Ordering::Relaxed) => {
            Err(error.context("the flood ended before its victim"))
        }
        _ => Ok(answers),
    }
}

fn ask(session: &mut Session, request: Request) -> Result<()> {
    match request {
        Request::FullStatus => session.send_full_status(FLOODED, 48),
        Request::WarmReset => session.send_warm_reset(),
    }
}
