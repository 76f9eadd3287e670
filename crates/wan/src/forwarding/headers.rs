//! TCP headers for the table of packets.

use std::ops::Range;

use event::Tcp;
use link::Cutter;
use net::tun::{Cut, HEADER_BYTES};
use wire::inet::{self, Headers};

/// The TCP header of `packet`, as a device gave it, or of piece number `piece` of it; `None` if it is no TCP.
pub(crate) fn tcp_of(packet: &[u8], piece: Option<u16>) -> Option<Tcp> {
    let ip = packet.get(HEADER_BYTES..)?;
    let headers = Headers::parse(ip).ok()?;
    let tcp = inet::Tcp::parse(ip, &headers)?;
    let whole = Tcp {
        src_port: tcp.src_port,
        dst_port: tcp.dst_port,
        seq: tcp.seq,
        ack: tcp.ack,
        payload_bytes: headers.payload_len as u32,
        flags: tcp.flags,
    };
    let Some(piece) = piece else { return Some(whole) };
    let cutter = Cutter::new(ip, Cut::of(packet).payload_bytes as usize)?;
    let Range { start, end } = cutter.payload(piece..piece + 1);
    Some(Tcp {
        seq: whole.seq.wrapping_add((start - cutter.headers_len()) as u32),
        payload_bytes: (end - start) as u32,
        flags: cutter.flags(whole.flags, piece..piece + 1),
        ..whole
    })
}

/// A super-packet of TCP over IPv4 as a device hands it over, 1448 bytes of payload to a segment.
#[cfg(test)]
pub(crate) fn super_packet(payload_bytes: usize) -> Vec<u8> {
    let mut packet = vec![0; HEADER_BYTES + 52 + payload_bytes];
    // Its checksum is left to us, TCP over IPv4; where the TCP header begins.
    (packet[0], packet[1]) = (1, 1);
    packet[4..6].copy_from_slice(&1448u16.to_ne_bytes());
    packet[6..8].copy_from_slice(&20u16.to_ne_bytes());
    let ip = &mut packet[HEADER_BYTES..];
    ip[0] = 0x45;
    let total_len = (52 + payload_bytes) as u16;
    ip[2..4].copy_from_slice(&total_len.to_be_bytes());
    ip[9] = inet::TCP;
    let tcp = &mut ip[20..];
    tcp[..2].copy_from_slice(&3260u16.to_be_bytes());
    tcp[2..4].copy_from_slice(&40_000u16.to_be_bytes());
    tcp[4..8].copy_from_slice(&(u32::MAX - 2000).to_be_bytes());
    tcp[8..12].copy_from_slice(&7u32.to_be_bytes());
    // 32 bytes of header; PSH and ACK.
    (tcp[12], tcp[13]) = (8 << 4, 0x18);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    const PSH_ACK: u8 = 0x18;
    const ACK: u8 = 0x10;

    #[test]
    fn each_piece_has_a_place_of_its_own() {
        let packet = super_packet(3000);
        let seen = |piece| {
            let tcp = tcp_of(&packet, piece).expect("a segment of TCP");
            assert_eq!((tcp.src_port, tcp.dst_port, tcp.ack), (3260, 40_000, 7));
            (tcp.seq, tcp.payload_bytes, tcp.flags)
        };
        assert_eq!(seen(None), (u32::MAX - 2000, 3000, PSH_ACK));
        assert_eq!(seen(Some(0)), (u32::MAX - 2000, 1448, ACK));
        assert_eq!(seen(Some(1)), (u32::MAX - 552, 1448, ACK));
        assert_eq!(seen(Some(2)), (895, 104, PSH_ACK));
    }

    #[test]
    fn anything_else_has_none() {
        let packet = super_packet(3000);
        for len in 0..HEADER_BYTES + 52 {
            assert_eq!(tcp_of(&packet[..len], None), None, "cut off after {len} bytes");
        }
        let mut datagram = packet;
        datagram[HEADER_BYTES + 9] = inet::UDP;
        assert_eq!(tcp_of(&datagram, None), None);
    }
}
