//! Replies: simple ones, and chunks in any order.

use wire::nbd::{
    ChunkHeader, ErrorChunk, HoleChunk, STRING_MAX, SimpleReply, StatusExtent, StatusExtents, chunk_type,
    command_flag,
};

use super::super::{EXTENTS_MAX, NbdError, NbdFault, NbdOp, NbdViolation};
use super::state::PendingRequest;
use super::{NbdAgreement, NbdClient, NbdClientEvent, NbdCompletion, Step};

/// Shortest payload of an error chunk: number and length of the text.
const ERROR_MIN_BYTES: u32 = 4 + 2;
/// Longest payload of an error chunk: number, text and offset.
const ERROR_MAX_BYTES: u32 = 4 + 2 + STRING_MAX as u32 + 8;
/// Context before the extents of a block status, in bytes.
const CONTEXT_BYTES: u32 = 4;
/// Length of an extent of a block status, in bytes.
const EXTENT_BYTES: u32 = StatusExtent::LEN as u32;
/// Error chunks of one reply.
const ERRORS_MAX: u32 = 1024;

impl NbdClient {
    pub(super) fn answer(&mut self, bytes: &[u8; SimpleReply::LEN]) -> Result<(), NbdFault> {
        let NbdAgreement { is_structured, .. } = *self.agreement().expect("an agreement before replies");
        if is_structured && bytes[..4] == ChunkHeader::MAGIC.to_be_bytes() {
            self.step = Step::ChunkRest(*bytes);
            return Ok(());
        }
        let SimpleReply { error, cookie } = SimpleReply::parse(bytes)?;
        let pending = self.find(cookie)?;
        let (op, len_bytes) = (pending.command.op, pending.command.len_bytes);
        if pending.has_chunks() {
            return Err(NbdViolation::MixedReplies.into());
        }
        if is_structured && op == NbdOp::Read || op == NbdOp::BlockStatus && error == 0 {
            return Err(NbdViolation::SimpleReply.into());
        }
        if error != 0 {
            pending.error = Some(NbdError::from_code(error));
        } else if op == NbdOp::Read {
            let range = pending.coverage.add(0, len_bytes);
            range.expect("a range of a read that has none");
            self.step = Step::Data { cookie, offset_bytes: 0, len_bytes, is_done: true };
            return Ok(());
        }
        self.finish(cookie)
    }

    pub(super) fn chunk(&mut self, begin: [u8; SimpleReply::LEN], rest: &[u8; 4]) -> Result<(), NbdFault> {
        let mut bytes = [0; ChunkHeader::LEN];
        bytes[..SimpleReply::LEN].copy_from_slice(&begin);
        bytes[SimpleReply::LEN..].copy_from_slice(rest);
        let chunk = ChunkHeader::parse(&bytes)?;
        let payload_max_bytes =
            self.agreement().expect("an agreement before replies").facts.blocks.payload_max_bytes();
        let pending = self.find(chunk.cookie)?;
        let (kind, len_bytes) = (chunk.kind, chunk.len_bytes);
        let least = |expected_bytes: u32| match len_bytes < expected_bytes {
            true => Err(NbdViolation::ChunkLength { kind, found_bytes: len_bytes, expected_bytes }),
            false => Ok(()),
        };
        match (kind, pending.command.op) {
            (chunk_type::NONE, _) => {
                if len_bytes > 0 || !chunk.is_done() {
                    return Err(NbdViolation::NoneChunk.into());
                }
                return self.end_chunk(chunk);
            }
            (chunk_type::OFFSET_DATA, NbdOp::Read) => {
                let offset_bytes = ChunkHeader::OFFSET_LEN as u32;
                least(offset_bytes + 1)?;
                NbdFault::limit("a data chunk", len_bytes, pending.command.len_bytes + offset_bytes)?;
                self.step = Step::DataOffset(chunk);
                return Ok(());
            }
            (chunk_type::OFFSET_HOLE, NbdOp::Read) => {
                least(HoleChunk::LEN as u32)?;
                NbdFault::limit("a hole chunk", len_bytes, HoleChunk::LEN as u32)?;
            }
            (chunk_type::BLOCK_STATUS, NbdOp::BlockStatus) => {
                least(CONTEXT_BYTES + EXTENT_BYTES)?;
                NbdFault::limit("a block status", len_bytes, status_max_bytes(pending, payload_max_bytes))?;
            }
            _ if chunk.is_error() => {
                least(ERROR_MIN_BYTES)?;
                NbdFault::limit("an error chunk", len_bytes, ERROR_MAX_BYTES)?;
            }
            _ => return Err(NbdViolation::ChunkType { kind }.into()),
        }
        self.step = Step::ChunkBody(chunk);
        Ok(())
    }

    pub(super) fn data_offset(&mut self, chunk: ChunkHeader, offset: &[u8; 8]) -> Result<(), NbdFault> {
        let len_bytes = chunk.len_bytes - ChunkHeader::OFFSET_LEN as u32;
        let pending = self.find(chunk.cookie)?;
        let offset_bytes = cover(pending, u64::from_be_bytes(*offset), len_bytes)?;
        self.step = Step::Data { cookie: chunk.cookie, offset_bytes, len_bytes, is_done: chunk.is_done() };
        Ok(())
    }

    pub(super) fn chunk_body(&mut self, chunk: ChunkHeader, body: &[u8]) -> Result<(), NbdFault> {
        let allocation_id = self.negotiation.allocation_id;
        let pending = self.find(chunk.cookie)?;
        match chunk.kind {
            chunk_type::OFFSET_HOLE => {
                let bytes = body.try_into().expect("a hole chunk of its length");
                let HoleChunk { offset_bytes, len_bytes } = HoleChunk::parse(bytes);
                let offset_bytes = cover(pending, offset_bytes, len_bytes)?;
                let token = pending.token;
                self.events.push_back(NbdClientEvent::Zeros { token, offset_bytes, len_bytes });
            }
            chunk_type::BLOCK_STATUS => {
                let status = StatusExtents::parse(body)?;
                if Some(status.context) != allocation_id {
                    return Err(NbdViolation::StatusContext { found: status.context }.into());
                }
                if !pending.extents.is_empty() {
                    return Err(NbdViolation::SecondStatus.into());
                }
                pending.extents = extents(pending, &status)?;
            }
            kind => {
                let ErrorChunk { error, offset_bytes, .. } = ErrorChunk::parse(kind, body)?;
                let begin = pending.command.offset_bytes;
                let end = begin + u64::from(pending.command.len_bytes);
                if error == 0 {
                    return Err(NbdViolation::NoError.into());
                }
                if let Some(offset_bytes) = offset_bytes.filter(|at| !(begin..end).contains(at)) {
                    return Err(NbdViolation::ErrorOffset { offset_bytes }.into());
                }
                pending.errors += 1;
                if pending.errors > ERRORS_MAX {
                    return Err(NbdFault::TooMany { what: "error chunks", limit: ERRORS_MAX });
                }
                pending.error.get_or_insert(NbdError::from_code(error));
            }
        }
        self.end_chunk(chunk)
    }

    fn end_chunk(&mut self, chunk: ChunkHeader) -> Result<(), NbdFault> {
        self.step = Step::Answer;
        if chunk.is_done() { self.finish(chunk.cookie) } else { Ok(()) }
    }

    /// Ends a request: a success needs the complete data of the request.
    pub(super) fn finish(&mut self, cookie: u64) -> Result<(), NbdFault> {
        let pending = self.find(cookie)?;
        let is_complete = match pending.command.op {
            NbdOp::Read => pending.coverage.bytes() == pending.command.len_bytes,
            NbdOp::BlockStatus => !pending.extents.is_empty(),
            _ => true,
        };
        if pending.error.is_none() && !is_complete {
            return Err(NbdViolation::Incomplete.into());
        }
        let extents = std::mem::take(&mut pending.extents);
        let (token, result) = (pending.token, pending.error.map_or(Ok(()), Err));
        let extents = if result.is_ok() { extents } else { Vec::new() };
        self.pending.remove(&cookie);
        self.events.push_back(NbdClientEvent::Completed(NbdCompletion { token, result, extents }));
        Ok(())
    }

    fn find(&mut self, cookie: u64) -> Result<&mut PendingRequest, NbdFault> {
        let pending = self.pending.get_mut(&cookie).filter(|pending| pending.is_sent);
        pending.ok_or(NbdFault::UnknownCookie { cookie })
    }
}

/// Longest payload of the block status of a request. Every extent covers a byte of the range at least, and the extents
/// of a server are no longer than its payload maximum.
fn status_max_bytes(pending: &PendingRequest, payload_max_bytes: u32) -> u32 {
    let extents = match pending.has_flag(command_flag::REQ_ONE) {
        true => 1,
        false => EXTENTS_MAX.min(payload_max_bytes / EXTENT_BYTES).min(pending.command.len_bytes),
    };
    CONTEXT_BYTES + extents * EXTENT_BYTES
}

/// Marks a range of the export as answered. Returns its offset in the read.
fn cover(pending: &mut PendingRequest, at_bytes: u64, len_bytes: u32) -> Result<u32, NbdViolation> {
    let whole = pending.command.len_bytes;
    if pending.has_flag(command_flag::DF) && pending.coverage.bytes() > 0 {
        return Err(NbdViolation::Fragmented);
    }
    let begin = at_bytes.checked_sub(pending.command.offset_bytes);
    let begin = begin.and_then(|begin| u32::try_from(begin).ok());
    let range = begin.and_then(|begin| begin.checked_add(len_bytes).map(|end| (begin, end)));
    match range {
        Some((begin, end)) if end <= whole && len_bytes > 0 => {
            pending.coverage.add(begin, end).ok_or(NbdViolation::OverlappingRead).map(|()| begin)
        }
        _ => Err(NbdViolation::OutsideRead),
    }
}

/// Extents of a status, cut off at the end of the request. All but the last lie inside it, and with REQ_ONE that one too.
fn extents(pending: &PendingRequest, status: &StatusExtents<'_>) -> Result<Vec<StatusExtent>, NbdViolation> {
    let limit_bytes = pending.command.len_bytes;
    let mut left = limit_bytes;
    let mut extents = Vec::new();
    for extent in status.extents() {
        if extent.len_bytes == 0 || left == 0 {
            return Err(NbdViolation::Extent);
        }
        if pending.has_flag(command_flag::REQ_ONE) && extent.len_bytes > limit_bytes {
            return Err(NbdViolation::LongExtent { found_bytes: extent.len_bytes, limit_bytes });
        }
        let len_bytes = extent.len_bytes.min(left);
        left -= len_bytes;
        extents.push(StatusExtent { len_bytes, ..extent });
    }
    Ok(extents)
}
