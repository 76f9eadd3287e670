//! The raw TCP baseline: streams of bytes under the same policy, pacing and socket settings as iSCSI.
//!
//! The near end (`near`) opens the streams of a run and says on each which way the bytes go and for how long; the far
//! end (`far`) greets when all are there, with the limits of its host, which `ceiling` looks at before anything is sent.
//! Then the sender of each sends (`flow`, `outlet`, `inlet`), on a thread of its own. Last, the far end says what it knows
//! of its end (`account`), and `why` tells from both what kept a stream from being faster. `tune` finds out by trials how
//! much to write and to read at once.

mod account;
mod ceiling;
mod far;
mod flow;
mod history;
mod inlet;
mod limits;
mod message;
mod near;
mod outlet;
mod report;
mod search;
mod tune;
mod why;

use std::io::{self, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use event::SocketSample;
use net::scheduling;
use tables::Recorder;

pub(crate) use far::{Far, serve};
pub(crate) use flow::Progress;
pub(crate) use near::run;
pub(crate) use tune::{Trial, tune};

/// Streams of a run at most.
pub(crate) const STREAMS_MAX: u16 = 64;
/// What a sender sends from if nothing else is said.
pub(crate) const SOURCE_BYTES: usize = 1 << 20;
/// What may be written or read at once: less is lost in calls, more fits into no cache.
const BLOCK_MIN_BYTES: u32 = 16 << 10;
const BLOCK_MAX_BYTES: u32 = 4 << 20;
/// How long a few bytes may take to find room.
const SAY_PATIENCE: Duration = Duration::from_secs(30);

/// What the near end wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order<'a> {
    /// The far end sends.
    pub(crate) reverse: bool,
    /// How long.
    pub(crate) time: Duration,
    /// How much of that is not counted, from its start.
    pub(crate) warmup: Duration,
    /// How many streams, at least one.
    pub(crate) streams: u16,
    /// How both ends call the kernel.
    pub(crate) calls: Calls,
    /// CPUs that the near end's threads are pinned to, in turn.
    pub(crate) pins: &'a [usize],
    /// What the near end sends from, if it does: larger than the caches, it costs what a store in memory costs.
    pub(crate) source: &'a [u8],
}

/// How the ends call the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Calls {
    /// What the sender writes at once.
    pub(crate) write_bytes: u32,
    /// What the receiver reads at once.
    pub(crate) read_bytes: u32,
    /// Whether the sender asks the kernel not to copy.
    pub(crate) zero_copy: bool,
}

impl Default for Calls {
    fn default() -> Calls {
        Calls { write_bytes: 1 << 20, read_bytes: 1 << 20, zero_copy: false }
    }
}

impl Order<'_> {
    /// Two things that belong to the near and to the far end, that of the sender first.
    fn sender_first<T>(&self, near: T, far: T) -> [T; 2] {
        if self.reverse { [far, near] } else { [near, far] }
    }

    /// How much the sender sends from.
    fn source_bytes(&self) -> u32 {
        let bytes = if self.reverse { SOURCE_BYTES } else { self.source.len() };
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }
}

/// Says a few bytes before or after the flow; the socket has room for them in time.
fn say(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(SAY_PATIENCE))?;
    stream.write_all(bytes)?;
    stream.set_nonblocking(true)
}

/// Pins the calling thread, which is that of a stream, to its CPU, if there are any.
fn pin(cpus: &[usize], number: u16) -> io::Result<()> {
    match cpus {
        [] => Ok(()),
        cpus => scheduling::keep_to(&[cpus[usize::from(number) % cpus.len()]]),
    }
}

/// The table that all streams share.
fn table(path: Option<PathBuf>) -> anyhow::Result<Option<Mutex<Recorder<SocketSample>>>> {
    Ok(path.map(Recorder::create).transpose()?.map(Mutex::new))
}
