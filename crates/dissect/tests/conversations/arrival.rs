//! The same conversation as imperfect captures have it: out of order, doubled, in tunnels and fragments, of one direction,
//! with a file missing.

use dissect::{CommandRow, Dissection, Dissector, FirstPackets, IscsiSummary, RowSink};
use wire::pcap::Packet;

use crate::tap::{MS, Tap};
use crate::{Rows, conversation};

/// Time and bytes of a frame.
type Frame = (u64, Vec<u8>);

/// Dissects files of Ethernet frames that follow each other.
fn read(files: &[&[Frame]]) -> (Dissection, Rows) {
    let (mut dissector, mut rows) = (Dissector::new(), Rows::default());
    for file in files {
        feed(&mut dissector, file, &mut rows);
        dissector.end_file(&mut rows);
    }
    (dissector.finish(0, None, &mut rows), rows)
}

fn feed(dissector: &mut Dissector, frames: &[Frame], rows: &mut dyn RowSink) {
    for (t_ns, bytes) in frames {
        let packet = Packet { t_ns: *t_ns, link: 1, interface: 0, len: bytes.len(), bytes };
        dissector.packet(&packet, "", rows);
    }
}

fn commands(rows: &Rows) -> Vec<CommandRow> {
    rows.commands.clone()
}

/// Time of a command's status.
fn end_ns(row: &CommandRow) -> u64 {
    row.t_ns + row.service_ns.expect("every header is visible")
}

/// Commands without the numbers of their packets, which are those of the file.
fn times(rows: &Rows) -> Vec<(u32, u64, Option<u64>)> {
    rows.commands.iter().map(|row| (row.itt, row.t_ns, row.service_ns)).collect()
}

#[track_caller]
fn expect_no_loss(capture: &Dissection) {
    let [connection] = &capture.connections[..] else { panic!("{:?}", capture.connections) };
    let [first, second] = &connection.directions;
    assert_eq!(
        [first.retransmissions, second.retransmissions, first.missing_bytes, second.missing_bytes],
        [0; 4]
    );
    assert_eq!([first.duplicate_acks, second.duplicate_acks], [0; 2]);
}

#[test]
fn packets_out_of_order_give_the_same_commands_with_the_numbers_of_the_file() {
    let tap = conversation((false, false));
    let (in_order, expected) = read(&[&tap.frames]);
    let mut frames = tap.frames.clone();
    // Every fifth packet stands three places too late.
    for at in (0..frames.len() - 4).step_by(5) {
        frames[at..at + 4].rotate_left(1);
    }
    let (capture, rows) = read(&[&frames]);
    expect_no_loss(&capture);
    assert_eq!(times(&rows), times(&expected));
    let moved = (frames.len() as u64 - 4).div_ceil(5);
    assert_eq!((capture.totals.order.late, capture.totals.order.most_places), (moved, 3));
    assert_eq!(capture.totals.begin_ns, in_order.totals.begin_ns);
    let number = |t_ns: u64| 1 + frames.iter().position(|(t, _)| *t == t_ns).expect("a frame") as u64;
    for row in commands(&rows) {
        assert_eq!(row.request_packet, number(row.t_ns));
        assert_eq!(row.response_packet, number(end_ns(&row)));
    }
    assert_eq!(in_order.totals.order.late, 0);
}

#[test]
fn two_rings_that_are_drained_in_turn_are_one_conversation() {
    let tap = conversation((true, true));
    let (_, expected) = read(&[&tap.frames]);
    for block in [7, 30, 1_000] {
        // Each direction is in a ring of its own; blocks of both stand one after the other.
        let mut frames = Vec::new();
        for part in tap.frames.chunks(block) {
            for direction in [1, 0] {
                frames.extend(part.iter().filter(|(_, frame)| frame[14 + 15] == direction).cloned());
            }
        }
        let (capture, rows) = read(&[&frames]);
        expect_no_loss(&capture);
        assert_eq!(times(&rows), times(&expected), "blocks of {block}");
    }
}

/// Every frame, and behind it copies of it that `change` has made.
fn doubled(tap: &Tap, later_ns: u64, change: impl Fn(&mut Vec<u8>)) -> Vec<Frame> {
    let with_copy = |(t_ns, frame): &Frame| {
        let mut copy = frame.clone();
        change(&mut copy);
        [(*t_ns, frame.clone()), (t_ns + later_ns, copy)]
    };
    tap.frames.iter().flat_map(with_copy).collect()
}

#[test]
fn copies_count_once_and_their_cause_is_known() {
    let tap = conversation((false, false));
    let (_, expected) = read(&[&tap.frames]);
    let all = tap.frames.len() as u64;
    let ttl = |frame: &mut Vec<u8>| {
        (frame[14 + 8], frame[14 + 10]) = (63, 1);
    };
    let tag = |frame: &mut Vec<u8>| {
        frame.splice(12..12, [0x81, 0, 0, 5]);
    };
    let address = |frame: &mut Vec<u8>| frame[0] ^= 2;
    let tunnel = |frame: &mut Vec<u8>| {
        let packet = frame.split_off(14);
        frame.extend([0x45, 0, 0, 0, 0, 1, 0, 0, 64, 4, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
        frame.extend(packet);
    };
    type Change<'a> = &'a dyn Fn(&mut Vec<u8>);
    let changes: [(Change<'_>, [u64; 4]); 5] = [
        (&|_| {}, [all, 0, 0, 0]),
        (&address, [0, all, 0, 0]),
        (&tag, [0, all, 0, 0]),
        (&ttl, [0, 0, all, 0]),
        (&tunnel, [0, 0, 0, all]),
    ];
    for (change, causes) in changes {
        // The copy of a packet may come after the next packet.
        for later_ns in [0, 5_000, 25_000] {
            let mut frames = doubled(&tap, later_ns, change);
            // Where a copy stands in front of its packet, the stamp of the packet counts all the same.
            if later_ns == 5_000 {
                frames.chunks_mut(2).for_each(|pair| pair.swap(0, 1));
            } else {
                frames.sort_by_key(|(t_ns, _)| *t_ns);
            }
            let (capture, rows) = read(&[&frames]);
            expect_no_loss(&capture);
            assert_eq!(times(&rows), times(&expected));
            let copies = capture.totals.copies;
            assert_eq!(copies.packets, all, "{copies:?}");
            assert_eq!([copies.identical, copies.other_link, copies.other_ttl, copies.other_tunnel], causes);
        }
    }
}

#[test]
fn segments_that_are_sent_again_are_no_copies() {
    let tap = conversation((false, false));
    for numbered in [false, true] {
        let mut frames: Vec<Frame> = Vec::new();
        for (n, (t_ns, frame)) in tap.frames.iter().enumerate() {
            let mut frame = frame.clone();
            if numbered {
                frame[18..20].copy_from_slice(&(n as u16 + 1).to_be_bytes());
            }
            frames.push((*t_ns, frame.clone()));
            // A device that had no room: one in ten segments with data goes out again at once.
            if n % 10 == 9 && frame.len() > 1_000 {
                if numbered {
                    frame[18] |= 0x80;
                }
                frames.push((t_ns + 3_000, frame));
            }
        }
        let again = frames.len() - tap.frames.len();
        let (capture, _) = read(&[&frames]);
        assert_eq!(capture.totals.copies.packets, 0, "{numbered}");
        let found = capture.connections[0].directions.iter().map(|one| one.retransmissions).sum::<u64>();
        assert_eq!(found, again as u64, "{numbered}");
    }
}

#[test]
fn both_devices_of_a_bond_are_taps_of_their_own() {
    let tap = conversation((false, false));
    // `-i any` of the initiator's host: the bond, then its device on the way out; the other way round on the way in.
    // Its two devices carry a direction each.
    let mut dissector = Dissector::new();
    for (t_ns, frame) in &tap.frames {
        let direction = usize::from(frame[14 + 15]);
        let indices = [[9, 2], [3, 9]][direction];
        for (later_ns, index) in [(0, indices[0]), (2_000, indices[1])] {
            let mut cooked = vec![8, 0, 0, 0, 0, 0, 0, index];
            cooked.resize(20, 0);
            cooked.extend(&frame[14..]);
            let packet =
                Packet { t_ns: t_ns + later_ns, link: 276, interface: 0, len: cooked.len(), bytes: &cooked };
            dissector.packet(&packet, "", &mut ());
        }
    }
    let capture = dissector.finish(0, None, &mut ());
    expect_no_loss(&capture);
    let connection = &capture.connections[0];
    assert!(connection.handshake);
    assert_eq!(connection.iscsi.as_ref().map(|iscsi| iscsi.commands.completed.exact()), Some(Some(8)));
    let names = capture.totals.interfaces.iter().map(|one| one.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["ifindex 2", "ifindex 3", "ifindex 9"]);
    assert_eq!(capture.totals.copies.packets, 0);
    assert_eq!(capture.totals.copies.other_interface, tap.frames.len() as u64);
}

#[test]
fn tunnels_and_fragments_are_taken_away() {
    let tap = conversation((false, false));
    let (_, expected) = read(&[&tap.frames]);
    let mut frames = Vec::new();
    for (n, (t_ns, frame)) in (0_u16..).zip(&tap.frames) {
        // VXLAN, whose outer packet is cut into fragments of 800 bytes.
        let mut datagram = vec![0xc0, 0, 0x12, 0xb5, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 5, 0];
        datagram.extend(frame);
        let pieces = datagram.chunks(800);
        let last = pieces.len() - 1;
        for (place, piece) in pieces.enumerate() {
            let mut outer = frame[..14].to_vec();
            let offset = (place * 100) as u16 | if place < last { 0x2000 } else { 0 };
            outer.extend([0x45, 0]);
            outer.extend((20 + piece.len() as u16).to_be_bytes());
            outer.extend(n.to_be_bytes());
            outer.extend(offset.to_be_bytes());
            outer.extend([64, 17, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
            outer.extend(piece);
            frames.push((*t_ns, outer));
        }
    }
    let (capture, rows) = read(&[&frames]);
    expect_no_loss(&capture);
    assert_eq!(times(&rows), times(&expected));
    let tunnels = capture.totals.tunnels.iter().map(|kind| (kind.name.as_str(), kind.packets));
    assert_eq!(tunnels.collect::<Vec<_>>(), [("VXLAN", tap.frames.len() as u64)]);
    assert!(capture.totals.others.is_empty(), "{:?}", capture.totals.others);

    // Without the last fragments no datagram is complete.
    frames.retain(|(_, frame)| frame[14 + 6] & 0x20 != 0);
    let (capture, _) = read(&[&frames]);
    let [others] = &capture.totals.others[..] else { panic!("{:?}", capture.totals.others) };
    assert_eq!(
        (others.name.as_str(), others.packets),
        ("IPv4 fragments without their rest", frames.len() as u64)
    );
}

#[test]
fn one_direction_is_recognised() {
    let tap = conversation((false, false));
    for direction in [0, 1] {
        let frames: Vec<Frame> =
            tap.frames.iter().filter(|(_, frame)| frame[14 + 15] == direction).cloned().collect();
        let (capture, _) = read(&[&frames]);
        assert!(capture.connections[0].one_direction);
    }
    assert!(!read(&[&tap.frames]).0.connections[0].one_direction);
    let attempt = &tap.frames[..1];
    assert!(!read(&[attempt]).0.connections[0].one_direction, "a SYN without an answer");
}

fn first_of(frames: &[Frame]) -> FirstPackets {
    let mut first = FirstPackets::default();
    for (t_ns, bytes) in frames {
        first.packet(&Packet { t_ns: *t_ns, link: 1, interface: 0, len: bytes.len(), bytes }, "");
    }
    first
}

#[test]
fn files_of_one_direction_each_complement_one_another() {
    let tap = conversation((false, false));
    let sides = [0, 1].map(|direction| {
        tap.frames.iter().filter(|(_, frame)| frame[14 + 15] == direction).cloned().collect::<Vec<_>>()
    });
    let [sent, received] = sides.each_ref().map(|side| first_of(side));
    assert!(sent.complements(&received) && received.complements(&sent));
    let whole = first_of(&tap.frames);
    assert!(!sent.complements(&whole) && !whole.complements(&sent) && !sent.complements(&sent));
    assert!(sent.shows_same(&whole) && !sent.shows_same(&received));

    let (mut dissector, mut rows) = (Dissector::new(), Rows::default());
    // One file far ahead of the other, as far as the window bears.
    for (side, frames) in sides.iter().enumerate() {
        for (number, (t_ns, bytes)) in (1..).zip(frames) {
            let packet = Packet { t_ns: *t_ns, link: 1, interface: 0, len: bytes.len(), bytes };
            dissector.packet_of(&packet, ["tx", "rx"][side], number, &mut rows);
        }
    }
    let capture = dissector.finish(0, None, &mut rows);
    expect_no_loss(&capture);
    assert_eq!(times(&rows), times(&read(&[&tap.frames]).1));
    let taken = capture.connections[0].directions.each_ref().map(|direction| direction.interface);
    assert_eq!(taken, [0, 1]);
    assert_eq!(commands(&rows)[0].request_packet, 4, "the number in its own file");
}

#[test]
fn a_file_that_begins_a_moment_early_goes_on() {
    let tap = conversation((false, false));
    let (begin, end) = tap.frames.split_at(tap.frames.len() / 2);
    let (begin, mut end) = (begin.to_vec(), end.to_vec());
    let mut dissector = Dissector::new();
    feed(&mut dissector, &begin, &mut ());
    dissector.end_file(&mut ());
    end[0].0 -= 500_000;
    assert!(dissector.goes_on_with(&first_of(&end)) && !dissector.has_seen(&first_of(&end)));
    assert!(!dissector.goes_on_with(&first_of(&begin)), "the same again");
}

#[test]
fn a_file_that_begins_with_a_repeated_acknowledgement_goes_on() {
    let mut tap = Tap::new((false, false));
    tap.read(1, 4);
    tap.segment(0, 0x10, &[]);
    let end = tap.frames.len();
    // A pure acknowledgement is no evidence of the same traffic: receivers repeat it.
    tap.segment(0, 0x10, &[]);
    tap.read(2, 4);
    let mut dissector = Dissector::new();
    feed(&mut dissector, &tap.frames[..end], &mut ());
    dissector.end_file(&mut ());
    let first = first_of(&tap.frames[end..]);
    assert!(dissector.goes_on_with(&first) && !dissector.has_seen(&first));
    let alone = first_of(&tap.frames[end..=end]);
    assert!(!dissector.goes_on_with(&alone) && !dissector.has_seen(&alone));
}

#[test]
fn a_file_that_begins_with_a_reset_or_a_syn_shows_no_gap() {
    // Hosts reset connections that they do not know, with any sequence number; SYNs begin anywhere.
    for flags in [0x04, 0x02] {
        for direction in [0, 1] {
            let mut tap = Tap::begun();
            let end = tap.frames.len();
            tap.seq[direction] = tap.seq[direction].wrapping_add(1_000_000);
            tap.segment(direction, flags, &[]);
            let (capture, _) = read(&[&tap.frames[..end], &tap.frames[end..]]);
            let found = &capture.connections[0].directions;
            let missing = found.each_ref().map(|one| (one.missing_bytes, one.gaps));
            assert_eq!(missing, [(0, 0); 2], "flags {flags:#x}, direction {direction}");
        }
    }
}

#[test]
fn no_command_is_invented_for_a_missing_file() {
    let mut tap = Tap::new((false, false));
    // Reads that look alike: task tags grow evenly, so that a hidden command could be inferred.
    for cmd_sn in 1..=90 {
        tap.read(cmd_sn, 1);
    }
    // Three files, cut within a read.
    let cuts = [tap.frames.len() / 3, tap.frames.len() / 3 * 2];
    let (all, Rows { commands: whole, .. }) = read(&[&tap.frames]);
    let (first, last) = (&tap.frames[..cuts[0]], &tap.frames[cuts[1]..]);
    let (capture, rows) = read(&[first, last]);
    let in_hole = first.last().map_or(0, |frame| frame.0 + 1)..last[0].0;
    let iscsi = capture.connections[0].iscsi.as_ref().expect("iSCSI");
    assert_eq!(iscsi.commands.inferred, 0, "{:?}", iscsi.commands);
    let seen = |row: &&CommandRow| !in_hole.contains(&row.t_ns) && !in_hole.contains(&end_ns(row));
    let spans = |row: &&CommandRow| row.t_ns < in_hole.start && end_ns(row) > in_hole.start;
    let expected: Vec<CommandRow> = whole.iter().filter(seen).filter(|row| !spans(row)).copied().collect();
    let tags = |rows: &[CommandRow]| rows.iter().map(|row| (row.itt, row.service_ns)).collect::<Vec<_>>();
    assert_eq!(tags(&rows.commands), tags(&expected));
    let sent = iscsi.commands.sent.exact().expect("every header of these files is visible");
    assert!((expected.len() as u64..=expected.len() as u64 + 1).contains(&sent), "{:?}", iscsi.commands);
    assert!(capture.connections[0].directions.iter().all(|one| one.missing_bytes > 0 && one.gaps == 1));
    let target_s = |capture: &Dissection| {
        capture.connections[0].iscsi.as_ref().and_then(|iscsi| iscsi.time).expect("commands").target_s
    };
    assert!(target_s(&capture) < target_s(&all) * 0.8, "the hole is nobody's time");
    // The parts that were watched are all of the time.
    let time = iscsi.time.expect("commands");
    let span_s = |frames: &[Frame]| (frames[frames.len() - 1].0 - frames[0].0) as f64 / 1e9;
    assert!(time.length_s <= span_s(first) + span_s(last), "{time:?}");
    let whole_time = all.connections[0].iscsi.as_ref().and_then(|iscsi| iscsi.time).expect("commands");
    assert!(time.idle_s < whole_time.idle_s * 0.8, "{time:?} of {whole_time:?}");
}

/// A capture that was stopped for an hour between two commands; no byte is missing.
#[test]
fn time_between_files_is_nobodys() {
    const HOUR: u64 = 3_600_000 * MS;
    let mut tap = Tap::new((false, false));
    (1..=20).for_each(|cmd_sn| tap.read(cmd_sn, 1));
    let cut = tap.frames.len();
    (21..=40).for_each(|cmd_sn| tap.read(cmd_sn, 1));
    let (whole, whole_rows) = read(&[&tap.frames]);
    let (capture, rows) = read(&[&tap.frames[..cut], &later(&tap.frames[cut..], HOUR)]);
    let ((whole, _), (iscsi, idle_gaps)) = (iscsi_of(&whole), iscsi_of(&capture));
    assert_eq!((iscsi.commands.completed, idle_gaps), (whole.commands.completed, 0));
    let [time, expected] = [&iscsi, &whole].map(|iscsi| iscsi.time.expect("commands"));
    assert!(time.length_s <= expected.length_s && time.length_s > 0.9 * expected.length_s, "{time:?}");
    let reads = iscsi.commands.read_service.expect("reads");
    assert_eq!((reads.count, reads.max_s < 0.1), (40, true), "{reads:?}");
    assert_eq!(rows.commands.len(), whole_rows.commands.len());
    let [initiator, target] = &capture.connections[0].directions;
    assert!([initiator, target].iter().all(|one| one.ack_rtt.is_none_or(|rtt| rtt.max_s < 1.0)));

    // Files that follow each other at once are no reason for an unknown time.
    let (capture, rows) = read(&[&tap.frames[..cut], &tap.frames[cut..]]);
    assert_eq!(iscsi_of(&capture).0.time, whole.time);
    assert!(rows.commands.iter().all(|row| row.service_ns.is_some()));
}

/// The store hangs for three seconds, and the next file begins with its answer, as with `tcpdump -G`.
#[test]
fn a_stall_that_ends_with_the_next_file_counts() {
    const STALL: u64 = 3_000 * MS;
    let mut tap = Tap::new((false, false));
    (1..=20).for_each(|cmd_sn| tap.read(cmd_sn, 1));
    // The command of the last read is the end of the first file.
    let cut = tap.frames.len() - 6;
    (21..=40).for_each(|cmd_sn| tap.read(cmd_sn, 1));
    let later = later(&tap.frames[cut..], STALL);
    let (whole, whole_rows) = read(&[&[&tap.frames[..cut], &later].concat()]);
    let (capture, rows) = read(&[&tap.frames[..cut], &later]);
    let (iscsi, expected) = (iscsi_of(&capture).0, iscsi_of(&whole).0);
    assert_eq!(iscsi.time, expected.time);
    assert!(iscsi.time.is_some_and(|time| time.target_s > 2.9), "{:?}", iscsi.time);
    let reads = iscsi.commands.read_service.expect("reads");
    assert_eq!((reads.count, reads.max_s > 2.9), (40, true), "{reads:?}");
    let times = |rows: &Rows| rows.commands.iter().map(|row| row.service_ns).collect::<Vec<_>>();
    assert_eq!(times(&rows), times(&whole_rows));
}

/// Frames that come so much later.
fn later(frames: &[Frame], by_ns: u64) -> Vec<Frame> {
    frames.iter().map(|(t_ns, frame)| (t_ns + by_ns, frame.clone())).collect()
}

/// The first connection's iSCSI, and its idle gaps.
fn iscsi_of(capture: &Dissection) -> (IscsiSummary, u64) {
    (capture.connections[0].iscsi.clone().expect("iSCSI"), capture.connections[0].idle_gaps)
}

/// A connection with a command outstanding that no later file shows.
#[test]
fn a_connection_is_watched_up_to_a_missing_file() {
    let busy = |port, begin_ns: u64, reads: u32| {
        let mut tap = Tap { port, t_ns: begin_ns, ..Tap::new((false, false)) };
        (1..=reads).for_each(|cmd_sn| tap.read(cmd_sn, 1));
        tap.frames
    };
    let mut tap = Tap::new((false, false));
    (1..=20).for_each(|cmd_sn| tap.read(cmd_sn, 1));
    tap.pdus(0, &[(crate::command(21, true, crate::BLOCK, 0), Vec::new())]);
    let end_ns = tap.t_ns;
    let of = |files: &[&[Frame]]| {
        let (capture, _) = read(files);
        let iscsi = capture.connections[0].iscsi.clone().expect("iSCSI");
        (iscsi.time.expect("commands").target_s, iscsi.commands.waiting_s)
    };
    // Another connection goes on for a minute, in files that follow each other, or with a hole between them.
    let mut other = busy(41_000, end_ns + MS, 30_000);
    let near = other.split_off(other.len() / 2);
    let first = [tap.frames.clone(), other].concat();
    let (target_s, waiting_s) = of(&[&first, &near]);
    assert!(target_s > 30.0 && waiting_s.is_some_and(|s| s > 30.0), "{target_s} {waiting_s:?}");
    let half_s = (first[first.len() - 1].0 - end_ns) as f64 / 1e9;
    let lacking = &near[near.len() / 2..];
    let (target_s, waiting_s) = of(&[&first, lacking]);
    assert!(
        target_s < half_s && waiting_s.is_some_and(|s| s <= half_s),
        "{target_s} {waiting_s:?} of {half_s}"
    );
}
