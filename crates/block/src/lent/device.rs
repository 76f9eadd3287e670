//! A device that lends its bytes, behind the device interface.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use event::Instant;

use super::Lent;
use crate::composite::Composite;
use crate::device::{
    BlockCompletion, BlockDevice, BlockOp, BlockRequest, BlockSizes, Capabilities, Limits, Owner, Profile,
    Select, Token, check,
};
use crate::error::OperationError;
use crate::pool::FairQueue;
use crate::store::{RANGE_MAX_BYTES, TRANSFER_MAX_BYTES};

/// Cost of a slice in an owner's turn: all are about as long.
const SLICE_COST_BYTES: u64 = 256 << 10;

/// A page: smaller requests gain nothing.
const PAGE_BYTES: u32 = 4096;

/// Memory or the null device as a [`BlockDevice`]. Requests are executed when they are submitted; long operations are executed
/// a slice a poll, by their owners in turn.
#[derive(Debug)]
pub struct LentDevice {
    lent: Lent,
    profile: Profile,
    long: FairQueue<Long>,
    done: VecDeque<BlockCompletion>,
}

/// An operation of more than one slice.
#[derive(Debug)]
struct Long {
    id: Token,
    owner: Owner,
    composite: Composite,
    done_bytes: u64,
    is_cancelled: bool,
}

impl LentDevice {
    /// A device on these bytes. The profile has no write cache.
    pub fn new(lent: Lent, profile: Profile) -> LentDevice {
        LentDevice { lent, profile, long: FairQueue::new(), done: VecDeque::new() }
    }

    /// A device on these bytes in blocks of `block_bytes`, with everything that memory can do.
    pub fn from_lent(lent: Lent, block_bytes: u32, read_only: bool) -> LentDevice {
        let profile = Profile {
            len_bytes: lent.len_bytes(),
            blocks: BlockSizes {
                logical_bytes: block_bytes,
                physical_bytes: block_bytes,
                preferred_bytes: block_bytes.max(PAGE_BYTES),
            },
            limits: Limits { transfer_bytes: TRANSFER_MAX_BYTES, range_bytes: RANGE_MAX_BYTES },
            can: Capabilities {
                read_only,
                write_cache: false,
                fua: true,
                unmap: true,
                unmapped_reads_zero: true,
                fill: true,
                compare: true,
                extents: true,
            },
        };
        LentDevice::new(lent, profile)
    }

    fn execute(&mut self, request: BlockRequest, now: Instant) {
        let BlockRequest { id, owner, op, is_timed, .. } = request;
        let (mut read, mut extents, mut result) = (None, Vec::new(), Ok(()));
        match op {
            BlockOp::Read { offset_bytes, mut into } => {
                let len = into.len();
                into.copy_from_slice(self.lent.bytes(offset_bytes, len));
                read = Some(into);
            }
            BlockOp::Write { offset_bytes, data } => {
                self.lent.space(offset_bytes, 0, data.len()).copy_from_slice(&data);
            }
            BlockOp::Flush => {}
            BlockOp::Extents { range, extents_max } => extents = self.lent.extents(range, extents_max),
            BlockOp::Composite(action) => {
                let composite = Composite { action, fua: false };
                let mut long = Long { id, owner, composite, done_bytes: 0, is_cancelled: false };
                // Thousands may come in one turn, and each would begin at once.
                let waits = long.composite.is_long() && !self.long.is_empty();
                let step = match waits {
                    true => Ok(false),
                    false => long.composite.inline(&mut self.lent, &mut long.done_bytes),
                };
                match step {
                    Ok(false) => return self.long.push(owner.0, SLICE_COST_BYTES, long),
                    Ok(true) => {}
                    Err(error) => result = Err(error),
                }
            }
        }
        let ended_at = is_timed.then_some(now);
        self.done.push_back(BlockCompletion { id, owner, result, read, extents, ended_at });
    }

    /// Executes a slice of the operation whose turn it is; its completion if that was the last.
    fn step(&mut self) -> Option<BlockCompletion> {
        let mut long = self.long.pop()?;
        let step = match long.is_cancelled {
            true => Err(OperationError::cancelled()),
            false => long.composite.inline(&mut self.lent, &mut long.done_bytes),
        };
        let Long { id, owner, .. } = long;
        let result = match step {
            Ok(false) => {
                self.long.push_front(owner.0, SLICE_COST_BYTES, long);
                return None;
            }
            ended => ended.map(|_| ()),
        };
        Some(BlockCompletion { id, owner, result, read: None, extents: Vec::new(), ended_at: None })
    }
}

impl BlockDevice for LentDevice {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn submit(&mut self, request: BlockRequest, now: Instant) {
        match check(&self.profile, &request) {
            Ok(()) => self.execute(request, now),
            Err(error) => self.done.push_back(request.refused(error)),
        }
    }

    fn poll(&mut self, _now: Instant) -> Option<BlockCompletion> {
        self.done.pop_front().or_else(|| self.step())
    }

    fn cancel(&mut self, select: Select, _now: Instant) {
        let owner = match select {
            Select::One(owner, _) | Select::Owner(owner) => owner,
        };
        for mut long in self.long.take_of(owner.0, |long| select.has(long.owner, long.id)) {
            long.is_cancelled = true;
            self.long.push(owner.0, 0, long);
        }
    }

    fn next_at(&self) -> Instant {
        if self.done.is_empty() && self.long.is_empty() { Instant::FAR_FUTURE } else { Instant::ZERO }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn lent(&mut self) -> Option<&mut Lent> {
        Some(&mut self.lent)
    }
}
