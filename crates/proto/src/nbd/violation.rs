//! Breaches of the NBD protocol by a peer.

/// A message that contradicts the protocol or the state of the connection. The text goes on after "peer sent".
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NbdViolation {
    /// Handshake flags of a client that no server knows.
    #[error("the handshake flags {flags:#x}, expected flags that were offered")]
    HandshakeFlags {
        /// All flags.
        flags: u32,
    },
    /// An option of fixed newstyle negotiation without NBD_FLAG_C_FIXED_NEWSTYLE.
    #[error("option {option} without NBD_FLAG_C_FIXED_NEWSTYLE, expected NBD_OPT_EXPORT_NAME")]
    NotFixed {
        /// One of [`wire::nbd::option_code`].
        option: u32,
    },
    /// NBD_OPT_EXPORT_NAME to a server that requires TLS.
    #[error("NBD_OPT_EXPORT_NAME without TLS, expected NBD_OPT_STARTTLS")]
    NoTls,
    /// Bytes behind NBD_OPT_STARTTLS that TLS does not protect.
    #[error("{bytes} plaintext bytes behind NBD_OPT_STARTTLS, expected none: they may have been injected")]
    Plaintext {
        /// Length of the bytes.
        bytes: usize,
    },
    /// A reply to another option than the one that waits.
    #[error("a reply to option {found}, expected one to option {expected}")]
    OtherOption {
        /// The option of the reply.
        found: u32,
        /// The option that was sent.
        expected: u32,
    },
    /// A reply type that the option does not have.
    #[error("reply {reply:#010x} to option {option}, expected a type that the option has")]
    OptionReply {
        /// One of [`wire::nbd::option_code`].
        option: u32,
        /// One of [`wire::nbd::reply_type`].
        reply: u32,
    },
    /// NBD_REP_ACK with data.
    #[error("NBD_REP_ACK with data, expected none")]
    AckData,
    /// A metadata context that was not requested, or one twice.
    #[error("a metadata context that was not requested, expected base:allocation once")]
    Context,
    /// Block sizes that no export may have.
    #[error(
        "block sizes of {minimum}, {preferred} and {maximum} bytes, expected powers of two from 1 to 65536 and from \
         512, and a maximum of at least the preferred size"
    )]
    BlockSizes {
        /// Minimum block size.
        minimum: u32,
        /// Preferred block size.
        preferred: u32,
        /// Maximum payload size.
        maximum: u32,
    },
    /// An accepted NBD_OPT_GO without NBD_INFO_EXPORT.
    #[error("NBD_REP_ACK to NBD_OPT_GO without a size, expected NBD_INFO_EXPORT before it")]
    NoExportInfo,
    /// A simple reply where structured replies were agreed.
    #[error("a simple reply, expected chunks as agreed for the command")]
    SimpleReply,
    /// A simple reply to a request of which chunks have come.
    #[error("a simple reply behind chunks of the same request, expected chunks")]
    MixedReplies,
    /// NBD_REPLY_TYPE_NONE with a payload or without NBD_REPLY_FLAG_DONE.
    #[error(
        "NBD_REPLY_TYPE_NONE with a payload or without NBD_REPLY_FLAG_DONE, expected an empty last chunk"
    )]
    NoneChunk,
    /// A chunk of a type that its command does not have.
    #[error("a chunk of type {kind:#06x}, expected a type that the command has")]
    ChunkType {
        /// One of [`wire::nbd::chunk_type`].
        kind: u16,
    },
    /// A chunk shorter than its type has it.
    #[error("a chunk of type {kind:#06x} with {found_bytes} bytes, expected {expected_bytes} or more")]
    ChunkLength {
        /// One of [`wire::nbd::chunk_type`].
        kind: u16,
        /// Length of the payload.
        found_bytes: u32,
        /// The least length.
        expected_bytes: u32,
    },
    /// A part outside of its read.
    #[error("a content chunk outside of its read, expected a range of the read")]
    OutsideRead,
    /// A part of a read twice, or more separate parts than are followed.
    #[error("a part of a read twice or too many parts, expected each byte once")]
    OverlappingRead,
    /// A second content chunk for a read with NBD_CMD_FLAG_DF.
    #[error("a second content chunk for a read with NBD_CMD_FLAG_DF, expected one")]
    Fragmented,
    /// A block status of a context that was not agreed.
    #[error("a block status of context {found}, expected the context of base:allocation")]
    StatusContext {
        /// The server's number of the context.
        found: u32,
    },
    /// A second block status in one reply.
    #[error("a second block status for one request, expected one per context")]
    SecondStatus,
    /// An extent without length, or one behind the end of the request.
    #[error("an extent without length or outside of its request, expected extents of the range")]
    Extent,
    /// A longer extent than the request with NBD_CMD_FLAG_REQ_ONE.
    #[error("an extent of {found_bytes} bytes for NBD_CMD_FLAG_REQ_ONE, expected at most {limit_bytes}")]
    LongExtent {
        /// Length of the extent.
        found_bytes: u32,
        /// Length of the request.
        limit_bytes: u32,
    },
    /// An error chunk with the error 0.
    #[error("an error chunk with the error 0, expected an error")]
    NoError,
    /// An error chunk with an offset outside of its request.
    #[error("an error at offset {offset_bytes} outside of its request, expected an offset of the range")]
    ErrorOffset {
        /// Offset in the export.
        offset_bytes: u64,
    },
    /// The end of a successful reply of which a part is missing.
    #[error("the end of a reply before all of it, expected the rest or an error")]
    Incomplete,
}
