//! Requests of a caller, and the workloads that issue them.

use std::sync::Arc;

use block::Buffer;
use event::{Instant, Op};
use wire::scsi::Cdb;

use crate::error::Failure;

/// One command with its data. The command must be idempotent, as reads and writes of whole blocks are: it is issued
/// again if the session is lost before its status arrives.
#[derive(Debug)]
pub struct Request {
    /// CDB of the command.
    pub cdb: Cdb,
    /// Data buffer.
    pub body: Body,
    /// First byte on the LUN, recorded in the table `io`.
    pub offset_bytes: u64,
    /// Number chosen by the workload, which identifies the request.
    pub tag: u64,
}

/// The data of a request.
#[derive(Debug)]
pub enum Body {
    /// No data.
    None,
    /// Filled by the target.
    Read(Buffer),
    /// Sent to the target.
    Write(Arc<Buffer>),
}

impl Request {
    /// Maximum number of data bytes.
    pub fn len_bytes(&self) -> u64 {
        match &self.body {
            Body::None => 0,
            Body::Read(buffer) => buffer.len() as u64,
            Body::Write(buffer) => buffer.len() as u64,
        }
    }

    /// Direction of a READ or WRITE; `None` for other commands.
    pub fn op(&self) -> Option<Op> {
        match self.cdb {
            Cdb::Read { .. } => Some(Op::Read),
            Cdb::Write { .. } => Some(Op::Write),
            _ => None,
        }
    }

    /// Returns true for SYNCHRONIZE CACHE.
    pub(crate) fn is_flush(&self) -> bool {
        matches!(self.cdb, Cdb::SynchronizeCache { .. })
    }

    /// Returns true if a short transfer is a failure, as it is for READ and WRITE.
    pub(crate) fn is_exact(&self) -> bool {
        self.op().is_some()
    }
}

/// A command that has ended.
#[derive(Debug)]
pub struct Completed {
    /// The command, its buffer filled if it read.
    pub request: Request,
    /// Time at which the request was issued.
    pub issued: Instant,
    /// Time at which the status arrived; with tracing, the time of the caller's notification, as in the tables.
    pub completed: Instant,
    /// Bytes transferred; fewer than the buffer's length for INQUIRY and similar commands.
    pub transferred_bytes: u32,
    /// Failure of the command, if any.
    pub result: Result<(), Failure>,
}

impl Completed {
    /// Returns the received data without the unused rest of the buffer.
    pub(crate) fn into_data(self) -> Result<Vec<u8>, Failure> {
        self.result?;
        let Body::Read(buffer) = self.request.body else { return Ok(Vec::new()) };
        Ok(buffer[..buffer.len().min(self.transferred_bytes as usize)].to_vec())
    }
}

/// Source of requests and receiver of their completions, called by the session's event loop.
pub trait Workload {
    /// Error that ends the workload early.
    type Error: From<crate::Error> + From<std::io::Error>;

    /// Queue depth; `None` leaves the limit to the policy, which follows the path.
    fn depth(&self) -> Option<usize>;

    /// Length of a request in bytes if latency matters: outstanding data are then limited to the need of the path.
    /// Otherwise the policy keeps a reserve for bulk transfers.
    fn lone_bytes(&self) -> Option<u64> {
        None
    }

    /// The next request, if one is ready. After `None` the loop calls again when a request has completed or at
    /// [`Workload::resume_at`].
    fn next(&mut self, now: Instant) -> Option<Request>;

    /// Sets the preferred length of further requests; a workload with a fixed length ignores it.
    fn set_block(&mut self, _bytes: u64) {}

    /// Takes a completed request.
    fn done(&mut self, completed: Completed) -> Result<(), Self::Error>;

    /// Returns true if the workload has ended; always false while requests are outstanding.
    fn is_over(&self, now: Instant) -> bool;

    /// Called after a reconnect or a LUN reset; outstanding requests have been issued again. The target may have lost
    /// writes that were not flushed.
    fn reconnected(&mut self) {}

    /// Called after the target refused a command with BUSY or TASK SET FULL. The command is issued again later.
    fn refused(&mut self, _now: Instant) {}

    /// Time of the next call without a completion.
    fn resume_at(&self) -> Option<Instant> {
        None
    }
}
