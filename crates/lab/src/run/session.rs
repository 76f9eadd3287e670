//! A run of a plan from its first cell to its report.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use analysis::Tour;
use serde_json::json;
use tables::RunDir;
use tables::manifest::{CellEntry, Run};

use super::attempt::{Attempt, Verdict, sha256, written};
use super::check;
use super::command::{Parts, quoted};
use super::directory::{Conditions, Lock, Stores, resume};
use super::error::LabError;
use super::lab::{Lab, Order, Outcome};
use super::outlook::{Forecast, Streak, look, what_to_do};
use super::progress::{Progress, Step};
use super::schedule::{Turn, Turns, expected_time, found_rate, order};
use crate::doctor;
use crate::plan::{Cell, Need};

/// A run in progress.
struct Session<'a> {
    lab: &'a Lab,
    order: &'a Order,
    dir: RunDir,
    run: Run,
    began: Instant,
    /// Time that the run had taken before.
    elapsed_s: f64,
    /// Emulation of the kept cells; new ones must match it.
    conditions: Option<Conditions>,
    /// The verdict on every repeat, with its cell.
    verdicts: Vec<(usize, Verdict)>,
    /// The last attempts at repeats that are to be run again, by cell and repeat.
    to_repeat: BTreeMap<(usize, u32), InvalidAttempt>,
    streak: Streak,
    forecast: Forecast,
    /// Lock on the run directory.
    _lock: Lock,
}

/// An attempt that was not valid, of a repeat that is to be run again.
struct InvalidAttempt {
    cell: Cell,
    dir: String,
    command: String,
    attempt: Attempt,
}

impl Lab {
    /// Runs a plan. Failures of single cells are in the outcome; an error means that there is none.
    pub fn run(&self, order: &Order, progress: &mut dyn Progress) -> Result<Outcome, LabError> {
        let of_loads = order.plan.loads.iter().flat_map(|load| &load.needs.programs);
        let mut needs = order.plan.needs.iter().chain(of_loads);
        if let Some(Need { program, package }) = needs.find(|need| !need.is_met()).cloned() {
            return Err(LabError::Missing { program, package });
        }
        let resume::Place { dir, before, lock } = resume::place(order)?;
        let mut run = order.run();
        // One that cannot be read may still be run.
        run.program_sha256 = sha256(&self.program).ok();
        if !order.plan.cases.is_empty() {
            return doctor::run_matrix(self, order, (dir, run, lock), progress);
        }
        let mut conditions = None;
        if let Some(mut before) = before {
            resume::check(&order.out, &before, &run, &order.plan.cells())?;
            conditions = resume::keep_valid(&dir, &mut before);
            before.resumed_unix_s.push(run.started_unix_s);
            run = before;
        }
        // Written at once, so that a directory we cannot write to is known before an hour has gone.
        dir.save(&run)?;
        let _stores = Stores::make(&order.out, &order.plan.far.luns)?;
        let elapsed_s = run.elapsed_s;
        let mut session = Session {
            lab: self,
            order,
            dir,
            run,
            began: Instant::now(),
            elapsed_s,
            conditions,
            verdicts: Vec::new(),
            to_repeat: BTreeMap::new(),
            streak: Streak::default(),
            forecast: Forecast::default(),
            _lock: lock,
        };
        let stopped = session.all(progress)?;
        session.finish(stopped)
    }
}

impl Session<'_> {
    /// Runs the cells in their order; the reason if it stops before their end.
    fn all(&mut self, progress: &mut dyn Progress) -> Result<Option<String>, LabError> {
        let cells = self.order.plan.cells();
        let mut steps = order::order(cells.len(), self.order.plan.repeats, self.order.seed);
        let followed = found_rate::followed(&cells);
        order::followed_first(&mut steps, |index| followed.contains(cells[index].load.name.as_str()));
        let is_kept = |(index, repeat): &(usize, u32)| self.has(&cells[*index], *repeat);
        let (kept, missing): (Vec<_>, Vec<_>) = steps.iter().copied().partition(is_kept);
        self.verdicts.extend(kept.iter().map(|(index, _)| (*index, Verdict::Valid)));
        let mut turns = Turns::new(&missing, kept.len());
        while let Some(turn) = turns.take() {
            let cell = &cells[turn.index];
            let expected = expected_time(cell);
            let later: Duration = turns.indices().map(|index| expected_time(&cells[index])).sum();
            let step = Step {
                number: turn.number,
                of: steps.len(),
                words: cell.words(),
                repeat: turn.repeat,
                attempt: turn.attempt,
                expected: self.forecast.really(expected),
                left: self.forecast.with_repeats(expected + later),
            };
            let settled = match found_rate::settled(cell, &cells, &self.dir, &mut self.run)? {
                Ok(cell) => cell,
                Err(reason) => return Ok(Some(reason)),
            };
            let is_followed = followed.contains(cell.load.name.as_str());
            let mut again = |turn: Turn| turns.again(turn, is_followed);
            let interrupted = self.cell(&settled, (turn, &step), &mut again, progress)?;
            if interrupted {
                return Ok(Some("interrupted".to_owned()));
            }
            if let Some(reason) = self.no_path_at_all() {
                return Ok(Some(reason));
            }
            if let Some(found) = self.streak.stop_reason(cells.len(), Instant::now()) {
                self.settle()?;
                return Ok(Some(what_to_do(&found, look().as_ref())));
            }
        }
        Ok(None)
    }

    /// True if this repeat was run before and yields figures.
    fn has(&self, cell: &Cell, repeat: u32) -> bool {
        let dir = RunDir::repeat_dir(cell.number, &cell.slug(), repeat);
        self.run.cells.iter().any(|entry| entry.dir == dir)
    }

    /// Runs one cell, and records it if it is valid or no attempt is left; true if a signal ended it.
    fn cell(
        &mut self,
        cell: &Cell,
        (turn, step): (Turn, &Step),
        again: &mut dyn FnMut(Turn) -> bool,
        progress: &mut dyn Progress,
    ) -> Result<bool, LabError> {
        let dir = self.dir.make_cell(cell.number, &cell.slug(), step.repeat)?;
        let trace_dir = self.dir.path().join(&dir);
        let Order { plan, seed, .. } = self.order;
        let parts = Parts {
            cell,
            luns: &plan.far.luns,
            record: &plan.recording.tables,
            seed: cell.seed(*seed, step.repeat),
            run_dir: self.dir.path(),
            trace_dir: &trace_dir,
        };
        progress.begins(step);
        let began = Instant::now();
        let (attempt, interrupted) = self.lab.attempt(parts)?;
        let trouble = attempt.verdict.trouble().filter(|_| !self.said(&attempt.verdict));
        progress.ended(step, trouble.as_deref());
        if !interrupted {
            let is_invalid = matches!(attempt.verdict, Verdict::Invalid(_));
            self.forecast.ended(expected_time(cell), began.elapsed(), is_invalid);
            attempt.verdict.add_to(&mut self.streak, &cell.slug());
        }
        if matches!(attempt.verdict, Verdict::Invalid(_)) && !interrupted && again(turn) {
            let invalid = InvalidAttempt { cell: cell.clone(), dir, command: parts.shown(), attempt };
            self.to_repeat.insert((turn.index, turn.repeat), invalid);
            return Ok(false);
        }
        self.to_repeat.remove(&(turn.index, turn.repeat));
        if let (Some(before), Some(wan)) = (&self.conditions, &attempt.wan) {
            before.check(&self.order.out, &Conditions::of(wan, &parts.shown()))?;
        }
        self.write_down(cell, step.repeat, dir, parts.shown(), &attempt)?;
        self.verdicts.push((turn.index, attempt.verdict));
        Ok(interrupted)
    }

    /// Writes down the last attempts at repeats that will not be run again after all.
    fn settle(&mut self) -> Result<(), LabError> {
        for ((index, repeat), InvalidAttempt { cell, dir, command, attempt }) in
            std::mem::take(&mut self.to_repeat)
        {
            self.write_down(&cell, repeat, dir, command, &attempt)?;
            self.verdicts.push((index, attempt.verdict));
        }
        Ok(())
    }

    fn write_down(
        &mut self,
        cell: &Cell,
        repeat: u32,
        dir: String,
        command: String,
        attempt: &Attempt,
    ) -> Result<(), LabError> {
        let manifest = written(cell, repeat, command, attempt);
        let parameters = manifest.parameters.clone();
        self.dir.save_cell(&dir, &manifest)?;
        if let Some(sysctls) = attempt.wan.as_ref().and_then(|wan| wan["sysctls"].as_object()) {
            let text = |value: &serde_json::Value| value.as_str().map_or(value.to_string(), str::to_owned);
            self.run.sysctls = sysctls.iter().map(|(name, value)| (name.clone(), text(value))).collect();
        }
        let slug = cell.slug();
        self.run.cells.push(CellEntry { dir, slug, load: cell.load.name.clone(), parameters, repeat });
        self.run.elapsed_s = self.elapsed_s + self.began.elapsed().as_secs_f64();
        // After every cell, so that a run that is killed still opens.
        Ok(self.dir.save(&self.run)?)
    }

    /// True if the cell before had no path for the same reason, which is reported once.
    fn said(&self, verdict: &Verdict) -> bool {
        let no_path = matches!(verdict, Verdict::Failed { no_path: true, .. });
        no_path && self.verdicts.last().is_some_and(|(_, last)| last == verdict)
    }

    /// Reason to stop if no cell had a path and the last two failed for the same reason.
    fn no_path_at_all(&self) -> Option<String> {
        let reasons = self.verdicts.iter().map(|(_, verdict)| match verdict {
            Verdict::Failed { reason, no_path: true } => Some(reason),
            _ => None,
        });
        let reasons: Vec<&String> = reasons.collect::<Option<_>>()?;
        match reasons.as_slice() {
            [.., one, other] if one == other => {
                Some("stopped, since two cells in a row had no path for the same reason".to_owned())
            }
            _ => None,
        }
    }

    fn finish(mut self, stopped: Option<String>) -> Result<Outcome, LabError> {
        let cells = self.order.plan.cells();
        let of = |index: usize| self.verdicts.iter().filter(move |(cell, _)| *cell == index).map(|(_, v)| v);
        let named = |wanted: &dyn Fn(usize) -> bool| -> Vec<String> {
            (0..cells.len()).filter(|index| wanted(*index)).map(|index| cells[index].words()).collect()
        };
        let failed = named(&|index| of(index).any(|v| matches!(v, Verdict::Failed { .. })));
        // One valid repeat is enough for figures: a disturbed one is only left out.
        let invalid = named(&|index| {
            of(index).any(|v| matches!(v, Verdict::Invalid(_))) && !of(index).any(|v| *v == Verdict::Valid)
        });
        self.run.valid = invalid.is_empty() && failed.is_empty() && stopped.is_none();
        self.run.elapsed_s = self.elapsed_s + self.began.elapsed().as_secs_f64();
        self.dir.save(&self.run)?;
        let tour = Tour::collect(&self.dir)?;
        self.note_clocks(&tour)?;
        self.run.checks = check::checks(&self.order.plan, tour.metrics());
        self.dir.save(&self.run)?;
        let tour = tour.with_checks(self.run.checks);
        let path = self.order.out.display().to_string();
        let rebuild = quoted(&["farlun".to_owned(), "report".to_owned(), path]);
        let page = report::html(&tour, &rebuild);
        let report_path = self.dir.write(tables::REPORT_FILE, page.as_bytes())?;
        let variant = self.order.plan.variant;
        let is_waived = self.order.plan.is_waived();
        Ok(Outcome { tour, report_path, invalid, failed, stopped, cases: None, variant, is_waived })
    }

    /// Writes the clock offsets of each cell's ends into its manifest.
    fn note_clocks(&self, tour: &Tour) -> Result<(), LabError> {
        for repeat in tour.cells.iter().flat_map(|cell| &cell.repeats) {
            let Some(stack) = &repeat.stack else { continue };
            let mut cell = self.dir.cell(&repeat.dir)?.cell;
            cell.clock = Some(json!(stack.clock));
            self.dir.save_cell(&repeat.dir, &cell)?;
        }
        Ok(())
    }
}
