//! Output of a dissection for one packet: row sink, memory, facts about the tap.

use crate::budget::MemoryBudget;
use crate::rows::RowSink;

/// Row sink and context for the PDUs of one packet.
pub(crate) struct Output<'a> {
    pub(crate) rows: &'a mut dyn RowSink,
    pub(crate) budget: &'a MemoryBudget,
    /// Interface of each direction.
    pub(crate) interfaces: [u32; 2],
    /// Fastest round trip from the tap to the initiator in ns; 0 if unknown.
    pub(crate) initiator_rtt_ns: u64,
}
