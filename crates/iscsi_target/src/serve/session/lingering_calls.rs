//! Store calls of lost connections while their session continues, and the calls that wait for them.

use std::collections::HashSet;

use wire::iscsi::Lun as Address;

use crate::serve::stores::jobs::Call;

/// Lingering calls of one session.
#[derive(Debug, Default)]
pub(crate) struct Lingering {
    /// Calls under way for lost connections.
    pub(crate) at_work: HashSet<u64>,
    /// Calls that wait for these, in order.
    pub(crate) behind: Vec<Held>,
}

/// A call that is not submitted to a worker yet.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) lun: Address,
    pub(crate) token: u64,
    pub(crate) call: Call,
}
