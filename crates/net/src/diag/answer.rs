//! Responses of sock_diag(7): `struct inet_diag_msg` of linux/inet_diag.h and its attributes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::device::rtnetlink::attributes;
use crate::socket::tcp_info::{self, TcpInfo};

use super::connection::{Bbr, Found, ID_BYTES, Memory, SocketId};
use super::question::Family;

/// Family, state, timer, retransmissions; the id; expiry, queues, user, inode.
const HEADER_BYTES: usize = 4 + ID_BYTES + 20;

const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_CONG: u16 = 4;
const INET_DIAG_SKMEMINFO: u16 = 7;
const INET_DIAG_BBRINFO: u16 = 16;

/// Decodes a connection.
pub(super) fn found(body: &[u8]) -> Option<Found> {
    let head: &[u8; HEADER_BYTES] = body.first_chunk()?;
    let (family, id) = (head[0], *head[4..].first_chunk::<ID_BYTES>()?);
    let mut found = Found {
        id: SocketId { family, id },
        local: address(family, &id, 0, 4)?,
        remote: address(family, &id, 2, 20)?,
        uid: word(&head[64..])?,
        inode: word(&head[68..])?,
        congestion: String::new(),
        memory: None,
        bbr: None,
        info: info(body)?,
    };
    for (kind, value) in attributes(&body[HEADER_BYTES..]) {
        match kind {
            INET_DIAG_CONG => {
                let text = value.split(|byte| *byte == 0).next().unwrap_or_default();
                found.congestion = String::from_utf8_lossy(text).into_owned();
            }
            INET_DIAG_SKMEMINFO => found.memory = memory(value),
            INET_DIAG_BBRINFO => found.bbr = bbr(value),
            _ => {}
        }
    }
    Some(found)
}

/// Decodes TCP_INFO.
pub(super) fn info(body: &[u8]) -> Option<TcpInfo> {
    let (_, value) = attributes(body.get(HEADER_BYTES..)?).find(|(kind, _)| *kind == INET_DIAG_INFO)?;
    // Older kernels have a shorter structure, newer ones a longer one.
    let mut bytes = [0; tcp_info::LEN];
    let len = value.len().min(tcp_info::LEN);
    bytes[..len].copy_from_slice(&value[..len]);
    Some(tcp_info::parse(&bytes))
}

/// Decodes the local address.
pub(super) fn local(body: &[u8]) -> Option<SocketAddr> {
    let head: &[u8; HEADER_BYTES] = body.first_chunk()?;
    address(head[0], head[4..].first_chunk()?, 0, 4)
}

fn address(family: u8, id: &[u8; ID_BYTES], port: usize, address: usize) -> Option<SocketAddr> {
    let port = u16::from_be_bytes([id[port], id[port + 1]]);
    let ip = if family == Family::V4.number() {
        IpAddr::from(Ipv4Addr::from(*id[address..].first_chunk::<4>()?))
    } else {
        // IPv4 peers of a dual-stack socket are IPv4-mapped IPv6 addresses.
        Ipv6Addr::from(*id[address..].first_chunk::<16>()?).to_canonical()
    };
    Some(SocketAddr::new(ip, port))
}

fn memory(value: &[u8]) -> Option<Memory> {
    Some(Memory {
        received_bytes: word(value)?,
        rcvbuf_bytes: word(value.get(4..)?)?,
        sndbuf_bytes: word(value.get(12..)?)?,
        queued_bytes: word(value.get(20..)?)?,
    })
}

fn bbr(value: &[u8]) -> Option<Bbr> {
    let (low, high) = (word(value)?, word(value.get(4..)?)?);
    Some(Bbr { bytes_per_s: u64::from(high) << 32 | u64::from(low), min_rtt_us: word(value.get(8..)?)? })
}

fn word(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::rtnetlink::attribute;

    /// A response for a connection from 198.18.0.1:40000 to 198.18.0.2:3260, as IPv4 or IPv4-mapped IPv6.
    fn answer(family: Family, info: &[u8]) -> Vec<u8> {
        let mut body = vec![family.number(), 1, 0, 0];
        body.extend(40_000u16.to_be_bytes());
        body.extend(3260u16.to_be_bytes());
        for last in [1, 2] {
            let four = [198, 18, 0, last];
            match family {
                Family::V4 => body.extend([&four[..], &[0; 12]].concat()),
                Family::V6 => body.extend([&[0; 10][..], &[0xff; 2], &four].concat()),
            }
        }
        body.extend([0; 4 + 8 + 12]);
        body.extend(1000u32.to_ne_bytes());
        body.extend(77u32.to_ne_bytes());
        attribute(&mut body, INET_DIAG_CONG, b"bbr\0");
        attribute(&mut body, INET_DIAG_INFO, info);
        let memory = [1u32, 2, 3, 4, 5, 6, 7, 8, 9].map(u32::to_ne_bytes).concat();
        attribute(&mut body, INET_DIAG_SKMEMINFO, &memory);
        let bbr = [5u32, 1, 8000, 739, 512].map(u32::to_ne_bytes).concat();
        attribute(&mut body, INET_DIAG_BBRINFO, &bbr);
        body
    }

    #[test]
    fn an_answer_is_read_in_either_family() {
        let mut info = [0; 280];
        info[80..84].copy_from_slice(&42u32.to_ne_bytes());
        for family in [Family::V4, Family::V6] {
            let found = found(&answer(family, &info)).expect("an answer");
            assert_eq!(found.local, "198.18.0.1:40000".parse().unwrap());
            assert_eq!(found.remote, "198.18.0.2:3260".parse().unwrap());
            assert_eq!((found.uid, found.inode, found.congestion.as_str()), (1000, 77, "bbr"));
            assert_eq!(found.info.cwnd_packets, 42);
            let expected = Memory { received_bytes: 1, rcvbuf_bytes: 2, sndbuf_bytes: 4, queued_bytes: 6 };
            assert_eq!(found.memory, Some(expected));
            assert_eq!(found.bbr, Some(Bbr { bytes_per_s: (1 << 32) + 5, min_rtt_us: 8000 }));
        }
    }

    #[test]
    fn a_shorter_structure_reads_as_zero_behind_its_end() {
        let found = found(&answer(Family::V4, &[1; 104])).expect("an answer");
        assert_eq!((found.info.cwnd_packets, found.info.notsent_bytes), (0x0101_0101, 0));
    }

    #[test]
    fn what_is_cut_off_is_no_answer_and_no_panic() {
        let whole = answer(Family::V6, &[0; 232]);
        for len in 0..whole.len() {
            let _ = found(&whole[..len]);
            let _ = local(&whole[..len]);
        }
        assert!(found(&whole[..HEADER_BYTES]).is_none());
    }
}
