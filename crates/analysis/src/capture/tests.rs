//! Conversations made of real PDUs, seen whole, with hidden headers, with gaps, with digests, from the middle on.

use wire::iscsi::{
    BHS_LEN, DataIn, DataOut, LoginRequest, LoginResponse, Lun, Pdu, R2t, ScsiCommand, ScsiResponse,
    TaskAttribute, padding,
};
use wire::pcap::Packet;

use super::*;

mod both_ends;
mod interfaces;

const MS: u64 = 1_000_000;
const BLOCK: usize = 8192;

/// Frames of one connection, and how much of each is kept.
struct Tap {
    frames: Vec<(u64, Vec<u8>)>,
    seq: [u32; 2],
    t_ns: u64,
    digests: (bool, bool),
    stat_sn: u32,
    /// Commands that the target allows.
    window: u32,
}

/// Rows as they are told.
#[derive(Default)]
struct Heard {
    pdus: Vec<PduRow>,
    commands: Vec<CommandRow>,
}

impl Listener for Heard {
    fn pdu(&mut self, row: &PduRow) {
        self.pdus.push(*row);
    }

    fn command(&mut self, row: &CommandRow) {
        self.commands.push(*row);
    }
}

impl Tap {
    fn new(digests: (bool, bool)) -> Tap {
        let mut tap = Tap {
            frames: Vec::new(),
            seq: [0xffff_f000, 77],
            t_ns: MS,
            digests: (false, false),
            stat_sn: 1,
            window: 32,
        };
        for (direction, flags) in [(0, 0x02), (1, 0x12), (0, 0x10)] {
            tap.segment(direction, flags, &[]);
        }
        tap.login(digests);
        tap
    }

    fn login(&mut self, digests: (bool, bool)) {
        let value = |on| if on { "CRC32C" } else { "None" };
        let text =
            format!("HeaderDigest={}\0DataDigest={}\0", value(digests.0), value(digests.1)).into_bytes();
        let mut request = [0; BHS_LEN];
        (request[0], request[1], request[7], request[19]) = (0x43, 0x87, text.len() as u8, 1);
        let request = LoginRequest::parse(&request).expect("a login");
        let mut response = [0; BHS_LEN];
        (response[0], response[1], response[7], response[19]) = (0x23, 0x87, text.len() as u8, 1);
        response[35] = 31;
        let response = LoginResponse::parse(&response).expect("a login");
        self.pdus(0, &[(request.into(), text.clone())]);
        self.pdus(1, &[(response.into(), text)]);
        self.digests = digests;
    }

    /// One segment per 1448 bytes of these PDUs, 10 µs apart, after a millisecond.
    fn pdus(&mut self, direction: usize, pdus: &[(Pdu, Vec<u8>)]) {
        let bytes = self.bytes(pdus);
        self.t_ns += MS;
        for piece in bytes.chunks(1448) {
            self.segment(direction, 0x18, piece);
        }
    }

    fn bytes(&self, pdus: &[(Pdu, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (pdu, data) in pdus {
            let mut header = [0; BHS_LEN];
            pdu.emit(&mut header);
            bytes.extend(header);
            bytes.extend(vec![0xcc; if self.digests.0 { 4 } else { 0 }]);
            bytes.extend(data);
            bytes.extend(vec![0; padding(data.len())]);
            bytes.extend(vec![0xdd; if self.digests.1 && !data.is_empty() { 4 } else { 0 }]);
        }
        bytes
    }

    fn segment(&mut self, direction: usize, flags: u8, payload: &[u8]) {
        let mut frame = vec![0; 14];
        (frame[12], frame[13]) = (8, 0);
        let mut ip = [0_u8; 20];
        (ip[0], ip[9]) = (0x45, 6);
        ip[2..4].copy_from_slice(&((40 + payload.len()) as u16).to_be_bytes());
        (ip[12], ip[15], ip[16], ip[19]) = (10, direction as u8, 10, 1 - direction as u8);
        let mut tcp = [0_u8; 20];
        let ports = [40_000_u16, 3260];
        tcp[..2].copy_from_slice(&ports[direction].to_be_bytes());
        tcp[2..4].copy_from_slice(&ports[1 - direction].to_be_bytes());
        tcp[4..8].copy_from_slice(&self.seq[direction].to_be_bytes());
        tcp[8..12].copy_from_slice(&self.seq[1 - direction].to_be_bytes());
        (tcp[12], tcp[13], tcp[14]) = (0x50, flags, 0xff);
        frame.extend(ip);
        frame.extend(tcp);
        frame.extend(payload);
        self.t_ns += 10_000;
        self.frames.push((self.t_ns, frame));
        let marks = u32::from(flags & 0x02 != 0);
        self.seq[direction] = self.seq[direction].wrapping_add(payload.len() as u32 + marks);
    }

    /// A read of `pieces` Data-In PDUs.
    fn read(&mut self, cmd_sn: u32, pieces: usize) {
        self.pdus(0, &[(command(cmd_sn, true, pieces * BLOCK, 0), Vec::new())]);
        let answer = self.answer(cmd_sn, pieces);
        self.pdus(1, &answer);
    }

    /// What a read is answered with.
    fn answer(&mut self, cmd_sn: u32, pieces: usize) -> Vec<(Pdu, Vec<u8>)> {
        let mut answer = Vec::new();
        for n in 0..pieces {
            let mut header = [0; BHS_LEN];
            let status = n + 1 == pieces;
            (header[0], header[1]) = (0x25, if status { 0x81 } else { 0 });
            header[5..8].copy_from_slice(&(BLOCK as u32).to_be_bytes()[1..]);
            header[16..20].copy_from_slice(&(cmd_sn | 0x100).to_be_bytes());
            header[20..24].fill(0xff);
            header[24..28].copy_from_slice(&self.stat_sn.to_be_bytes());
            header[28..32].copy_from_slice(&(cmd_sn + 1).to_be_bytes());
            header[32..36].copy_from_slice(&(cmd_sn + self.window).to_be_bytes());
            header[40..44].copy_from_slice(&((n * BLOCK) as u32).to_be_bytes());
            answer.push((DataIn::parse(&header).expect("data").into(), vec![0x5a; BLOCK]));
        }
        self.stat_sn += 1;
        answer
    }

    /// A write of one block, half of it immediate, half asked for.
    fn write(&mut self, cmd_sn: u32) {
        let half = BLOCK / 2;
        self.pdus(0, &[(command(cmd_sn, false, BLOCK, half), vec![1; half])]);
        let (itt, max_cmd_sn) = (cmd_sn | 0x100, cmd_sn + 32);
        let r2t = R2t {
            lun: Lun::from_number(0),
            itt,
            ttt: 9,
            stat_sn: self.stat_sn,
            exp_cmd_sn: cmd_sn + 1,
            max_cmd_sn,
            r2t_sn: 0,
            buffer_offset: half as u32,
            desired_len: half as u32,
        };
        self.pdus(1, &[(r2t.into(), Vec::new())]);
        let mut out = [0; BHS_LEN];
        (out[0], out[1]) = (0x05, 0x80);
        out[5..8].copy_from_slice(&(half as u32).to_be_bytes()[1..]);
        out[16..20].copy_from_slice(&itt.to_be_bytes());
        self.pdus(0, &[(DataOut::parse(&out).expect("data").into(), vec![2; half])]);
        let mut response = [0; BHS_LEN];
        (response[0], response[1]) = (0x21, 0x80);
        response[16..20].copy_from_slice(&itt.to_be_bytes());
        response[28..32].copy_from_slice(&(cmd_sn + 1).to_be_bytes());
        response[32..36].copy_from_slice(&max_cmd_sn.to_be_bytes());
        self.stat_sn += 1;
        self.pdus(1, &[(ScsiResponse::parse(&response).expect("a response").into(), Vec::new())]);
    }

    /// What is told if `keep` bytes of each frame are kept and frames that `seen` denies are not in the capture.
    fn told(&self, keep: usize, seen: impl Fn(usize) -> bool) -> (Connection, Heard) {
        let (mut analyzer, mut heard) = (Analyzer::new(), Heard::default());
        for (t_ns, frame) in self.frames.iter().enumerate().filter(|(n, _)| seen(*n)).map(|(_, frame)| frame)
        {
            let bytes = &frame[..keep.min(frame.len())];
            let packet = Packet { t_ns: *t_ns, link: 1, interface: 0, len: frame.len(), bytes };
            analyzer.packet(&packet, "", &mut heard);
        }
        let capture = analyzer.finish(0, None);
        (capture.connections.into_iter().next().expect("a connection"), heard)
    }
}

fn command(cmd_sn: u32, read: bool, bytes: usize, immediate: usize) -> Pdu {
    let mut cdb = [0; 16];
    cdb[0] = if read { 0x28 } else { 0x2a };
    let command = ScsiCommand {
        immediate: false,
        is_final: true,
        read,
        write: !read,
        attribute: TaskAttribute::Simple,
        ahs_len: 0,
        data_segment_len: immediate as u32,
        lun: Lun::from_number(0),
        itt: cmd_sn | 0x100,
        expected_data_transfer_len: bytes as u32,
        cmd_sn,
        exp_stat_sn: 1,
        cdb,
    };
    command.into()
}

fn conversation(digests: (bool, bool)) -> Tap {
    let mut tap = Tap::new(digests);
    for n in 0..4 {
        tap.read(2 * n + 1, 4);
        tap.write(2 * n + 2);
    }
    tap
}

const DIGESTS: [(bool, bool); 4] = [(false, false), (true, false), (false, true), (true, true)];

#[test]
fn a_whole_conversation_with_every_choice_of_digests() {
    for digests in DIGESTS {
        let (connection, heard) = conversation(digests).told(usize::MAX, |_| true);
        let iscsi = connection.iscsi.expect("iSCSI");
        assert!(connection.handshake && iscsi.login);
        assert_eq!((iscsi.header_digest, iscsi.data_digest), (Some(digests.0), Some(digests.1)));
        assert_eq!(iscsi.framing.map(|framing| (framing.pdus, framing.lost_bytes)), [(13, 0), (25, 0)]);
        assert_eq!((iscsi.commands.sent, iscsi.commands.completed), (8, 8));
        assert_eq!(iscsi.commands.read_bytes, 16 * BLOCK as u64);
        assert_eq!(iscsi.commands.written_bytes, 4 * BLOCK as u64);
        assert_eq!(iscsi.commands.r2ts_per_write, Some(Heights { mean: 1.0, max: 1 }));
        assert_eq!(iscsi.commands.in_flight.map(|level| level.max), Some(1));
        assert_eq!(iscsi.window.map(|window| (window.largest, window.closed)), Some((32, 0)));
        // A write: R2T after 1.01 ms, its data within 1.03 ms (three segments), the status 1.01 ms later.
        let writes = heard.commands.iter().filter(|row| row.operation == Some(0x2a)).collect::<Vec<_>>();
        assert_eq!(
            writes.iter().map(|row| (row.service_ns, row.r2ts)).collect::<Vec<_>>(),
            [(3_050_000, 1); 4]
        );
        assert_eq!(iscsi.commands.initiator_turn.map(|turn| turn.min_s), Some(1.01e-3));
        assert_eq!(iscsi.commands.status_turn.map(|turn| turn.min_s), Some(1.01e-3));
    }
}

#[test]
fn pdus_have_their_bytes_and_packets() {
    let (_, heard) = conversation((false, false)).told(usize::MAX, |_| true);
    let data = heard.pdus.iter().filter(|row| row.opcode == wire::iscsi::Opcode::DataIn).collect::<Vec<_>>();
    // Three segments of the handshake, two of the login, one command; 48 + 8192 bytes are 5.7 segments.
    assert_eq!((data[0].first_packet, data[0].last_packet), (7, 12));
    assert_eq!((data[1].first_packet, data[1].last_packet), (12, 18));
    assert_eq!(data[1].start - data[0].start, 48 + BLOCK as u64);
    assert_eq!((data[0].end, data[1].end), (data[1].start, data[2].start));
}

#[test]
fn headers_alone_give_the_same_commands() {
    let whole = conversation((false, false));
    let (_, expected) = whole.told(usize::MAX, |_| true);
    // 54 bytes of Ethernet, IP and TCP: the first 48 of a payload, with nothing of the login's text.
    let (connection, heard) = whole.told(54 + 48, |_| true);
    let iscsi = connection.iscsi.expect("iSCSI");
    let [_, target] = iscsi.framing;
    assert!(target.inferred > 0, "Data-In headers in mid-segment are hidden: {target:?}");
    assert!(connection.directions[1].kept_share.expect("data") < 0.1);
    // The status is in the last Data-In, whose header is hidden: it follows from the bytes that were asked for.
    let rows = |heard: &Heard| {
        let rows = heard.commands.iter();
        rows.map(|row| (row.itt, row.service_ns, row.response_packet)).collect::<Vec<_>>()
    };
    assert_eq!(rows(&heard), rows(&expected));
    let inferred = heard.commands.iter().filter(|row| row.inferred).count() as u64;
    assert_eq!((iscsi.commands.inferred, iscsi.commands.completed), (inferred, 8));
    assert!(inferred > 0 && target.refuted == 0, "{target:?}");
    assert_eq!(iscsi.commands.sent, 8);
}

#[test]
fn begins_in_the_middle_with_every_choice_of_digests() {
    for digests in DIGESTS {
        let tap = conversation(digests);
        // In the middle of the first read's data.
        let (connection, heard) = tap.told(usize::MAX, |n| n >= 10);
        let iscsi = connection.iscsi.expect("iSCSI");
        assert!(!connection.handshake && !iscsi.login);
        assert_eq!((iscsi.header_digest, iscsi.data_digest), (Some(digests.0), Some(digests.1)));
        assert_eq!((iscsi.commands.sent, iscsi.commands.completed), (7, 7), "{digests:?}");
        assert_eq!(heard.commands.len(), 7);
    }
}

#[test]
fn what_the_tap_missed_is_passed_over() {
    let tap = conversation((false, false));
    // A segment inside the data of a read: its length is known from what was acknowledged.
    let (connection, heard) = tap.told(usize::MAX, |n| n != 8);
    assert_eq!(connection.directions[1].missing_bytes, 1448);
    assert_eq!(heard.commands.len(), 8);
    let iscsi = connection.iscsi.expect("iSCSI");
    assert_eq!(iscsi.framing.map(|framing| framing.lost_bytes), [0, 0]);
}

#[test]
fn any_loss_and_any_cut_ends_well() {
    let tap = conversation((true, false));
    for keep in [54, 60, 80, 96, 110, 160, 1000] {
        for step in 2..9 {
            let (connection, heard) = tap.told(keep, |n| n % step != 1);
            let commands = connection.iscsi.map_or(0, |iscsi| iscsi.commands.completed);
            assert_eq!(commands, heard.commands.len() as u64);
            assert!(commands <= 8);
        }
    }
}

#[test]
fn a_file_that_is_cut_off_says_where() {
    let tap = conversation((false, false));
    let mut file = Vec::new();
    for word in [0xa1b2_3c4d_u32, 0x0002_0004, 0, 0, 65_535, 1] {
        file.extend(word.to_be_bytes());
    }
    for (t_ns, frame) in &tap.frames {
        for word in [0, *t_ns as u32, frame.len() as u32, frame.len() as u32] {
            file.extend(word.to_be_bytes());
        }
        file.extend(frame);
    }
    let read = |file: &[u8]| file::read(file, &mut (), |_| {});
    let whole = read(&file).expect("a capture");
    assert_eq!((whole.cut, whole.packets), (None, tap.frames.len() as u64));
    let cut = read(&file[..file.len() - 1]).expect("a capture");
    let at = file.len() - 1;
    assert_eq!(cut.cut, Some(format!("the file ends at byte {at} within a packet or block")));
    assert_eq!(cut.packets, whole.packets - 1);
    let mut damaged = file.clone();
    damaged.extend([0xff; 16]);
    let damaged = read(&damaged).expect("a capture");
    let why = damaged.cut.expect("damaged");
    assert!(why.starts_with(&format!("at byte {}: a packet of 4294967295 bytes", file.len())), "{why}");
    assert_eq!(
        read(b"").expect_err("nothing").to_string(),
        "has 0 bytes, too few for the header of a pcap or pcapng file"
    );
    assert!(read(b"GIF89a").expect_err("a picture").to_string().contains("47494638"));
}

/// A CmdSN that no other command has, nor its task tag.
const LONE: u32 = 0x0001_0002;

/// One command's status never comes, and reads go on for long; `end` may say why.
fn without_a_status(end: impl FnOnce(&mut Tap)) -> Iscsi {
    let mut tap = Tap::new((false, false));
    tap.read(1, 1);
    // Far from the task tags of the others.
    tap.pdus(0, &[(command(LONE, true, BLOCK, 0), Vec::new())]);
    end(&mut tap);
    (3..1203).for_each(|cmd_sn| tap.read(cmd_sn, 1));
    tap.told(usize::MAX, |_| true).0.iscsi.expect("iSCSI")
}

#[test]
fn a_command_without_its_status_is_not_waited_for_for_ever() {
    let found = without_a_status(|_| {});
    assert_eq!((found.commands.completed, found.commands.unanswered), (1201, 1));
    // So many others, and 64 for each that is open.
    assert!(
        (1024..=1100).contains(&found.commands.overlapping.expect("a whole view")),
        "{:?}",
        found.commands
    );
}

#[test]
fn what_was_aborted_is_not_waited_for() {
    for (function, referenced) in [(1, LONE | 0x100), (5, u32::MAX), (6, u32::MAX)] {
        let found = without_a_status(|tap| {
            let mut request = [0; BHS_LEN];
            (request[0], request[1], request[18], request[19]) = (0x42, 0x80 | function, 7, 7);
            request[20..24].copy_from_slice(&u32::to_be_bytes(referenced));
            let mut response = [0; BHS_LEN];
            (response[0], response[1], response[18], response[19]) = (0x22, 0x80, 7, 7);
            tap.pdus(0, &[(Pdu::parse(&request).expect("a request"), Vec::new())]);
            tap.pdus(1, &[(Pdu::parse(&response).expect("a response"), Vec::new())]);
        });
        assert_eq!((found.commands.completed, found.commands.unanswered), (1201, 1), "{function}");
        assert_eq!(found.commands.overlapping, Some(0), "{function}");
    }
}

/// The flush of a busy disk.
#[test]
fn a_command_that_many_overtake_and_that_is_answered_is_completed() {
    let mut tap = Tap::new((false, false));
    tap.pdus(0, &[(command(LONE, true, BLOCK, 0), Vec::new())]);
    (2..502).for_each(|cmd_sn| tap.read(cmd_sn, 1));
    let answer = tap.answer(LONE, 1);
    tap.pdus(1, &answer);
    let iscsi = tap.told(usize::MAX, |_| true).0.iscsi.expect("iSCSI");
    assert_eq!((iscsi.commands.completed, iscsi.commands.unanswered), (501, 0));
}

/// The other direction shows which digests there are while data passes whose PDU began before that was known.
#[test]
fn digests_that_are_learned_from_the_other_direction_within_a_pdu() {
    for digests in DIGESTS {
        let mut tap = Tap::new(digests);
        let begin = tap.frames.len();
        tap.pdus(0, &[(command(1, true, 2 * BLOCK, 0), Vec::new())]);
        let bytes = tap.answer(1, 2);
        let bytes = tap.bytes(&bytes);
        let pieces: Vec<&[u8]> = bytes.chunks(1448).collect();
        for (n, piece) in pieces.into_iter().enumerate() {
            tap.segment(1, 0x18, piece);
            if n == 1 {
                for cmd_sn in [2, 3, 4] {
                    tap.pdus(0, &[(command(cmd_sn, true, BLOCK, 0), Vec::new())]);
                }
            }
        }
        for cmd_sn in [2, 3, 4] {
            let answer = tap.answer(cmd_sn, 1);
            tap.pdus(1, &answer);
        }
        let (connection, _) = tap.told(usize::MAX, |n| n >= begin);
        let iscsi = connection.iscsi.expect("iSCSI");
        assert_eq!((iscsi.commands.sent, iscsi.commands.completed), (4, 4), "{digests:?}");
        assert_eq!((iscsi.header_digest, iscsi.data_digest), (Some(digests.0), Some(digests.1)));
    }
}
