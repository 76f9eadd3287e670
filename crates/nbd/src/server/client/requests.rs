//! Requests of a connection: from the machine to the device and back.

use block::{BlockCompletion, BlockOp, BlockRequest, ByteRange, CompositeAction, Extent, Profile, Token};
use event::Instant;
use proto::nbd::server::NbdServerEvent;
use proto::nbd::{NbdCommand, NbdError, NbdOp};
use wire::nbd::{StatusExtent, command_flag, state_flag};

use super::super::outbox::ReplyData;
use super::super::shared::{NbdServiceTotals, Shared};
use super::super::turn::TurnLimit;
use super::Client;
use super::pending::{Pending, Stage};
use crate::error::nbd_error;
use crate::export::makes_zeros;

/// Extents of one block status: a client asks again for the rest.
const EXTENTS_MAX: usize = 512;
/// Longest range that a cache hint reads.
const CACHED_MAX_BYTES: u64 = 32 << 20;

impl Client {
    /// Handles the events of the machine after an input.
    pub(super) fn after(&mut self, shared: &mut Shared, limit: &mut TurnLimit, now: Instant) {
        while let Some(event) = self.machine.poll_event() {
            match event {
                NbdServerEvent::Chosen { .. } => shared.totals.connections += 1,
                NbdServerEvent::Request { key, command } => {
                    shared.totals.requests += 1;
                    self.begin(key, command, shared, now);
                    if !matches!(command.op, NbdOp::Read | NbdOp::Write | NbdOp::Flush) {
                        Client::look(limit);
                    }
                }
                NbdServerEvent::Received { key } => self.write(key, shared, now),
                NbdServerEvent::StartTls | NbdServerEvent::Disconnected => {}
            }
        }
    }

    /// Tries again the request that waits for memory.
    pub(super) fn begin_stalled(&mut self, shared: &mut Shared, now: Instant) {
        if let Some((key, command)) = self.stalled.take() {
            self.begin(key, command, shared, now);
        }
    }

    fn begin(&mut self, key: u64, command: NbdCommand, shared: &mut Shared, now: Instant) {
        let range = ByteRange { offset_bytes: command.offset_bytes, len_bytes: command.len_bytes.into() };
        match command.op {
            NbdOp::Read | NbdOp::Write if shared.device.is_direct(range) => {
                self.requests.insert(key, Pending { command, stage: Stage::Direct });
                if command.op == NbdOp::Read {
                    self.machine.complete(key);
                }
            }
            NbdOp::Read | NbdOp::Write => {
                let len = command.len_bytes as usize;
                let Some(buffer) = shared.memory.admit(&self.part, self.owner, len) else {
                    self.stalled = Some((key, command));
                    return;
                };
                if command.op == NbdOp::Write {
                    self.requests.insert(key, Pending { command, stage: Stage::Buffered(buffer) });
                } else {
                    let op = BlockOp::Read { offset_bytes: command.offset_bytes, into: buffer };
                    self.submit(key, command, op, (NOTHING, false), shared, now);
                }
            }
            NbdOp::Flush => self.submit(key, command, BlockOp::Flush, (NOTHING, false), shared, now),
            NbdOp::BlockStatus => {
                let is_one = command.flags & command_flag::REQ_ONE != 0;
                let extents_max = if is_one { 1 } else { EXTENTS_MAX };
                let op = BlockOp::Extents { range, extents_max };
                self.submit(key, command, op, (NOTHING, false), shared, now);
            }
            NbdOp::Trim | NbdOp::WriteZeroes | NbdOp::Cache => {
                let has_cache = shared.device.profile().can.write_cache;
                let flush = has_cache && command.flags & command_flag::FUA != 0;
                self.change(key, command, (range, flush), shared, now);
            }
        }
    }

    /// The data of a write are complete.
    fn write(&mut self, key: u64, shared: &mut Shared, now: Instant) {
        let Some(Pending { command, stage }) = self.requests.remove(&key) else { return };
        shared.totals.received_bytes += u64::from(command.len_bytes);
        match stage {
            Stage::Buffered(data) => {
                let can_fua = shared.device.profile().can.fua;
                let flush = !can_fua && command.flags & command_flag::FUA != 0;
                let op = BlockOp::Write { offset_bytes: command.offset_bytes, data };
                self.submit(key, command, op, (NOTHING, flush), shared, now);
            }
            // Memory has no cache that FUA could pass by.
            Stage::Direct | Stage::AtDevice { .. } => self.machine.complete(key),
        }
    }

    /// Submits the next part of an operation without data.
    fn change(
        &mut self,
        key: u64,
        command: NbdCommand,
        (range, flush): (ByteRange, bool),
        shared: &mut Shared,
        now: Instant,
    ) {
        let profile = shared.device.profile();
        let len_bytes = range.len_bytes.min(part_max_bytes(profile));
        let part = ByteRange { len_bytes, ..range };
        let mut rest = ByteRange {
            offset_bytes: range.offset_bytes + len_bytes,
            len_bytes: range.len_bytes - len_bytes,
        };
        if command.op == NbdOp::Cache {
            rest = NOTHING;
        }
        match operation(&command, part, profile) {
            Some(op) => self.submit(key, command, op, (rest, flush), shared, now),
            None => {
                self.requests.remove(&key);
                self.machine.fail(key, NbdError::Enotsup, None);
            }
        }
    }

    fn submit(
        &mut self,
        key: u64,
        command: NbdCommand,
        op: BlockOp,
        (rest, flush): (ByteRange, bool),
        shared: &mut Shared,
        now: Instant,
    ) {
        self.requests.insert(key, Pending { command, stage: Stage::AtDevice { rest, flush } });
        let is_transfer = matches!(op, BlockOp::Read { .. } | BlockOp::Write { .. });
        let fua = is_transfer && !flush && command.flags & command_flag::FUA != 0;
        let request = BlockRequest { id: Token(key), owner: self.owner, op, fua, is_timed: false };
        shared.device.submit(request, now);
    }

    /// The device has completed a request, or a part of it.
    pub(in crate::server) fn completed(&mut self, done: BlockCompletion, shared: &mut Shared, now: Instant) {
        let BlockCompletion { id: Token(key), result, read, extents, .. } = done;
        let Some(Pending { command, stage }) = self.requests.remove(&key) else { return };
        let Stage::AtDevice { rest, flush } = stage else {
            unreachable!("a completion of a request that the device does not have")
        };
        if let Err(error) = result {
            let NbdCommand { op, offset_bytes, len_bytes, .. } = command;
            if let Some(error) = error.device_error() {
                let text = format_args!("{op:?} of {len_bytes} bytes at {offset_bytes} failed: {error}");
                shared.notes.about("device", &self.link.peer, now, text);
            }
            return self.machine.fail(key, nbd_error(&error), None);
        }
        match command.op {
            NbdOp::Read => match read {
                Some(buffer) => {
                    self.requests.insert(key, Pending { command, stage: Stage::Buffered(buffer) });
                    self.machine.complete(key);
                }
                None => self.machine.fail(key, NbdError::Eio, None),
            },
            NbdOp::BlockStatus => self.machine.complete_status(key, &status(&extents, command.len_bytes)),
            _ if rest.len_bytes > 0 => self.change(key, command, (rest, flush), shared, now),
            _ if flush => self.submit(key, command, BlockOp::Flush, (NOTHING, false), shared, now),
            _ => self.machine.complete(key),
        }
    }

    /// Data of a read that is answered.
    pub(super) fn reply_data(&mut self, key: u64, totals: &mut NbdServiceTotals) -> ReplyData {
        let Some(Pending { command, stage }) = self.requests.remove(&key) else {
            unreachable!("data of a request that is not answered")
        };
        let len = command.len_bytes as usize;
        totals.sent_bytes += len as u64;
        match stage {
            Stage::Direct => ReplyData::Lent { offset_bytes: command.offset_bytes, len },
            Stage::Buffered(buffer) => ReplyData::Buffer(buffer),
            Stage::AtDevice { .. } => unreachable!("data that the device has"),
        }
    }
}

/// The rest of a request that is one operation.
const NOTHING: ByteRange = ByteRange { offset_bytes: 0, len_bytes: 0 };

/// Longest range of one operation without data: whole blocks.
fn part_max_bytes(profile: &Profile) -> u64 {
    let block_bytes = u64::from(profile.blocks.logical_bytes);
    let most_bytes = profile.limits.range_bytes;
    (most_bytes - most_bytes % block_bytes).max(block_bytes)
}

/// Operation of the device for a command without data; `None` if the device cannot do it that way.
fn operation(command: &NbdCommand, range: ByteRange, profile: &Profile) -> Option<BlockOp> {
    let has = |flag| command.flags & flag != 0;
    let action = match command.op {
        NbdOp::Trim => CompositeAction::Unmap(vec![range]),
        NbdOp::Cache => {
            let len_bytes = range.len_bytes.min(CACHED_MAX_BYTES);
            CompositeAction::Verify(ByteRange { len_bytes, ..range })
        }
        _ if !has(command_flag::NO_HOLE) && makes_zeros(profile) => CompositeAction::Unmap(vec![range]),
        _ if has(command_flag::FAST_ZERO) || !profile.can.fill => return None,
        _ => CompositeAction::Fill { span: range, pattern: vec![0; profile.blocks.logical_bytes as usize] },
    };
    Some(BlockOp::Composite(action))
}

/// Descriptors of `base:allocation` for extents of a range of `len_bytes`.
fn status(extents: &[Extent], len_bytes: u32) -> Vec<StatusExtent> {
    let descriptor = |extent: &Extent| {
        let hole = if extent.is_allocated { 0 } else { state_flag::HOLE };
        let zero = if extent.is_zero { state_flag::ZERO } else { 0 };
        StatusExtent { len_bytes: extent.len_bytes.min(len_bytes.into()) as u32, flags: hole | zero }
    };
    extents.iter().map(descriptor).collect()
}
