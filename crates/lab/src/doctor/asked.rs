//! What the doctor says of one run of a load.

use std::path::Path;

use analysis::doctor::{Diagnosis, Question, judge, survey};
use analysis::throughput;
use event::Op;
use store::manifest::Cell;

use crate::run::LabError;

/// What limits the load whose tables are in `dir`, over the time that `cell` says its figures are of. Nothing else of
/// what the cell says is looked at.
pub(super) fn asked(dir: &Path, cell: &Cell) -> Result<Diagnosis, LabError> {
    let question = match cell.load() {
        Ok(Some(load)) => Question {
            op: [Op::Read, Op::Write].into_iter().find(|op| op.name() == load.op),
            window: Some(throughput::window(cell, &load)),
            hosts: Some([cell.initiators, cell.targets]),
        },
        _ => Question::default(),
    };
    let facts = survey(dir, question)?;
    facts.map(|facts| judge(&facts)).ok_or_else(|| LabError::Nothing(dir.to_owned()))
}
