//! The client's end of a connection.
//!
//! Commands, once [`NbdClientEvent::Ready`] has come: [`NbdClient::submit`], [`NbdClient::disconnect`]. Negotiation
//! requests structured replies, `base:allocation` and the export with NBD_OPT_GO, one after the other in the order of
//! the protocol; NBD_OPT_EXPORT_NAME replaces NBD_OPT_GO for a server without it. Each cookie is used once, so a late
//! reply matches no other request. The data of a read go to the caller's buffer under the token of the request.

mod coverage;
mod negotiation;
mod reply;
mod state;

use std::collections::{BTreeMap, VecDeque};

use wire::nbd::{
    ChunkHeader, ClientFlags, ExportNameReply, NewstyleGreeting, OptionReplyHeader, RequestHeader,
    STRING_MAX, SimpleReply, StatusExtent, command,
};

use super::{ExportFacts, NbdCommand, NbdFault, NbdOp, NbdPayload, NbdTransmit, Receive, array};
use coverage::Coverage;

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
    /// The error number of the server, see [`wire::nbd::error_number`].
    pub result: Result<(), u32>,
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

/// A request that is not answered.
#[derive(Debug)]
struct PendingRequest {
    token: u64,
    command: NbdCommand,
    is_sent: bool,
    coverage: Coverage,
    /// The first error reported.
    error: Option<u32>,
    /// Error chunks.
    errors: u32,
    extents: Vec<StatusExtent>,
}

/// State machine of an NBD client: negotiation and transmission, without I/O.
#[derive(Debug)]
pub struct NbdClient {
    config: NbdClientConfig,
    step: Step,
    negotiation: state::Negotiation,
    agreement: Option<NbdAgreement>,
    pending: BTreeMap<u64, PendingRequest>,
    next_cookie: u64,
    /// Messages, each with the cookie of the request that it is.
    outbox: VecDeque<(Option<u64>, NbdTransmit)>,
    events: VecDeque<NbdClientEvent>,
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
            negotiation: state::Negotiation::default(),
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
    /// A server that breaks the protocol or refuses the export: the connection is over.
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
        if result.is_err() {
            self.step = Step::Over;
        }
        result
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
        if result.is_err() {
            self.step = Step::Over;
        }
        result
    }

    /// Sends a command. `token` identifies the command and its data in events; it may be reused when the request is
    /// over.
    ///
    /// # Errors
    /// A command that breaks the rules of the export is not sent: the error number that the server would answer with.
    ///
    /// # Panics
    /// Before [`NbdClientEvent::Ready`], or after [`NbdClient::disconnect`].
    pub fn submit(&mut self, token: u64, command: NbdCommand) -> Result<(), u32> {
        let agreement = self.agreement.as_ref().expect("an agreement with the server");
        assert!(!self.is_leaving, "a request after NBD_CMD_DISC");
        agreement.facts.validate(&command, agreement.has_allocation)?;
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        let NbdCommand { op, flags, offset_bytes, len_bytes } = command;
        let header =
            RequestHeader { flags, command: op.code(), cookie, offset_bytes, len_bytes }.to_bytes().to_vec();
        let payload = (op == NbdOp::Write).then_some(NbdPayload { token, offset_bytes: 0, len_bytes });
        let releases = payload.map(|payload| payload.token);
        self.outbox.push_back((Some(cookie), NbdTransmit { header, payload, releases }));
        let pending = PendingRequest {
            token,
            command,
            is_sent: false,
            coverage: Coverage::default(),
            error: None,
            errors: 0,
            extents: Vec::new(),
        };
        self.pending.insert(cookie, pending);
        Ok(())
    }

    /// Ends the connection in good order behind the submitted requests.
    ///
    /// # Panics
    /// Before [`NbdClientEvent::Ready`].
    pub fn disconnect(&mut self) {
        assert!(self.agreement.is_some(), "an agreement with the server");
        if std::mem::replace(&mut self.is_leaving, true) {
            return;
        }
        let header =
            RequestHeader { flags: 0, command: command::DISC, cookie: 0, offset_bytes: 0, len_bytes: 0 };
        self.outbox.push_back((None, NbdTransmit::header(header.to_bytes())));
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

    /// True if the connection can be closed: NBD_CMD_DISC is sent and everything is answered.
    pub fn is_finished(&self) -> bool {
        self.is_leaving && self.pending.is_empty() && self.outbox.is_empty()
    }

    fn send(&mut self, bytes: impl Into<Vec<u8>>) {
        self.outbox.push_back((None, NbdTransmit::header(bytes)));
    }
}

/// Bits that our handshake answers a greeting with.
fn handshake(flags: u16) -> ClientFlags {
    ClientFlags { flags: u32::from(flags & 3) }
}
