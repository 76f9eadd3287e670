//! Known beginning of a PDU's data segment: login text, sense data, the header that a Reject is about.

use wire::iscsi::{BHS_LEN, Opcode};

use crate::events::response::SENSE_MAX;
use crate::iscsi::digests::{DIGEST_LEN, Digests};

/// Limit of login text per PDU, in bytes.
const LOGIN_MAX: usize = 8 << 10;
/// Heap memory of a framer in bytes; a vector may be half empty.
pub(crate) const FRAMER_HELD: usize = 2 * LOGIN_MAX;

/// Bytes of the data segment that are kept of a PDU.
fn text_max(opcode: Opcode) -> usize {
    match opcode {
        Opcode::LoginRequest | Opcode::LoginResponse => LOGIN_MAX,
        Opcode::ScsiResponse => SENSE_MAX,
        Opcode::Reject => BHS_LEN,
        _ => 0,
    }
}

/// Bytes of a data segment from its first one to the first unknown one.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownText {
    bytes: Vec<u8>,
    /// Position of the next byte in the stream.
    at: u64,
    most: usize,
}

impl KnownText {
    /// Text of a PDU whose header and additional segments end at `at`. While digests are not known it may begin behind one.
    pub(super) fn of(opcode: Opcode, digests: Digests, at: u64, data_len: usize) -> Self {
        let most = text_max(opcode).min(data_len);
        if most == 0 {
            return Self::default();
        }
        let is_login = matches!(opcode, Opcode::LoginRequest | Opcode::LoginResponse);
        match digests.known() {
            _ if is_login => Self::new(at, most),
            Some((true, _)) => Self::new(at + DIGEST_LEN as u64, most),
            Some((false, _)) => Self::new(at, most),
            None => Self::new(at, most + DIGEST_LEN),
        }
    }

    /// Text that begins at `at`, of which at most `most` bytes are kept.
    fn new(at: u64, most: usize) -> Self {
        Self { bytes: Vec::new(), at, most }
    }

    /// Takes known bytes of the stream at `at`. Behind unknown ones nothing is kept.
    pub(super) fn take(&mut self, at: u64, known: &[u8]) {
        let rest = self.most - self.bytes.len();
        if rest == 0 || at > self.at {
            return;
        }
        let bytes = known.get((self.at - at) as usize..).unwrap_or_default();
        let bytes = &bytes[..bytes.len().min(rest)];
        self.bytes.extend_from_slice(bytes);
        self.at += bytes.len() as u64;
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_ends_with_the_first_unknown_byte() {
        let mut text = KnownText::new(100, 10);
        text.take(96, b"xxxxab");
        text.take(102, b"cd");
        text.take(105, b"ef");
        assert_eq!(text.bytes(), b"abcd");
        text.take(104, b"0123456789");
        assert_eq!(text.bytes(), b"abcd012345", "no more than its most");
        let mut digest = KnownText::new(100, 10);
        digest.take(96, b"xx");
        digest.take(100, b"ab");
        assert_eq!(digest.bytes(), b"ab");
    }
}
