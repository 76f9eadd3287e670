//! Captures that lack packets which the capturing host has dropped: the gap is counted, and PDUs behind it are found,
//! held against tshark's of the whole capture and of the one with gaps.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use e2e::process::output;
use e2e::{need, path, skip};
use wire::iscsi::Opcode;

use e2e::tap::{Tap, analyzed, list, tshark};

/// PDUs behind a gap that may be passed over until the place is found again.
const PASSED_OVER_MAX: usize = 2;

/// A PDU as `--list pdus` says it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Pdu {
    from: String,
    start: u64,
    end: u64,
    opcode: u8,
    itt: String,
    first: u64,
    last: u64,
    inferred: bool,
}

impl Pdu {
    /// What it is wherever its packets stand.
    fn key(&self) -> (&str, u64, u64, u8, &str) {
        (&self.from, self.start, self.end, self.opcode, &self.itt)
    }
}

/// A segment as `--list packets` says it.
struct Packet {
    number: u64,
    from: String,
    len: u64,
    is_again: bool,
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text} is no number"))
}

fn pdus(file: &Path) -> Vec<Pdu> {
    let code = |name: &str| {
        let opcode = Opcode::ALL.iter().find(|opcode| format!("{opcode:?}") == name);
        opcode.unwrap_or_else(|| panic!("{name} is no opcode")).code()
    };
    let rows = list(file, "pdus").into_iter();
    rows.map(|row| Pdu {
        from: row[1].clone(),
        opcode: code(&row[3]),
        itt: row[4].clone(),
        start: number(&row[5]),
        end: number(&row[6]),
        first: number(&row[7]),
        last: number(&row[8]),
        inferred: row[9] == "true",
    })
    .collect()
}

fn packets(file: &Path) -> Vec<Packet> {
    let rows = list(file, "packets").into_iter();
    rows.map(|row| Packet {
        number: number(&row[0]),
        from: row[2].clone(),
        len: number(&row[5]),
        is_again: ["fast", "timeout", "spurious", "local"].contains(&row[7].as_str()),
    })
    .collect()
}

/// The packet that completes it, and what it is, of every PDU that tshark finds.
fn their_pdus(file: &Path) -> Vec<(u64, u8)> {
    let mut found = Vec::new();
    for row in tshark(file, &[], "iscsi", &["frame.number", "iscsi.opcode"]) {
        for code in row[1].split(',').filter(|code| !code.is_empty()) {
            let digits = code.trim_start_matches("0x");
            found.push((number(&row[0]), u8::from_str_radix(digits, 16).expect("an opcode") & 0x3f));
        }
    }
    found.sort_unstable();
    found
}

fn ours(pdus: &[Pdu]) -> Vec<(u64, u8)> {
    let mut found: Vec<_> = pdus.iter().map(|pdu| (pdu.last, pdu.opcode)).collect();
    found.sort_unstable();
    found
}

/// Packets with data of who sent `pdus[at]`, from its first packet on: `skip` of them are left out, `take` are taken.
fn run_of(packets: &[Packet], pdu: &Pdu, skip: usize, take: usize) -> BTreeSet<u64> {
    let own = packets.iter().filter(|packet| packet.from == pdu.from && packet.len > 0);
    own.filter(|packet| packet.number >= pdu.first)
        .skip(skip)
        .take(take)
        .map(|packet| packet.number)
        .collect()
}

#[test]
fn behind_dropped_packets_pdus_are_found_again() {
    need!(
        path::available(),
        skip::program("tcpdump"),
        skip::program("tshark"),
        skip::program("reordercap"),
        skip::program("editcap")
    );
    let folder = tempfile::tempdir().expect("a folder");
    let tap = Tap {
        settings: [path::PATIENT_TCP; 2],
        load: "FARLUN bench URL --json --op read,write --overwrite --block 64KiB --depth 4 --time 1s",
        ..Tap::default()
    };
    let file = super::in_order(&tap.capture(folder.path(), "complete"));
    let (whole, packets) = (pdus(&file), packets(&file));
    assert_eq!(ours(&whole), their_pdus(&file), "of the whole capture");
    assert!(whole.iter().all(|pdu| !pdu.inferred));

    // What is sent again would fill a gap.
    assert!(packets.iter().all(|packet| !packet.is_again), "nothing is lost on this path");
    // Within the data of a read; over the headers of two; over those of a write's data.
    let long = |from_target: bool, part: usize| {
        let is_it = |pdu: &&Pdu| pdu.from.starts_with(path::FAR) == from_target && pdu.last > pdu.first + 8;
        let all: Vec<&Pdu> = whole.iter().filter(is_it).collect();
        assert!(all.len() > 12, "{} long PDUs", all.len());
        all[all.len() * part / 8]
    };
    let holes = [
        run_of(&packets, long(true, 2), 3, 2),
        run_of(&packets, long(true, 4), 3, 100),
        run_of(&packets, long(false, 6), 3, 60),
    ];
    let removed: BTreeSet<u64> = holes.iter().flatten().copied().collect();
    assert_eq!(removed.len(), 162);
    let holed = folder.path().join("holed.pcap");
    let mut editcap = Command::new("editcap");
    editcap.args(["-F", "nsecpcap"]).arg(&file).arg(&holed);
    output(editcap.args(removed.iter().map(u64::to_string)));

    // Every gap is counted, by who sent it.
    let capture = analyzed(&holed);
    let directions = capture["connections"].as_array().expect("connections").iter();
    for direction in directions.flat_map(|connection| connection["directions"].as_array().expect("two")) {
        let from = direction["from"].as_str().expect("an address");
        let own: Vec<&Packet> = packets.iter().filter(|packet| packet.from == from).collect();
        let missing = own.iter().filter(|packet| removed.contains(&packet.number)).map(|packet| packet.len);
        let gaps = holes.iter().filter(|hole| own.iter().any(|packet| hole.contains(&packet.number))).count();
        assert_eq!(direction["missing_bytes"], missing.sum::<u64>(), "{direction}");
        assert_eq!(direction["gaps"], gaps, "{direction}");
    }

    // Numbers of packets are those of the whole capture again.
    let left: Vec<u64> =
        packets.iter().map(|packet| packet.number).filter(|n| !removed.contains(n)).collect();
    let back = |number: u64| left[number as usize - 1];
    let mut found = pdus(&holed);
    found.iter_mut().for_each(|pdu| (pdu.first, pdu.last) = (back(pdu.first), back(pdu.last)));
    let known: BTreeSet<_> = whole.iter().map(Pdu::key).collect();
    let seen: Vec<&Pdu> = found.iter().filter(|pdu| !pdu.inferred).collect();
    let invented: Vec<_> = seen.iter().filter(|pdu| !known.contains(&pdu.key())).collect();
    assert!(invented.is_empty(), "{invented:?}");

    // Of what no gap touches, a few PDUs behind each at most are not found.
    let is_touched = |pdu: &Pdu| {
        let mut own = packets.iter().filter(|packet| (pdu.first..=pdu.last).contains(&packet.number));
        own.any(|packet| packet.from == pdu.from && removed.contains(&packet.number))
    };
    let sound: Vec<&Pdu> = whole.iter().filter(|pdu| !is_touched(pdu)).collect();
    let told: BTreeSet<_> = found.iter().map(Pdu::key).collect();
    let passed_over: Vec<_> = sound.iter().filter(|pdu| !told.contains(&pdu.key())).collect();
    println!("{} PDUs, {} that no gap touches, passed over: {passed_over:?}", whole.len(), sound.len());
    assert!(passed_over.len() <= PASSED_OVER_MAX * holes.len(), "{passed_over:?}");
    let last = removed.last().expect("a gap");
    assert!(sound.iter().filter(|pdu| pdu.first > *last).count() > 20, "too little behind the gaps");

    // tshark finds the same before the first gap, and nothing behind it that is there and not found here.
    let first = *removed.first().expect("a gap");
    let theirs: Vec<_> = their_pdus(&holed).into_iter().map(|(packet, code)| (back(packet), code)).collect();
    let before =
        |pdus: &[(u64, u8)]| pdus.iter().copied().filter(|(packet, _)| *packet < first).collect::<Vec<_>>();
    assert_eq!(before(&ours(&found)), before(&theirs));
    let sound: BTreeSet<_> = sound.iter().map(|pdu| (pdu.last, pdu.opcode)).collect();
    let found: BTreeSet<_> = ours(&found).into_iter().collect();
    let theirs: BTreeSet<_> = theirs.into_iter().collect();
    let [here, there] = [&found, &theirs].map(|all| sound.intersection(all).count());
    println!("of {} that end at a packet of their own kind: {here} here, {there} by tshark", sound.len());
    assert!(here >= there, "{here} of {} are found, by tshark {there}", sound.len());
}
