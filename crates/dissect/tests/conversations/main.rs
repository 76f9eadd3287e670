//! Conversations of real PDUs: dissected whole, with hidden headers, with gaps, with digests, from the middle on.

mod arrival;
mod interfaces;
#[path = "../tap/mod.rs"]
mod tap;

use dissect::{CommandRow, ConnectionSummary, Count, Dissector, IscsiSummary, LevelSummary, PduRow, RowSink};
use wire::iscsi::{BHS_LEN, DataOut, Lun, Pdu, R2t, ScsiResponse};
use wire::pcap::Packet;

use tap::{BLOCK, Tap, command};

/// Rows of a dissection.
#[derive(Default)]
struct Rows {
    pdus: Vec<PduRow>,
    commands: Vec<CommandRow>,
}

impl RowSink for Rows {
    fn pdu(&mut self, row: &PduRow) {
        self.pdus.push(*row);
    }

    fn command(&mut self, row: &CommandRow) {
        self.commands.push(*row);
    }
}

impl Tap {
    /// A read of `pieces` Data-In PDUs.
    fn read(&mut self, cmd_sn: u32, pieces: usize) {
        self.pdus(0, &[(command(cmd_sn, true, pieces * BLOCK, 0), Vec::new())]);
        let answer = self.answer(cmd_sn, pieces);
        self.pdus(1, &answer);
    }

    /// A write of one block, half of it immediate, half solicited.
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
        response[24..28].copy_from_slice(&self.stat_sn.to_be_bytes());
        response[28..32].copy_from_slice(&(cmd_sn + 1).to_be_bytes());
        response[32..36].copy_from_slice(&max_cmd_sn.to_be_bytes());
        self.stat_sn += 1;
        self.pdus(1, &[(ScsiResponse::parse(&response).expect("a response").into(), Vec::new())]);
    }

    /// Dissects the frames for whose number `seen` holds, with `keep` bytes of each.
    fn dissect(&self, keep: usize, seen: impl Fn(usize) -> bool) -> (ConnectionSummary, Rows) {
        let (mut dissector, mut rows) = (Dissector::new(), Rows::default());
        for (t_ns, frame) in self.frames.iter().enumerate().filter(|(n, _)| seen(*n)).map(|(_, frame)| frame)
        {
            let bytes = &frame[..keep.min(frame.len())];
            let packet = Packet { t_ns: *t_ns, link: 1, interface: 0, len: frame.len(), bytes };
            dissector.packet(&packet, "", &mut rows);
        }
        let capture = dissector.finish(0, None, &mut rows);
        (capture.connections.into_iter().next().expect("a connection"), rows)
    }
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
        let (connection, rows) = conversation(digests).dissect(usize::MAX, |_| true);
        let iscsi = connection.iscsi.expect("iSCSI");
        assert!(connection.handshake && iscsi.login);
        assert_eq!((iscsi.header_digest, iscsi.data_digest), (Some(digests.0), Some(digests.1)));
        assert_eq!(iscsi.framing.map(|framing| (framing.pdus, framing.lost_bytes)), [(13, 0), (25, 0)]);
        assert_eq!((iscsi.commands.sent, iscsi.commands.completed), (Count::Exact(8), Count::Exact(8)));
        assert_eq!(iscsi.commands.read_bytes, 16 * BLOCK as u64);
        assert_eq!(iscsi.commands.written_bytes, 4 * BLOCK as u64);
        assert_eq!(iscsi.commands.r2ts_per_write, Some(LevelSummary { mean: 1.0, max: 1 }));
        assert_eq!(iscsi.commands.in_flight.map(|level| level.max), Some(1));
        assert_eq!(iscsi.window.map(|window| (window.largest, window.closed)), Some((32, 0)));
        // A write: R2T after 1.01 ms, its data within 1.03 ms (three segments), the status 1.01 ms later.
        let writes = rows.commands.iter().filter(|row| row.operation == Some(0x2a)).collect::<Vec<_>>();
        assert_eq!(
            writes.iter().map(|row| (row.service_ns, row.r2ts)).collect::<Vec<_>>(),
            [(Some(3_050_000), 1); 4]
        );
        // The first Data-In of a read, or the R2T of a write.
        let first_answer = iscsi.commands.first_answer.expect("answers");
        assert_eq!((first_answer.min_s, first_answer.max_s), (1.01e-3, 1.01e-3));
        assert_eq!(iscsi.commands.initiator_turn.map(|turn| turn.min_s), Some(1.01e-3));
        assert_eq!(iscsi.commands.status_turn.map(|turn| turn.min_s), Some(1.01e-3));
    }
}

#[test]
fn pdus_have_their_bytes_and_packets() {
    let (_, rows) = conversation((false, false)).dissect(usize::MAX, |_| true);
    let data = rows.pdus.iter().filter(|row| row.opcode == wire::iscsi::Opcode::DataIn).collect::<Vec<_>>();
    // Three segments of the handshake, two of the login, one command; 48 + 8192 bytes are 5.7 segments.
    assert_eq!((data[0].first_packet, data[0].last_packet), (7, 12));
    assert_eq!((data[1].first_packet, data[1].last_packet), (12, 18));
    assert_eq!(data[1].start - data[0].start, 48 + BLOCK as u64);
    assert_eq!((data[0].end, data[1].end), (data[1].start, data[2].start));
}

#[test]
fn headers_alone_give_the_same_commands() {
    let whole = conversation((false, false));
    let (_, expected) = whole.dissect(usize::MAX, |_| true);
    // 54 bytes of Ethernet, IP and TCP: the first 48 of a payload, with nothing of the login's text.
    let (connection, rows) = whole.dissect(54 + 48, |_| true);
    let iscsi = connection.iscsi.expect("iSCSI");
    let [_, target] = iscsi.framing;
    assert!(target.inferred > 0, "Data-In headers in mid-segment are hidden: {target:?}");
    assert!(connection.directions[1].kept_share.expect("data") < 0.1);
    // The status is in the last Data-In, whose header is hidden: it follows from the requested length.
    let commands = |rows: &Rows| {
        let rows = rows.commands.iter();
        rows.map(|row| (row.itt, row.response_packet)).collect::<Vec<_>>()
    };
    assert_eq!(commands(&rows), commands(&expected));
    // Service times are known where both headers are visible, here of the writes.
    for (row, whole) in rows.commands.iter().zip(&expected.commands) {
        let is_read = whole.operation == Some(0x28);
        assert_eq!(row.service_ns, whole.service_ns.filter(|_| !is_read), "{row:?}");
    }
    let inferred = rows.commands.iter().filter(|row| row.inferred).count() as u64;
    assert_eq!(iscsi.commands.inferred, inferred);
    assert!(inferred > 0 && target.refuted == 0, "{target:?}");
    assert_eq!(iscsi.commands.sent, Count::Exact(8));
    assert!(iscsi.commands.completed.allows(8), "{:?}", iscsi.commands);
}

#[test]
fn a_capture_from_the_middle_with_every_choice_of_digests() {
    for digests in DIGESTS {
        let tap = conversation(digests);
        // In the middle of the first read's data.
        let (connection, rows) = tap.dissect(usize::MAX, |n| n >= 10);
        let iscsi = connection.iscsi.expect("iSCSI");
        assert!(!connection.handshake && !iscsi.login);
        assert_eq!((iscsi.header_digest, iscsi.data_digest), (Some(digests.0), Some(digests.1)));
        assert_eq!(
            (iscsi.commands.sent, iscsi.commands.completed),
            (Count::Exact(7), Count::Exact(7)),
            "{digests:?}"
        );
        assert_eq!(rows.commands.len(), 7);
    }
}

#[test]
fn a_segment_that_the_tap_missed_is_skipped() {
    let tap = conversation((false, false));
    // A segment inside the data of a read: its length is known from what was acknowledged.
    let (connection, rows) = tap.dissect(usize::MAX, |n| n != 8);
    assert_eq!(connection.directions[1].missing_bytes, 1448);
    assert_eq!(rows.commands.len(), 8);
    let iscsi = connection.iscsi.expect("iSCSI");
    assert_eq!(iscsi.framing.map(|framing| framing.lost_bytes), [0, 0]);
}

#[test]
fn any_loss_and_any_cut_ends_well() {
    let tap = conversation((true, false));
    for keep in [54, 60, 80, 96, 110, 160, 1000] {
        for step in 2..9 {
            let (connection, rows) = tap.dissect(keep, |n| n % step != 1);
            let commands = connection.iscsi.map_or(Count::Unknown, |iscsi| iscsi.commands.completed);
            assert!(commands.exact().is_none_or(|count| count == rows.commands.len() as u64));
            assert!(rows.commands.len() <= 8);
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
    let read = |file: &[u8]| Dissector::new().read(file, &mut (), |_| {});
    let whole = read(&file).expect("a capture");
    assert_eq!((whole.totals.cut, whole.totals.packets), (None, tap.frames.len() as u64));
    let cut = read(&file[..file.len() - 1]).expect("a capture");
    let at = file.len() - 1;
    assert_eq!(cut.totals.cut, Some(format!("the file ends at byte {at} within a packet or block")));
    assert_eq!(cut.totals.packets, whole.totals.packets - 1);
    let mut damaged = file.clone();
    damaged.extend([0xff; 16]);
    let damaged = read(&damaged).expect("a capture");
    let why = damaged.totals.cut.expect("damaged");
    assert!(why.starts_with(&format!("at byte {}: a packet of 4294967295 bytes", file.len())), "{why}");
    assert_eq!(
        read(b"").expect_err("nothing").to_string(),
        "has 0 bytes, too few for the header of a pcap or pcapng file"
    );
    assert!(read(b"GIF89a").expect_err("a picture").to_string().contains("47494638"));
}

/// A READ whose header is hidden behind the immediate data of a write: it looks like another such write.
#[test]
fn a_hidden_read_behind_a_write_loses_nothing_else() {
    let mut tap = Tap::new((false, false));
    let immediate = 2 * BLOCK;
    let mut stat_sn = 1;
    for n in 0..60 {
        let (write, read) = (2 * n + 1, 2 * n + 2);
        let mut sent = vec![(command(write, false, immediate, immediate), vec![1; immediate])];
        let hides = n % 9 == 5;
        sent.extend(hides.then(|| (command(read, true, BLOCK, 0), Vec::new())));
        tap.pdus(0, &sent);
        let mut response = [0; BHS_LEN];
        (response[0], response[1]) = (0x21, 0x80);
        response[16..20].copy_from_slice(&(write | 0x100).to_be_bytes());
        response[24..28].copy_from_slice(&u32::to_be_bytes(stat_sn));
        response[28..32].copy_from_slice(&(write + 1).to_be_bytes());
        response[32..36].copy_from_slice(&(write + 32).to_be_bytes());
        tap.pdus(1, &[(ScsiResponse::parse(&response).expect("a response").into(), Vec::new())]);
        if !hides {
            tap.pdus(0, &[(command(read, true, BLOCK, 0), Vec::new())]);
        }
        tap.stat_sn = stat_sn + 1;
        let answer = tap.answer(read, 1);
        tap.pdus(1, &answer);
        stat_sn += 2;
    }
    let (whole, all) = tap.dissect(usize::MAX, |_| true);
    let whole = whole.iscsi.expect("iSCSI").commands;
    assert_eq!((whole.sent, whole.completed), (Count::Exact(120), Count::Exact(120)));
    for keep in [96, 128, 160, 200] {
        let (connection, rows) = tap.dissect(keep, |_| true);
        let found = connection.iscsi.expect("iSCSI");
        let counts = [found.commands.sent, found.commands.completed];
        assert!(counts.iter().all(|count| count.allows(120)), "{keep} kept: {found:?}");
        assert!(counts.iter().all(|count| count.estimate().is_some()), "{keep} kept: {found:?}");
        let reads = |rows: &Rows| {
            let reads = rows.commands.iter().filter(|row| row.operation == Some(0x28) && !row.inferred);
            reads.map(|row| (row.itt, row.service_ns)).collect::<Vec<_>>()
        };
        let (seen, all) = (reads(&rows), reads(&all));
        assert!(seen.iter().all(|read| all.contains(read)), "{keep} kept");
        let count = |list: Option<dissect::Durations>| list.map_or(0, |service| service.count);
        assert!(count(found.commands.write_service) >= 59, "{keep} kept: {found:?}");
        assert!(found.commands.written_bytes <= 60 * immediate as u64, "{keep} kept: {found:?}");
    }
}

/// A CmdSN unused by other commands, and so its task tag.
const LONE: u32 = 0x0001_0002;

/// Many reads after one command without a status; `end` may abort that.
fn without_a_status(end: impl FnOnce(&mut Tap)) -> IscsiSummary {
    let mut tap = Tap::new((false, false));
    tap.read(1, 1);
    // Its task tag is far from those of the others.
    tap.pdus(0, &[(command(LONE, true, BLOCK, 0), Vec::new())]);
    end(&mut tap);
    (3..1203).for_each(|cmd_sn| tap.read(cmd_sn, 1));
    tap.dissect(usize::MAX, |_| true).0.iscsi.expect("iSCSI")
}

#[test]
fn a_command_without_a_status_is_given_up() {
    let found = without_a_status(|_| {});
    assert_eq!((found.commands.completed, found.commands.unanswered), (Count::Exact(1201), Count::Exact(1)));
    // So many others, and 64 for each that is open.
    assert!(
        (1024..=1100).contains(&found.commands.overlapping.expect("a whole view")),
        "{:?}",
        found.commands
    );
}

#[test]
fn an_aborted_command_is_not_waited_for() {
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
        assert_eq!(
            (found.commands.completed, found.commands.unanswered),
            (Count::Exact(1201), Count::Exact(1)),
            "{function}"
        );
        assert_eq!(found.commands.overlapping, Some(0), "{function}");
    }
}

/// As a flush of a busy disk is.
#[test]
fn a_command_that_many_overtake_and_that_is_answered_is_completed() {
    let mut tap = Tap::new((false, false));
    tap.pdus(0, &[(command(LONE, true, BLOCK, 0), Vec::new())]);
    (2..502).for_each(|cmd_sn| tap.read(cmd_sn, 1));
    let answer = tap.answer(LONE, 1);
    tap.pdus(1, &answer);
    let iscsi = tap.dissect(usize::MAX, |_| true).0.iscsi.expect("iSCSI");
    assert_eq!((iscsi.commands.completed, iscsi.commands.unanswered), (Count::Exact(501), Count::Exact(0)));
}

/// The initiator's headers reveal the digests while a PDU of the target is under way that began before.
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
        let (connection, _) = tap.dissect(usize::MAX, |n| n >= begin);
        let iscsi = connection.iscsi.expect("iSCSI");
        assert_eq!(
            (iscsi.commands.sent, iscsi.commands.completed),
            (Count::Exact(4), Count::Exact(4)),
            "{digests:?}"
        );
        assert_eq!((iscsi.header_digest, iscsi.data_digest), (Some(digests.0), Some(digests.1)));
    }
}

/// ExpStatSN is far ahead of all statuses, and every header is visible: no command has a status because of it.
#[test]
fn numbers_without_hidden_bytes_add_no_status() {
    for from_begin in [true, false] {
        let mut tap = conversation((false, false));
        tap.pdus(0, &[(command(9, true, BLOCK, 0), Vec::new())]);
        let (_, last) = tap.frames.last_mut().expect("a command");
        last[54 + 28..54 + 32].copy_from_slice(&4_000_u32.to_be_bytes());
        let (connection, rows) = tap.dissect(usize::MAX, |n| from_begin || n >= 10);
        let commands = connection.iscsi.expect("iSCSI").commands;
        assert!(commands.completed.allows(rows.commands.len() as u64), "{from_begin}: {commands:?}");
        assert_eq!(commands.sent, Count::Exact(rows.commands.len() as u64 + 1), "{from_begin}");
    }
}

/// A status with a task tag of no command is the status of none.
#[test]
fn a_status_without_a_command_completes_none() {
    let mut tap = conversation((false, false));
    tap.pdus(0, &[(command(9, true, BLOCK, 0), Vec::new())]);
    let answer = tap.answer(0x77, 1);
    tap.pdus(1, &answer);
    // An acknowledgement of statuses that never passed.
    tap.pdus(0, &[(command(10, true, BLOCK, 0), Vec::new())]);
    let (_, last) = tap.frames.last_mut().expect("a command");
    last[54 + 28..54 + 32].copy_from_slice(&4_000_u32.to_be_bytes());
    let (connection, rows) = tap.dissect(usize::MAX, |_| true);
    let commands = connection.iscsi.expect("iSCSI").commands;
    assert_eq!((commands.sent, commands.completed), (Count::Exact(10), Count::Exact(8)), "{commands:?}");
    assert_eq!(rows.commands.len(), 8);
}
