//! Reference to a packet of the capture.

/// Number and time of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PacketRef {
    /// Number in the file, from 1 as other tools count.
    pub(crate) number: u64,
    /// Time at the tap, in ns.
    pub(crate) t_ns: u64,
}
