//! Lengths of IPv4, IPv6, TCP and UDP headers: RFC 791, RFC 8200, RFC 9293, RFC 768; in `encapsulation` all headers
//! that may precede them.
//!
//! For a packet, or a super-packet of a device with segmentation offload, the path needs the length of the headers that
//! every segment repeats. Checksums are not verified.

pub mod encapsulation;
pub mod identity;
mod options;
mod scope;
mod segment;
pub mod tcp;
mod unreachable;

pub use identity::Identity;
pub use options::{Options, SackBlocks};
pub use scope::stays_on_link;
pub use segment::Segment;
pub use tcp::Tcp;
pub use unreachable::{Unreachable, UnreachableReason};

use crate::be;

/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;
/// Protocol numbers of ICMP and ICMPv6.
const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;

/// IPv6 extension headers: RFC 8200 section 4, RFC 4302.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;

/// Headers of a packet. Lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// 4 or 6.
    pub version: u8,
    /// The IP header with options and extension headers.
    pub ip_header_len: usize,
    /// Protocol number behind them.
    pub protocol: u8,
    /// The TCP or UDP header; 0 for other protocols and for fragments behind the first.
    pub transport_header_len: usize,
    /// The whole packet.
    pub total_len: usize,
    /// Length of the packet without both headers.
    pub payload_len: usize,
}

/// A packet that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Neither IPv4 nor IPv6.
    #[error("IP version {found}, expected 4 or 6")]
    Version {
        /// The four-bit version.
        found: u8,
    },
    /// A header or payload extends beyond the packet.
    #[error("{what} needs {expected} bytes, {found} are there")]
    Truncated {
        /// The truncated part.
        what: &'static str,
        /// Bytes from the packet's beginning.
        expected: usize,
        /// Bytes of the packet.
        found: usize,
    },
    /// A header with a length field below its minimum.
    #[error("{what} says it has {found} bytes, expected at least {expected}")]
    HeaderLength {
        /// The header's name.
        what: &'static str,
        /// Least length of the header.
        expected: usize,
        /// Length according to the header.
        found: usize,
    },
}

impl Headers {
    /// Reads the headers of one whole packet that begins with its IP header. A total length of 0, which Linux writes
    /// into super-packets above 65535 bytes, means the length of `packet`.
    ///
    /// # Errors
    /// [`Error`] if the packet is not IP, is cut off or contradicts itself.
    pub fn parse(packet: &[u8]) -> Result<Self, Error> {
        need("an IP header", packet, 1)?;
        match packet[0] >> 4 {
            4 => parse_v4(packet),
            6 => parse_v6(packet),
            found => Err(Error::Version { found }),
        }
    }
}

fn parse_v4(packet: &[u8]) -> Result<Headers, Error> {
    need("an IPv4 header", packet, 20)?;
    let header_len = usize::from(packet[0] & 0x0f) * 4;
    at_least("the IPv4 header", 20, header_len)?;
    let total_len = match be::u16_at(packet, 2) {
        0 => packet.len(),
        len => usize::from(len),
    };
    at_least("the IPv4 packet", header_len, total_len)?;
    need("the IPv4 packet", packet, total_len)?;
    let first_fragment = be::u16_at(packet, 6) & 0x1fff == 0;
    with_transport(&packet[..total_len], 4, header_len, packet[9], first_fragment)
}

fn parse_v6(packet: &[u8]) -> Result<Headers, Error> {
    need("an IPv6 header", packet, 40)?;
    let total_len = match be::u16_at(packet, 4) {
        0 => packet.len(),
        len => 40 + usize::from(len),
    };
    need("the IPv6 packet", packet, total_len)?;
    let packet = &packet[..total_len];
    let (mut next, mut header_len, mut first_fragment) = (packet[6], 40, true);
    // Every turn consumes at least eight bytes of the packet.
    while matches!(next, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION) {
        need("an IPv6 extension header", packet, header_len + 8)?;
        let units = usize::from(packet[header_len + 1]);
        if next == FRAGMENT {
            first_fragment &= be::u16_at(packet, header_len + 2) >> 3 == 0;
        }
        let extension_len = match next {
            FRAGMENT => 8,
            AUTHENTICATION => (units + 2) * 4,
            _ => (units + 1) * 8,
        };
        next = packet[header_len];
        header_len += extension_len;
        need("an IPv6 extension header", packet, header_len)?;
    }
    with_transport(packet, 6, header_len, next, first_fragment)
}

fn with_transport(
    packet: &[u8],
    version: u8,
    ip_header_len: usize,
    protocol: u8,
    first_fragment: bool,
) -> Result<Headers, Error> {
    let transport_header_len = match protocol {
        TCP if first_fragment => {
            need("a TCP header", packet, ip_header_len + 20)?;
            let len = usize::from(packet[ip_header_len + 12] >> 4) * 4;
            at_least("the TCP header", 20, len)?;
            len
        }
        UDP if first_fragment => 8,
        _ => 0,
    };
    let headers_len = ip_header_len + transport_header_len;
    need("the transport header", packet, headers_len)?;
    Ok(Headers {
        version,
        ip_header_len,
        protocol,
        transport_header_len,
        total_len: packet.len(),
        payload_len: packet.len() - headers_len,
    })
}

fn need(what: &'static str, packet: &[u8], expected: usize) -> Result<(), Error> {
    if packet.len() < expected {
        return Err(Error::Truncated { what, expected, found: packet.len() });
    }
    Ok(())
}

fn at_least(what: &'static str, expected: usize, found: usize) -> Result<(), Error> {
    if found < expected {
        return Err(Error::HeaderLength { what, expected, found });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `total_len` bytes that begin with `headers`.
    fn packet(headers: &[&[u8]], total_len: usize) -> Vec<u8> {
        let mut packet = headers.concat();
        packet.resize(total_len, 0);
        packet
    }

    fn v4(total_len: u16, protocol: u8) -> [u8; 20] {
        let mut header = [0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, protocol, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2];
        be::put_u16(&mut header, 2, total_len);
        header
    }

    fn v6(payload_len: u16, next: u8) -> [u8; 40] {
        let mut header = [0; 40];
        header[0] = 0x60;
        header[6] = next;
        be::put_u16(&mut header, 4, payload_len);
        header
    }

    /// Its first 20 bytes; 12 of options follow.
    const TCP_32: [u8; 20] = [0x0c, 0xbc, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 0x80, 0x10, 1, 0, 0, 0, 0, 0];

    #[test]
    fn tcp_over_v4_with_timestamps() {
        let headers = Headers::parse(&packet(&[&v4(1500, TCP), &TCP_32], 1500));
        let expected = Headers {
            version: 4,
            ip_header_len: 20,
            protocol: TCP,
            transport_header_len: 32,
            total_len: 1500,
            payload_len: 1448,
        };
        assert_eq!(headers, Ok(expected));
    }

    #[test]
    fn bytes_behind_the_packet_do_not_count_and_a_length_of_zero_is_all() {
        let padded = Headers::parse(&packet(&[&v4(52, TCP), &TCP_32], 60)).expect("an acknowledgement");
        assert_eq!((padded.total_len, padded.payload_len), (52, 0));
        let large = Headers::parse(&packet(&[&v4(0, TCP), &TCP_32], 100_000)).expect("a super-packet");
        assert_eq!((large.total_len, large.payload_len), (100_000, 99_948));
        let large = Headers::parse(&packet(&[&v6(0, TCP), &TCP_32], 100_000)).expect("a super-packet");
        assert_eq!(large.payload_len, 100_000 - 40 - 32);
    }

    #[test]
    fn v6_extension_headers_belong_to_the_ip_header() {
        // Hop-by-hop, authentication of 16 bytes, a fragment, UDP.
        let hop = [AUTHENTICATION, 0, 5, 2, 0, 0, 1, 0];
        let authentication = [FRAGMENT, 2, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1];
        let parse = |offset: u8| {
            let fragment = [UDP, 0, 0, offset << 3 | 1, 0, 0, 0, 9];
            let packet = packet(&[&v6(60, HOP_BY_HOP), &hop, &authentication, &fragment], 100);
            Headers::parse(&packet).expect("a datagram")
        };
        let (first, second) = (parse(0), parse(1));
        assert_eq!((first.ip_header_len, first.protocol), (72, UDP));
        assert_eq!((first.transport_header_len, first.payload_len), (8, 20));
        assert_eq!((second.transport_header_len, second.payload_len), (0, 28));
    }

    #[test]
    fn other_protocols_are_all_payload() {
        let icmp = Headers::parse(&packet(&[&v4(84, 1)], 84)).expect("a ping");
        assert_eq!((icmp.transport_header_len, icmp.payload_len), (0, 64));
    }

    #[test]
    fn impossible_lengths() {
        let error = |packet: &[u8]| Headers::parse(packet).expect_err("not a packet").to_string();
        assert_eq!(error(&[]), "an IP header needs 1 bytes, 0 are there");
        assert_eq!(error(&[0x50; 40]), "IP version 5, expected 4 or 6");
        assert_eq!(error(&v4(21, 1)), "the IPv4 packet needs 21 bytes, 20 are there");
        assert_eq!(error(&v4(19, 1)), "the IPv4 packet says it has 19 bytes, expected at least 20");
        assert_eq!(error(&[0x44; 20]), "the IPv4 header says it has 16 bytes, expected at least 20");
        assert_eq!(error(&packet(&[&v4(39, TCP), &TCP_32], 39)), "a TCP header needs 40 bytes, 39 are there");
        assert_eq!(
            error(&packet(&[&v4(40, TCP), &TCP_32], 40)),
            "the transport header needs 52 bytes, 40 are there"
        );
        let tiny = error(&packet(&[&v4(60, TCP), &[0; 20]], 60));
        assert_eq!(tiny, "the TCP header says it has 0 bytes, expected at least 20");
        assert_eq!(error(&v6(1, UDP)), "the IPv6 packet needs 41 bytes, 40 are there");
        let endless = error(&packet(&[&v6(8, ROUTING), &[ROUTING, 255]], 48));
        assert_eq!(endless, "an IPv6 extension header needs 2088 bytes, 48 are there");
    }
}
