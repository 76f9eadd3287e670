//! Diagnosis of one run of a load.

use std::path::Path;

use analysis::doctor::{Question, survey};
use diagnosis::{Diagnosis, judge};
use tables::manifest::Cell;

use crate::run::LabError;

/// Limiter of the load with tables in `dir`, over the window of `cell`.
pub(super) fn diagnose(dir: &Path, cell: &Cell) -> Result<Diagnosis, LabError> {
    let facts = survey(dir, Question::of(cell))?;
    facts.map(|facts| judge(&facts)).ok_or_else(|| LabError::Nothing(dir.to_owned()))
}
