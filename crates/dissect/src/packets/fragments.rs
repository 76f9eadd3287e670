//! Reassembly of IP fragments: RFC 791 section 3.2, RFC 8200 section 4.5.
//!
//! TCP avoids fragments; tunnels over links of the same MTU make them. A datagram is complete when its fragments cover
//! it, by their lengths on the wire. Its known bytes end where the capture has not kept the first gap. Datagrams that
//! never become complete are counted. Overlapping fragments keep the bytes that came first.

use std::collections::VecDeque;

use wire::inet::encapsulation::Other;

/// Datagrams in reassembly; the oldest one makes room.
const DATAGRAMS_MAX: usize = 64;
/// Fragments of one datagram; 65 535 bytes have no more at an MTU of 1280 (RFC 8200 section 5).
const FRAGMENTS_MAX: usize = 64;
/// Kept bytes of one datagram; more are overlaps.
const KNOWN_MAX: usize = 2 << 16;
const V4_LEN: usize = 20;
const V6_LEN: usize = 40;

/// Datagrams in reassembly.
#[derive(Debug, Default)]
pub(crate) struct Fragments {
    datagrams: VecDeque<Datagram>,
    /// Fragments of datagrams that were given up, by IP version 4 and 6.
    lost: [u64; 2],
}

#[derive(Debug)]
struct Datagram {
    key: Key,
    /// IP header of the first fragment, without fields and headers of fragmentation.
    header: Vec<u8>,
    /// Fragments by their first byte.
    parts: Vec<Part>,
    /// Length of the payload, once the last fragment has come.
    len: Option<usize>,
}

/// Identity of a datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Key {
    interface: u32,
    /// Source, destination.
    addresses: Vec<u8>,
    id: u32,
    /// Protocol of IPv4; 0 in IPv6, where each fragment of a datagram may name another.
    protocol: u8,
}

#[derive(Debug)]
struct Part {
    start: usize,
    end: usize,
    /// Bytes that the capture has kept.
    known: Vec<u8>,
}

/// One fragment.
struct Fragment<'a> {
    key: Key,
    start: usize,
    len: usize,
    is_last: bool,
    header: Vec<u8>,
    known: &'a [u8],
}

impl Fragments {
    /// Takes a fragment that begins with its IP header. Returns a datagram that it completes, with the length of it on
    /// the wire.
    pub(crate) fn push(&mut self, interface: u32, packet: &[u8]) -> Option<(Vec<u8>, usize)> {
        let is_v6 = packet.first().is_some_and(|byte| byte >> 4 == 6);
        let parsed = if is_v6 { v6(interface, packet) } else { v4(interface, packet) };
        let Some(fragment) = parsed else {
            self.lost[usize::from(is_v6)] += 1;
            return None;
        };
        let place = self.datagrams.iter().position(|datagram| datagram.key == fragment.key);
        let place = place.unwrap_or_else(|| {
            if self.datagrams.len() >= DATAGRAMS_MAX {
                let oldest = self.datagrams.pop_front();
                self.lose(oldest.as_ref());
            }
            let key = fragment.key.clone();
            self.datagrams.push_back(Datagram { key, header: Vec::new(), parts: Vec::new(), len: None });
            self.datagrams.len() - 1
        });
        if !self.datagrams[place].add(fragment) {
            let broken = self.datagrams.remove(place);
            self.lose(broken.as_ref());
            self.lost[usize::from(is_v6)] += 1;
            return None;
        }
        if !self.datagrams[place].is_complete() {
            return None;
        }
        self.datagrams.remove(place).and_then(Datagram::assemble)
    }

    /// Fragments whose datagrams are not complete.
    pub(crate) fn finish(mut self) -> impl Iterator<Item = (Other, u64)> {
        let rest = std::mem::take(&mut self.datagrams);
        rest.iter().for_each(|datagram| self.lose(Some(datagram)));
        [Other::Fragment(4), Other::Fragment(6)]
            .into_iter()
            .zip(self.lost)
            .filter(|(_, packets)| *packets > 0)
    }

    fn lose(&mut self, datagram: Option<&Datagram>) {
        if let Some(datagram) = datagram {
            self.lost[usize::from(datagram.key.addresses.len() > 8)] += datagram.parts.len() as u64;
        }
    }
}

impl Datagram {
    /// Adds a fragment; false, without adding it, if they contradict each other or are too many.
    fn add(&mut self, fragment: Fragment<'_>) -> bool {
        let Fragment { start, len, is_last, header, known, .. } = fragment;
        let end = start + len;
        let known_end = self.len.unwrap_or(usize::from(u16::MAX));
        let held = self.parts.iter().map(|part| part.known.len()).sum::<usize>();
        let is_too_much = self.parts.len() >= FRAGMENTS_MAX || held + known.len() > KNOWN_MAX;
        let is_another_end = is_last
            && (self.len.is_some_and(|len| len != end) || self.parts.iter().any(|part| part.end > end));
        if is_too_much || end > known_end || is_another_end {
            return false;
        }
        if start == 0 && self.header.is_empty() {
            self.header = header;
        }
        if is_last {
            self.len = Some(end);
        }
        let place = self.parts.partition_point(|part| part.start <= start);
        self.parts.insert(place, Part { start, end, known: known.to_vec() });
        true
    }

    fn is_complete(&self) -> bool {
        let covered =
            self.parts.iter().fold(0, |at, part| if part.start <= at { at.max(part.end) } else { at });
        self.len.is_some_and(|len| covered >= len) && !self.header.is_empty()
    }

    /// The datagram up to its first unknown byte.
    fn assemble(self) -> Option<(Vec<u8>, usize)> {
        let payload_len = self.len?;
        let mut packet = self.header;
        let header_len = packet.len();
        let at = |packet: &Vec<u8>| packet.len() - header_len;
        for part in &self.parts {
            let Some(skipped) = at(&packet).checked_sub(part.start) else { break };
            packet.extend_from_slice(part.known.get(skipped..).unwrap_or_default());
        }
        // The length field, which may say 0 for more than it can hold.
        let (place, len) = if packet[0] >> 4 == 4 {
            (2, header_len + payload_len)
        } else {
            (4, header_len - V6_LEN + payload_len)
        };
        packet[place..place + 2].copy_from_slice(&u16::try_from(len).unwrap_or(0).to_be_bytes());
        Some((packet, header_len + payload_len))
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_be_bytes(*word))
}

fn v4(interface: u32, packet: &[u8]) -> Option<Fragment<'_>> {
    const MORE: u16 = 0x2000;
    const OFFSET: u16 = 0x1fff;
    let header_len = usize::from(packet.first()? & 0x0f) * 4;
    let (total_len, field) = (usize::from(word(packet, 2)?), word(packet, 6)?);
    let mut header = packet.get(..header_len.max(V4_LEN))?.to_vec();
    (header[6], header[7]) = (0, 0);
    let len = total_len.checked_sub(header_len)?;
    let known = packet.get(header_len..packet.len().min(total_len))?;
    let key = Key {
        interface,
        addresses: packet.get(12..V4_LEN)?.to_vec(),
        id: u32::from(word(packet, 4)?),
        protocol: packet[9],
    };
    let start = usize::from(field & OFFSET) * 8;
    Some(Fragment { key, start, len, is_last: field & MORE == 0, header, known })
}

fn v6(interface: u32, packet: &[u8]) -> Option<Fragment<'_>> {
    const FRAGMENT: u8 = 44;
    const MORE: u16 = 0x0001;
    const FRAGMENT_LEN: usize = 8;
    let total_len = V6_LEN + usize::from(word(packet, 4)?);
    // The byte that names the fragment header, and its place.
    let (mut name, mut at) = (6, V6_LEN);
    while *packet.get(name)? != FRAGMENT {
        (name, at) = (at, at + (usize::from(*packet.get(at + 1)?) + 1) * 8);
    }
    let field = word(packet, at + 2)?;
    let id = packet.get(at + 4..)?.first_chunk().map(|id| u32::from_be_bytes(*id))?;
    let behind = at + FRAGMENT_LEN;
    let mut header = packet.get(..at)?.to_vec();
    header[name] = packet[at];
    let len = total_len.checked_sub(behind)?;
    let known = packet.get(behind..packet.len().min(total_len))?;
    let key = Key { interface, addresses: packet.get(8..V6_LEN)?.to_vec(), id, protocol: 0 };
    Some(Fragment { key, start: usize::from(field & !7), len, is_last: field & MORE == 0, header, known })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fragments of a payload of bytes that count up, cut at these places.
    fn fragments(version: u8, len: usize, cuts: &[usize]) -> Vec<Vec<u8>> {
        let payload: Vec<u8> = (0..len).map(|n| n as u8).collect();
        let mut starts = vec![0];
        starts.extend(cuts);
        let one = |(n, start): (usize, &usize)| {
            let end = starts.get(n + 1).copied().unwrap_or(len);
            let more = u16::from(end < len);
            let mut packet = if version == 4 {
                let mut header = vec![0x45, 0, 0, 0, 0, 9, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
                header[2..4].copy_from_slice(&((20 + end - start) as u16).to_be_bytes());
                header[6..8].copy_from_slice(&(more << 13 | (start / 8) as u16).to_be_bytes());
                header
            } else {
                let mut header = vec![0; 48];
                (header[0], header[6], header[40], header[47]) = (0x60, 44, 17, 9);
                header[4..6].copy_from_slice(&((8 + end - start) as u16).to_be_bytes());
                header[42..44].copy_from_slice(&(*start as u16 | more).to_be_bytes());
                header
            };
            packet.extend(&payload[*start..end]);
            packet
        };
        starts.iter().enumerate().map(one).collect()
    }

    #[test]
    fn fragments_in_any_order_make_the_datagram() {
        for version in [4, 6] {
            let parts = fragments(version, 3_000, &[1_480, 2_960]);
            for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
                let mut all = Fragments::default();
                let made: Vec<_> = order.iter().filter_map(|n| all.push(0, &parts[*n])).collect();
                let header_len = if version == 4 { 20 } else { 40 };
                let [(packet, wire_len)] = &made[..] else { panic!("{made:?}") };
                assert_eq!((packet.len(), *wire_len), (header_len + 3_000, header_len + 3_000));
                assert!(packet[header_len..].iter().enumerate().all(|(n, byte)| *byte == n as u8));
                let expected = if version == 4 { 3_020 } else { 3_000 };
                assert_eq!(word(packet, if version == 4 { 2 } else { 4 }), Some(expected));
                assert_eq!(packet[if version == 4 { 9 } else { 6 }], 17);
                assert_eq!(all.finish().count(), 0);
            }
        }
    }

    #[test]
    fn known_bytes_end_at_the_first_gap_of_the_capture() {
        let mut parts = fragments(4, 3_000, &[1_480]);
        parts.iter_mut().for_each(|part| part.truncate(100));
        let mut all = Fragments::default();
        assert_eq!(all.push(0, &parts[0]), None);
        let (packet, wire_len) = all.push(0, &parts[1]).expect("complete");
        assert_eq!((packet.len(), wire_len), (100, 3_020));
    }

    #[test]
    fn what_is_never_complete_is_counted() {
        let mut all = Fragments::default();
        let parts = fragments(6, 3_000, &[1_480]);
        for id in 0..100 {
            let mut part = parts[0].clone();
            part[46] = id;
            assert_eq!(all.push(0, &part), None);
        }
        assert_eq!(all.push(1, &parts[1]), None, "of another interface");
        for len in 0..49 {
            assert_eq!(all.push(0, &parts[1][..len]), None);
        }
        let lost: u64 = all.finish().map(|(_, packets)| packets).sum();
        assert_eq!(lost, 150);
    }

    #[test]
    fn fragments_that_contradict_each_other_are_given_up() {
        let (long, short) = (fragments(4, 3_000, &[1_480]), fragments(4, 2_000, &[1_480]));
        let mut all = Fragments::default();
        assert_eq!(all.push(0, &long[1]), None);
        assert_eq!(all.push(0, &short[1]), None);
        assert_eq!(all.push(0, &long[0]), None);
    }

    /// A last fragment that ends before another one's end.
    #[test]
    fn each_fragment_of_a_contradiction_is_counted_once() {
        for (version, place) in [(4, Other::Fragment(4)), (6, Other::Fragment(6))] {
            let mut all = Fragments::default();
            let long = fragments(version, 64, &[32, 48]);
            let short = fragments(version, 40, &[32]);
            for fragment in [&long[1], &long[0], &short[1]] {
                assert_eq!(all.push(0, fragment), None);
            }
            assert_eq!(all.finish().collect::<Vec<_>>(), [(place, 3)]);
        }
    }
}
