//! Runs the cells in sequence into the run directory; the doctor sees the tables of each and nothing else.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use diagnosis::Diagnosis;
use serde_json::json;
use tables::RunDir;
use tables::manifest::{Cell, CellEntry, Run};

use super::setup::Setup;
use crate::doctor::diagnose::diagnose;
use crate::plan::{Lun, Point};
use crate::run::{Lab, LabError, Lock, Order, Parts, Progress, Step, Streak, look, what_to_do};

/// Directory with the tables for the doctor, without the files that describe the run.
const BLIND_DIR: &str = "tables-alone";

/// Source of diagnoses for the cases.
pub(super) trait Examine {
    /// Diagnosis of a load, named `words` among the cells of the run; `None` if it yields no figures.
    fn examine(&mut self, setup: &Setup, words: &str) -> Result<Option<Diagnosis>, LabError>;

    /// Announces that `count` loads will not be examined.
    fn skip(&mut self, count: usize);

    /// True if no further load is to be examined.
    fn is_over(&self) -> bool;
}

/// A run in progress.
pub(super) struct Examination<'a> {
    lab: &'a Lab,
    order: &'a Order,
    progress: &'a mut dyn Progress,
    pub(super) dir: RunDir,
    pub(super) run: Run,
    /// Expected times of the remaining cells.
    times: Vec<Duration>,
    done: usize,
    of: usize,
    /// Cells that yield no figures because the machine was too busy, in words.
    pub(super) invalid: Vec<String>,
    /// Cells of which a command failed.
    pub(super) failed: Vec<String>,
    /// Reason if the rest was not run.
    pub(super) stopped: Option<String>,
    streak: Streak,
    /// Lock on the run directory.
    _lock: Lock,
}

impl<'a> Examination<'a> {
    pub(super) fn new(
        lab: &'a Lab,
        order: &'a Order,
        dir: RunDir,
        run: Run,
        lock: Lock,
        progress: &'a mut dyn Progress,
        mut times: Vec<Duration>,
    ) -> Examination<'a> {
        let of = times.len();
        times.reverse();
        Examination {
            lab,
            order,
            progress,
            dir,
            run,
            times,
            done: 0,
            of,
            invalid: Vec::new(),
            failed: Vec::new(),
            stopped: None,
            streak: Streak::default(),
            _lock: lock,
        }
    }

    /// Diagnosis from the tables alone, without the plan or the case.
    fn blind(&self, cell: &Path, manifest: &Cell) -> Result<Diagnosis, LabError> {
        let blind = self.dir.path().join(BLIND_DIR);
        let linked = || {
            fs::create_dir_all(&blind)?;
            for entry in fs::read_dir(cell)?.flatten() {
                let path = entry.path();
                if path.extension().is_some_and(|extension| extension == "parquet") {
                    fs::hard_link(&path, blind.join(entry.file_name()))?;
                }
            }
            Ok(())
        };
        linked().map_err(|source| LabError::File { path: blind.clone(), source })?;
        let diagnosis = diagnose(&blind, manifest);
        fs::remove_dir_all(&blind).map_err(|source| LabError::File { path: blind.clone(), source })?;
        diagnosis
    }
}

impl Examine for Examination<'_> {
    fn skip(&mut self, count: usize) {
        self.times.truncate(self.times.len().saturating_sub(count));
        self.of -= count.min(self.of);
    }

    fn examine(&mut self, setup: &Setup, words: &str) -> Result<Option<Diagnosis>, LabError> {
        if self.stopped.is_some() {
            return Ok(None);
        }
        self.done += 1;
        let mut cell = setup.cell.clone();
        cell.number = self.done;
        cell.point = Point(vec![("case".to_owned(), words.to_owned())]);
        let dir = self.dir.make_cell(cell.number, &cell.slug(), 1)?;
        let trace_dir = self.dir.path().join(&dir);
        let left = self.times.iter().sum();
        let expected = self.times.pop().unwrap_or_default();
        let step = Step {
            number: self.done,
            of: self.of,
            words: words.to_owned(),
            repeat: 1,
            attempt: 1,
            expected,
            left,
        };
        self.progress.begins(&step);
        let luns = [Lun::of(setup.lun.clone())];
        let seed = cell.seed(self.order.seed, 1);
        let record = &self.order.plan.recording.tables;
        let single = self.lab.single(Parts {
            cell: &cell,
            luns: &luns,
            record,
            seed,
            run_dir: self.dir.path(),
            trace_dir: &trace_dir,
        })?;
        self.progress.ended(&step, single.trouble.as_deref());
        self.dir.save_cell(&dir, &single.manifest)?;
        let parameters = BTreeMap::from([("case".to_owned(), json!(words))]);
        let (slug, load) = (cell.slug(), cell.load.name.clone());
        self.run.cells.push(CellEntry { dir, slug, load, parameters, repeat: 1 });
        self.dir.save(&self.run)?;
        if single.interrupted {
            self.stopped = Some("interrupted".to_owned());
        }
        match (single.is_invalid, single.trouble.is_some()) {
            // As often as it was tried.
            (true, _) => (0..single.attempts)
                .for_each(|_| self.streak.invalid(words, &single.manifest.reasons, Instant::now())),
            (false, true) => self.streak.other(),
            (false, false) => self.streak.valid(),
        }
        if let Some(found) = self.streak.stop_reason(self.of, Instant::now())
            && self.stopped.is_none()
        {
            self.stopped = Some(what_to_do(&found, look().as_ref()));
        }
        if single.trouble.is_some() {
            let list = if single.is_invalid { &mut self.invalid } else { &mut self.failed };
            list.push(words.to_owned());
            return Ok(None);
        }
        self.blind(&trace_dir, &single.manifest).map(Some)
    }

    fn is_over(&self) -> bool {
        self.stopped.is_some()
    }
}
