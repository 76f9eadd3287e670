//! The sans-I/O state machines of both ends of an NBD connection (NBD protocol text, `doc/proto.md` of the NBD
//! project).
//!
//! One connection, one machine: negotiation first, then transmission, through the same four kinds of method. Inputs:
//! `expects` names the next bytes and their destination, `handle` takes a header, `received` reports payload that the
//! caller has put into its own buffer or thrown away. Commands depend on the side. Outputs: `poll_transmit`,
//! `poll_event`. Payload never passes through a machine: it is named by the caller's token or the server's key.
//!
//! A [`NbdFault`] ends the connection: `expects` says [`Receive::Closed`] afterwards. The caller sends the rest of
//! `poll_transmit`, takes back every buffer, closes the socket and drops the machine. TLS, sockets, buffers and the
//! order of execution are the caller's.

pub mod client;
mod error;
mod fault;
mod request;
pub mod server;
mod violation;

pub use error::{NbdError, NbdSubmitError};
pub use fault::NbdFault;
pub use request::{ExportFacts, NbdBlockSizes, NbdCommand, NbdOp};
pub use violation::NbdViolation;

/// Longest payload of a request or reply, in bytes.
pub const PAYLOAD_MAX_BYTES: u32 = 32 << 20;
/// Extents of one block status that a client reads.
pub const EXTENTS_MAX: u32 = 1 << 20;
/// Largest minimum block size, in bytes.
pub const MINIMUM_BLOCK_MAX_BYTES: u32 = 1 << 16;
/// Longest data of an option or of a reply to one, in bytes.
pub const OPTION_DATA_MAX_BYTES: u32 = 8192;
/// Options of one negotiation, and replies to one option.
pub const OPTIONS_MAX: u32 = 256;

/// The next bytes from the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Receive {
    /// A header: exactly so many bytes go to `handle`.
    Header {
        /// Length of the header.
        len_bytes: usize,
    },
    /// Payload for the caller's buffer, reported by `received` in any pieces.
    Payload {
        /// The caller's name of the request.
        token: u64,
        /// Offset in the request's data.
        offset_bytes: u32,
        /// Bytes still to come.
        len_bytes: u32,
    },
    /// Bytes to throw away, reported by `received` in any pieces.
    Discard {
        /// Bytes still to come.
        len_bytes: u32,
    },
    /// No bytes until something is answered or sent: too many requests or replies wait.
    Wait,
    /// No bytes until TLS protects the connection. Bytes that the caller has read already are plaintext: their number
    /// goes to [`server::NbdServer::start_tls`], and they never go to `handle`.
    Tls,
    /// No bytes any more: the connection is over.
    Closed,
}

/// Bytes to send: a header, then a part of a request's data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NbdTransmit {
    /// Sent first; may hold several messages.
    pub header: Vec<u8>,
    /// Sent behind it.
    pub payload: Option<NbdPayload>,
    /// The request that needs nothing of its buffer after these bytes.
    pub releases: Option<u64>,
}

impl NbdTransmit {
    fn header(bytes: impl Into<Vec<u8>>) -> NbdTransmit {
        NbdTransmit { header: bytes.into(), payload: None, releases: None }
    }
}

/// A part of a request's data, in the caller's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NbdPayload {
    /// The caller's name of the request.
    pub token: u64,
    /// Offset in the request's data.
    pub offset_bytes: u32,
    /// Length of the part.
    pub len_bytes: u32,
}

/// A header as an array.
///
/// # Panics
/// If the caller passed another number of bytes than `expects` named.
fn array<const N: usize>(bytes: &[u8]) -> &[u8; N] {
    bytes.try_into().expect("as many bytes as `expects` named")
}
