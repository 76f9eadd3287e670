//! A device whose requests tests complete by hand.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use block::{
    BlockCompletion, BlockDevice, BlockError, BlockOp, BlockRequest, BlockSizes, Capabilities, ErrorKind,
    LentDevice, Limits, OperationError, Owner, Profile, Select, Token,
};
use event::Instant;

/// A profile with everything but a write cache and FUA.
pub(crate) fn profile() -> Profile {
    Profile {
        len_bytes: 1 << 30,
        blocks: BlockSizes { logical_bytes: 512, physical_bytes: 512, preferred_bytes: 4096 },
        limits: Limits { transfer_bytes: 32 << 20, range_bytes: 1 << 20, atomic_bytes: 0 },
        can: Capabilities {
            read_only: false,
            write_cache: false,
            fua: false,
            unmap: true,
            unmapped_reads_zero: true,
            fill: true,
            compare: true,
            extents: true,
        },
    }
}

/// The device.
#[derive(Debug)]
pub(crate) struct ManualDevice {
    profile: Profile,
    state: ManualState,
}

/// Its requests, shared with the test.
#[derive(Clone, Default, Debug)]
pub(crate) struct ManualState(Rc<RefCell<Manual>>);

#[derive(Default, Debug)]
struct Manual {
    requests: Vec<BlockRequest>,
    done: VecDeque<BlockCompletion>,
    withdrawn: Vec<Select>,
}

impl ManualDevice {
    pub(crate) fn with_state(profile: Profile) -> (Box<dyn BlockDevice>, ManualState) {
        let state = ManualState::default();
        (Box::new(ManualDevice { profile, state: state.clone() }), state)
    }
}

impl ManualState {
    /// Owner and token of the outstanding requests, in the order in which they came.
    pub(crate) fn outstanding(&self) -> Vec<(u64, u64)> {
        self.0.borrow().requests.iter().map(|request| (request.owner.0, request.id.0)).collect()
    }

    /// The last request in words, and its FUA flag.
    pub(crate) fn last(&self) -> (String, bool) {
        let state = self.0.borrow();
        let request = state.requests.last().expect("a request");
        let words = match &request.op {
            BlockOp::Read { offset_bytes, into } => format!("read {offset_bytes}+{}", into.len()),
            BlockOp::Write { offset_bytes, data } => format!("write {offset_bytes}+{}", data.len()),
            BlockOp::Flush => "flush".to_owned(),
            BlockOp::Extents { range, extents_max } => {
                format!("extents {}+{} {extents_max}", range.offset_bytes, range.len_bytes)
            }
            BlockOp::Composite(action) => format!("{action:?}"),
        };
        (words, request.fua)
    }

    /// Withdrawals.
    pub(crate) fn withdrawn(&self) -> Vec<Select> {
        self.0.borrow().withdrawn.clone()
    }

    /// Completes a request. A read brings bytes of its token.
    pub(crate) fn complete(&self, owner: u64, id: u64, error: Option<ErrorKind>) {
        let mut state = self.0.borrow_mut();
        let is_it = |request: &BlockRequest| (request.owner, request.id) == (Owner(owner), Token(id));
        let place = state.requests.iter().position(is_it).expect("an outstanding request");
        let request = state.requests.remove(place);
        let result =
            error.map_or(Ok(()), |kind| Err(OperationError::Write(BlockError::new(kind, "by the test"))));
        let read = match request.op {
            BlockOp::Read { mut into, .. } => {
                into.fill(id as u8);
                Some(into)
            }
            _ => None,
        };
        let (owner, id) = (request.owner, request.id);
        state.done.push_back(BlockCompletion {
            id,
            owner,
            result,
            read,
            extents: Vec::new(),
            ended_at: None,
        });
    }
}

impl BlockDevice for ManualDevice {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn submit(&mut self, request: BlockRequest, _now: Instant) {
        self.state.0.borrow_mut().requests.push(request);
    }

    fn poll(&mut self, _now: Instant) -> Option<BlockCompletion> {
        self.state.0.borrow_mut().done.pop_front()
    }

    fn cancel(&mut self, select: Select, _now: Instant) {
        self.state.0.borrow_mut().withdrawn.push(select);
    }

    fn next_at(&self) -> Instant {
        Instant::FAR_FUTURE
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Memory that lends no bytes: its face needs buffers.
#[derive(Debug)]
pub(crate) struct Unlent(pub(crate) LentDevice);

impl BlockDevice for Unlent {
    fn profile(&self) -> &Profile {
        self.0.profile()
    }

    fn submit(&mut self, request: BlockRequest, now: Instant) {
        self.0.submit(request, now);
    }

    fn poll(&mut self, now: Instant) -> Option<BlockCompletion> {
        self.0.poll(now)
    }

    fn cancel(&mut self, select: Select, now: Instant) {
        self.0.cancel(select, now);
    }

    fn next_at(&self) -> Instant {
        self.0.next_at()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
