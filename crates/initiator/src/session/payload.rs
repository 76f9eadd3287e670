//! Payload between sockets and the buffers of requests: where received bytes go, where sent bytes come from.

use std::sync::Arc;

use block::Buffer;

/// Destination of received payload in the buffer of an outstanding request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) token: usize,
    pub(crate) offset_bytes: usize,
}

/// Source of a PDU's data segment.
#[derive(Debug)]
pub(crate) enum Payload {
    /// Part of a write's buffer, kept alive by the send queue: a target may answer before all data have been sent.
    Shared { buffer: Arc<Buffer>, offset_bytes: usize, len_bytes: usize },
    /// Bytes generated for this PDU.
    Owned(Vec<u8>),
}

impl Payload {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Payload::Owned(bytes) => bytes,
            Payload::Shared { buffer, offset_bytes, len_bytes } => &buffer[*offset_bytes..][..*len_bytes],
        }
    }
}
