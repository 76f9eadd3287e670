//! Calls into stores that block: what a worker is asked, and what it answers.

use std::sync::Arc;

use engine::Buffer;

use crate::backend::{BackendError, BlockStore};
use crate::lun::Nexus;

/// One call, or a few that belong together.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) store: Arc<dyn BlockStore>,
    pub(super) call: Call,
    pub(super) client: usize,
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
}

/// What came of a job.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) client: usize,
    pub(super) nexus: Nexus,
    pub(super) token: u64,
    pub(super) result: Result<(), BackendError>,
    /// The data of a read.
    pub(super) read: Option<Buffer>,
}

/// Runs a job; called on a worker.
pub(super) fn run(job: Job) -> Done {
    let store = job.store;
    let mut read = None;
    let result = match job.call {
        Call::Read { offset_bytes, mut buffer, fua } => {
            let synced = if fua { store.sync() } else { Ok(()) };
            let result = synced.and_then(|()| store.read_at(offset_bytes, &mut buffer));
            read = Some(buffer);
            result
        }
        Call::Write { offset_bytes, buffer, fua } => {
            let result = store.write_at(offset_bytes, &buffer);
            if fua { result.and_then(|()| store.sync()) } else { result }
        }
        Call::Sync => store.sync(),
    };
    Done { client: job.client, nexus: job.nexus, token: job.token, result, read }
}
