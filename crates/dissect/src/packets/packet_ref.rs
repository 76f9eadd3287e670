//! Reference to a packet of the capture.

/// Numbers and time of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PacketRef {
    /// Number in the order of the stamps, by which packets are compared; copies have none.
    pub(crate) number: u64,
    /// Number in the file, from 1 as other tools count.
    pub(crate) in_file: u64,
    /// Time at the tap, in ns.
    pub(crate) t_ns: u64,
}
