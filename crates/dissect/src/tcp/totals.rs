//! Totals over the segments of one direction.

use crate::tcp::kind::SegmentKindCounts;

/// Totals of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SegmentTotals {
    pub(crate) packets: u64,
    pub(crate) data_packets: u64,
    /// Payload, retransmissions included.
    pub(crate) payload_bytes: u64,
    /// Part of the payload that the capture has kept.
    pub(crate) kept_bytes: u64,
    pub(crate) kinds: SegmentKindCounts,
    /// Maximum of the bytes in flight.
    pub(crate) flight_max: u64,
    /// Duplicate acknowledgements of this direction's data.
    pub(crate) dup_acks: u64,
    /// Acknowledgements that advanced, and those among them that came before their data.
    pub(crate) acks: u64,
    pub(crate) early_acks: u64,
    /// An acknowledgement without data gave a round trip: others may have waited for the data that they came with.
    pub(crate) rtt_alone: bool,
    /// Its receiver has acknowledged selectively.
    pub(crate) sack_seen: bool,
    /// Segments that filled the receive window.
    pub(crate) window_full: u64,
    pub(crate) tinygrams: u64,
    /// Segments larger than the MSS, as segmentation offload makes them.
    pub(crate) super_packets: u64,
    /// Payload of the largest segment.
    pub(crate) largest: usize,
}
