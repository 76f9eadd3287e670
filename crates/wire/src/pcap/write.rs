//! Blocks of a pcapng file, little-endian, with times in nanoseconds (draft-ietf-opsawg-pcapng sections 4.1 to 4.6).
//!
//! Each function appends one whole block to a buffer; the owner of the file decides when it is written. [`check`]
//! validates a run of such blocks from another host. Nothing else is written or checked here.

use std::ops::Range;

use super::ng::{self, SECTION_HEADER};

/// LINKTYPE_ETHERNET of tcpdump.org.
pub const LINK_ETHERNET: u16 = 1;
/// LINKTYPE_RAW: packets begin with their IP header.
pub const LINK_RAW: u16 = 101;

/// Bytes of a packet in a file besides its data and their padding.
pub const PACKET_OVERHEAD: usize = ng::FRAME_LEN + PACKET_HEAD;
/// Interface, time, kept and whole length.
const PACKET_HEAD: usize = 20;
const COMMENT: u16 = 1;
/// A list of names without names and options, and a length between that and one with the shortest option.
const PADDING_MIN: usize = ng::FRAME_LEN + 4;
const PADDING_ODD: usize = PADDING_MIN + 4;
/// The longest text of an option; longer ones are cut.
const TEXT_MAX: usize = 4096;

mod option {
    pub(super) const SECTION_HARDWARE: u16 = 2;
    pub(super) const SECTION_SYSTEM: u16 = 3;
    pub(super) const SECTION_APPLICATION: u16 = 4;
    pub(super) const INTERFACE_NAME: u16 = 2;
    pub(super) const INTERFACE_DESCRIPTION: u16 = 3;
    pub(super) const INTERFACE_RESOLUTION: u16 = 9;
    pub(super) const INTERFACE_FILTER: u16 = 11;
    pub(super) const STATISTICS_INTERFACE_DROPS: u16 = 5;
    pub(super) const STATISTICS_ACCEPTED: u16 = 6;
    pub(super) const STATISTICS_SYSTEM_DROPS: u16 = 7;
    pub(super) const STATISTICS_DELIVERED: u16 = 8;
}

/// Metadata of a section.
#[derive(Clone, Copy, Debug, Default)]
pub struct Section<'a> {
    /// Circumstances of the capture.
    pub comment: &'a str,
    /// The machine.
    pub hardware: &'a str,
    /// Operating system.
    pub system: &'a str,
    /// The program.
    pub application: &'a str,
}

/// An interface, numbered from 0 in the order of their blocks.
#[derive(Clone, Copy, Debug)]
pub struct Interface<'a> {
    /// Name.
    pub name: &'a str,
    /// Description, where the name is not enough.
    pub description: &'a str,
    /// LINKTYPE_ number.
    pub link: u16,
    /// Bytes of a packet that are kept at most.
    pub snap_bytes: u32,
    /// Filter as the user wrote it; empty if all packets are kept.
    pub filter: &'a str,
}

/// Counters of an interface's packets since its capture began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// The filter let them through (isb_filteraccept).
    pub accepted: u64,
    /// The kernel had no room for them (isb_osdrop).
    pub system_drops: u64,
    /// Dropped behind the kernel for want of memory (isb_ifdrop).
    pub later_drops: u64,
    /// Delivered to the user (isb_usrdeliv).
    pub delivered: u64,
}

/// Appends the block that a section begins with.
pub fn section(out: &mut Vec<u8>, section: &Section<'_>) {
    block(out, SECTION_HEADER, |out| {
        out.extend(ng::BYTE_ORDER.to_le_bytes());
        // Version 1.0; the length of the section is not known yet.
        out.extend([1, 0, 0, 0]);
        out.extend(u64::MAX.to_le_bytes());
        text(out, COMMENT, section.comment);
        text(out, option::SECTION_HARDWARE, section.hardware);
        text(out, option::SECTION_SYSTEM, section.system);
        text(out, option::SECTION_APPLICATION, section.application);
        end(out);
    });
}

/// Appends the description of the next interface.
pub fn interface(out: &mut Vec<u8>, interface: &Interface<'_>) {
    block(out, ng::INTERFACE, |out| {
        out.extend(interface.link.to_le_bytes());
        out.extend([0, 0]);
        out.extend(interface.snap_bytes.to_le_bytes());
        text(out, option::INTERFACE_NAME, interface.name);
        text(out, option::INTERFACE_DESCRIPTION, interface.description);
        // Ten to the minus ninth.
        put(out, option::INTERFACE_RESOLUTION, &[9]);
        if !interface.filter.is_empty() {
            // A filter as a string of libpcap's.
            put(out, option::INTERFACE_FILTER, &[&[0], clipped(interface.filter).as_bytes()].concat());
        }
        end(out);
    });
}

/// Appends a packet that had `len` bytes, of which `parts` are kept, one behind the other.
#[inline]
pub fn packet(out: &mut Vec<u8>, interface: u32, t_ns: u64, len: u32, parts: &[&[u8]]) {
    let kept: usize = parts.iter().map(|part| part.len()).sum();
    let block_len = (PACKET_OVERHEAD + kept.next_multiple_of(4)) as u32;
    let words = [
        ng::ENHANCED_PACKET,
        block_len,
        interface,
        (t_ns >> 32) as u32,
        t_ns as u32,
        kept as u32,
        len.max(kept as u32),
    ];
    let mut head = [0; 28];
    for (place, word) in head.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
    out.reserve(block_len as usize);
    out.extend_from_slice(&head);
    for part in parts {
        out.extend_from_slice(part);
    }
    pad(out, kept);
    out.extend_from_slice(&block_len.to_le_bytes());
}

/// Appends the counters of an interface at `t_ns`.
pub fn statistics(out: &mut Vec<u8>, interface: u32, t_ns: u64, statistics: &Statistics) {
    block(out, ng::STATISTICS, |out| {
        for word in [interface, (t_ns >> 32) as u32, t_ns as u32] {
            out.extend(word.to_le_bytes());
        }
        for (code, count) in [
            (option::STATISTICS_INTERFACE_DROPS, statistics.later_drops),
            (option::STATISTICS_ACCEPTED, statistics.accepted),
            (option::STATISTICS_SYSTEM_DROPS, statistics.system_drops),
            (option::STATISTICS_DELIVERED, statistics.delivered),
        ] {
            put(out, code, &count.to_le_bytes());
        }
        end(out);
    });
}

/// Appends an empty block of `len` bytes, which aligns the next one: a name resolution block without a name, with a
/// comment of spaces. `len` must come from [`padding_len`].
pub fn padding(out: &mut Vec<u8>, len: usize) {
    block(out, ng::NAMES, |out| {
        // nrb_record_end.
        out.extend([0; 4]);
        if let Some(spaces) = len.checked_sub(PADDING_MIN + 8) {
            put(out, COMMENT, &vec![b' '; spaces]);
            end(out);
        }
    });
}

/// The least padding that makes `len` bytes, a multiple of 4, a multiple of `unit`, a larger one.
pub const fn padding_len(len: u64, unit: u64) -> usize {
    let least = (unit - len % unit) % unit;
    match least as usize {
        0 => 0,
        // There is no room for an option in so few bytes.
        few @ (1..PADDING_MIN | PADDING_ODD) => few + unit as usize,
        enough => enough,
    }
}

/// Reasons why bytes are not output of this module.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotWritten {
    /// A block that is cut off, or whose lengths are impossible or differ.
    #[error("a block at byte {at} of {len} bytes, expected a whole one of a multiple of 4")]
    Length {
        /// Offset of the block.
        at: usize,
        /// Length in its header.
        len: usize,
    },
    /// A block of another kind.
    #[error("a block of type {kind:08x} at byte {at}, expected {expected}")]
    Kind {
        /// Offset of the block.
        at: usize,
        /// Type.
        kind: u32,
        /// Expected block types.
        expected: &'static str,
    },
    /// A packet or statistics of an interface that is not described.
    #[error("interface {found} at byte {at}, {described} are described")]
    Interface {
        /// Offset of the block.
        at: usize,
        /// The interface's number.
        found: usize,
        /// Interfaces that are described.
        described: usize,
    },
}

/// Number of interfaces in the header of a file: one section and its interfaces, as written here.
///
/// # Errors
/// [`NotWritten`] for anything else.
pub fn check_header(bytes: &[u8]) -> Result<usize, NotWritten> {
    let (mut at, mut described) = (0, 0);
    while at < bytes.len() {
        let (kind, body) = next(bytes, at)?;
        let expected = match (at, kind) {
            (0, SECTION_HEADER) if word(bytes, body.start) == Some(ng::BYTE_ORDER) => "",
            (0, _) => "a section in little-endian order",
            (_, ng::INTERFACE) if body.len() >= 8 && described < ng::INTERFACES_MAX => {
                described += 1;
                ""
            }
            _ => "an interface",
        };
        if !expected.is_empty() {
            return Err(NotWritten::Kind { at, kind, expected });
        }
        at = body.end + 4;
    }
    Ok(described)
}

/// Number of packets in a run of packets and statistics of a file with so many interfaces.
///
/// # Errors
/// [`NotWritten`] if there is anything else, or not all of it.
pub fn check(bytes: &[u8], described: usize) -> Result<u64, NotWritten> {
    let (mut at, mut packets) = (0, 0);
    while at < bytes.len() {
        let (kind, body) = next(bytes, at)?;
        let len = body.len();
        let found = word(bytes, body.start).map_or(usize::MAX, |number| number as usize);
        match kind {
            ng::ENHANCED_PACKET if len >= PACKET_HEAD => {
                let kept = word(bytes, body.start + 12).map_or(usize::MAX, |kept| kept as usize);
                if kept > len - PACKET_HEAD {
                    return Err(NotWritten::Length { at, len: kept });
                }
                packets += 1;
            }
            ng::STATISTICS if len >= 12 => {}
            _ => return Err(NotWritten::Kind { at, kind, expected: "a packet or statistics" }),
        }
        if found >= described {
            return Err(NotWritten::Interface { at, found, described });
        }
        at = body.end + 4;
    }
    Ok(packets)
}

/// Type and body of the block at `at`.
fn next(bytes: &[u8], at: usize) -> Result<(u32, Range<usize>), NotWritten> {
    let len = word(bytes, at + 4).unwrap_or_default() as usize;
    let wrong = NotWritten::Length { at, len };
    if len < ng::FRAME_LEN || !len.is_multiple_of(4) || len > bytes.len() - at {
        return Err(wrong);
    }
    let end = at + len - 4;
    match (word(bytes, at), word(bytes, end)) {
        (Some(kind), Some(again)) if again as usize == len => Ok((kind, at + 8..end)),
        _ => Err(wrong),
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}

fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend(kind.to_le_bytes());
    out.extend([0; 4]);
    body(out);
    let len = (out.len() - start + 4) as u32;
    out[start + 4..start + 8].copy_from_slice(&len.to_le_bytes());
    out.extend(len.to_le_bytes());
}

fn text(out: &mut Vec<u8>, code: u16, text: &str) {
    if !text.is_empty() {
        put(out, code, clipped(text).as_bytes());
    }
}

fn clipped(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_MAX)]
}

fn put(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend(code.to_le_bytes());
    out.extend((value.len() as u16).to_le_bytes());
    out.extend(value);
    pad(out, value.len());
}

fn end(out: &mut Vec<u8>) {
    out.extend([0; 4]);
}

#[inline]
fn pad(out: &mut Vec<u8>, len: usize) {
    // Most headers that are kept need none.
    if !len.is_multiple_of(4) {
        out.extend_from_slice(&[0; 3][..len.next_multiple_of(4) - len]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Decoder, Found};
    use super::*;

    fn header() -> Vec<u8> {
        let mut file = Vec::new();
        section(&mut file, &Section { comment: "a tést", application: "farlun", ..Section::default() });
        for (name, link) in [("near", LINK_ETHERNET), ("far", LINK_RAW)] {
            let about = Interface { name, description: "", link, snap_bytes: 96, filter: "tcp port 3260" };
            interface(&mut file, &about);
        }
        file
    }

    fn records() -> Vec<u8> {
        let mut blocks = Vec::new();
        packet(&mut blocks, 0, 7_000_000_005, 1500, &[&[1, 2, 3]]);
        packet(&mut blocks, 1, u64::MAX, 3, &[&[1], &[], &[2, 3, 4]]);
        let lost = Statistics { accepted: 9, system_drops: 3, later_drops: 4, delivered: 2 };
        statistics(&mut blocks, 1, 8, &lost);
        blocks
    }

    #[test]
    fn what_is_written_is_read_again() {
        let file = [header(), records()].concat();
        let (mut decoder, mut at, mut seen) = (Decoder::new(), 0, Vec::new());
        while at < file.len() {
            at += match decoder.decode(&file[at..]).expect("our own file") {
                Found::More(needed) => panic!("{needed} bytes are missing at {at}"),
                Found::Other(len) => len,
                Found::Packet { len, packet } => {
                    seen.push((packet.t_ns, packet.link, packet.len, packet.bytes.to_vec()));
                    len
                }
            };
        }
        let expected = [(7_000_000_005, 1, 1500, vec![1, 2, 3]), (u64::MAX, 101, 4, vec![1, 2, 3, 4])];
        assert_eq!(seen, expected);
        assert_eq!(decoder.dropped(), 7);
    }

    #[test]
    fn what_is_written_is_found_whole_and_nothing_else_is() {
        let (header, records) = (header(), records());
        assert_eq!((check_header(&header), check(&records, 2)), (Ok(2), Ok(2)));
        assert_eq!((check_header(&[]), check(&[], 0)), (Ok(0), Ok(0)));
        assert!(check_header(&records).is_err() && check(&header, 2).is_err());
        let error = check(&records, 1).expect_err("the second interface").to_string();
        assert_eq!(error, "interface 1 at byte 36, 1 are described");
        for (bytes, blocks) in [(&header, 3), (&records, 3)] {
            let whole = (1..bytes.len()).filter(|cut| {
                let cut = &bytes[..*cut];
                check_header(cut).is_ok() || check(cut, 2).is_ok()
            });
            assert_eq!(whole.count(), blocks - 1, "only between blocks");
        }
        // A packet with a captured length beyond its block.
        let mut longer = records.clone();
        longer[20] = 5;
        assert_eq!(check(&longer, 2), Err(NotWritten::Length { at: 0, len: 5 }));
    }

    #[test]
    fn padding_is_as_long_as_it_should_be() {
        for len in (0..9000).step_by(4) {
            let padding_len = padding_len(len, 4096);
            assert_eq!((len + padding_len as u64) % 4096, 0);
            let mut blocks = Vec::new();
            if padding_len > 0 {
                padding(&mut blocks, padding_len);
            }
            assert_eq!(blocks.len(), padding_len, "behind {len}");
            let file = [header(), blocks].concat();
            let (mut decoder, mut at) = (Decoder::new(), 0);
            while at < file.len() {
                match decoder.decode(&file[at..]) {
                    Ok(Found::Other(len)) => at += len,
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    #[test]
    fn long_texts_are_cut_between_letters() {
        let mut file = Vec::new();
        section(&mut file, &Section { comment: &"é".repeat(40_000), ..Section::default() });
        section(&mut file, &Section { comment: &format!("a{}", "é".repeat(40_000)), ..Section::default() });
        assert!(file.len() < 3 * TEXT_MAX);
    }
}
