//! The fixed part of a TCP header: RFC 9293 section 3.1. Options and checksums are not read.

use super::{Headers, TCP};
use crate::be;

/// No more data from the sender.
pub const FIN: u8 = 0x01;
/// Sequence numbers begin here.
pub const SYN: u8 = 0x02;
/// Reset: the connection ends at once.
pub const RST: u8 = 0x04;
/// Push: the receiver delivers the data at once.
pub const PSH: u8 = 0x08;
/// The acknowledgement number is valid.
pub const ACK: u8 = 0x10;
/// The window was cut because of congestion: RFC 3168.
pub const CWR: u8 = 0x80;

const SRC_PORT: usize = 0;
const DST_PORT: usize = 2;
const SEQ: usize = 4;
const ACK_NUMBER: usize = 8;
const FLAGS: usize = 13;

/// Fields of a TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// Port of the sender.
    pub src_port: u16,
    /// Port of the receiver.
    pub dst_port: u16,
    /// Sequence number of the first byte.
    pub seq: u32,
    /// The byte that is expected next; means nothing without the flag ACK (0x10).
    pub ack: u32,
    /// FIN, SYN, RST, PSH, ACK, URG, ECE and CWR, from the lowest bit on.
    pub flags: u8,
}

impl Tcp {
    /// Reads the TCP header of `packet`, whose lengths are `headers`; `None` if it has none.
    #[must_use]
    pub fn parse(packet: &[u8], headers: &Headers) -> Option<Self> {
        if headers.protocol != TCP || headers.transport_header_len == 0 {
            return None;
        }
        let tcp = packet.get(headers.ip_header_len..)?.get(..headers.transport_header_len)?;
        Some(Self {
            src_port: be::u16_at(tcp, SRC_PORT),
            dst_port: be::u16_at(tcp, DST_PORT),
            seq: be::u32_at(tcp, SEQ),
            ack: be::u32_at(tcp, ACK_NUMBER),
            flags: tcp[FLAGS],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP_HEADER: [u8; 20] =
        [0x0c, 0xbc, 0x9c, 0x40, 1, 2, 3, 4, 0xff, 0xfe, 0xfd, 0xfc, 0x50, 0x18, 1, 0, 0, 0, 0, 0];
    const EXPECTED: Tcp =
        Tcp { src_port: 3260, dst_port: 40_000, seq: 0x0102_0304, ack: 0xfffe_fdfc, flags: 0x18 };

    fn parse(packet: &[u8]) -> Option<Tcp> {
        Tcp::parse(packet, &Headers::parse(packet).expect("a packet"))
    }

    /// An IPv4 packet of protocol `protocol` with `options` bytes of options and a TCP header behind them.
    fn v4(protocol: u8, fragment: u16, options: usize) -> Vec<u8> {
        let mut packet = vec![0; 20 + options];
        packet[0] = 0x40 | ((20 + options) / 4) as u8;
        be::put_u16(&mut packet, 2, (40 + options) as u16);
        be::put_u16(&mut packet, 6, fragment);
        packet[9] = protocol;
        packet.extend(TCP_HEADER);
        packet
    }

    #[test]
    fn is_found_behind_any_ip_header() {
        assert_eq!(parse(&v4(TCP, 0, 0)), Some(EXPECTED));
        assert_eq!(parse(&v4(TCP, 0, 40)), Some(EXPECTED));
        let mut v6 = vec![0; 48];
        v6[0] = 0x60;
        be::put_u16(&mut v6, 4, 28);
        // A hop-by-hop header of eight bytes comes first.
        (v6[6], v6[40]) = (0, TCP);
        v6.extend(TCP_HEADER);
        assert_eq!(parse(&v6), Some(EXPECTED));
    }

    #[test]
    fn what_has_no_tcp_header_has_none() {
        assert_eq!(parse(&v4(super::super::UDP, 0, 0)), None);
        assert_eq!(parse(&v4(TCP, 1, 0)), None, "a fragment behind the first");
        let (whole, headers) = (v4(TCP, 0, 0), Headers::parse(&v4(TCP, 0, 0)).expect("a packet"));
        for len in 0..whole.len() {
            assert_eq!(Tcp::parse(&whole[..len], &headers), None, "cut off after {len} bytes");
        }
    }
}
