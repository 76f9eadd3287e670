//! Run directory of an examined load: one cell for each of its runs, as in a plan, so that every figure of a verdict
//! can be looked up and `farlun report` draws it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use analysis::Tour;
use analysis::doctor::steps::{StepNote, observation};
use diagnosis::steps::StepObservation;
use serde_json::{Value, json};
use tables::RunDir;
use tables::manifest::{Cell, CellEntry, Run, Window};

use crate::run::LabError;

/// A run directory in progress.
#[derive(Debug)]
pub struct Record {
    dir: RunDir,
    run: Run,
    began: Instant,
}

/// A run of the load whose tables are there.
#[derive(Clone, PartialEq, Debug)]
pub struct Ran {
    /// The command that runs it alone, quoted for a shell.
    pub command: String,
    /// Start of the window, relative to the start of the load, and its length.
    pub window: (Duration, Duration),
    /// JSON result of the load.
    pub near: Value,
    /// The step of a measurement that it is.
    pub note: StepNote,
}

impl Record {
    /// Makes a run directory at `out`, which must be missing or empty.
    pub fn create(out: &Path, run: Run) -> Result<Record, LabError> {
        let is_taken = std::fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some());
        if is_taken {
            return Err(LabError::NotEmpty(out.to_owned()));
        }
        let dir = RunDir::create(out)?;
        dir.save(&run)?;
        Ok(Record { dir, run, began: Instant::now() })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Directory for the tables of the next run.
    pub fn next(&self) -> Result<PathBuf, LabError> {
        let number = self.run.cells.len() + 1;
        // Tables of a step that failed are none of the next one.
        let _ = std::fs::remove_dir_all(self.dir.path().join(RunDir::repeat_dir(number, SLUG, 1)));
        let dir = self.dir.make_cell(number, SLUG, 1)?;
        Ok(self.dir.path().join(dir))
    }

    /// Writes down the step whose tables went there, and returns its observation.
    pub fn ran(&mut self, mut ran: Ran) -> Result<StepObservation, LabError> {
        let number = self.run.cells.len() + 1;
        let dir = RunDir::repeat_dir(number, SLUG, 1);
        let StepNote { measurement, load, .. } = ran.note;
        let words =
            [("measurement", measurement.to_string()), ("step", format!("{number} {}", load.role.name()))];
        let parameters: BTreeMap<String, Value> =
            words.into_iter().map(|(name, word)| (name.to_owned(), json!(word))).collect();
        ran.note.write(&mut ran.near);
        let window = Window { start_s: ran.window.0.as_secs_f64(), length_s: ran.window.1.as_secs_f64() };
        let cell = Cell {
            slug: SLUG.to_owned(),
            load: SLUG.to_owned(),
            repeat: 1,
            parameters: parameters.clone(),
            command: ran.command,
            window: Some(window),
            initiators: 1,
            targets: 1,
            wan: None,
            near: Some(ran.near),
            clock: None,
            valid: true,
            reasons: Vec::new(),
            unvalidated: false,
            for_throughput: false,
        };
        self.dir.save_cell(&dir, &cell)?;
        let (slug, load) = (SLUG.to_owned(), SLUG.to_owned());
        self.run.cells.push(CellEntry { dir: dir.clone(), slug, load, parameters, repeat: 1 });
        self.run.elapsed_s = self.began.elapsed().as_secs_f64();
        self.run.valid = true;
        self.dir.save(&self.run)?;
        let path = self.dir.path().join(dir);
        observation(&path, &cell, ran.note)?.ok_or(LabError::Nothing(path))
    }

    /// Draws its report and returns the path of it.
    pub fn finish(self) -> Result<PathBuf, LabError> {
        let tour = Tour::collect(&self.dir)?;
        let words = ["farlun".to_owned(), "report".to_owned(), self.dir.path().display().to_string()];
        Ok(self.dir.write(tables::REPORT_FILE, report::html(&tour, &crate::quoted(&words)).as_bytes())?)
    }
}

/// Name of the cells.
const SLUG: &str = "load";
