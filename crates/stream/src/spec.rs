//! Specification of a run, and its bounds.

use std::path::PathBuf;
use std::time::Duration;

use engine::{CongestionControl, Pacing};

/// Upper limit of streams in a run.
pub const STREAMS_MAX: u16 = 64;
/// Default size of the buffer that a sender sends from, in bytes.
pub const SOURCE_BYTES: usize = 1 << 20;
/// Bounds of one read or write in bytes: smaller ones are lost in calls, larger ones fit into no cache.
pub(crate) const BLOCK_MIN_BYTES: u32 = 16 << 10;
pub(crate) const BLOCK_MAX_BYTES: u32 = 4 << 20;

/// One run, as the near end requests it.
#[derive(Clone, Copy, Debug)]
pub struct StreamSpec<'a> {
    /// True if the far end sends.
    pub reverse: bool,
    /// Duration of the flow.
    pub time: Duration,
    /// Part of the duration, from its start, that the figures leave out.
    pub warmup: Duration,
    /// Number of streams, 1 to [`STREAMS_MAX`].
    pub streams: u16,
    /// Sizes and kind of the system calls at both ends.
    pub calls: Calls,
    /// CPUs for the threads of the near end, in turn; empty for no pinning.
    pub pins: &'a [usize],
    /// Bytes to send from the near end. A buffer larger than the caches costs as much as a store in memory.
    pub source: &'a [u8],
}

/// System calls at both ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Calls {
    /// Bytes of one write at the sender.
    pub write_bytes: u32,
    /// Bytes of one read at the receiver.
    pub read_bytes: u32,
    /// True for a sender that asks the kernel not to copy (MSG_ZEROCOPY).
    pub zero_copy: bool,
}

/// Settings of the near end.
#[derive(Clone, Debug)]
pub struct StreamOptions {
    /// Time allowed for a connection and for the first answer of the far end.
    pub timeout: Duration,
    /// Congestion control of the connections.
    pub congestion: CongestionControl,
    /// Pacing of a sender at this end.
    pub pacing: Pacing,
    /// Directory for the table of samples, if any.
    pub trace: Option<PathBuf>,
    /// Name and version of this software, which the report gives as the peer's: both ends have the same version.
    pub software: &'static str,
    /// Receiver of messages for people.
    pub notice: fn(&str),
}

impl Default for Calls {
    fn default() -> Calls {
        Calls { write_bytes: 1 << 20, read_bytes: 1 << 20, zero_copy: false }
    }
}

impl StreamSpec<'_> {
    /// Values of the near and the far end in the order sender, receiver.
    pub(crate) fn sender_first<T>(&self, near: T, far: T) -> [T; 2] {
        if self.reverse { [far, near] } else { [near, far] }
    }

    /// Size of the sender's buffer in bytes.
    pub(crate) fn source_bytes(&self) -> u32 {
        let bytes = if self.reverse { SOURCE_BYTES } else { self.source.len() };
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }
}
