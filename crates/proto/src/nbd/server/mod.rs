//! The server's end of a connection.
//!
//! Commands: [`NbdServer::put_data`], [`NbdServer::put_hole`], [`NbdServer::complete`], [`NbdServer::complete_status`],
//! [`NbdServer::fail`], [`NbdServer::start_tls`]. A request that breaks a rule of its export is answered here and never
//! shown. The others wait for their answer in any order. Their number and their bytes are bounded: beyond a limit
//! [`NbdServer::expects`] says [`Receive::Wait`].

mod config;
mod negotiation;
mod outbox;
mod state;
mod transmission;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use wire::nbd::{ClientFlags, NewstyleGreeting, OptionRequest, RequestHeader, handshake_flag};

use super::{NbdCommand, NbdFault, NbdTransmit, Receive, array};
pub use config::{NbdConfigError, NbdExport, NbdServerConfig, TlsPolicy};
use outbox::Outbox;
use state::{PendingRequest, Refusal};

/// An event of the server for its caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NbdServerEvent {
    /// TLS begins once everything is sent: plaintext that the caller has read already is counted and thrown away, and
    /// [`NbdServer::start_tls`] goes on.
    StartTls,
    /// The client has chosen an export: the transmission phase begins.
    Chosen {
        /// Index of the export in the configuration.
        export: usize,
    },
    /// A request. The data of a write follow, for the caller's buffer under this key.
    Request {
        /// Name of the request, never used again on this connection.
        key: u64,
        /// The command.
        command: NbdCommand,
    },
    /// The data of a write are complete.
    Received {
        /// Name of the request.
        key: u64,
    },
    /// The client ends the connection in good order: pending requests may still be answered, then it is closed.
    Disconnected,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    ClientFlags,
    Option,
    OptionData(OptionRequest),
    /// Data of an option that is too long to be read.
    SkippedOption {
        option: u32,
        len_bytes: u32,
    },
    Tls,
    Request,
    Payload {
        key: u64,
        offset_bytes: u32,
        len_bytes: u32,
    },
    /// Data of a write that is refused or was answered early.
    SkippedPayload {
        len_bytes: u32,
        refusal: Option<Refusal>,
    },
    Over,
}

/// State machine of an NBD server: negotiation and transmission, without I/O.
#[derive(Debug)]
pub struct NbdServer {
    config: Arc<NbdServerConfig>,
    step: Step,
    has_fixed: bool,
    has_no_zeroes: bool,
    has_tls: bool,
    is_structured: bool,
    /// The export for which `base:allocation` was set last.
    allocation_of: Option<usize>,
    chosen: Option<usize>,
    options: u32,
    pending: BTreeMap<u64, PendingRequest>,
    next_key: u64,
    outbox: Outbox,
    events: VecDeque<NbdServerEvent>,
}

impl NbdServer {
    /// A connection that has just been accepted.
    ///
    /// # Panics
    /// If [`NbdServerConfig::check`] fails.
    pub fn new(config: Arc<NbdServerConfig>) -> NbdServer {
        config.check().unwrap_or_else(|error| panic!("{error}"));
        let flags = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;
        let mut outbox = Outbox::default();
        outbox.push(NbdTransmit::header(NewstyleGreeting { flags }.to_bytes()));
        NbdServer {
            config,
            step: Step::ClientFlags,
            has_fixed: false,
            has_no_zeroes: false,
            has_tls: false,
            is_structured: false,
            allocation_of: None,
            chosen: None,
            options: 0,
            pending: BTreeMap::new(),
            next_key: 0,
            outbox,
            events: VecDeque::new(),
        }
    }

    /// The next bytes from the client and their destination.
    pub fn expects(&self) -> Receive {
        match self.step {
            Step::Option | Step::Request if self.is_backed_up() => Receive::Wait,
            Step::ClientFlags => Receive::Header { len_bytes: ClientFlags::LEN },
            Step::Option => Receive::Header { len_bytes: OptionRequest::LEN },
            Step::OptionData(request) => Receive::Header { len_bytes: request.len_bytes as usize },
            Step::Request => Receive::Header { len_bytes: RequestHeader::LEN },
            Step::Payload { key, offset_bytes, len_bytes } => {
                Receive::Payload { token: key, offset_bytes, len_bytes }
            }
            Step::SkippedOption { len_bytes, .. } | Step::SkippedPayload { len_bytes, .. } => {
                Receive::Discard { len_bytes }
            }
            Step::Tls => Receive::Tls,
            Step::Over => Receive::Closed,
        }
    }

    /// Takes a header of the length that [`NbdServer::expects`] named.
    ///
    /// # Errors
    /// A client that breaks the protocol, such as one that sends a byte behind NBD_OPT_STARTTLS without TLS: the
    /// connection is over.
    ///
    /// # Panics
    /// If the length is another.
    pub fn handle(&mut self, bytes: &[u8]) -> Result<(), NbdFault> {
        let result = match self.step {
            Step::ClientFlags => self.client_flags(array(bytes)),
            Step::Option => self.option(array(bytes)),
            Step::OptionData(request) => {
                assert_eq!(bytes.len(), request.len_bytes as usize, "as many bytes as `expects` named");
                self.answer_option(request.option, Some(bytes))
            }
            Step::Request => self.request(array(bytes)),
            Step::Tls | Step::Over => Err(NbdFault::Over),
            Step::Payload { .. } | Step::SkippedPayload { .. } | Step::SkippedOption { .. } => {
                panic!("payload was passed as a header")
            }
        };
        if result.is_err() {
            self.step = Step::Over;
        }
        result
    }

    /// Counts bytes of payload that were stored or discarded.
    ///
    /// # Panics
    /// If they are more than [`NbdServer::expects`] named.
    pub fn received(&mut self, bytes: u32) {
        let left = |len: u32| len.checked_sub(bytes).expect("no more bytes than `expects` named");
        match &mut self.step {
            Step::Payload { key, offset_bytes, len_bytes } => {
                (*offset_bytes, *len_bytes) = (*offset_bytes + bytes, left(*len_bytes));
                if *len_bytes == 0 {
                    self.events.push_back(NbdServerEvent::Received { key: *key });
                    self.step = Step::Request;
                }
            }
            Step::SkippedPayload { len_bytes, refusal } => {
                *len_bytes = left(*len_bytes);
                if *len_bytes == 0 {
                    let refusal = *refusal;
                    self.step = Step::Request;
                    refusal.into_iter().for_each(|refusal| self.refuse(refusal));
                }
            }
            Step::SkippedOption { option, len_bytes } => {
                *len_bytes = left(*len_bytes);
                if *len_bytes == 0 {
                    let option = *option;
                    self.answer_option(option, None).expect("an answer to an option without its data");
                }
            }
            _ => panic!("no payload is expected"),
        }
    }

    /// The next bytes to send.
    pub fn poll_transmit(&mut self) -> Option<NbdTransmit> {
        self.outbox.pop()
    }

    /// The next report.
    pub fn poll_event(&mut self) -> Option<NbdServerEvent> {
        self.events.pop_front()
    }

    /// Index in the configuration of the export that the client has chosen.
    pub fn chosen(&self) -> Option<usize> {
        self.chosen
    }

    /// True if structured replies were agreed: only then are there [`NbdServer::put_data`] and [`NbdServer::put_hole`].
    pub fn is_structured(&self) -> bool {
        self.is_structured
    }

    /// Requests that are not answered.
    pub fn open_requests(&self) -> usize {
        self.pending.len()
    }

    /// True if the connection can be closed: it is over, and everything is answered and sent.
    pub fn is_finished(&self) -> bool {
        self.step == Step::Over && self.pending.is_empty() && self.outbox.is_empty()
    }

    fn is_backed_up(&self) -> bool {
        self.pending.len() + self.outbox.len() >= self.config.requests_max
            || self.outbox.held_bytes() >= self.config.queue_max_bytes
    }
}
