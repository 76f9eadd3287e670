//! The client's end of a connection.
//!
//! Commands: [`NbdClient::submit`], once [`NbdClientEvent::Ready`] has come, and [`NbdClient::disconnect`]. Negotiation
//! requests structured replies, `base:allocation` and the export with NBD_OPT_GO, one after the other in the order of
//! the protocol; NBD_OPT_EXPORT_NAME replaces NBD_OPT_GO for a server without it. A client that ends a negotiation, or
//! whose export is refused, sends NBD_OPT_ABORT (a soft disconnect). Each cookie is used once, so a late reply matches
//! no other request. The data of a read go to the caller's buffer under the token of the request.

mod coverage;
mod negotiation;
mod reply;
mod state;

use std::collections::{BTreeMap, VecDeque};

use wire::nbd::{
    ChunkHeader, ClientFlags, ExportNameReply, NewstyleGreeting, OptionReplyHeader, RequestHeader,
    STRING_MAX, SimpleReply, StatusExtent, command,
};

use super::{
    ExportFacts, NbdCommand, NbdError, NbdFault, NbdOp, NbdPayload, NbdSubmitError, NbdTransmit, Receive,
    array,
};
use state::{Negotiation, PendingRequest};

/// Wishes of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NbdClientConfig {
    /// Name of the export; empty for the server's default.
    pub export: String,
    /// Ask for structured replies.
    pub wants_structured: bool,
    /// Ask for `base:allocation`, which needs structured replies.
    pub wants_allocation: bool,
}

/// Result of the negotiation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NbdAgreement {
    /// Size, rounded down to whole minimum blocks; flags and block sizes.
    pub facts: ExportFacts,
    /// Reads are answered in chunks.
    pub is_structured: bool,
    /// NBD_CMD_BLOCK_STATUS may be sent.
    pub has_allocation: bool,
}

/// The end of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NbdCompletion {
    /// The caller's name of the request.
    pub token: u64,
    /// Success, or the first error of the server. After [`NbdError::Eshutdown`] the caller disconnects.
    pub result: Result<(), NbdError>,
    /// Extents of a block status, from the beginning of its range.
    pub extents: Vec<StatusExtent>,
}

/// An event of the client for its caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NbdClientEvent {
    /// The transmission phase has begun.
    Ready(NbdAgreement),
    /// A part of a read is zeros: the caller fills its buffer.
    Zeros {
        /// The caller's name of the request.
        token: u64,
        /// Offset in the read.
        offset_bytes: u32,
        /// Length.
        len_bytes: u32,
    },
    /// A request ended. A server may end a write before its data are sent: the caller keeps the buffer until
    /// [`NbdTransmit::releases`] has named the token too.
    Completed(NbdCompletion),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Greeting,
    Reply,
    ReplyData(OptionReplyHeader),
    ExportName,
    Padding(u32),
    /// The part that simple replies and chunks have in common.
    Answer,
    ChunkRest([u8; SimpleReply::LEN]),
    ChunkBody(ChunkHeader),
    /// The offset before the data of a chunk.
    DataOffset(ChunkHeader),
    Data {
        cookie: u64,
        offset_bytes: u32,
        len_bytes: u32,
        is_done: bool,
    },
    Over,
}

/// State machine of an NBD client: negotiation and transmission, without I/O.
#[derive(Debug)]
pub struct NbdClient {
    config: NbdClientConfig,
    step: Step,
    negotiation: Negotiation,
    agreement: Option<NbdAgreement>,
    pending: BTreeMap<u64, PendingRequest>,
    next_cookie: u64,
    /// Messages, each with the cookie of the request that it is.
    outbox: VecDeque<(Option<u64>, NbdTransmit)>,
    events: VecDeque<NbdClientEvent>,
    /// The caller has ended the connection.
    is_leaving: bool,
}

impl NbdClient {
    /// A connection that has just been made.
    ///
    /// # Panics
    /// If the name of the export is longer than [`wire::nbd::STRING_MAX`] bytes.
    pub fn new(config: NbdClientConfig) -> NbdClient {
        assert!(config.export.len() <= STRING_MAX, "a name of {} bytes", config.export.len());
        NbdClient {
            config,
            step: Step::Greeting,
            negotiation: Negotiation::default(),
            agreement: None,
            pending: BTreeMap::new(),
            next_cookie: 1,
            outbox: VecDeque::new(),
            events: VecDeque::new(),
            is_leaving: false,
        }
    }

    /// The next bytes from the server and their destination.
    pub fn expects(&self) -> Receive {
        match self.step {
            Step::Greeting => Receive::Header { len_bytes: NewstyleGreeting::LEN },
            Step::Reply => Receive::Header { len_bytes: OptionReplyHeader::LEN },
            Step::ReplyData(header) => Receive::Header { len_bytes: header.len_bytes as usize },
            Step::ExportName => Receive::Header { len_bytes: ExportNameReply::LEN },
            Step::Padding(len_bytes) => Receive::Discard { len_bytes },
            Step::Answer if self.is_finished() => Receive::Closed,
            Step::Answer => Receive::Header { len_bytes: SimpleReply::LEN },
            Step::ChunkRest(_) => Receive::Header { len_bytes: ChunkHeader::LEN - SimpleReply::LEN },
            Step::ChunkBody(chunk) => Receive::Header { len_bytes: chunk.len_bytes as usize },
            Step::DataOffset(_) => Receive::Header { len_bytes: ChunkHeader::OFFSET_LEN },
            Step::Data { cookie, offset_bytes, len_bytes, .. } => {
                Receive::Payload { token: self.pending[&cookie].token, offset_bytes, len_bytes }
            }
            Step::Over => Receive::Closed,
        }
    }

    /// Takes a header of the length that [`NbdClient::expects`] named.
    ///
    /// # Errors
    /// A server that breaks the protocol or refuses the export: the connection is over, and every buffer is the
    /// caller's again. After a refusal [`NbdClient::poll_transmit`] has NBD_OPT_ABORT.
    ///
    /// # Panics
    /// If the length is another.
    pub fn handle(&mut self, bytes: &[u8]) -> Result<(), NbdFault> {
        if let Receive::Header { len_bytes } = self.expects() {
            assert_eq!(bytes.len(), len_bytes, "as many bytes as `expects` named");
        }
        let result = match self.step {
            Step::Greeting => self.greeting(array(bytes)),
            Step::Reply => self.option_reply(array(bytes)),
            Step::ReplyData(header) => self.reply_data(header, bytes),
            Step::ExportName => self.export_name_reply(array(bytes)),
            Step::Answer if self.is_finished() => Err(NbdFault::Over),
            Step::Answer => self.answer(array(bytes)),
            Step::ChunkRest(begin) => self.chunk(begin, array(bytes)),
            Step::ChunkBody(chunk) => self.chunk_body(chunk, bytes),
            Step::DataOffset(chunk) => self.data_offset(chunk, array(bytes)),
            Step::Over => Err(NbdFault::Over),
            Step::Padding(_) | Step::Data { .. } => panic!("payload was passed as a header"),
        };
        self.check(result)
    }

    /// Counts bytes of payload that were stored or discarded.
    ///
    /// # Errors
    /// A server that ends a read before all of it has come: the connection is over.
    ///
    /// # Panics
    /// If they are more than [`NbdClient::expects`] named.
    pub fn received(&mut self, bytes: u32) -> Result<(), NbdFault> {
        let left = |len: u32| len.checked_sub(bytes).expect("no more bytes than `expects` named");
        let result = match &mut self.step {
            Step::Padding(len_bytes) => {
                *len_bytes = left(*len_bytes);
                if *len_bytes == 0 { self.ready() } else { Ok(()) }
            }
            Step::Data { cookie, offset_bytes, len_bytes, is_done } => {
                (*offset_bytes, *len_bytes) = (*offset_bytes + bytes, left(*len_bytes));
                let (cookie, is_done) = (*cookie, *is_done);
                match *len_bytes {
                    0 => {
                        self.step = Step::Answer;
                        if is_done { self.finish(cookie) } else { Ok(()) }
                    }
                    _ => Ok(()),
                }
            }
            _ => panic!("no payload is expected"),
        };
        self.check(result)
    }

    /// Sends a command. `token` identifies the command and its data in events; it may be reused when the request is
    /// over.
    ///
    /// # Errors
    /// A command that breaks the rules of the export, comes before [`NbdClientEvent::Ready`], or behind
    /// [`NbdClient::disconnect`] or a fault. It is not sent.
    pub fn submit(&mut self, token: u64, command: NbdCommand) -> Result<(), NbdSubmitError> {
        if self.is_leaving || self.step == Step::Over {
            return Err(NbdSubmitError::Closed);
        }
        let agreement = self.agreement.as_ref().ok_or(NbdSubmitError::NotReady)?;
        agreement.facts.validate(&command, agreement.has_allocation).map_err(NbdSubmitError::Refused)?;
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        let NbdCommand { op, flags, offset_bytes, len_bytes } = command;
        let header =
            RequestHeader { flags, command: op.code(), cookie, offset_bytes, len_bytes }.to_bytes().to_vec();
        let payload = (op == NbdOp::Write).then_some(NbdPayload { token, offset_bytes: 0, len_bytes });
        let releases = payload.map(|payload| payload.token);
        self.outbox.push_back((Some(cookie), NbdTransmit { header, payload, releases }));
        self.pending.insert(cookie, PendingRequest::new(token, command));
        Ok(())
    }

    /// Ends the connection in good order: behind the submitted requests with NBD_CMD_DISC, or in negotiation behind the
    /// reply to the option that was sent, with NBD_OPT_ABORT. [`NbdClient::is_finished`] says when to close it.
    pub fn disconnect(&mut self) {
        if std::mem::replace(&mut self.is_leaving, true) || self.step == Step::Over {
            return;
        }
        if self.agreement.is_some() {
            self.send_disconnect();
        }
    }

    /// The next bytes to send.
    pub fn poll_transmit(&mut self) -> Option<NbdTransmit> {
        let (cookie, transmit) = self.outbox.pop_front()?;
        if let Some(pending) = cookie.and_then(|cookie| self.pending.get_mut(&cookie)) {
            pending.is_sent = true;
        }
        Some(transmit)
    }

    /// The next report.
    pub fn poll_event(&mut self) -> Option<NbdClientEvent> {
        self.events.pop_front()
    }

    /// The agreement; `None` during negotiation.
    pub fn agreement(&self) -> Option<&NbdAgreement> {
        self.agreement.as_ref()
    }

    /// Requests that are not answered.
    pub fn open_requests(&self) -> usize {
        self.pending.len()
    }

    /// Tokens of the requests that are not answered, in the order of their submission: after a fault they are all over.
    pub fn open_tokens(&self) -> impl Iterator<Item = u64> {
        self.pending.values().map(|pending| pending.token)
    }

    /// True if the connection can be closed: it is over, or NBD_CMD_DISC is sent and everything is answered.
    pub fn is_finished(&self) -> bool {
        let has_left = self.is_leaving && self.agreement.is_some() && self.pending.is_empty();
        (self.step == Step::Over || has_left) && self.outbox.is_empty()
    }

    /// Ends the connection on a fault: nothing more is sent, except NBD_OPT_ABORT after a refusal.
    fn check(&mut self, result: Result<(), NbdFault>) -> Result<(), NbdFault> {
        if let Err(fault) = &result {
            self.outbox.clear();
            self.step = Step::Over;
            if matches!(fault, NbdFault::Refused { .. }) {
                self.abort();
            }
        }
        result
    }

    fn send(&mut self, bytes: impl Into<Vec<u8>>) {
        self.outbox.push_back((None, NbdTransmit::header(bytes)));
    }

    fn send_disconnect(&mut self) {
        let header =
            RequestHeader { flags: 0, command: command::DISC, cookie: 0, offset_bytes: 0, len_bytes: 0 };
        self.send(header.to_bytes());
    }
}

/// Bits that our handshake answers a greeting with.
fn handshake(flags: u16) -> ClientFlags {
    ClientFlags { flags: u32::from(flags & 3) }
}
