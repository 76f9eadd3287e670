//! State of the negotiation.

use super::super::NbdBlockSizes;

/// Replies so far.
#[derive(Debug, Default)]
pub(super) struct Negotiation {
    /// The option that waits for its reply.
    pub(super) option: u32,
    pub(super) replies: u32,
    pub(super) has_no_zeroes: bool,
    pub(super) is_structured: bool,
    pub(super) allocation_id: Option<u32>,
    /// Size and transmission flags.
    pub(super) export: Option<(u64, u16)>,
    pub(super) blocks: Option<NbdBlockSizes>,
}
