//! Outstanding requests of a session, and the queues that they wait in.

use std::collections::VecDeque;
use std::time::Duration;

use event::Instant;
use slab::Slab;

use crate::request::{Completed, Request};

/// Requests of a session until their callers are notified.
#[derive(Default)]
pub(crate) struct Requests {
    /// Outstanding requests, by token.
    pub(crate) open: Slab<Open>,
    /// Requests to issue again at once, after a unit attention.
    pub(crate) again: VecDeque<usize>,
    /// Requests to issue again later, after BUSY, TASK SET FULL or NOT READY.
    pub(crate) refused: Vec<usize>,
    pub(crate) refusal: Option<Refusal>,
    /// The target refused a command since the workload was last notified.
    pub(crate) has_refused: bool,
    pub(crate) outstanding_bytes: u64,
    /// Completed requests in order of their statuses; `None` marks a reset of the LUN.
    pub(crate) finished: VecDeque<Option<Completed>>,
    /// Requests issued since the last sample, and their bytes: the policy gets the mean length.
    pub(crate) issued: (u64, u64),
}

/// Backoff after a refusal for lack of resources; the wait doubles with each refusal.
#[derive(Clone, Copy)]
pub(crate) struct Refusal {
    pub(crate) since: Instant,
    pub(crate) wait: Duration,
    pub(crate) until: Instant,
}

/// A request that was issued and has not completed.
pub(crate) struct Open {
    pub(crate) request: Request,
    pub(crate) issued: Instant,
    /// Time of the last submission; `FAR_FUTURE` while the request waits to be submitted again.
    pub(crate) submitted: Instant,
    /// Initiator Task Tag of the last submission.
    pub(crate) itt: u32,
    pub(crate) attentions: u8,
    /// Index in `known` of the fact that the request re-validates; `None` for a request of a workload.
    pub(crate) question: Option<usize>,
}
