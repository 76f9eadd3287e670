//! What a caller wants of a session, and what becomes of it.

use std::sync::Arc;

use block::Buffer;
use event::{Instant, Op};
use wire::scsi::Cdb;

use crate::error::Failure;

/// One command with its data. It has to be one that may be carried out twice, as reads and writes of whole
/// blocks may: it is issued again if its session is lost before it is answered.
#[derive(Debug)]
pub struct Request {
    /// The command.
    pub cdb: Cdb,
    /// Its data.
    pub body: Body,
    /// First byte on the LUN, for the table `io`.
    pub offset_bytes: u64,
    /// Number that the caller knows it by, if it has many kinds.
    pub tag: u64,
}

/// The data of a request.
#[derive(Debug)]
pub enum Body {
    /// None.
    None,
    /// Filled by the target.
    Read(Buffer),
    /// Sent to the target.
    Write(Arc<Buffer>),
}

impl Request {
    /// Bytes of data it moves at most.
    pub fn len_bytes(&self) -> u64 {
        match &self.body {
            Body::None => 0,
            Body::Read(buffer) => buffer.len() as u64,
            Body::Write(buffer) => buffer.len() as u64,
        }
    }

    /// Whether it reads or writes blocks.
    pub fn op(&self) -> Option<Op> {
        match self.cdb {
            Cdb::Read { .. } => Some(Op::Read),
            Cdb::Write { .. } => Some(Op::Write),
            _ => None,
        }
    }

    /// Whether it makes what was written durable.
    pub(crate) fn is_flush(&self) -> bool {
        matches!(self.cdb, Cdb::SynchronizeCache { .. })
    }

    /// Whether moving fewer bytes than asked for is a failure: blocks are there or not.
    pub(crate) fn is_exact(&self) -> bool {
        self.op().is_some()
    }
}

/// A command that has ended.
#[derive(Debug)]
pub struct Completed {
    /// The command, its buffer filled if it read.
    pub request: Request,
    /// When it was issued.
    pub issued: Instant,
    /// When its status came; where requests are recorded, when its caller is told, as their tables say.
    pub completed: Instant,
    /// Bytes that were really moved; fewer than the buffer holds for INQUIRY and the like.
    pub transferred_bytes: u32,
    /// How it failed, if it did.
    pub result: Result<(), Failure>,
}

impl Completed {
    /// The data that came, cut to what was moved.
    pub(crate) fn into_data(self) -> Result<Vec<u8>, Failure> {
        self.result?;
        let Body::Read(buffer) = self.request.body else { return Ok(Vec::new()) };
        Ok(buffer[..buffer.len().min(self.transferred_bytes as usize)].to_vec())
    }
}

/// Where requests come from and go to; it lives in the session's loop.
pub trait Workload {
    /// Why it ends early.
    type Error: From<crate::Error> + From<std::io::Error>;

    /// Requests that may be outstanding; `None` leaves it to the policy, which follows the path.
    fn depth(&self) -> Option<usize>;

    /// Bytes of a single request, if its latency counts: no more is outstanding then than the path needs. Otherwise the
    /// policy keeps a reserve for what is moved in bulk.
    fn lone_bytes(&self) -> Option<u64> {
        None
    }

    /// The next request, if there is one now. `None` is asked again when one has completed or after
    /// [`Workload::resume_at`].
    fn next(&mut self, now: Instant) -> Option<Request>;

    /// From now on requests should be so long, as far as that is the workload's to choose.
    fn set_block(&mut self, _bytes: u64) {}

    /// A request has ended.
    fn done(&mut self, completed: Completed) -> Result<(), Self::Error>;

    /// Whether it is over; it is not as long as requests are outstanding.
    fn is_over(&self, now: Instant) -> bool;

    /// The session was lost and made again, or the LUN was reset; what was outstanding is on its way once more.
    /// A target may have lost what it had not been told to make durable.
    fn reconnected(&mut self) {}

    /// The target refused a command because it has no room, BUSY or TASK SET FULL. It is issued again later.
    fn refused(&mut self, _now: Instant) {}

    /// When to look again although nothing has completed.
    fn resume_at(&self) -> Option<Instant> {
        None
    }
}
