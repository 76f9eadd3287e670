//! The same conversation at several interfaces: whole at each of two, one direction at each, from the middle on.

use dissect::{ConnectionSummary, Count, Dissection, Dissector, FirstPackets, shared_connections};
use wire::pcap::Packet;

use crate::tap::{MS, Tap};
use crate::{Rows, conversation};

const NAMES: [&str; 2] = ["near", "far"];
/// One-way delay between the near tap and the far one.
const WAY_NS: u64 = 400_000;

/// Time, interface and bytes of a frame.
struct Passing<'a>(u64, u32, &'a [u8]);

fn direction(frame: &[u8]) -> usize {
    usize::from(frame[14 + 15])
}

/// A conversation with at least a millisecond before each answer.
fn unhurried(digests: (bool, bool)) -> Tap {
    let mut tap = conversation(digests);
    let (mut turns, mut last) = (0, 0);
    for (t_ns, frame) in &mut tap.frames {
        turns += u64::from(direction(frame) != last);
        last = direction(frame);
        *t_ns += turns * MS;
    }
    tap
}

/// Every frame at both taps; the far one is beside the target.
fn at_both(tap: &Tap) -> Vec<Passing<'_>> {
    let both = tap.frames.iter().flat_map(|(t_ns, frame)| {
        let near_ns = if direction(frame) == 0 { t_ns - WAY_NS } else { t_ns + WAY_NS };
        [Passing(near_ns, 0, frame), Passing(*t_ns, 1, frame)]
    });
    let mut both: Vec<_> = both.collect();
    both.sort_by_key(|Passing(t_ns, ..)| *t_ns);
    both
}

fn read(mut dissector: Dissector, packets: &[Passing<'_>]) -> (Dissection, Rows) {
    let mut rows = Rows::default();
    feed(&mut dissector, packets, &mut rows);
    let capture = dissector.finish(0, None, &mut rows);
    (capture, rows)
}

fn feed(dissector: &mut Dissector, packets: &[Passing<'_>], rows: &mut Rows) {
    for Passing(t_ns, number, bytes) in packets {
        let packet = Packet { t_ns: *t_ns, link: 1, interface: *number, len: bytes.len(), bytes };
        dissector.packet(&packet, NAMES[*number as usize], rows);
    }
}

/// The only connection, with every command and without a retransmission.
#[track_caller]
fn only(capture: &Dissection) -> &ConnectionSummary {
    let [connection] = &capture.connections[..] else { panic!("{:?}", capture.connections) };
    let commands = &connection.iscsi.as_ref().expect("iSCSI").commands;
    assert_eq!((commands.sent, commands.completed), (Count::Exact(8), Count::Exact(8)));
    assert_eq!(connection.directions.each_ref().map(|direction| direction.retransmissions), [0, 0]);
    connection
}

#[test]
fn a_connection_at_two_taps_appears_once_from_nearest_the_initiator() {
    let tap = unhurried((false, false));
    let packets = at_both(&tap);
    let (capture, rows) = read(Dissector::new(), &packets);
    let connection = only(&capture);
    let taken = connection.directions.each_ref().map(|direction| direction.interface);
    assert_eq!((taken, &connection.also_at[..]), ([0, 0], &[1][..]));
    let all = capture.totals.interfaces.iter().map(|one| (one.name.as_str(), one.packets, one.taken));
    let each = tap.frames.len() as u64;
    assert_eq!(all.collect::<Vec<_>>(), [("near", each, true), ("far", each, true)]);
    let commands = |number| rows.commands.iter().filter(|row| row.interface == number).count();
    assert_eq!([commands(0), commands(1)], [8, 8], "both have rows");

    let (capture, rows) = read(Dissector::with_interfaces(vec!["far".to_owned()]), &packets);
    let connection = only(&capture);
    assert_eq!((connection.directions[0].interface, connection.also_at.len()), (1, 0));
    assert!(rows.pdus.iter().all(|row| row.direction.interface == 1));
    assert_eq!(capture.totals.interfaces.iter().map(|one| one.taken).collect::<Vec<_>>(), [false, true]);
    assert_eq!(capture.totals.packets, 2 * each, "packets keep the numbers that they have in the file");
    assert_eq!(shared_connections(&capture, &read(Dissector::new(), &packets).0), 1);
}

#[test]
fn a_mirror_that_shows_each_direction_at_an_interface_is_one_tap() {
    let tap = unhurried((true, false));
    let packets = tap.frames.iter().map(|(t_ns, frame)| Passing(*t_ns, direction(frame) as u32, frame));
    let (capture, _) = read(Dissector::new(), &packets.collect::<Vec<_>>());
    let connection = only(&capture);
    let taken = connection.directions.each_ref().map(|direction| direction.interface);
    assert_eq!((taken, connection.also_at.len()), ([0, 1], 0));
}

/// Data of the target passes the far tap before that has seen a packet of the initiator.
#[test]
fn taps_that_seemed_to_be_a_mirror_are_separated() {
    let tap = unhurried((false, false));
    let mut turns = (1..tap.frames.len()).filter(|n| {
        let [before, now] = [n - 1, *n].map(|n| direction(&tap.frames[n].1));
        (before, now) == (1, 0)
    });
    let first = turns.nth(4).expect("the second read");
    let (begun_ns, mut command) = tap.frames[first].clone();
    let late = &tap.frames[first - 1].1;
    // The command was sent before that had come.
    command[42..46].copy_from_slice(&late[38..42]);
    let mut packets = vec![
        Passing(begun_ns - WAY_NS, 0, &command),
        Passing(begun_ns - WAY_NS + 1, 1, late),
        Passing(begun_ns, 1, &command),
        Passing(begun_ns + 1, 0, late),
    ];
    packets.extend(at_both(&tap).into_iter().filter(|Passing(t_ns, ..)| *t_ns > begun_ns + WAY_NS));
    let (capture, _) = read(Dissector::new(), &packets);
    let [connection] = &capture.connections[..] else { panic!("{:?}", capture.connections) };
    let taken = connection.directions.each_ref().map(|direction| direction.interface);
    assert_eq!((taken, &connection.also_at[..]), ([0, 0], &[1][..]), "not one direction of each");
    let (expected, _) = tap.dissect(usize::MAX, |n| n >= first);
    let completed =
        |connection: &ConnectionSummary| connection.iscsi.as_ref().map(|iscsi| iscsi.commands.completed);
    assert_eq!((completed(connection), completed(&expected)), (Some(Count::Exact(6)), Some(Count::Exact(6))));
}

#[test]
fn a_file_of_another_tap_does_not_continue_a_capture() {
    let tap = unhurried((false, false));
    let frames: Vec<_> = tap.frames.iter().map(|(t_ns, frame)| Passing(*t_ns, 0, frame)).collect();
    let half = frames.len() / 2;
    let mut dissector = Dissector::new();
    feed(&mut dissector, &frames[..half], &mut Rows::default());
    dissector.end_file(&mut Rows::default());
    let first_of = |packets: &[Passing<'_>]| {
        let mut first = FirstPackets::default();
        for Passing(t_ns, number, bytes) in packets {
            let packet = Packet { t_ns: *t_ns, link: 1, interface: *number, len: bytes.len(), bytes };
            first.packet(&packet, NAMES[*number as usize]);
        }
        first
    };
    assert!(dissector.has_seen(&first_of(&frames[..half])), "the same again");
    assert!(dissector.has_seen(&first_of(&frames[10..half])), "without the handshake");
    assert!(!dissector.has_seen(&first_of(&frames[half..])), "what follows");
    assert!(!dissector.has_seen(&FirstPackets::default()));
    assert_eq!(first_of(&frames[half..]).first_ns(), frames[half].0);
}
