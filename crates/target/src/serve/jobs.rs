//! Calls into stores that block: what a worker is asked, and what it answers.

use std::sync::{Arc, PoisonError};

use engine::Buffer;

use crate::backend::BlockStore;
use crate::lun::Nexus;
use crate::scsi::{Failure, Order};

/// A sync moves nothing and may take as long as what it waits for.
const SYNC_COST_BYTES: u64 = 1 << 20;

/// One call, or a few that belong together.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) store: Arc<dyn BlockStore>,
    pub(super) call: Call,
    pub(super) side: usize,
    pub(super) nexus: Nexus,
    pub(super) token: u64,
}

/// What to do.
#[derive(Debug)]
pub(super) enum Call {
    /// Fill the buffer; first sync if the medium is meant.
    Read { offset_bytes: u64, buffer: Buffer, fua: bool },
    /// Store the buffer; then sync if the medium is meant.
    Write { offset_bytes: u64, buffer: Buffer, fua: bool },
    /// Make everything written so far durable.
    Sync,
    /// More than moving bytes.
    Order(Order),
}

impl Job {
    /// What its session's turn among the workers is counted by.
    pub(super) fn cost_bytes(&self) -> u64 {
        match &self.call {
            Call::Read { buffer, .. } | Call::Write { buffer, .. } => buffer.len() as u64,
            Call::Sync => SYNC_COST_BYTES,
            Call::Order(order) => order.len_bytes(),
        }
    }
}

impl Call {
    /// Whether it only looks at the medium.
    pub(super) fn is_read(&self) -> bool {
        match self {
            Call::Read { .. } => true,
            Call::Order(order) => order.is_read(),
            Call::Write { .. } | Call::Sync => false,
        }
    }
}

/// What came of a job.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) side: usize,
    pub(super) nexus: Nexus,
    pub(super) token: u64,
    pub(super) result: Result<(), Failure>,
    /// The data of a read.
    pub(super) read: Option<Buffer>,
}

/// Runs a job; called on a worker.
pub(super) fn run(job: Job) -> Done {
    let store = job.store;
    let mut read = None;
    // A store's own failures do not leave the gate half open: there is nothing behind it to be torn.
    let shared = || store.gate().read().unwrap_or_else(PoisonError::into_inner);
    let result = match job.call {
        Call::Read { offset_bytes, mut buffer, fua } => {
            let synced = if fua { store.sync() } else { Ok(()) };
            let result = synced.and_then(|()| store.read_at(offset_bytes, &mut buffer));
            read = Some(buffer);
            result.map_err(Failure::Read)
        }
        Call::Write { offset_bytes, buffer, fua } => {
            let _gate = shared();
            let result = match fua {
                true => store.write_through(offset_bytes, &buffer),
                false => store.write_at(offset_bytes, &buffer),
            };
            result.map_err(Failure::Write)
        }
        Call::Sync => store.sync().map_err(Failure::Write),
        Call::Order(order) if order.is_exclusive() => {
            let _gate = store.gate().write().unwrap_or_else(PoisonError::into_inner);
            order.in_store(&*store)
        }
        Call::Order(order) => {
            let _gate = shared();
            order.in_store(&*store)
        }
    };
    Done { side: job.side, nexus: job.nexus, token: job.token, result, read }
}
