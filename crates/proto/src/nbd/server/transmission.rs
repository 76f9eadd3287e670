//! Requests in, replies out.

use wire::nbd::{
    ChunkHeader, ErrorChunk, HoleChunk, RequestHeader, SimpleReply, StatusExtent, StatusExtents, chunk_flag,
    chunk_type, command, command_flag,
};

use super::super::{
    ExportFacts, NbdCommand, NbdError, NbdFault, NbdOp, NbdPayload, NbdTransmit, PAYLOAD_MAX_BYTES,
};
use super::negotiation::ALLOCATION_ID;
use super::state::{PendingRequest, Refusal};
use super::{NbdServer, NbdServerEvent, Step};

impl NbdServer {
    pub(super) fn request(&mut self, bytes: &[u8; RequestHeader::LEN]) -> Result<(), NbdFault> {
        let RequestHeader { flags, command, cookie, offset_bytes, len_bytes } = RequestHeader::parse(bytes)?;
        if command == command::DISC {
            self.step = Step::Over;
            self.events.push_back(NbdServerEvent::Disconnected);
            return Ok(());
        }
        if command == command::WRITE {
            NbdFault::limit("the data of a write", len_bytes, PAYLOAD_MAX_BYTES)?;
        }
        let export = self.chosen.expect("a chosen export in the transmission phase");
        let facts = ExportFacts { flags: self.flags(export), ..self.config.exports[export].facts };
        let request = NbdOp::from_code(command)
            .map(|op| NbdCommand { op, flags, offset_bytes, len_bytes })
            .ok_or(NbdError::Einval)
            .and_then(|request| {
                facts.validate(&request, self.allocation_of == Some(export)).map(|()| request)
            });
        match request {
            Err(error) => {
                let refusal = Refusal { cookie, command, error };
                if command == command::WRITE && len_bytes > 0 {
                    self.step = Step::SkippedPayload { len_bytes, refusal: Some(refusal) };
                } else {
                    self.refuse(refusal);
                }
            }
            Ok(request) => {
                let key = self.next_key;
                self.next_key += 1;
                let pending = PendingRequest::new(cookie, request, facts.blocks.payload_max_bytes());
                self.outbox.hold(pending.held_bytes);
                self.pending.insert(key, pending);
                self.events.push_back(NbdServerEvent::Request { key, command: request });
                if request.op == NbdOp::Write {
                    self.step = Step::Payload { key, offset_bytes: 0, len_bytes };
                }
            }
        }
        Ok(())
    }

    pub(super) fn refuse(&mut self, Refusal { cookie, command, error }: Refusal) {
        let has_chunks = matches!(command, command::READ | command::BLOCK_STATUS);
        self.push_error(has_chunks, cookie, error, None);
    }

    /// Sends a part of a read from the caller's buffer as a chunk, `offset_bytes` into the read. Parts come in any order
    /// and do not overlap.
    ///
    /// # Panics
    /// Without structured replies, for a read with DF, and for another range than the read has.
    pub fn put_data(&mut self, key: u64, offset_bytes: u32, len_bytes: u32) {
        let (cookie, at_bytes) = self.part(key, offset_bytes, len_bytes);
        let payload = NbdPayload { token: key, offset_bytes, len_bytes };
        self.push_data(cookie, at_bytes, payload, false);
    }

    /// Sends a part of a read that is all zeros as a hole, `offset_bytes` into the read.
    ///
    /// # Panics
    /// As [`NbdServer::put_data`].
    pub fn put_hole(&mut self, key: u64, offset_bytes: u32, len_bytes: u32) {
        let (cookie, at_bytes) = self.part(key, offset_bytes, len_bytes);
        let hole = HoleChunk { offset_bytes: at_bytes, len_bytes }.to_bytes();
        self.push_chunk(chunk_type::OFFSET_HOLE, cookie, false, &hole);
    }

    /// Answers a request that has succeeded. A read of which no part was sent is sent whole.
    ///
    /// # Panics
    /// If there is no such request, it is a block status, a write whose data are not complete, or a read of which a part
    /// is missing.
    pub fn complete(&mut self, key: u64) {
        assert!(!self.awaits_payload(key), "the data of write {key} are not complete");
        let PendingRequest { cookie, command, answered_bytes, held_bytes, .. } = self.take(key);
        let payload = NbdPayload { token: key, offset_bytes: 0, len_bytes: command.len_bytes };
        match command.op {
            NbdOp::BlockStatus => panic!("request {key} is completed with extents"),
            NbdOp::Read if !self.is_structured => {
                let header = SimpleReply { error: 0, cookie }.to_bytes().to_vec();
                self.outbox.push(NbdTransmit { header, payload: Some(payload), releases: None });
            }
            NbdOp::Read if answered_bytes == 0 => {
                self.push_data(cookie, command.offset_bytes, payload, true);
            }
            NbdOp::Read => {
                assert_eq!(answered_bytes, command.len_bytes, "every byte of read {key} was sent");
                self.push_chunk(chunk_type::NONE, cookie, true, &[]);
            }
            _ => self.outbox.push(NbdTransmit::header(SimpleReply { error: 0, cookie }.to_bytes())),
        }
        self.outbox.release(key, held_bytes);
    }

    /// Answers NBD_CMD_BLOCK_STATUS with extents from the beginning of its range. Extents are cut off at the end of the
    /// range, at the payload maximum of the export and at 1 MiB of extents; all but the first with REQ_ONE.
    ///
    /// # Panics
    /// If the request is another, or there is no extent, or one without length.
    pub fn complete_status(&mut self, key: u64, extents: &[StatusExtent]) {
        let PendingRequest { cookie, command, held_bytes, extents_max, .. } = self.take(key);
        assert_eq!(command.op, NbdOp::BlockStatus, "request {key} has no extents");
        assert!(!extents.is_empty(), "a range without extents");
        let (mut left, mut sent) = (command.len_bytes, Vec::new());
        for extent in extents.iter().take(extents_max as usize) {
            assert!(extent.len_bytes > 0, "an extent without length");
            if left > 0 {
                let len_bytes = extent.len_bytes.min(left);
                left -= len_bytes;
                sent.push(StatusExtent { len_bytes, ..*extent });
            }
        }
        let mut bytes = Vec::new();
        StatusExtents::put(&mut bytes, ALLOCATION_ID, &sent);
        // The reply counts with its real length from here on.
        self.outbox.free(held_bytes);
        self.push_chunk(chunk_type::BLOCK_STATUS, cookie, true, &bytes);
        self.outbox.release(key, 0);
    }

    /// Answers a request that has failed, at an offset in the export if that is known. An offset outside of the request
    /// is not sent. The rest of a write's data is thrown away.
    ///
    /// # Panics
    /// If there is no such request.
    pub fn fail(&mut self, key: u64, error: NbdError, offset_bytes: Option<u64>) {
        if self.awaits_payload(key)
            && let Step::Payload { len_bytes, .. } = self.step
        {
            self.step = Step::SkippedPayload { len_bytes, refusal: None };
        }
        let PendingRequest { cookie, command, held_bytes, .. } = self.take(key);
        let range = command.offset_bytes..command.offset_bytes + u64::from(command.len_bytes);
        let offset_bytes = offset_bytes.filter(|at| range.contains(at));
        let has_chunks = matches!(command.op, NbdOp::Read | NbdOp::BlockStatus);
        self.push_error(has_chunks, cookie, error, offset_bytes);
        self.outbox.release(key, held_bytes);
    }

    fn awaits_payload(&self, key: u64) -> bool {
        matches!(self.step, Step::Payload { key: other, .. } if other == key)
    }

    fn take(&mut self, key: u64) -> PendingRequest {
        self.pending.remove(&key).unwrap_or_else(|| panic!("there is no request {key}"))
    }

    /// Counts a part of a read. Returns its cookie and the part's offset in the export.
    fn part(&mut self, key: u64, offset_bytes: u32, len_bytes: u32) -> (u64, u64) {
        assert!(self.is_structured, "parts of a read without structured replies");
        let pending = self.pending.get_mut(&key).unwrap_or_else(|| panic!("there is no request {key}"));
        let NbdCommand { op, flags, len_bytes: whole, .. } = pending.command;
        assert!(op == NbdOp::Read && flags & command_flag::DF == 0, "request {key} has no parts");
        let is_inside = offset_bytes.checked_add(len_bytes).is_some_and(|end| end <= whole);
        assert!(is_inside && len_bytes > 0, "{len_bytes} bytes at {offset_bytes} of a read of {whole}");
        pending.answered_bytes += len_bytes;
        assert!(pending.answered_bytes <= whole, "parts of read {key} overlap");
        (pending.cookie, pending.command.offset_bytes + u64::from(offset_bytes))
    }

    fn push_data(&mut self, cookie: u64, at_bytes: u64, payload: NbdPayload, is_done: bool) {
        let len_bytes = payload.len_bytes + ChunkHeader::OFFSET_LEN as u32;
        let flags = if is_done { chunk_flag::DONE } else { 0 };
        let chunk = ChunkHeader { flags, kind: chunk_type::OFFSET_DATA, cookie, len_bytes };
        let mut header = chunk.to_bytes().to_vec();
        header.extend_from_slice(&at_bytes.to_be_bytes());
        self.outbox.push(NbdTransmit { header, payload: Some(payload), releases: None });
    }

    fn push_chunk(&mut self, kind: u16, cookie: u64, is_done: bool, body: &[u8]) {
        let flags = if is_done { chunk_flag::DONE } else { 0 };
        let len_bytes = u32::try_from(body.len()).expect("a chunk shorter than 4 GiB");
        let mut bytes = ChunkHeader { flags, kind, cookie, len_bytes }.to_bytes().to_vec();
        bytes.extend_from_slice(body);
        self.outbox.push(NbdTransmit::header(bytes));
    }

    fn push_error(&mut self, has_chunks: bool, cookie: u64, error: NbdError, offset_bytes: Option<u64>) {
        let error = error.code();
        if !(has_chunks && self.is_structured) {
            self.outbox.push(NbdTransmit::header(SimpleReply { error, cookie }.to_bytes()));
            return;
        }
        let kind = if offset_bytes.is_some() { chunk_type::ERROR_OFFSET } else { chunk_type::ERROR };
        let mut body = Vec::new();
        ErrorChunk { error, message: b"", offset_bytes }.put(&mut body);
        self.push_chunk(kind, cookie, true, &body);
    }
}
