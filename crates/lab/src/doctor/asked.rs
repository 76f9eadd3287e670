//! What the doctor says of one run of a load.

use std::path::Path;

use analysis::doctor::{Question, survey};
use diagnosis::{Diagnosis, judge};
use tables::manifest::Cell;

use crate::run::LabError;

/// What limits the load whose tables are in `dir`, over the time that `cell` says its figures are of.
pub(super) fn asked(dir: &Path, cell: &Cell) -> Result<Diagnosis, LabError> {
    let facts = survey(dir, Question::of(cell))?;
    facts.map(|facts| judge(&facts)).ok_or_else(|| LabError::Nothing(dir.to_owned()))
}
