//! `cargo xtask bench`: farlun beside what others wrote and beside its own raw stream, in interleaved rounds.
//!
//! One round is every side in turn, the order changing from round to round, so that a machine that drifts drifts for
//! all. A figure is the median over the rounds of the ratio within a round; its bound is part of the row. Not a
//! test: it wants a quiet machine and some minutes. Rows are printed as Markdown, for docs/benchmarks.md.

mod analysis;
mod analyze;
mod capture;
mod example;
mod flood;
mod gaps;
mod memory;
mod page;
mod spread;
mod stream;
mod tgt;
mod trace;
mod untraced;

use anyhow::{Result, bail};

use crate::packages;
use crate::step::{self, Outcome};
use spread::Spread;

pub(crate) use capture::generate;

/// How long to measure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// Figures to quote.
    Full,
    /// Enough to see whether the comparison runs.
    Quick,
}

/// Its name, the programs that it measures beside, and what it does.
type Section = (&'static str, &'static [&'static str], fn(Length) -> Result<bool>);

/// What can be asked for by name.
const SECTIONS: &[Section] = &[
    ("stream", &["iperf3"], stream::run),
    ("tgt", &["iscsi-perf", "tgtd", "tgtadm"], tgt::run),
    ("memory", &[], memory::run),
    ("analysis", &[], analysis::run),
    ("analyze", &[], analyze::run),
    ("flood", &[], flood::run),
    ("trace", &[], trace::run),
    ("untraced", &[], untraced::run),
    ("capture", &["iperf3", "tcpdump"], capture::run),
    ("gaps", &[], gaps::run),
    ("page", &[], page::run),
];

/// Runs the sections of these names, or every section; true if every bound holds.
pub(crate) fn run(length: Length, names: &[&str]) -> Result<bool> {
    let is_known = |name: &str| SECTIONS.iter().any(|(known, ..)| *known == name);
    if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
        let known: Vec<&str> = SECTIONS.iter().map(|(name, ..)| *name).collect();
        bail!("there is no section `{unknown}`; there are {}", known.join(", "));
    }
    let asked: Vec<&Section> =
        SECTIONS.iter().filter(|(name, ..)| names.is_empty() || names.contains(name)).collect();
    let missing = || asked.iter().flat_map(|(_, programs, _)| *programs).find(|program| !step::have(program));
    if missing().is_some() {
        if let Outcome::Skipped(reason) = packages::ensure(packages::BENCH)? {
            println!("{reason}");
        }
        if let Some(program) = missing() {
            bail!("{program} is not installed, and farlun is measured beside it");
        }
    }
    let mut good = true;
    for (.., section) in asked {
        good &= section(length)?;
    }
    Ok(good)
}

/// Prints a section's heading and the head of its table.
fn head(title: &str, sides: [&str; 2]) {
    println!(
        "\n== {title}\n\n| figure | {} | {} | ratio | bound |\n|---|---|---|---|---|",
        sides[0], sides[1]
    );
}

/// The bound of a ratio.
#[derive(Clone, Copy)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
    /// Shown for comparison only.
    None,
}

/// Prints a row: both sides' figures (medians and ranges), their ratio within each round, and whether its bound
/// holds, which is returned.
fn row(name: &str, rounds: &[[f64; 2]], digits: usize, bound: Bound) -> bool {
    let ours = Spread::of(rounds.iter().map(|[ours, _]| *ours)).text(digits);
    let theirs = Spread::of(rounds.iter().map(|[_, theirs]| *theirs)).text(digits);
    let ratio = Spread::of(rounds.iter().map(|[ours, theirs]| ours / theirs));
    let (holds, bound) = match bound {
        Bound::AtLeast(least) => (ratio.median >= least, format!("≥ {least}")),
        Bound::AtMost(most) => (ratio.median <= most, format!("≤ {most}")),
        Bound::None => (true, "—".to_owned()),
    };
    let verdict = if holds { "" } else { " **missed**" };
    println!("| {name} | {ours} | {theirs} | {} | {bound}{verdict} |", ratio.text(2));
    holds
}

/// Calls both sides in turn, `rounds` times, the order changing: what each measured.
fn interleave<T>(
    rounds: usize,
    mut ours: impl FnMut() -> Result<T>,
    mut theirs: impl FnMut() -> Result<T>,
) -> Result<Vec<[T; 2]>> {
    let mut measured = Vec::new();
    for round in 0..rounds {
        measured.push(if round % 2 == 0 {
            let ours = ours()?;
            [ours, theirs()?]
        } else {
            let theirs = theirs()?;
            [ours()?, theirs]
        });
    }
    Ok(measured)
}
