//! `cargo xtask bench`: farlun beside what others wrote, beside its own raw stream and beside another build of itself.
//!
//! Sides run in interleaved rounds (`rounds`). Beside others a figure is the median of the ratios within a round, and its
//! bound is part of the row; beside another build the interval of that median decides (`against`). Not a test: it wants a
//! quiet machine and some minutes. Rows are printed as Markdown, for docs/benchmarks.md.

mod against;
mod analysis;
mod analyze;
mod args;
mod capture;
mod example;
mod flood;
mod gaps;
mod memory;
mod page;
mod program;
mod rounds;
mod stream;
mod tgt;
mod trace;
mod untraced;

use anyhow::{Result, bail};

use self::program::Build;
use self::rounds::{Plan, Series};
use crate::packages;
use crate::step::{self, Outcome};

pub(crate) use args::Request;
pub(crate) use capture::generate;

/// Duration of a comparison.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// Figures to quote.
    Full,
    /// Enough to see that the comparison runs.
    Quick,
}

impl Length {
    /// A full comparison's rounds and their seconds, or a short round.
    fn plan(self, rounds: usize, seconds: u32) -> Plan {
        if self == Length::Full { Plan { rounds, seconds } } else { Plan { rounds: 1, seconds: 2 } }
    }
}

/// A comparison that has a name on the command line.
struct Section {
    name: &'static str,
    /// Programs that farlun is measured beside.
    programs: &'static [&'static str],
    beside: fn(Length) -> Result<bool>,
    against: Option<BesideBuild>,
}

/// Its comparison of two builds.
struct BesideBuild {
    programs: &'static [&'static str],
    measure: fn(&[Build; 2], Plan) -> Result<Vec<Series>>,
}

impl Section {
    const fn new(
        name: &'static str,
        programs: &'static [&'static str],
        beside: fn(Length) -> Result<bool>,
    ) -> Section {
        Section { name, programs, beside, against: None }
    }

    const fn against(
        self,
        programs: &'static [&'static str],
        measure: fn(&[Build; 2], Plan) -> Result<Vec<Series>>,
    ) -> Section {
        Section { against: Some(BesideBuild { programs, measure }), ..self }
    }
}

const SECTIONS: &[Section] = &[
    Section::new("stream", &["iperf3"], stream::run).against(&[], stream::against),
    Section::new("tgt", &["iscsi-perf", "tgtd", "tgtadm"], tgt::run).against(&["iscsi-perf"], tgt::against),
    Section::new("memory", &[], memory::run).against(&[], memory::against),
    Section::new("analysis", &[], analysis::run),
    Section::new("analyze", &[], analyze::run).against(&[], analyze::against),
    Section::new("flood", &[], flood::run).against(&[], flood::against),
    Section::new("trace", &[], trace::run).against(&[], trace::against),
    Section::new("untraced", &[], untraced::run),
    Section::new("capture", &["iperf3", "tcpdump"], capture::run),
    Section::new("gaps", &[], gaps::run),
    Section::new("page", &[], page::run),
];

/// Runs what was asked for; true if every bound holds.
pub(crate) fn run(request: &Request) -> Result<bool> {
    if let Some(asked) = &request.against {
        return against::run(asked, request.length, &request.sections);
    }
    ensure_programs(request.sections.iter().map(|section| section.programs))?;
    let mut good = true;
    for section in &request.sections {
        good &= (section.beside)(request.length)?;
    }
    Ok(good)
}

/// Installs missing programs where it can; an error if one is missing still.
fn ensure_programs(programs: impl Iterator<Item = &'static [&'static str]>) -> Result<()> {
    let programs: Vec<&str> = programs.flatten().copied().collect();
    let missing = || programs.iter().find(|program| !step::have(program));
    if missing().is_some() {
        if let Outcome::Skipped(reason) = packages::ensure(packages::BENCH)? {
            println!("{reason}");
        }
        if let Some(program) = missing() {
            bail!("{program} is not installed, and the comparison needs it");
        }
    }
    Ok(())
}
