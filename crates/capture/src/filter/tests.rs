//! Filters run on packets by an interpreter of the kernel's instructions.

use std::net::IpAddr;

use super::program::code;
use super::*;

/// Runs a program; how many bytes of the packet it keeps.
fn kept(program: &[Instruction], packet: &[u8]) -> u32 {
    let (mut a, mut x, mut at) = (0u32, 0u32, 0usize);
    let load = |at: u32, bytes: usize| {
        let found = packet.get(at as usize..at as usize + bytes)?;
        Some(found.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
    };
    loop {
        let Instruction { code, jump_true, jump_false, operand: k } = program[at];
        at += 1;
        let test = |holds: bool| usize::from(if holds { jump_true } else { jump_false });
        let loaded = match code {
            code::LOAD_BYTE => load(k, 1),
            code::LOAD_HALF => load(k, 2),
            code::LOAD_WORD => load(k, 4),
            code::LOAD_BYTE_AT_X => load(x + k, 1),
            code::LOAD_HALF_AT_X => load(x + k, 2),
            code::LOAD_LEN => Some(packet.len() as u32),
            code::AND => Some(a & k),
            code::ADD => Some(a.wrapping_add(k)),
            code::ADD_X => Some(a.wrapping_add(x)),
            code::SHIFT_RIGHT => Some(a >> k),
            code::X_TO_A => Some(x),
            _ => Some(a),
        };
        match loaded {
            Some(value) => a = value,
            None => return 0,
        }
        at += match code {
            code::GO => k as usize,
            code::IF_EQUAL => test(a == k),
            code::IF_ABOVE => test(a > k),
            code::IF_ABOVE_X => test(a > x),
            code::IF_LEAST => test(a >= k),
            code::IF_ANY_BIT => test(a & k != 0),
            code::KEEP => return k,
            code::KEEP_A => return a,
            _ => 0,
        };
        match code {
            code::A_TO_X => x = a,
            code::LOAD_X_HEADER => match load(k, 1) {
                Some(byte) => x = (byte & 0xf) * 4,
                None => return 0,
            },
            _ => {}
        }
    }
}

const SNAP: Keep = Keep { snap_bytes: 96, payload_bytes: None };

/// An IP packet with `protocol` between two ends and 200 bytes behind its header, the TCP header 32 bytes long; IPv4
/// has four bytes of options.
fn ip_packet(protocol: u8, src: (&str, u16), dst: (&str, u16)) -> Vec<u8> {
    let address = |text: &str| text.parse::<IpAddr>().expect("an address");
    let mut packet = match (address(src.0), address(dst.0)) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let head = [0x46, 0, 0, 224, 0, 0, 0x40, 0, 64, protocol, 0, 0];
            [&head[..], &src.octets(), &dst.octets(), &[1; 4]].concat()
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let head = [0x60, 0, 0, 0, 0, 200, protocol, 64];
            [&head[..], &src.octets(), &dst.octets()].concat()
        }
        _ => panic!("one version"),
    };
    packet.extend(src.1.to_be_bytes());
    packet.extend(dst.1.to_be_bytes());
    packet.extend([0; 8]);
    packet.push(8 << 4);
    packet.extend([0; 187]);
    packet
}

fn on(link: Link, ip: &[u8]) -> Vec<u8> {
    let kind: [u8; 2] = if ip[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    match link {
        Link::Ethernet => [&[2; 12][..], &kind, ip].concat(),
        Link::Ip => ip.to_vec(),
    }
}

/// Checks the filter's result for the packet, which must not depend on the link layer.
#[track_caller]
fn passes(filter: &str, ip: &[u8]) -> bool {
    let filter: Filter = filter.parse().unwrap_or_else(|error| panic!("{filter}: {error}"));
    let [first, second] = [Link::Ethernet, Link::Ip].map(|link| {
        let kept = kept(&filter.program(link, SNAP), &on(link, ip));
        assert!(matches!(kept, 0 | 96), "{kept}");
        kept > 0
    });
    assert_eq!(first, second, "{filter:?}");
    first
}

#[test]
fn terms_and_how_they_are_joined() {
    let v4 = ip_packet(6, ("10.0.0.7", 40_000), ("10.0.1.9", 3260));
    let v6 = ip_packet(17, ("2001:db8::7", 53), ("2001:db9::1", 40_000));
    for (filter, first, second) in [
        ("", true, true),
        ("tcp", true, false),
        ("udp", false, true),
        ("icmp or icmp6", false, false),
        ("ip", true, false),
        ("ip6", false, true),
        ("port 40000", true, true),
        ("tcp port 40000", true, false),
        ("tcp port 3260", true, false),
        ("src port 40000", true, false),
        ("dst port 40000", false, true),
        ("udp src port 53", false, true),
        ("tcp dst port 3260 and host 10.0.0.7", true, false),
        ("host 2001:db8::7", false, true),
        ("dst host 2001:db8::7", false, false),
        ("src host 10.0.0.7", true, false),
        ("host 10.0.1.7", false, false),
        ("net 10.0.0.0/23", true, false),
        ("dst net 10.0.0.0/24", false, false),
        ("net 2001:db8::/31", false, true),
        ("dst net 2001:db8::/32", false, false),
        ("net 0.0.0.0/0", true, false),
        ("not tcp", false, true),
        ("!(tcp && port 3260)", false, true),
        ("tcp and not port 3260 or ip6", false, true),
        ("tcp and not (port 3260 or ip6)", false, false),
        ("not not tcp", true, false),
        // From the left, as tcpdump reads it.
        ("ip or ip6 and udp", false, true),
        ("udp and ip6 or tcp and port 3260", true, false),
        ("udp and ip6 or (tcp and port 3260)", true, true),
        ("(udp or tcp) and (port 53 or port 3260)", true, true),
    ] {
        assert_eq!((passes(filter, &v4), passes(filter, &v6)), (first, second), "{filter}");
    }
}

#[test]
fn later_fragments_have_no_ports() {
    let mut fragment = ip_packet(6, ("10.0.0.7", 40_000), ("10.0.1.9", 3260));
    fragment[7] = 1;
    assert!(passes("tcp", &fragment) && !passes("port 3260", &fragment));
}

#[test]
fn the_longest_filter_compiles() {
    let long = ["src port 1"; 32].join(" or ");
    let v4 = ip_packet(6, ("10.0.0.7", 1), ("10.0.1.9", 3260));
    assert!(passes(&long, &v4) && !passes(&format!("not ({long})"), &v4));
    assert_eq!(format!("{long} or tcp").parse::<Filter>(), Err(FilterError::Long));
    let mixed = ["dst port 2 or src port 1"; 16].join(" and ");
    assert!(passes(&mixed, &ip_packet(6, ("10.0.0.7", 1), ("10.0.1.9", 3260))));
    assert!(!passes(&mixed, &ip_packet(6, ("10.0.0.7", 40_000), ("10.0.1.9", 3260))));
    assert_eq!(format!("{}tcp", "!".repeat(16)).parse::<Filter>(), Err(FilterError::Long));
    assert!(format!("{}tcp", "!".repeat(14)).parse::<Filter>().is_ok());
}

#[test]
fn what_is_wrong_is_named() {
    for (text, words) in [
        ("tcp and", "the end in the filter, expected host, net, port"),
        ("port https", "'https' in the filter, expected a number from 0 to 65535"),
        ("port 70000", "'70000'"),
        ("host storage", "expected an address"),
        ("net 10.0.0.0/33", "expected a network"),
        ("(tcp", "the end in the filter, expected ')'"),
        ("tcp)", "')' in the filter, expected and, or, or the end"),
        ("tcp src host 10.0.0.1", "'host' in the filter, expected port"),
        ("tcp udp", "'udp' in the filter, expected and, or"),
        ("vlan 7", "'vlan' in the filter, expected host"),
    ] {
        let error = text.parse::<Filter>().expect_err(text).to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
}

#[test]
fn payload_is_kept_behind_headers_of_any_length() {
    let keep = Keep { snap_bytes: 64, payload_bytes: Some(48) };
    let all = Filter::default();
    let v4 = ip_packet(6, ("10.0.0.7", 40_000), ("10.0.1.9", 3260));
    let v6 = ip_packet(6, ("2001:db8::7", 53), ("2001:db9::1", 40_000));
    let udp = ip_packet(17, ("10.0.0.7", 40_000), ("10.0.1.9", 3260));
    let mut fragment = v4.clone();
    fragment[7] = 1;
    for (link, before) in [(Link::Ethernet, 14), (Link::Ip, 0)] {
        let program = all.program(link, keep);
        let of = |packet: &[u8]| kept(&program, &on(link, packet));
        assert_eq!(of(&v4), before + 24 + 32 + 48);
        assert_eq!(of(&v6), before + 40 + 32 + 48);
        assert_eq!((of(&udp), of(&fragment)), (64, 64));
        // Packets that are shorter than their headers say are kept as they are.
        assert_eq!((of(&v4[..36]), of(&v6[..52])), (64, 64));
        let longer = all.program(link, Keep { snap_bytes: 160, ..keep });
        assert_eq!(kept(&longer, &on(link, &v4)), 160);
    }
    assert_eq!((keep.of(Some(70)), keep.of(Some(10)), keep.of(None)), (118, 64, 64));
}
