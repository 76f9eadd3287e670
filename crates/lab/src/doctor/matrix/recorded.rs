//! Cells of a recorded run, judged by the present rules. Nothing is run.

use diagnosis::Diagnosis;
use tables::RunDir;
use tables::manifest::Run;

use super::examine::Examine;
use super::setup::Setup;
use crate::doctor::diagnose::diagnose;
use crate::run::LabError;

/// A recorded run.
pub(super) struct Recorded<'a> {
    pub(super) dir: &'a RunDir,
    pub(super) run: &'a Run,
}

impl Examine for Recorded<'_> {
    /// A case ends where the present rules fix another limiter first: there is no cell for it.
    fn examine(&mut self, _setup: &Setup, words: &str) -> Result<Option<Diagnosis>, LabError> {
        let mut entries = self.run.cells.iter();
        let Some(entry) =
            entries.find(|entry| entry.parameters.get("case").is_some_and(|case| case == words))
        else {
            return Ok(None);
        };
        let cell = self.dir.cell(&entry.dir)?;
        if !cell.cell.valid {
            return Ok(None);
        }
        diagnose(&cell.path, &cell.cell).map(Some)
    }

    fn skip(&mut self, _count: usize) {}

    fn is_over(&self) -> bool {
        false
    }
}
