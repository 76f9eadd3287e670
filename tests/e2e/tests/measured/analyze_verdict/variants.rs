//! Variants of captures whose limiter is known: copies, disorder, a beginning in mid-connection, cut packets, losses of
//! the tap. No variant has a wrong limiter, and most have one.
//!
//! The shares are those of `docs/notebook/analyze.md`.

#[path = "../../../../../crates/dissect/tests/variants/frames.rs"]
mod frames;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use analysis::capture::DiagnosedCapture;
use dissect::{ConnectionSummary, Dissector};
use e2e::{decide, need, path, skip, tgtd};
use wire::pcap::Packet;

use super::cases::{Case, foreign, long, short};
use frames::{Dice, Frame, cut, displaced, doubled, lossy, read};

/// Seed of the variants.
const SEED: u64 = 20_261_128;
/// Mutations of each capture with `--long`.
const MUTATIONS: u64 = 64;
/// Variants of a kind from which on their share means something.
const SHARED_MIN: u64 = 20;
/// Bytes kept of each packet; the last one seldom keeps a header behind TCP's options.
const SNAPS: [usize; 4] = [200, 160, 128, 96];

/// Kind of a variant, in the order of the evidence that it leaves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Complete,
    /// Doubled, disordered, or begun in mid-connection.
    Whole,
    /// At least 128 bytes of each packet, and the login.
    Cut,
    /// 96 bytes of each packet.
    Short,
    /// Several of these at random, with packets that the tap lost.
    Mutated,
}

impl Kind {
    /// Share of the variants that have a limiter, in percent; mutations may show anything.
    fn stated_min_percent(self) -> u64 {
        match self {
            Kind::Complete => 95,
            Kind::Whole => 90,
            Kind::Cut => 80,
            Kind::Short => 60,
            Kind::Mutated => 0,
        }
    }
}

/// Verdicts on the variants of one kind.
#[derive(Clone, Copy, Default, Debug)]
struct Verdicts {
    right: u64,
    wrong: u64,
    silent: u64,
}

/// First limiter of the connection that completed most commands; `None` if there is not enough evidence.
fn limiter(frames: &[Frame]) -> Option<String> {
    let mut dissector = Dissector::new();
    for Frame { t_ns, link, len, bytes, .. } in frames {
        let packet = Packet { t_ns: *t_ns, link: *link, interface: 0, len: *len, bytes };
        dissector.packet(&packet, "wan0", &mut ());
    }
    let capture = DiagnosedCapture::new(dissector.finish(0, None, &mut ()));
    let bytes =
        |of: &ConnectionSummary| of.directions.iter().map(|direction| direction.payload_bytes).sum::<u64>();
    let busiest = capture.connections().max_by_key(|connection| bytes(connection.summary))?;
    busiest.diagnosis?.first().map(|first| first.limiter.name().to_owned())
}

fn variants(frames: &[Frame], dice: &mut Dice) -> Vec<(Kind, String, Vec<Frame>)> {
    let third = frames.len() / 3;
    let mut all = vec![
        (Kind::Complete, "complete".to_owned(), frames.to_vec()),
        (Kind::Whole, "doubled".to_owned(), doubled(frames)),
        (Kind::Whole, "displaced".to_owned(), displaced(frames, 50_000_000, dice)),
        (Kind::Whole, "from a third on".to_owned(), frames[third..].to_vec()),
    ];
    for keep in SNAPS {
        let kind = if keep < 128 { Kind::Short } else { Kind::Cut };
        all.push((kind, format!("{keep} bytes kept"), cut(frames, keep)));
    }
    all
}

/// A part of the capture, with packets cut, lost, doubled or displaced at random.
fn mutated(frames: &[Frame], dice: &mut Dice) -> (String, Vec<Frame>) {
    let first = if dice.roll(2) == 0 { 0 } else { dice.roll(frames.len() as u64 / 2) as usize };
    let keep = [262_144, 262_144, 90 + dice.roll(200) as usize][dice.roll(3) as usize];
    let mut changed = cut(&frames[first..], keep);
    let mut about = format!("from packet {} on, {keep} bytes kept", frames[first].number);
    match dice.roll(4) {
        0 => {
            let one_in = 50 + dice.roll(2_000);
            changed = lossy(&changed, one_in, dice);
            about += &format!(", one packet in {one_in} lost");
        }
        1 => {
            changed = doubled(&changed);
            about += ", doubled";
        }
        2 => {
            changed = displaced(&changed, 1 + dice.roll(200_000_000), dice);
            about += ", displaced";
        }
        _ => {}
    }
    (about, changed)
}

/// Judges the variants of a case; the wrong ones in words.
fn judge(case: &Case, file: &Path, verdicts: &mut BTreeMap<Kind, Verdicts>) -> Vec<String> {
    let frames = read(file, File::open(file).expect("a capture"));
    let mut dice = Dice::new(SEED);
    let mut wrong = Vec::new();
    let mut count = |kind: Kind, about: &str, frames: &[Frame]| {
        let found = limiter(frames);
        let verdicts = verdicts.entry(kind).or_default();
        match found.as_deref() {
            None => verdicts.silent += 1,
            Some(name) if case.right.contains(&name) => verdicts.right += 1,
            Some(name) => {
                verdicts.wrong += 1;
                wrong.push(format!("{}, {about}: {name}, in truth {:?}", case.name, case.right));
            }
        }
        found
    };
    for (kind, about, frames) in variants(&frames, &mut dice) {
        let found = count(kind, &about, &frames);
        println!("{}, {about}: {}", case.name, found.as_deref().unwrap_or("not enough seen"));
    }
    let mutations = if skip::is_long() { MUTATIONS } else { 0 };
    for seed in 0..mutations {
        let (about, frames) = mutated(&frames, &mut Dice::new(SEED + seed));
        count(Kind::Mutated, &format!("mutation {seed} ({about})"), &frames);
    }
    wrong
}

#[test]
fn variants_of_captures_have_the_limiter_of_the_complete_one_or_none() {
    need!(path::available(), skip::program("tcpdump"), tgtd::available(), skip::qemu_iscsi());
    let _turn = path::turn();
    let folder = tempfile::tempdir().expect("a folder");
    let mut cases = foreign();
    cases.extend(short());
    if skip::is_long() {
        cases.extend(long());
    } else {
        // One request and a full line: those that differ most from each other.
        cases.retain(|case| matches!(case.name, "QEMU one read at a time" | "QEMU on a full line"));
    }
    let mut verdicts = BTreeMap::new();
    let mut wrong = Vec::new();
    for case in &cases {
        let (file, validity) = case.tap.judged(folder.path(), &case.name.replace([' ', ',', '\''], "-"));
        if let Err(reason) = validity {
            println!("{}: left out, {reason}", case.name);
            continue;
        }
        wrong.extend(judge(case, &file, &mut verdicts));
    }
    let mut quiet = Vec::new();
    for (kind, Verdicts { right, wrong, silent }) in &verdicts {
        let (stated, all) = (right + wrong, right + wrong + silent);
        println!("{kind:?}: {stated} of {all} stated, {right} of them right");
        if all >= SHARED_MIN && stated * 100 < all * kind.stated_min_percent() {
            quiet.push(format!("{kind:?}: {stated} of {all}"));
        }
    }
    let validity = if verdicts.is_empty() { Err("no capture was valid".to_owned()) } else { Ok(()) };
    let holds = !verdicts.is_empty() && wrong.is_empty() && quiet.is_empty();
    decide!(holds, validity, "wrong:\n{}\ntoo seldom stated: {quiet:?}", wrong.join("\n"));
}
