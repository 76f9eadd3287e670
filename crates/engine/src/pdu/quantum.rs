//! Share of one connection in a turn of the event loop.

/// Limits on the work of one connection in a turn of the event loop, for each direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quantum {
    /// Bytes moved.
    pub bytes: usize,
    /// PDUs received. A short PDU may request expensive work.
    pub pdus: usize,
}

impl Quantum {
    /// Quantum while no other connection of the event loop has work.
    pub const ALONE: Quantum = Quantum { bytes: 4 << 20, pdus: usize::MAX };
    /// Quantum of connections that share an event loop. A turn lasts tens of microseconds, the wait of another
    /// connection's single request. The price is one more poll for each 64 KiB.
    pub const SHARED: Quantum = Quantum { bytes: 64 << 10, pdus: 32 };
}
