//! Connections that carry something else: none is called iSCSI, on its well-known port and on others.

#[path = "../tap/mod.rs"]
mod tap;

use dissect::{ConnectionSummary, Dissector, PduRow, RowSink};
use wire::iscsi::Pdu;
use wire::pcap::Packet;

use tap::{BLOCK, Tap, command};

/// A linear congruential generator.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.roll() as u8).collect()
    }
}

/// One turn of a protocol: a request of the client and its answer.
type Turn = fn(u32, &mut Dice) -> [Vec<u8>; 2];

fn with_be_len(marks: u32, body: &[u8]) -> Vec<u8> {
    [&(marks | body.len() as u32).to_be_bytes(), body].concat()
}

/// SMB2 header behind NetBIOS's length: MS-SMB2 section 2.2.1.
fn smb2(n: u32, command: u8, is_answer: bool, body: &[u8]) -> Vec<u8> {
    let mut header = [0; 64];
    header[..6].copy_from_slice(&[0xfe, b'S', b'M', b'B', 64, 0]);
    (header[6], header[12], header[16]) = (1, command, u8::from(is_answer));
    header[24..28].copy_from_slice(&n.to_le_bytes());
    (header[36], header[40]) = (5, 0x21);
    with_be_len(0, &[&header, body].concat())
}

/// Reads of a file with many zeros, as of a disk image.
fn smb(n: u32, dice: &mut Dice) -> [Vec<u8>; 2] {
    let mut asked = vec![0; 49];
    (asked[0], asked[2], asked[6]) = (49, 0x50, 0x40);
    let mut data = vec![0; 16_400];
    (data[0], data[2], data[5]) = (17, 0x50, 0x40);
    for _ in 0..40 {
        let at = dice.roll() as usize % (data.len() - 8);
        data[at..at + 4].copy_from_slice(&(dice.roll() as u32 % 256).to_le_bytes());
    }
    [smb2(n, 8, false, &asked), smb2(n, 8, true, &data)]
}

fn http(n: u32, dice: &mut Dice) -> [Vec<u8>; 2] {
    let body = match n % 3 {
        0 => vec![0; 9_000],
        1 => dice.bytes(9_000),
        _ => "<p>Hello, world</p>\r\n".repeat(400).into_bytes(),
    };
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    [
        format!("GET /{n} HTTP/1.1\r\nHost: example.org\r\n\r\n").into_bytes(),
        [head.into_bytes(), body].concat(),
    ]
}

/// NFS READ over RPC: RFC 5531 sections 9 and 11.
fn nfs(n: u32, _: &mut Dice) -> [Vec<u8>; 2] {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>();
    let call = words(&[n, 0, 2, 100_003, 3, 6, 0, 0, 0, 0, 8, 0, 7, 0, n * 8192, 8192]);
    let reply =
        [words(&[n, 1, 0, 0, 0, 0, 0, 1, 1, 0o644, 1, 0, 0, 0, 8192, 0, 8192]), vec![0; 8192]].concat();
    [with_be_len(1 << 31, &call), with_be_len(1 << 31, &reply)]
}

fn tls(_: u32, dice: &mut Dice) -> [Vec<u8>; 2] {
    [60, 9_000].map(|len| {
        let body = dice.bytes(len);
        [&[23, 3, 3], &(len as u16).to_be_bytes()[..], &body].concat()
    })
}

/// A ticket request in DER behind its length: RFC 4120 section 7.2.2.
fn kerberos(_: u32, dice: &mut Dice) -> [Vec<u8>; 2] {
    [(0x6a, 180), (0x6b, 700)].map(|(tag, len)| {
        let inside = [&[tag, 0x82], &(len as u16).to_be_bytes()[..], &dice.bytes(len)].concat();
        with_be_len(0, &inside)
    })
}

fn random(_: u32, dice: &mut Dice) -> [Vec<u8>; 2] {
    [dice.bytes(3_000), dice.bytes(3_000)]
}

/// Small numbers in either byte order, and zeros.
fn counters(n: u32, dice: &mut Dice) -> [Vec<u8>; 2] {
    [0, 1].map(|_| {
        let word = |m: u32| match (n + m) % 3 {
            0 => m.to_le_bytes(),
            1 => (m % 70).to_be_bytes(),
            _ => (dice.roll() as u32 % 4).to_le_bytes(),
        };
        (0..700).map(word).collect::<Vec<_>>().concat()
    })
}

/// A file with iSCSI in it, as a capture is: both directions of it are in one.
fn file_of_iscsi(n: u32, _: &mut Dice) -> [Vec<u8>; 2] {
    let mut file = Tap::begun();
    let mut bytes = Vec::new();
    for m in 1..20 {
        let request: Pdu = command(20 * n + m, true, BLOCK, 0);
        bytes.extend(file.bytes(&[(request, Vec::new())]));
        let answer = file.answer(20 * n + m, 1);
        bytes.extend(file.bytes(&answer));
    }
    [format!("GET {n}\r\n").into_bytes(), bytes]
}

const FOREIGN: [(&str, Turn); 8] = [
    ("SMB", smb),
    ("HTTP", http),
    ("NFS", nfs),
    ("TLS", tls),
    ("Kerberos", kerberos),
    ("random bytes", random),
    ("counters", counters),
    ("a file of iSCSI", file_of_iscsi),
];

/// Counts the rows that belong to iSCSI.
#[derive(Default)]
struct Pdus(u64);

impl RowSink for Pdus {
    fn pdu(&mut self, _: &PduRow) {
        self.0 += 1;
    }
}

/// Dissects frames from the `skip`th one on, with `keep` bytes of each, on `port` instead of 3260.
fn dissect(tap: &Tap, skip: usize, keep: usize, port: u16) -> (ConnectionSummary, u64) {
    let (mut dissector, mut rows) = (Dissector::new(), Pdus::default());
    for (t_ns, frame) in &tap.frames[skip..] {
        let mut bytes = frame[..keep.min(frame.len())].to_vec();
        for at in [34, 36] {
            if bytes[at..at + 2] == 3260_u16.to_be_bytes() {
                bytes[at..at + 2].copy_from_slice(&port.to_be_bytes());
            }
        }
        let packet = Packet { t_ns: *t_ns, link: 1, interface: 0, len: frame.len(), bytes: &bytes };
        dissector.packet(&packet, "", &mut rows);
    }
    let capture = dissector.finish(0, None, &mut ());
    (capture.connections.into_iter().next().expect("a connection"), rows.0)
}

#[test]
fn other_protocols_are_not_called_iscsi() {
    for (name, turn) in FOREIGN {
        for seed in 1..5 {
            let (mut tap, mut dice) = (Tap::begun(), Dice(seed));
            for n in 0..30 {
                for (direction, bytes) in turn(n, &mut dice).iter().enumerate() {
                    bytes.chunks(1448).for_each(|piece| tap.segment(direction, 0x18, piece));
                }
            }
            for (skip, keep, port) in [
                (0, usize::MAX, 3260),
                (0, usize::MAX, 445),
                (9, usize::MAX, 3260),
                (0, 96, 3260),
                (7, 200, 2049),
            ] {
                let (connection, pdus) = dissect(&tap, skip, keep, port);
                let about = format!("{name}, seed {seed}, from {skip} on, {keep} kept, port {port}");
                assert_eq!((&connection.iscsi, pdus), (&None, 0), "{about}");
            }
        }
    }
}

#[test]
fn iscsi_is_found_on_any_port_and_from_any_packet_on() {
    let mut tap = Tap::new((true, false));
    for cmd_sn in 1..30 {
        tap.pdus(0, &[(command(cmd_sn, true, 2 * BLOCK, 0), Vec::new())]);
        let answer = tap.answer(cmd_sn, 2);
        tap.pdus(1, &answer);
    }
    for port in [3260, 860, 13_260] {
        for skip in 0..tap.frames.len() / 2 {
            for keep in [usize::MAX, 102] {
                let (connection, _) = dissect(&tap, skip, keep, port);
                assert!(connection.iscsi.is_some(), "port {port}, from {skip} on, {keep} kept");
            }
        }
    }
}
