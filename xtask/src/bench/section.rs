//! A comparison, and the programs that it needs.

use anyhow::{Result, bail};

use super::length::Length;
use super::program::Build;
use super::rounds::{Plan, Series};
use crate::packages;
use crate::step::{self, Outcome};

/// A comparison that has a name on the command line.
pub(super) struct Section {
    pub(super) name: &'static str,
    /// Programs that farlun is measured beside.
    pub(super) programs: &'static [&'static str],
    pub(super) beside: fn(Length) -> Result<bool>,
    pub(super) against: Option<BesideBuild>,
}

/// Comparison of two builds in a section.
pub(super) struct BesideBuild {
    pub(super) programs: &'static [&'static str],
    pub(super) measure: fn(&[Build; 2], Plan) -> Result<Vec<Series>>,
}

impl Section {
    pub(super) const fn new(
        name: &'static str,
        programs: &'static [&'static str],
        beside: fn(Length) -> Result<bool>,
    ) -> Section {
        Section { name, programs, beside, against: None }
    }

    pub(super) const fn against(
        self,
        programs: &'static [&'static str],
        measure: fn(&[Build; 2], Plan) -> Result<Vec<Series>>,
    ) -> Section {
        Section { against: Some(BesideBuild { programs, measure }), ..self }
    }
}

/// Installs missing programs where it can; an error if one is missing still.
pub(super) fn ensure_programs(programs: impl Iterator<Item = &'static [&'static str]>) -> Result<()> {
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
