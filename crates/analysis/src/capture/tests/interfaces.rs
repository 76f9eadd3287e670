//! The same conversation at several interfaces: whole at each of two, one direction at each, from the middle on.

use super::*;

const NAMES: [&str; 2] = ["near", "far"];
/// From the near tap to the far one.
const WAY_NS: u64 = 400_000;

/// A frame and where it passes when.
struct Passing<'a>(u64, u32, &'a [u8]);

fn direction(frame: &[u8]) -> usize {
    usize::from(frame[14 + 15])
}

/// A conversation in which each end takes a millisecond at least until it answers.
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

/// Every frame at both ends of a way; the target is beside the far one.
fn at_both(tap: &Tap) -> Vec<Passing<'_>> {
    let both = tap.frames.iter().flat_map(|(t_ns, frame)| {
        let near_ns = if direction(frame) == 0 { t_ns - WAY_NS } else { t_ns + WAY_NS };
        [Passing(near_ns, 0, frame), Passing(*t_ns, 1, frame)]
    });
    let mut both: Vec<_> = both.collect();
    both.sort_by_key(|Passing(t_ns, ..)| *t_ns);
    both
}

fn read(mut analyzer: Analyzer, packets: &[Passing<'_>]) -> (Capture, Heard) {
    let mut heard = Heard::default();
    feed(&mut analyzer, packets, &mut heard);
    (analyzer.finish(0, None), heard)
}

fn feed(analyzer: &mut Analyzer, packets: &[Passing<'_>], heard: &mut Heard) {
    for Passing(t_ns, number, bytes) in packets {
        let packet = Packet { t_ns: *t_ns, link: 1, interface: *number, len: bytes.len(), bytes };
        analyzer.packet(&packet, NAMES[*number as usize], heard);
    }
}

/// The only connection, which has every command and nothing that was sent again.
#[track_caller]
fn only(capture: &Capture) -> &Connection {
    let [connection] = &capture.connections[..] else { panic!("{:?}", capture.connections) };
    let commands = &connection.iscsi.as_ref().expect("iSCSI").commands;
    assert_eq!((commands.sent, commands.completed), (8, 8));
    assert_eq!(connection.directions.each_ref().map(|direction| direction.retransmissions), [0, 0]);
    connection
}

#[test]
fn what_two_taps_saw_is_told_once_from_nearest_the_initiator() {
    let tap = unhurried((false, false));
    let packets = at_both(&tap);
    let (capture, heard) = read(Analyzer::new(), &packets);
    let connection = only(&capture);
    let taken = connection.directions.each_ref().map(|direction| direction.interface);
    assert_eq!((taken, &connection.also_at[..]), ([0, 0], &[1][..]));
    let all = capture.interfaces.iter().map(|one| (one.name.as_str(), one.packets, one.taken));
    let each = tap.frames.len() as u64;
    assert_eq!(all.collect::<Vec<_>>(), [("near", each, true), ("far", each, true)]);
    let rows = |number| heard.commands.iter().filter(|row| row.interface == number).count();
    assert_eq!([rows(0), rows(1)], [8, 8], "rows are told of both");

    let (capture, heard) = read(Analyzer::of_interfaces(vec!["far".to_owned()]), &packets);
    let connection = only(&capture);
    assert_eq!((connection.directions[0].interface, connection.also_at.len()), (1, 0));
    assert!(heard.pdus.iter().all(|row| row.interface == 1));
    assert_eq!(capture.interfaces.iter().map(|one| one.taken).collect::<Vec<_>>(), [false, true]);
    assert_eq!(capture.packets, 2 * each, "packets keep the numbers that they have in the file");
    assert_eq!(shared(&capture, &read(Analyzer::new(), &packets).0), 1);
}

#[test]
fn a_mirror_that_shows_each_direction_at_an_interface_is_one_tap() {
    let tap = unhurried((true, false));
    let packets = tap.frames.iter().map(|(t_ns, frame)| Passing(*t_ns, direction(frame) as u32, frame));
    let (capture, _) = read(Analyzer::new(), &packets.collect::<Vec<_>>());
    let connection = only(&capture);
    let taken = connection.directions.each_ref().map(|direction| direction.interface);
    assert_eq!((taken, connection.also_at.len()), ([0, 1], 0));
}

/// What the target had sent passes the far tap before that has seen anything of the initiator.
#[test]
fn taps_that_seemed_to_be_a_mirror_are_told_apart() {
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
    let (capture, _) = read(Analyzer::new(), &packets);
    let [connection] = &capture.connections[..] else { panic!("{:?}", capture.connections) };
    let taken = connection.directions.each_ref().map(|direction| direction.interface);
    assert_eq!((taken, &connection.also_at[..]), ([0, 0], &[1][..]), "not one direction of each");
    let (expected, _) = tap.told(usize::MAX, |n| n >= first);
    let completed = |connection: &Connection| connection.iscsi.as_ref().map(|iscsi| iscsi.commands.completed);
    assert_eq!((completed(connection), completed(&expected)), (Some(6), Some(6)));
}

#[test]
fn a_file_that_goes_on_is_told_from_one_of_another_tap() {
    let tap = unhurried((false, false));
    let frames: Vec<_> = tap.frames.iter().map(|(t_ns, frame)| Passing(*t_ns, 0, frame)).collect();
    let half = frames.len() / 2;
    let mut analyzer = Analyzer::new();
    feed(&mut analyzer, &frames[..half], &mut Heard::default());
    let opening = |packets: &[Passing<'_>]| {
        let mut opening = Opening::default();
        for Passing(t_ns, number, bytes) in packets {
            let packet = Packet { t_ns: *t_ns, link: 1, interface: *number, len: bytes.len(), bytes };
            opening.packet(&packet, NAMES[*number as usize]);
        }
        opening
    };
    assert!(analyzer.has(&opening(&frames[..half])), "the same again");
    assert!(analyzer.has(&opening(&frames[10..half])), "without the handshake");
    assert!(!analyzer.has(&opening(&frames[half..])), "what follows");
    assert!(!analyzer.has(&Opening::default()));
    assert_eq!(opening(&frames[half..]).first_ns(), frames[half].0);
}
