//! Complete captures of other stacks, and variants of them: cut packets, a beginning in mid-connection, packets that are
//! missing or doubled. A count is the number of the complete capture, bounds that hold, or none; a service time is
//! that of the complete capture.

mod frames;

use std::collections::HashMap;
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;

use dissect::{CommandRow, Count, Dissection, Dissector, PduRow, RowSink};
use flate2::read::GzDecoder;
use wire::iscsi::Opcode;
use wire::pcap::Packet;

use frames::{Dice, Frame, cut, displaced, doubled, lossy, read};

/// Complete captures, the commands in them, and those with a status, by tshark: captures/README.md tells how they were made.
const CAPTURES: [(&str, [u64; 2]); 7] = [
    ("read", [40, 32]),
    ("read-digests", [27, 25]),
    ("serial", [81, 80]),
    ("write", [42, 42]),
    ("write-digests", [42, 42]),
    ("mixed", [48, 48]),
    ("open-iscsi-farlun", [163, 163]),
];

/// Bytes that are kept of each packet: as people and tools choose them.
const SNAPS: [usize; 4] = [96, 128, 160, 200];

/// Rows of commands and their PDUs.
#[derive(Default)]
struct Rows {
    requests: Vec<PduRow>,
    commands: Vec<CommandRow>,
}

impl RowSink for Rows {
    fn pdu(&mut self, row: &PduRow) {
        if row.opcode == Opcode::ScsiCommand {
            self.requests.push(*row);
        }
    }

    fn command(&mut self, row: &CommandRow) {
        self.commands.push(*row);
    }
}

/// A command of a complete capture.
#[derive(Clone, Copy)]
struct Truth {
    initiator: SocketAddr,
    /// Packet of its header, and the one that completes the PDU.
    request: [u64; 2],
    response: Option<u64>,
    service_ns: Option<u64>,
}

/// A complete capture and its commands.
struct Complete {
    name: &'static str,
    frames: Vec<Frame>,
    commands: Vec<Truth>,
}

/// Counts that a variant showed.
#[derive(Clone, Copy, Default, Debug)]
struct Shown {
    variants: u64,
    exact: u64,
    between: u64,
    services: u64,
}

impl Shown {
    /// At least `percent` of the counts are exact or have bounds: silence is no way to be right.
    #[track_caller]
    fn expect_counted(&self, percent: u64, about: &str) {
        let counted = self.exact + self.between;
        assert!(self.variants > 0 && counted * 100 >= self.variants * percent, "{about}: {self:?}");
    }
}

fn dissect(frames: &[Frame]) -> (Dissection, Rows) {
    let (mut dissector, mut rows) = (Dissector::new(), Rows::default());
    for Frame { t_ns, link, len, bytes, .. } in frames {
        let packet = Packet { t_ns: *t_ns, link: *link, interface: 0, len: *len, bytes };
        dissector.packet(&packet, "", &mut rows);
    }
    let capture = dissector.finish(0, None, &mut rows);
    (capture, rows)
}

fn complete() -> Vec<Complete> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let read = |(name, counts): (&'static str, [u64; 2])| {
        let plain = folder.join(format!("{name}.pcap"));
        let path = if plain.exists() { plain } else { folder.join(format!("{name}.pcap.gz")) };
        let file = File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let frames = match path.extension().is_some_and(|extension| extension == "gz") {
            true => read(&path, GzDecoder::new(file)),
            false => read(&path, file),
        };
        let (capture, rows) = dissect(&frames);
        let summaries = capture.connections.iter().filter_map(|connection| connection.iscsi.as_ref());
        for iscsi in summaries {
            let counts = [iscsi.commands.sent, iscsi.commands.completed];
            assert!(counts.iter().all(|count| count.exact().is_some()), "{name}: {counts:?}");
            assert_eq!(iscsi.framing.map(|framing| framing.lost_bytes + framing.inferred), [0; 2], "{name}");
        }
        assert_eq!([rows.requests.len() as u64, rows.commands.len() as u64], counts, "{name}");
        let commands = rows.requests.iter().map(|request| {
            let is_its = |row: &&CommandRow| {
                (row.initiator, row.itt, row.request_packet)
                    == (request.direction.src, request.itt, request.last_packet)
            };
            let command = rows.commands.iter().find(is_its);
            Truth {
                initiator: request.direction.src,
                request: [request.first_packet, request.last_packet],
                response: command.map(|command| command.response_packet),
                service_ns: command.and_then(|command| command.service_ns),
            }
        });
        Complete { name, commands: commands.collect(), frames }
    };
    CAPTURES.map(read).into()
}

/// Holds the counts of a variant against the complete capture.
fn hold_counts(
    complete: &Complete,
    about: &str,
    frames: &[Frame],
    [first, last]: [u64; 2],
    shown: &mut Shown,
) -> Rows {
    let (capture, rows) = dissect(frames);
    let about = format!("{}, {about}", complete.name);
    let mut truth: HashMap<SocketAddr, [u64; 2]> = HashMap::new();
    for command in complete.commands.iter().filter(|command| command.request[0] >= first) {
        let counts = truth.entry(command.initiator).or_default();
        counts[0] += u64::from(command.request[1] <= last);
        counts[1] += u64::from(command.response.is_some_and(|response| response <= last));
    }
    for connection in &capture.connections {
        let Some(iscsi) = &connection.iscsi else { continue };
        let from: SocketAddr = connection.directions[0].from.parse().expect("an address");
        let [sent, completed] = truth.get(&from).copied().unwrap_or_default();
        let counts = &iscsi.commands;
        for (name, count, true_count) in
            [("sent", counts.sent, sent), ("completed", counts.completed, completed)]
        {
            assert!(count.allows(true_count), "{about}: {name} {count:?}, in truth {true_count}: {iscsi:#?}");
            shown.variants += 1;
            shown.exact += u64::from(matches!(count, Count::Exact(_)));
            shown.between += u64::from(matches!(count, Count::Between { .. }));
        }
    }
    rows
}

/// Holds a variant against the complete capture: commands from packet `first` to `last` count.
fn hold(complete: &Complete, about: &str, frames: &[Frame], range: [u64; 2], shown: &mut Shown) {
    let rows = hold_counts(complete, about, frames, range, shown);
    let about = format!("{}, {about}", complete.name);
    // Numbers of packets in the complete capture.
    let number = |packet: u64| frames[packet as usize - 1].number;
    for row in rows.commands.iter().filter(|row| row.service_ns.is_some()) {
        let request = number(row.request_packet);
        let is_it = |command: &&Truth| (command.initiator, command.request[1]) == (row.initiator, request);
        let mut same = complete.commands.iter().filter(is_it);
        let is_right = |command: &Truth| {
            command.response == Some(number(row.response_packet)) && command.service_ns == row.service_ns
        };
        assert!(same.any(is_right), "{about}: {row:?}, request in packet {request}");
        shown.services += 1;
    }
}

const ALL: [u64; 2] = [0, u64::MAX];

#[test]
fn cut_packets() {
    for complete in complete() {
        for keep in SNAPS {
            let mut shown = Shown::default();
            hold(&complete, &format!("{keep} kept"), &cut(&complete.frames, keep), ALL, &mut shown);
            println!("{}, {keep} kept: {shown:?}", complete.name);
            assert!(
                shown.exact + shown.between > 0 || keep < 128,
                "{}, {keep} kept: {shown:?}",
                complete.name
            );
        }
    }
}

#[test]
fn beginnings_in_mid_connection() {
    for complete in complete() {
        let mut shown = Shown::default();
        for part in 1..40 {
            let skip = complete.frames.len() * part / 80;
            for keep in [262_144, 200, 128, 96] {
                let frames = cut(&complete.frames[skip..], keep);
                let first = skip as u64 + 1;
                hold(
                    &complete,
                    &format!("from {first} on, {keep} kept"),
                    &frames,
                    [first, u64::MAX],
                    &mut shown,
                );
            }
        }
        println!("{}: {shown:?}", complete.name);
        shown.expect_counted(80, complete.name);
    }
}

#[test]
fn whole_packets_in_mid_connection_give_exact_counts() {
    for complete in complete() {
        let mut shown = Shown::default();
        for part in 1..40 {
            let skip = complete.frames.len() * part / 80;
            let first = skip as u64 + 1;
            hold(
                &complete,
                &format!("from {first} on"),
                &complete.frames[skip..],
                [first, u64::MAX],
                &mut shown,
            );
        }
        assert_eq!(shown.exact, shown.variants, "{}: {shown:?}", complete.name);
    }
}

#[test]
fn doubled_packets() {
    for complete in complete() {
        let mut shown = Shown::default();
        hold(&complete, "doubled", &doubled(&complete.frames), ALL, &mut shown);
        assert_eq!(shown.exact, shown.variants, "{}: {shown:?}", complete.name);
    }
}

/// Packets written late, with the stamps of their arrival: as several queues of a device are read one after the other.
#[test]
fn displaced_packets() {
    for complete in complete() {
        let mut shown = Shown::default();
        for seed in 0..10 {
            let mut dice = Dice::new(seed);
            for (late_max_ms, keep) in [(1, 262_144), (50, 262_144), (1_500, 262_144), (50, 200)] {
                let frames = cut(&displaced(&complete.frames, late_max_ms * 1_000_000, &mut dice), keep);
                let about = format!("seed {seed}, up to {late_max_ms} ms late, {keep} kept");
                let before = shown;
                hold(&complete, &about, &frames, ALL, &mut shown);
                let is_exact = shown.exact - before.exact == shown.variants - before.variants;
                assert!(keep < 262_144 || is_exact, "{}, {about}: {shown:?}", complete.name);
            }
        }
        println!("{}: {shown:?}", complete.name);
        shown.expect_counted(90, complete.name);
    }
}

/// Everything at once, at random: a part of the capture, cut, with losses.
#[test]
fn mutations() {
    let mut shown = Shown::default();
    for complete in complete() {
        for seed in 0..200 {
            let mut dice = Dice::new(seed);
            let all = complete.frames.len() as u64;
            let first = if dice.roll(2) == 0 { 0 } else { dice.roll(all / 2) };
            let last = if dice.roll(2) == 0 { all } else { all - dice.roll(all / 3) };
            let frames = &complete.frames[first as usize..last as usize];
            let keep = match dice.roll(3) {
                0 => 262_144,
                1 => SNAPS[dice.roll(4) as usize],
                _ => 94 + dice.roll(200) as usize,
            };
            let mut frames = cut(frames, keep);
            if dice.roll(2) == 0 {
                let one_in = 20 + dice.roll(500);
                frames = lossy(&frames, one_in, &mut dice);
            }
            let about = format!("seed {seed}: {first} to {last}, {keep} kept, {} packets", frames.len());
            hold(&complete, &about, &frames, [first + 1, last], &mut shown);
        }
    }
    println!("{shown:?}");
    shown.expect_counted(90, "all mutations");
}
