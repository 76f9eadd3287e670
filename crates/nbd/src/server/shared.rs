//! State that all connections of a service share.

use std::fmt::Arguments;

use engine::Log;
use event::{Instant, LineRate};

use super::device::SharedDevice;
use super::listener::Peer;
use super::memory::Memory;

/// Bytes that one read may bring.
pub(super) const SCRATCH_BYTES: usize = 256 << 10;

/// State that all connections share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) device: SharedDevice,
    pub(super) memory: Memory,
    /// Buffer for reads, lent to one connection at a time.
    pub(super) scratch: Vec<u8>,
    pub(super) totals: NbdServiceTotals,
    pub(super) notes: Notes,
}

/// Totals of a service.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct NbdServiceTotals {
    /// Connections that chose the export.
    pub connections: u64,
    /// Requests that were taken.
    pub requests: u64,
    /// Data of writes.
    pub received_bytes: u64,
    /// Data of reads.
    pub sent_bytes: u64,
}

/// Lines of the log.
#[derive(Debug)]
pub(super) struct Notes {
    log: Log,
    lines: LineRate,
}

impl Shared {
    pub(super) fn new(device: SharedDevice, command: &'static str) -> Shared {
        Shared {
            device,
            memory: Memory::new(),
            scratch: vec![0; SCRATCH_BYTES],
            totals: NbdServiceTotals::default(),
            notes: Notes { log: Log::new(command), lines: LineRate::default() },
        }
    }
}

impl Notes {
    /// Writes a line.
    pub(super) fn write(&self, text: Arguments<'_>) {
        self.log.write(text);
    }

    /// Writes a line of a kind about a peer, unless too many of them have been written of late.
    pub(super) fn about(&mut self, kind: &'static str, peer: &Peer, now: Instant, text: Arguments<'_>) {
        let text = format_args!("{}: {text}", peer.name);
        self.log.write_some(&mut self.lines, (kind, peer.address), now, text);
    }
}
