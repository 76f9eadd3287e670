//! Protocol between a capturing and a recording host over TCP.
//!
//! A message is its kind and the length of its body, four bytes each, and the body; integers are big-endian. The sender
//! says `Hello`, and receives the number of its next packet; then it sends `Records`, each of which is acknowledged by
//! `Written` when it has reached a file, and `End`. `Refused` ends a connection. Packets are counted over a whole
//! capture, so that a gap shows the number of missing ones. Bytes only: no socket is read here.

use wire::pcap::write::{self, NotWritten};

/// The longest body.
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// The longest header of a file.
pub const HEADER_BYTES_MAX: usize = 64 << 10;
/// Kind and length of the body behind it, within the limits of its kind.
///
/// # Errors
/// [`MessageError`] for an invalid head.
pub const HEAD_BYTES: usize = 8;

const MAGIC: [u8; 8] = *b"farlunCR";
const VERSION: u32 = 1;
const TEXT_BYTES_MAX: usize = 1024;
/// Magic number, version, number of the capture.
const HELLO_BYTES: usize = 20;
/// Number of the first packet, how many.
const RECORDS_BYTES: usize = 12;

const HELLO: u32 = 1;
const RECORDS: u32 = 2;
const END: u32 = 3;
const WELCOME: u32 = 0x81;
const WRITTEN: u32 = 0x82;
const REFUSED: u32 = 0x83;

/// One message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message<'a> {
    /// A capture begins, or continues over a new connection.
    Hello {
        /// Identifier of the capture.
        capture: u64,
        /// Head of its files: a section and its interfaces.
        header: &'a [u8],
    },
    /// Packets and statistics.
    Records {
        /// The number of the first packet.
        first: u64,
        /// Number of packets.
        packets: u32,
        /// Blocks of a pcapng file.
        blocks: &'a [u8],
    },
    /// The capture is over.
    End {
        /// Packets it had in all.
        packets: u64,
    },
    /// The recorder knows the capture and wants this packet next; 0 also if it does not.
    Welcome {
        /// The number of the packet.
        next: u64,
    },
    /// All packets before this one are in a file, or known to be missing.
    Written {
        /// The number of the packet.
        next: u64,
    },
    /// The recorder refuses to continue; the reason.
    Refused {
        /// A sentence for people.
        reason: &'a str,
    },
}

/// Errors of a message.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MessageError {
    /// No such message, or none that belongs here.
    #[error("a message of kind {found:#x}, expected one of farlun's recorder")]
    Kind {
        /// The kind.
        found: u32,
    },
    /// A length that this kind cannot have.
    #[error("a message of kind {kind:#x} with {found} bytes, expected {min} to {max}")]
    Length {
        /// The kind.
        kind: u32,
        /// The length.
        found: usize,
        /// The least it can be.
        min: usize,
        /// The most it may be.
        max: usize,
    },
    /// A peer with another protocol.
    #[error("no greeting of `farlun capture`")]
    Magic,
    /// Another version of farlun.
    #[error(
        "version {found} of the recorder's protocol, expected {VERSION}: use the same farlun on both hosts"
    )]
    Version {
        /// Version of the peer.
        found: u32,
    },
    /// Blocks that belong into no file.
    #[error(transparent)]
    Blocks(#[from] NotWritten),
    /// Blocks with another number of packets.
    #[error("{found} packets in a message that says {said}")]
    Packets {
        /// Packets found.
        found: u64,
        /// Packets announced.
        said: u32,
    },
}

/// Kind and length of the body behind it, within the limits of its kind.
pub fn head(bytes: [u8; HEAD_BYTES]) -> Result<(u32, usize), MessageError> {
    let (kind, len) = (u32_at(&bytes, 0), u32_at(&bytes, 4) as usize);
    let (min, max) = match kind {
        HELLO => (HELLO_BYTES, HELLO_BYTES + HEADER_BYTES_MAX),
        RECORDS => (RECORDS_BYTES, BODY_BYTES_MAX),
        END | WELCOME | WRITTEN => (8, 8),
        REFUSED => (0, TEXT_BYTES_MAX),
        found => return Err(MessageError::Kind { found }),
    };
    if (min..=max).contains(&len) {
        Ok((kind, len))
    } else {
        Err(MessageError::Length { kind, found: len, min, max })
    }
}

impl<'a> Message<'a> {
    /// Reads a body of this kind, of the length from [`head`].
    ///
    /// # Errors
    /// [`MessageError`] if it contradicts itself.
    pub fn parse(kind: u32, body: &'a [u8]) -> Result<Message<'a>, MessageError> {
        let mut checked = [0; HEAD_BYTES];
        checked[..4].copy_from_slice(&kind.to_be_bytes());
        checked[4..].copy_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes());
        head(checked)?;
        Ok(match kind {
            HELLO => {
                if body[..8] != MAGIC {
                    return Err(MessageError::Magic);
                }
                let found = u32_at(body, 8);
                if found != VERSION {
                    return Err(MessageError::Version { found });
                }
                Message::Hello { capture: u64_at(body, 12), header: &body[HELLO_BYTES..] }
            }
            RECORDS => {
                let (first, packets) = (u64_at(body, 0), u32_at(body, 8));
                Message::Records { first, packets, blocks: &body[RECORDS_BYTES..] }
            }
            END => Message::End { packets: u64_at(body, 0) },
            WELCOME => Message::Welcome { next: u64_at(body, 0) },
            WRITTEN => Message::Written { next: u64_at(body, 0) },
            _ => {
                let valid = body.utf8_chunks().next().map_or("", |chunk| chunk.valid());
                Message::Refused { reason: valid }
            }
        })
    }

    /// Appends the message, except for the blocks of `Records` and the header of `Hello`, which are sent behind it.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let (kind, len) = match self {
            Message::Hello { header, .. } => (HELLO, HELLO_BYTES + header.len()),
            Message::Records { blocks, .. } => (RECORDS, RECORDS_BYTES + blocks.len()),
            Message::End { .. } => (END, 8),
            Message::Welcome { .. } => (WELCOME, 8),
            Message::Written { .. } => (WRITTEN, 8),
            Message::Refused { reason } => (REFUSED, clipped(reason).len()),
        };
        out.extend(kind.to_be_bytes());
        out.extend((len as u32).to_be_bytes());
        match self {
            Message::Hello { capture, .. } => {
                out.extend(MAGIC);
                out.extend(VERSION.to_be_bytes());
                out.extend(capture.to_be_bytes());
            }
            Message::Records { first, packets, .. } => {
                out.extend(first.to_be_bytes());
                out.extend(packets.to_be_bytes());
            }
            Message::End { packets: number }
            | Message::Welcome { next: number }
            | Message::Written { next: number } => out.extend(number.to_be_bytes()),
            Message::Refused { reason } => out.extend(clipped(reason).as_bytes()),
        }
    }
}

/// Number of interfaces in the header of a capture.
///
/// # Errors
/// [`MessageError::Blocks`] if it is not the head of a file.
pub fn check_header(header: &[u8]) -> Result<usize, MessageError> {
    Ok(write::check_header(header)?)
}

/// Checks that `blocks` may be added to a file with so many interfaces, and have the announced number of packets.
///
/// # Errors
/// [`MessageError`] otherwise.
pub fn check_records(blocks: &[u8], packets: u32, interfaces: usize) -> Result<(), MessageError> {
    let found = write::check(blocks, interfaces)?;
    if found == u64::from(packets) { Ok(()) } else { Err(MessageError::Packets { found, said: packets }) }
}

fn clipped(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) << 32 | u64::from(u32_at(bytes, at + 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_comes_back() {
        for message in [
            Message::Hello { capture: 1 << 63 | 7, header: b"header" },
            Message::Records { first: u64::MAX, packets: 3, blocks: b"blocks" },
            Message::End { packets: 9 },
            Message::Welcome { next: 0 },
            Message::Written { next: 1 << 40 },
            Message::Refused { reason: "the disk is füll" },
        ] {
            let mut bytes = Vec::new();
            message.emit(&mut bytes);
            if let Message::Hello { header: behind, .. } | Message::Records { blocks: behind, .. } = message {
                bytes.extend(behind);
            }
            let (front, body) = bytes.split_first_chunk().expect("a head");
            let (kind, len) = head(*front).expect("a sound head");
            assert_eq!((len, Message::parse(kind, body)), (body.len(), Ok(message)));
        }
    }

    #[test]
    fn what_nobody_says_is_refused() {
        let said = |kind: u32, body: &[u8]| Message::parse(kind, body).expect_err("nonsense").to_string();
        assert!(said(0, b"").contains("kind 0x0"));
        assert!(said(RECORDS, &[0; 11]).contains("11 bytes, expected 12 to 1048576"));
        assert!(said(RECORDS, &vec![0; BODY_BYTES_MAX + 1]).contains("1048577 bytes"));
        assert!(said(END, &[0; 9]).contains("expected 8 to 8"));
        assert!(said(HELLO, &[b'G'; HELLO_BYTES]).contains("no greeting"));
        let future = [&MAGIC[..], &[0, 0, 0, 2], &[0; 8]].concat();
        assert!(said(HELLO, &future).contains("version 2"));
        assert_eq!(Message::parse(REFUSED, b"no\xffpe"), Ok(Message::Refused { reason: "no" }));
    }

    #[test]
    fn records_are_what_they_say() {
        let mut blocks = Vec::new();
        write::packet(&mut blocks, 1, 5, 60, &[b"abc"]);
        assert_eq!(check_records(&blocks, 1, 2), Ok(()));
        assert_eq!(check_records(&blocks, 2, 2), Err(MessageError::Packets { found: 1, said: 2 }));
        assert!(check_records(&blocks, 1, 1).is_err() && check_records(&blocks[1..], 1, 2).is_err());
    }
}
