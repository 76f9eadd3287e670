//! Joins packets of one TCP stream that are delivered at the same time, as GRO does in a receiving host: a stream of
//! single packets then costs the host little more than one of super-packets.
//!
//! Nothing is copied: the writer takes the headers from here and the payloads from their places. The conditions are
//! Linux' (`tcp_gro_receive` in net/ipv4/tcp_offload.c): consecutive packets of one connection, equal but for their
//! place in the stream and as long as the first, up to one that is shorter or has PSH.

use std::ops::Range;

use wire::inet::tcp::{ACK, PSH};
use wire::inet::{Headers, TCP, Tcp};

use crate::segmentation::cut::{Cutter, PieceHeaders};

/// Largest packet of IP.
const TOTAL_MAX: usize = 65_535;
/// Fields of an IPv4 header that differ within a stream: length, identification, checksum.
const V4_OWN: [Range<usize>; 2] = [2..6, 10..12];
/// Field of an IPv6 header that differs: length.
const V6_OWN: Range<usize> = 4..6;
/// Fields of a TCP header that differ: sequence number, flags, checksum.
const TCP_OWN: [Range<usize>; 3] = [4..8, 13..14, 16..18];

/// Joined packets; at first one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Joint {
    cutter: Cutter,
    next_seq: u32,
    /// PSH if the last packet has it.
    push: u8,
    is_closed: bool,
}

impl Joint {
    /// Begins with `packet`, from its IP header on; `None` if nothing can be joined to it.
    pub fn new(packet: &[u8]) -> Option<Joint> {
        let (headers, tcp) = segment(packet)?;
        let cutter = Cutter::whole(headers)?;
        let push = tcp.flags & PSH;
        let next_seq = tcp.seq.wrapping_add(headers.payload_len as u32);
        Some(Joint { cutter, next_seq, push, is_closed: push != 0 })
    }

    /// Joins `next` to the packets behind `first`; false if it does not follow them.
    pub fn add(&mut self, first: &[u8], next: &[u8]) -> bool {
        let Some((headers, tcp)) = segment(next).filter(|_| !self.is_closed) else { return false };
        let transport_at = self.cutter.transport_at();
        let follows = tcp.seq == self.next_seq
            && headers.payload_len <= self.cutter.payload_per_piece()
            && self.cutter.total_len() + headers.payload_len <= TOTAL_MAX
            && headers.version == self.cutter.version()
            && (headers.ip_header_len, headers.total_len - headers.payload_len)
                == (transport_at, self.cutter.headers_len());
        if !follows {
            return false;
        }
        let own = if headers.version == 4 { &V4_OWN[..] } else { core::slice::from_ref(&V6_OWN) };
        let (ip, tcp_header) = (0..transport_at, transport_at..self.cutter.headers_len());
        let is_alike = alike(&first[ip.clone()], &next[ip], own)
            && alike(&first[tcp_header.clone()], &next[tcp_header], &TCP_OWN);
        if is_alike {
            self.push = tcp.flags & PSH;
            self.is_closed = self.push != 0 || headers.payload_len < self.cutter.payload_per_piece();
            self.next_seq = self.next_seq.wrapping_add(headers.payload_len as u32);
            self.cutter.lengthen(headers.payload_len);
        }
        is_alike
    }

    /// Segmentation of the joined packet into its parts.
    pub const fn cutter(&self) -> &Cutter {
        &self.cutter
    }

    /// Headers of the joined packet, whose first part is `first`.
    pub fn headers(&self, first: &[u8]) -> PieceHeaders {
        self.cutter.headers(first, 0..self.cutter.pieces()).with_flags(self.cutter.transport_at(), self.push)
    }
}

/// Headers of a plain data segment: payload, ACK and at most PSH.
fn segment(packet: &[u8]) -> Option<(Headers, Tcp)> {
    let headers = Headers::parse(packet).ok()?;
    let tcp = Tcp::parse(packet, &headers)?;
    let is_plain = tcp.flags & !PSH == ACK && headers.protocol == TCP;
    (is_plain && headers.payload_len > 0 && headers.total_len == packet.len()).then_some((headers, tcp))
}

/// True if two headers are equal outside the ranges `but`.
fn alike(one: &[u8], other: &[u8], but: &[Range<usize>]) -> bool {
    let mut at = 0;
    let ends = but.iter().map(|place| place.start).chain([one.len()]);
    let begins = but.iter().map(|place| place.end).chain([one.len()]);
    ends.zip(begins).all(|(end, begin)| {
        let is_same = one[at..end] == other[at..end];
        at = begin;
        is_same
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segmentation::cut::tests::super_packet;

    const MSS: usize = 1448;

    /// Segments of a super-packet with `payload_len` bytes.
    fn packets(version: u8, payload_len: usize) -> Vec<Vec<u8>> {
        let mut whole = super_packet(version, payload_len);
        let flags_at = if version == 4 { 20 } else { 40 } + 13;
        whole[flags_at] = ACK | PSH;
        let cutter = Cutter::new(&whole, MSS).expect("a super-packet");
        let piece = |n| {
            let made = cutter.headers(&whole, n..n + 1);
            [made.bytes(), &whole[cutter.payload(n..n + 1)]].concat()
        };
        (0..cutter.pieces()).map(piece).collect()
    }

    /// Number of these packets that are joined to the first.
    fn joined(packets: &[Vec<u8>]) -> usize {
        let Some(mut joint) = Joint::new(&packets[0]) else { return 0 };
        packets[1..].iter().take_while(|next| joint.add(&packets[0], next)).count()
    }

    #[test]
    fn what_was_cut_is_whole_again() {
        for version in [4, 6] {
            let packets = packets(version, 10_000);
            let mut joint = Joint::new(&packets[0]).expect("payload of a stream");
            assert!(packets[1..].iter().all(|next| joint.add(&packets[0], next)));
            assert_eq!(joint.cutter().pieces(), 7);
            let mut whole = joint.headers(&packets[0]).bytes().to_vec();
            let headers_len = whole.len();
            packets.iter().for_each(|packet| whole.extend_from_slice(&packet[headers_len..]));
            let again = Cutter::new(&whole, MSS).expect("a super-packet");
            assert_eq!(again, *joint.cutter());
            for (n, packet) in packets.iter().enumerate() {
                let n = n as u16;
                let made = again.headers(&whole, n..n + 1);
                assert_eq!([made.bytes(), &whole[again.payload(n..n + 1)]].concat(), *packet, "{n}");
            }
        }
    }

    #[test]
    fn one_that_is_shorter_or_pushed_is_the_last() {
        let mut short = packets(4, 3 * MSS + 7);
        short.extend(packets(4, MSS + 1));
        assert_eq!(joined(&short), 3);
        let mut pushed = packets(4, 4 * MSS);
        pushed[2][33] |= PSH;
        assert_eq!(joined(&pushed), 2);
        pushed[0][33] |= PSH;
        assert_eq!(joined(&pushed), 0);
    }

    #[test]
    fn no_more_is_joined_than_a_packet_of_ip_holds() {
        let first = packets(4, 2 * MSS).remove(0);
        let seq = Tcp::parse(&first, &Headers::parse(&first).expect("a packet")).expect("a segment").seq;
        let nth = |n: u32| {
            let mut packet = first.clone();
            packet[24..28].copy_from_slice(&seq.wrapping_add(n * MSS as u32).to_be_bytes());
            packet
        };
        let many: Vec<Vec<u8>> = (0..60).map(nth).collect();
        assert_eq!(joined(&many), 44, "45 of them have 65 212 bytes");
    }

    #[test]
    fn what_differs_does_not_follow() {
        type Change = fn(&mut Vec<u8>);
        let changes: [(&str, Change); 14] = [
            ("type of service", |packet| packet[1] ^= 1),
            ("time to live", |packet| packet[8] ^= 1),
            ("source", |packet| packet[12] ^= 1),
            ("destination", |packet| packet[19] ^= 1),
            ("port", |packet| packet[21] ^= 1),
            ("sequence number", |packet| packet[27] ^= 1),
            ("acknowledgement", |packet| packet[31] ^= 1),
            ("SYN", |packet| packet[33] |= 2),
            ("RST", |packet| packet[33] |= 4),
            ("window", |packet| packet[35] ^= 1),
            ("urgent pointer", |packet| packet[39] ^= 1),
            ("option", |packet| packet[47] ^= 1),
            ("protocol", |packet| packet[9] = 17),
            ("no packet", Vec::clear),
        ];
        for (what, change) in changes {
            let mut two = packets(4, 2 * MSS);
            assert_eq!(joined(&two), 1);
            change(&mut two[1]);
            assert_eq!(joined(&two), 0, "{what}");
        }
        let mut longer = packets(4, 2 * MSS);
        longer[0].truncate(1400);
        longer[0][2..4].copy_from_slice(&1400u16.to_be_bytes());
        assert_eq!(joined(&longer), 0, "longer than the first");
        for len in 0..1500 {
            let mut two = packets(4, 2 * MSS);
            two[1].truncate(len);
            assert_eq!(joined(&two), 0, "cut off after {len} bytes");
        }
        assert_eq!(Joint::new(&packets(4, 2 * MSS)[0][..52]), None);
    }

    #[test]
    fn an_acknowledgement_alone_is_not_joined() {
        let mut ack = packets(4, 2 * MSS)[0][..52].to_vec();
        ack[2..4].copy_from_slice(&52u16.to_be_bytes());
        assert_eq!(Joint::new(&ack), None);
    }
}
