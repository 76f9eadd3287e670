//! Every encapsulation: its packet at its place, cut off anywhere, disturbed anywhere, and the names of others.

use super::*;

const IPV4: [u8; 2] = [8, 0];
const MAC: [u8; 12] = [0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 2];

fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// An IPv4 header with a valid checksum in front of `payload`.
fn v4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    header[2..4].copy_from_slice(&((20 + payload.len()) as u16).to_be_bytes());
    let sum = header.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum::<u32>();
    let folded = (sum & 0xffff) + (sum >> 16);
    header[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    join(&[&header, payload])
}

fn v6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 40];
    (header[0], header[6], header[23], header[39]) = (0x60, next, 1, 2);
    header[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
    join(&[&header, payload])
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    join(&[&[0xc0, 0], &port.to_be_bytes(), &(payload.len() as u16 + 8).to_be_bytes(), &[0, 0], payload])
}

fn ethernet(kind: [u8; 2], payload: &[u8]) -> Vec<u8> {
    join(&[&MAC, &kind, payload])
}

/// The packet that is carried.
fn tcp() -> Vec<u8> {
    v4(6, &[0x9c, 0x40, 0x0c, 0xbc, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0, 7])
}

fn frame() -> Vec<u8> {
    ethernet(IPV4, &tcp())
}

fn tunnels(content: Content) -> Vec<Tunnel> {
    match content {
        Content::Tcp(inner) => inner.tunnels.iter().collect(),
        other => panic!("{other:?}"),
    }
}

/// Every link layer and tunnel: name, link layer, frame, tunnels.
fn all() -> Vec<(&'static str, u32, Vec<u8>, Vec<Tunnel>)> {
    let (tcp, frame) = (tcp(), frame());
    let over_ip = |protocol: u8, payload: &[u8]| ethernet(IPV4, &v4(protocol, payload));
    let over_udp = |port: u16, payload: &[u8]| over_ip(17, &udp(port, payload));
    let gre = |flags: [u8; 2], kind: [u8; 2], rest: &[u8]| over_ip(47, &join(&[&flags, &kind, rest]));
    let mpls = |rest: &[u8]| ethernet([0x88, 0x47], &join(&[&[0, 1, 0, 64, 0, 2, 1, 64], rest]));
    let vxlan = [8, 0, 0, 0, 0, 0, 5, 0];
    let none = Vec::new;
    vec![
        ("Ethernet", 1, frame.clone(), none()),
        ("VLAN", 1, ethernet([0x81, 0], &join(&[&[0, 5, 8, 0], &tcp])), none()),
        ("QinQ", 1, ethernet([0x88, 0xa8], &join(&[&[0, 5, 0x81, 0, 0, 6, 8, 0], &tcp])), none()),
        ("VN-Tag", 1, ethernet([0x89, 0x26], &join(&[&[0, 0, 0, 1, 8, 0], &tcp])), none()),
        ("802.1BR", 1, ethernet([0x89, 0x3f], &join(&[&[0, 0, 0, 1, 0, 0, 8, 0], &tcp])), none()),
        ("802.1ah", 1, ethernet([0x88, 0xe7], &join(&[&[0, 0, 0, 9], &frame])), none()),
        ("SNAP", 1, ethernet([0, 100], &join(&[&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], &tcp])), none()),
        ("IP over LLC", 1, ethernet([0, 100], &join(&[&[6, 6, 3], &tcp])), none()),
        ("NSH", 1, ethernet([0x89, 0x4f], &join(&[&[0, 6, 2, 3], &[0; 20], &frame])), none()),
        ("SLL", 113, join(&[&[0; 14], &IPV4, &tcp]), none()),
        ("SLL with a VLAN", 113, join(&[&[0; 14], &[0x81, 0, 0, 5, 8, 0], &tcp]), none()),
        ("SLL2", 276, join(&[&IPV4, &[0; 18], &tcp]), none()),
        ("SLL2 with a VLAN", 276, join(&[&[0x81, 0], &[0; 18], &[0, 5, 8, 0], &tcp]), none()),
        ("BSD loopback", 0, join(&[&[2, 0, 0, 0], &tcp]), none()),
        ("IP", 101, tcp.clone(), none()),
        ("IP of BSD", 12, tcp.clone(), none()),
        ("IPv6", 229, v6(6, &tcp[20..]), none()),
        ("PPP", 9, join(&[&[0xff, 3, 0, 0x21], &tcp]), none()),
        ("PPP, compressed", 50, join(&[&[0x21], &tcp]), none()),
        ("PPP with a direction", 204, join(&[&[1, 0xff, 3, 0, 0x21], &tcp]), none()),
        ("C-HDLC", 104, join(&[&[0x0f, 0, 8, 0], &tcp]), none()),
        ("ENC", 109, join(&[&[0; 12], &tcp]), none()),
        ("PFLOG", 117, join(&[&[61], &[0; 63], &tcp]), none()),
        ("PPI", 192, join(&[&[0, 0, 12, 0, 1, 0, 0, 0, 0, 0, 0, 0], &frame]), none()),
        ("PKTAP", 258, join(&[&[12, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0], &frame]), none()),
        ("ERF", 197, join(&[&[0; 8], &[0x82], &[0; 7], &[0; 8], &[0; 2], &frame]), none()),
        ("NFLOG", 239, join(&[&[2, 0, 0, 9, 6, 0, 3, 0, 1, 2, 0, 0, 255, 0, 9, 0], &tcp]), none()),
        (
            "PPPoE",
            1,
            ethernet([0x88, 0x64], &join(&[&[0x11, 0, 0, 1, 0, 43, 0, 0x21], &tcp])),
            vec![Tunnel::Pppoe],
        ),
        ("MPLS", 1, mpls(&tcp), vec![Tunnel::Mpls]),
        ("MPLS link layer", 219, join(&[&[0, 1, 1, 64], &v6(6, &tcp[20..])]), vec![Tunnel::Mpls]),
        ("pseudo-wire", 1, mpls(&frame), vec![Tunnel::Mpls]),
        ("pseudo-wire with a control word", 1, mpls(&join(&[&[0, 0, 0, 9], &frame])), vec![Tunnel::Mpls]),
        (
            "pseudo-wire whose frame begins with a 4",
            1,
            mpls(&join(&[&[0x45, 0, 0, 1, 2, 3], &MAC[6..], &IPV4, &tcp])),
            vec![Tunnel::Mpls],
        ),
        ("MPLS in UDP", 1, over_udp(6635, &join(&[&[0, 1, 1, 64], &tcp])), vec![Tunnel::Mpls]),
        ("VXLAN", 1, over_udp(4789, &join(&[&vxlan, &frame])), vec![Tunnel::Vxlan]),
        (
            "VXLAN with a policy",
            1,
            over_udp(8472, &join(&[&[0x88, 0, 0, 3, 0, 0, 5, 0], &frame])),
            vec![Tunnel::Vxlan],
        ),
        ("VXLAN at any port", 1, over_udp(10_000, &join(&[&vxlan, &frame])), vec![Tunnel::Vxlan]),
        ("VXLAN-GPE", 1, over_udp(4790, &join(&[&[0x0c, 0, 0, 1, 0, 0, 5, 0], &tcp])), vec![Tunnel::Vxlan]),
        (
            "VXLAN over IPv6",
            1,
            ethernet([0x86, 0xdd], &v6(17, &udp(4789, &join(&[&vxlan, &frame])))),
            vec![Tunnel::Vxlan],
        ),
        (
            "GENEVE",
            1,
            over_udp(6081, &join(&[&[2, 0, 0x65, 0x58, 0, 0, 5, 0], &[0; 8], &frame])),
            vec![Tunnel::Geneve],
        ),
        ("GENEVE of IP", 1, over_udp(6081, &join(&[&[0, 0, 8, 0, 0, 0, 5, 0], &tcp])), vec![Tunnel::Geneve]),
        ("GTP-U", 1, over_udp(2152, &join(&[&[0x30, 255, 0, 41, 0, 0, 0, 1], &tcp])), vec![Tunnel::GtpU]),
        (
            "GTP-U with an extension",
            1,
            over_udp(2152, &join(&[&[0x34, 255, 0, 49, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 9, 0], &tcp])),
            vec![Tunnel::GtpU],
        ),
        (
            "L2TP",
            1,
            over_udp(1701, &join(&[&[0x40, 2, 0, 50, 0, 1, 0, 2, 0xff, 3, 0, 0x21], &tcp])),
            vec![Tunnel::L2tp],
        ),
        ("TZSP", 1, over_udp(37_008, &join(&[&[1, 0, 0, 1, 10, 1, 7, 0, 1], &frame])), vec![Tunnel::Tzsp]),
        ("GRE", 1, gre([0, 0], IPV4, &tcp), vec![Tunnel::Gre]),
        ("GRE with everything", 1, gre([0xb0, 0], IPV4, &join(&[&[0; 12], &tcp])), vec![Tunnel::Gre]),
        ("GRE in UDP", 1, over_udp(4754, &join(&[&[0, 0, 8, 0], &tcp])), vec![Tunnel::Gre]),
        ("NVGRE", 1, gre([0x20, 0], [0x65, 0x58], &join(&[&[0, 0, 5, 0], &frame])), vec![Tunnel::Gre]),
        (
            "PPTP",
            1,
            gre([0x30, 0x81], [0x88, 0x0b], &join(&[&[0; 4], &[0; 8], &[0xff, 3, 0, 0x21], &tcp])),
            vec![Tunnel::L2tp],
        ),
        ("ERSPAN I", 1, gre([0, 0], [0x88, 0xbe], &frame), vec![Tunnel::Erspan]),
        (
            "ERSPAN II",
            1,
            gre([0x10, 0], [0x88, 0xbe], &join(&[&[0; 4], &[0x10, 5, 0, 1, 0, 0, 0, 0], &frame])),
            vec![Tunnel::Erspan],
        ),
        (
            "ERSPAN III with a subheader",
            1,
            gre(
                [0x10, 0],
                [0x22, 0xeb],
                &join(&[&[0; 4], &[0x20, 5, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1], &[0; 8], &frame]),
            ),
            vec![Tunnel::Erspan],
        ),
        (
            "ERSPAN III of IP",
            1,
            gre([0x10, 0], [0x22, 0xeb], &join(&[&[0; 4], &[0x20, 5, 0, 1, 0, 0, 0, 0, 0, 0, 8, 0], &tcp])),
            vec![Tunnel::Erspan],
        ),
        ("IP in IP", 1, over_ip(4, &tcp), vec![Tunnel::IpInIp]),
        ("6in4", 1, over_ip(41, &v6(6, &tcp[20..])), vec![Tunnel::IpInIp]),
        ("EtherIP", 1, over_ip(97, &join(&[&[0x30, 0], &frame])), vec![Tunnel::EtherIp]),
        ("MPLS in IP", 1, over_ip(137, &join(&[&[0, 1, 1, 64], &tcp])), vec![Tunnel::Mpls]),
        (
            "authentication header",
            1,
            ethernet(IPV4, &v4(51, &join(&[&[4, 2], &[0; 14], &tcp]))),
            vec![Tunnel::IpInIp],
        ),
        (
            "IPv6 with options and an atomic fragment",
            1,
            ethernet(
                [0x86, 0xdd],
                &v6(0, &join(&[&[44, 0, 1, 4, 0, 0, 0, 0], &[4, 0, 0, 0, 0, 0, 0, 9], &tcp])),
            ),
            vec![Tunnel::IpInIp],
        ),
        (
            "MACsec without encryption",
            1,
            ethernet([0x88, 0xe5], &join(&[&[0x20, 0], &[0; 12], &IPV4, &tcp])),
            vec![Tunnel::MacSec],
        ),
        (
            "VLAN in VXLAN in GRE",
            1,
            gre(
                [0, 0],
                IPV4,
                &v4(17, &udp(4789, &join(&[&vxlan, &ethernet([0x81, 0], &join(&[&[0, 5, 8, 0], &tcp]))]))),
            ),
            vec![Tunnel::Vxlan, Tunnel::Gre],
        ),
    ]
}

#[test]
fn every_encapsulation_has_its_packet_at_its_place() {
    for (name, link, frame, expected) in all() {
        let content = decapsulate(link, &frame);
        let Content::Tcp(inner) = content else { panic!("{name}: {content:?}") };
        let packet = &frame[inner.ip_at..];
        assert!(packet[packet.len() - 21..] == tcp()[20..], "{name}: {} of {}", inner.ip_at, frame.len());
        assert!(matches!(packet.len(), 41 | 61), "{name}: {} bytes behind {}", packet.len(), inner.ip_at);
        assert_eq!(tunnels(content), expected, "{name}");
    }
}

#[test]
fn frames_that_are_cut_off_or_disturbed_end_well() {
    for (name, link, frame, _) in all() {
        for len in 0..frame.len() {
            if let Content::Tcp(inner) | Content::Fragment(inner) = decapsulate(link, &frame[..len]) {
                assert!(inner.ip_at < len, "{name} cut off after {len}");
            }
            for disturbance in [0x01, 0x04, 0x40, 0x80, 0xff] {
                let mut disturbed = frame.clone();
                disturbed[len] ^= disturbance;
                if let Content::Tcp(inner) | Content::Fragment(inner) = decapsulate(link, &disturbed) {
                    assert!(inner.ip_at < frame.len(), "{name} disturbed at {len}");
                }
            }
        }
    }
}

#[test]
fn nesting_is_bounded() {
    let mut packet = tcp();
    let mut deep = 0;
    while matches!(decapsulate(101, &packet), Content::Tcp(_)) {
        packet = v4(4, &packet);
        deep += 1;
    }
    assert!((10..=HEADERS_MAX).contains(&deep), "{deep} headers");
    assert_eq!(decapsulate(101, &packet), Content::Other(Other::Deep));
    let tags = [0x81, 0, 0, 1].repeat(1_000);
    assert_eq!(decapsulate(1, &join(&[&MAC, &tags])), Content::Other(Other::Deep));
}

#[test]
fn others_are_named() {
    let check = |link, frame: &[u8], expected| assert_eq!(decapsulate(link, frame), Content::Other(expected));
    check(1, &ethernet([8, 6], &[0; 28]), Other::EtherType(0x0806));
    check(1, &ethernet([0, 38], &[0x42, 0x42, 3]), Other::Llc(0x42));
    check(1, &ethernet([0x88, 0xe5], &[0x2c, 0, 0, 0, 0, 1]), Other::EtherType(0x88e5));
    check(1, &ethernet(IPV4, &v4(50, &[0; 40])), Other::Protocol(50));
    check(1, &ethernet(IPV4, &v4(17, &udp(4500, &[1; 40]))), Other::Udp(4500));
    check(1, &ethernet(IPV4, &v4(17, &udp(12_345, &[8; 40]))), Other::Udp(0));
    check(1, &ethernet(IPV4, &v4(1, &[8, 0, 0, 0])), Other::Protocol(1));
    check(1, &ethernet([0x88, 0x64], &[0x11, 9, 0, 0, 0, 4]), Other::EtherType(0x8864));
    check(1, &ethernet(IPV4, &[0x55; 40]), Other::Damaged);
    check(9, &[0xc0, 0x21, 1, 1], Other::Ppp(0xc021));
    check(105, &[0; 64], Other::LinkLayer(105));
    check(1, &[0; 13], Other::Cut);
    let mut fragment = v4(6, &[0; 40]);
    fragment[6] = 0x20;
    let found = decapsulate(1, &ethernet(IPV4, &fragment));
    assert_eq!(found, Content::Fragment(Inner { ip_at: 14, tunnels: Tunnels::default() }));
}

#[test]
fn reports_of_packets_that_did_not_arrive_have_a_place() {
    let inner = Inner { ip_at: 14, tunnels: Tunnels::default() };
    let check = |frame: &[u8], other| assert_eq!(decapsulate(1, frame), Content::Unreachable(inner, other));
    check(&ethernet(IPV4, &v4(1, &[3, 4, 0, 0, 0, 0, 5, 220])), Other::PacketTooBig);
    check(&ethernet(IPV4, &v4(1, &[3, 13, 0, 0])), Other::Protocol(1));
    let v6 = |icmp: &[u8]| {
        let mut packet = vec![0x60, 0, 0, 0, 0, icmp.len() as u8, 58, 64];
        packet.extend([7; 32]);
        packet.extend(icmp);
        ethernet([0x86, 0xdd], &packet)
    };
    check(&v6(&[2, 0, 0, 0, 0, 0, 5, 0]), Other::PacketTooBig);
    check(&v6(&[1, 4, 0, 0]), Other::Protocol(58));
    assert_eq!(decapsulate(1, &v6(&[135, 0, 0, 0])), Content::Other(Other::Protocol(58)));
}

#[test]
fn frames_of_version_2_of_the_cooked_capture_name_their_interface() {
    let mut frame = [0; 20];
    frame[7] = 9;
    assert_eq!(interface_index(276, &frame), Some(9));
    assert_eq!((interface_index(276, &frame[..19]), interface_index(113, &frame)), (None, None));
}
