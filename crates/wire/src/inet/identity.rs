//! Identity of a TCP packet: a digest of all fields that its copies share.
//!
//! A copy of a packet is the same transmission, captured again: by a second port of a mirror, by another device of the
//! same host, at another layer of a driver, before and after a router. Fields that change on the way: link layer, tags
//! and tunnels, TTL and traffic class (RFC 791, RFC 2474), and checksums, which hardware may fill in later. All others
//! stay: length and identification, addresses, the TCP header with its options, and the data.
//!
//! A retransmission is another transmission of the same data. A new identification distinguishes it from a copy if the
//! sender numbers its packets. [`Identity::id`] is `None` or 0 if it does not: in IPv6, and in IPv4 packets that are
//! never fragmented (RFC 6864 section 4.1).

use super::segment;
use crate::be;

/// Bytes of payload that take part. Packets that agree in all headers up to there and differ later do not exist: they
/// would be different data at one place of one stream.
const PAYLOAD_LEN: usize = 64;

/// Identity of a packet and the parts of it that routers change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Equal for all copies of a packet, and different for other packets with near certainty.
    pub digest: u64,
    /// Equal for all packets of one direction of a connection.
    pub direction: u64,
    /// Identification of an IPv4 packet.
    pub id: Option<u16>,
    /// Bytes of payload that the packet had.
    pub len: usize,
    /// TTL or hop limit.
    pub hops: u8,
}

impl Identity {
    /// Identity of a packet that begins with its IP header and had `wire_len` bytes; `None` if it has no TCP segment that
    /// can be read.
    #[must_use]
    pub fn parse(packet: &[u8], wire_len: usize) -> Option<Self> {
        let place = segment::locate(packet, wire_len)?;
        let tcp = packet.get(place.tcp_at..packet.len().min(place.total_len))?;
        let fixed = tcp.first_chunk::<20>()?;
        let header_len = usize::from(fixed[12] >> 4) * 4;
        let len = place.total_len.checked_sub(place.tcp_at + header_len)?;
        if header_len < fixed.len() {
            return None;
        }
        let mut mixer = Mixer::default();
        let is_v4 = packet[0] >> 4 == 4;
        let addresses = if is_v4 { 12..20 } else { 8..40 };
        for word in packet.get(addresses)?.chunks_exact(8) {
            mixer.add(be::u64_at(word, 0));
        }
        mixer.add(u64::from(be::u32_at(fixed, 0)));
        let direction = mixer.end();
        let id = is_v4.then(|| be::u16_at(packet, 4));
        mixer.add((place.total_len as u64) << 16 | u64::from(id.unwrap_or(0)));
        mixer.add(be::u64_at(fixed, 4));
        // Offset, flags and window; the checksum is left out; the urgent pointer.
        mixer.add(u64::from(be::u32_at(fixed, 12)) << 16 | u64::from(be::u16_at(fixed, 18)));
        let rest = &tcp[20..tcp.len().min(header_len + PAYLOAD_LEN)];
        let mut words = rest.chunks_exact(8);
        words.by_ref().for_each(|word| mixer.add(be::u64_at(word, 0)));
        let mut last = [0; 8];
        last[..words.remainder().len()].copy_from_slice(words.remainder());
        mixer.add(u64::from_be_bytes(last));
        let hops = if is_v4 { packet[8] } else { packet[7] };
        Some(Self { digest: mixer.end(), direction, id, len, hops })
    }
}

/// Digest of bytes in front of a packet, which differ between two ports, with and without a tag.
#[must_use]
pub fn digest(bytes: &[u8]) -> u64 {
    let mut mixer = Mixer::default();
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mixer.add(u64::from_be_bytes(word));
    }
    mixer.add(bytes.len() as u64);
    mixer.end()
}

/// Folded multiplication of 64-bit words: one multiplication a word, every input bit reaches every output bit.
#[derive(Clone, Copy, Default)]
struct Mixer(u64);

impl Mixer {
    /// Odd constants without a pattern: fractions of the golden ratio and of the square root of three.
    const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xbb67_ae85_84ca_a73b];

    fn add(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ Self::FACTORS[1]) * u128::from(Self::FACTORS[0]);
        self.0 = (product as u64) ^ (product >> 64) as u64;
    }

    fn end(self) -> u64 {
        let product = u128::from(self.0 ^ Self::FACTORS[0]) * u128::from(Self::FACTORS[1]);
        (product as u64) ^ (product >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inet::TCP;

    /// An IPv4 packet with a timestamp option and ten bytes of data.
    fn v4() -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 62, 0x12, 0x34, 0x40, 0, 64, TCP, 0xaa, 0xbb];
        packet.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend([0x9c, 0x40, 0x0c, 0xbc, 0, 0, 0, 1, 0, 0, 0, 2, 0x80, 0x18, 1, 0, 0xcc, 0xdd, 0, 0]);
        packet.extend([1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 6]);
        packet.extend([0x5a; 10]);
        packet
    }

    fn v6() -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 42, TCP, 64];
        packet.extend([1; 16]);
        packet.extend([2; 16]);
        packet.extend(&v4()[20..]);
        packet
    }

    fn of(packet: &[u8]) -> Identity {
        Identity::parse(packet, packet.len()).expect("a packet")
    }

    #[test]
    fn changes_on_the_way_do_not_count_and_all_others_do() {
        // Class, TTL, IP checksum, TCP checksum; class and flow label, hop limit, TCP checksum.
        let ignored: [&[usize]; 2] = [&[1, 8, 10, 11, 36, 37], &[1, 2, 3, 7, 56, 57]];
        for (packet, ignored) in [v4(), v6()].into_iter().zip(ignored) {
            let whole = of(&packet);
            for at in 1..packet.len() {
                let mut changed = packet.clone();
                changed[at] ^= 0x04;
                // Lengths and protocols that are changed leave no packet.
                let Some(found) = Identity::parse(&changed, packet.len()) else { continue };
                assert_eq!(found.digest == whole.digest, ignored.contains(&at), "byte {at}");
            }
            let mut padded = packet.clone();
            padded.resize(packet.len() + 6, 0);
            assert_eq!(of(&padded).digest, whole.digest, "padding");
        }
        assert_eq!((of(&v4()).id, of(&v6()).id), (Some(0x1234), None));
        assert_eq!((of(&v4()).hops, of(&v6()).hops), (64, 64));
        assert_eq!((of(&v4()).len, of(&v6()).len), (10, 10));
    }

    #[test]
    fn a_direction_is_known_by_addresses_and_ports() {
        let (mut other, mut later) = (v4(), v4());
        other[21] ^= 1;
        later[27] ^= 1;
        assert_ne!(of(&v4()).direction, of(&other).direction);
        assert_eq!(of(&v4()).direction, of(&later).direction);
    }

    #[test]
    fn a_packet_that_is_cut_off_in_its_headers_has_none() {
        for len in 0..40 {
            assert_eq!(Identity::parse(&v4()[..len], 62), None, "{len} bytes");
        }
        assert!(Identity::parse(&v4()[..40], 62).is_some());
    }

    #[test]
    fn a_byte_more_in_front_is_another_link() {
        assert_ne!(digest(&[0; 14]), digest(&[0; 18]));
        assert_ne!(digest(&[1, 2, 3]), digest(&[1, 2, 4]));
        assert_eq!(digest(&[7; 20]), digest(&[7; 20]));
    }
}
