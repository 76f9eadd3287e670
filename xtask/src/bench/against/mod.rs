//! `cargo xtask bench --against REV`: the working tree's build beside that of another revision.
//!
//! A row is the median of the ratios within a round and its interval. A figure passes unless the whole interval is on the
//! worse side of 3 %: noise alone fails no row, and a wide interval proves nothing.

mod revision;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use tempfile::TempDir;

use self::revision::Folder;
use super::args::Against;
use super::length::Length;
use super::program::Build;
use super::rounds::{Interval, Plan, Sense, Series, rank};
use super::section::{Section, ensure_programs};
use crate::workspace;

/// Worsening that a figure may have.
const TOLERANCE: f64 = 0.03;
/// Duration of a measurement; more rounds are worth more than longer ones.
const SECONDS: u32 = 2;
/// A pair in either order: enough to see that every command of both builds works.
const QUICK: Plan = Plan { rounds: 2, seconds: 1 };

/// Measures the sections of both builds; true if all were measured and no figure is worse. A section that one build
/// cannot run fails alone.
pub(super) fn run(asked: &Against, length: Length, sections: &[&Section]) -> Result<bool> {
    let measured = || sections.iter().filter_map(|section| Some((section.name, section.against.as_ref()?)));
    ensure_programs(measured().map(|(_, against)| against.programs))?;
    let pair = Pair::build(&asked.revision)?;
    let plan = match length {
        Length::Full => Plan { rounds: asked.rounds, seconds: SECONDS },
        Length::Quick => QUICK,
    };
    let mut good = true;
    for (name, against) in measured() {
        match (against.measure)(&pair.builds, plan) {
            Ok(series) => good &= print(name, &pair.builds, plan, length, &series)?,
            Err(error) => {
                println!("\n{name}: not compared: {error:#}");
                good = false;
            }
        }
    }
    if length == Length::Quick {
        println!("\nno verdict is drawn from --quick: {} rounds have no interval", plan.rounds);
    }
    Ok(good)
}

/// Both builds, the working tree's first, for as long as this is alive.
struct Pair {
    builds: [Build; 2],
    _copies: TempDir,
    /// Locked until everything is measured.
    _folder: Folder<'static>,
}

impl Pair {
    fn build(revision: &str) -> Result<Pair> {
        let folder = Folder::open(workspace::root(), workspace::target_dir()?.join("against"))?;
        // The revision first: a name that is none should not cost a build.
        let old = folder.build(revision)?;
        let new = workspace::release_binary()?;
        // Copies, because another build would replace the original in the middle; their paths are equally long, because
        // the length of a command line shifts the stack and with it the time of some loops.
        let copies = tempfile::Builder::new().prefix("run-").tempdir_in(folder.path())?;
        let copy = |place: &str, name: String, binary: &Path| -> Result<Build> {
            let path = copies.path().join(place);
            fs::copy(binary, &path).with_context(|| format!("cannot copy {}", binary.display()))?;
            Ok(Build::at(name, path))
        };
        let builds =
            [copy("farlun-a", "this tree".to_owned(), &new)?, copy("farlun-b", old.name, &old.binary)?];
        Ok(Pair { builds, _copies: copies, _folder: folder })
    }
}

/// Prints the table of a section; true if no figure is worse.
fn print(section: &str, builds: &[Build; 2], plan: Plan, length: Length, series: &[Series]) -> Result<bool> {
    let [new, old] = builds.each_ref().map(Build::name);
    let Plan { rounds, seconds } = plan;
    println!("\n== {section}: {new} beside {old}, {rounds} rounds of {seconds} s");
    if length == Length::Full {
        let coverage = rank(rounds).1 * 100.0;
        println!("\nratio: median within a round, {coverage:.1} % interval of the median\n");
    } else {
        println!();
    }
    println!("| figure | {new} | {old} | ratio | within 3 % |\n|---|---|---|---|---|");
    let mut good = true;
    for series in series {
        let (ratio, verdict) = match length {
            Length::Full => {
                let interval = Interval::of(series.ratios())?;
                let is_within = is_within(series.figure.sense(), &interval);
                good &= is_within != Some(false);
                (interval.text(3), is_within.map_or("—", |yes| if yes { "yes" } else { "**no**" }))
            }
            Length::Quick => {
                (series.ratios().map(|ratio| format!("{ratio:.3}")).collect::<Vec<_>>().join(", "), "—")
            }
        };
        let [new, old] = [0, 1].map(|side| series.median_text(side));
        println!("| {} | {new} | {old} | {ratio} | {verdict} |", series.figure.name());
    }
    Ok(good)
}

/// Returns true if the ratio of the new build to the old one may be within 3 % of 1 or better; `None` for a figure that
/// is not judged.
fn is_within(sense: Sense, ratio: &Interval) -> Option<bool> {
    match sense {
        Sense::Rate => Some(ratio.high >= 1.0 - TOLERANCE),
        Sense::Cost => Some(ratio.low <= 1.0 + TOLERANCE),
        Sense::Neutral => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_fails_below_the_tolerance_and_a_cost_above() {
        let check = |sense, low, high, verdict| {
            let interval = Interval { low, median: f64::midpoint(low, high), high };
            assert_eq!(is_within(sense, &interval), verdict, "{sense:?} {low}..{high}");
        };
        check(Sense::Rate, 0.90, 0.969, Some(false));
        check(Sense::Rate, 0.90, 0.97, Some(true));
        check(Sense::Rate, 1.20, 1.30, Some(true));
        check(Sense::Cost, 1.031, 1.10, Some(false));
        check(Sense::Cost, 1.03, 1.10, Some(true));
        check(Sense::Cost, 0.70, 0.80, Some(true));
        // Noise is no worsening.
        check(Sense::Rate, 0.50, 1.50, Some(true));
        check(Sense::Neutral, 0.10, 0.20, None);
    }
}
