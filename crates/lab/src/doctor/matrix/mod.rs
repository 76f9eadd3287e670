//! Validation of the doctor by intervention: limiters are injected into a load, the doctor names the limiter from the
//! tables alone, and then every setting that could be the cause is relieved in turn and the load run again. A verdict
//! is right if its setting gains about as much as the best one.
//!
//! Cells are the public commands, as in every plan. See docs/internals/doctor-checks.md.

mod draw;
mod examine;
mod recorded;
mod score;
mod setup;
mod shown;

use std::time::{Duration, Instant};

use analysis::Tour;
use diagnosis::{LIMITERS, Limiter};
use serde_json::{Value, json};
use tables::RunDir;
use tables::manifest::{Check, Run};

use self::draw::Drawn;
use self::examine::{Examination, Examine};
use self::recorded::Recorded;
use self::score::{Pair, Score, Single};
use self::setup::{Aim, Setup};
use crate::plan::{Lun, Plan, Variant};
use crate::run::{Lab, LabError, Lock, Order, Outcome, Progress, expected_time};

/// Verdicts of all cases, with the results of every intervention.
const RESULT_FILE: &str = "doctor.json";
/// Fixes of a pair.
const FIXES: usize = 2;

/// Runs the cases of a plan into a run directory that is there.
pub(crate) fn run(
    lab: &Lab,
    order: &Order,
    (dir, run, lock): (RunDir, Run, Lock),
    progress: &mut dyn Progress,
) -> Result<Outcome, LabError> {
    if order.resume {
        return Err(LabError::NoResume(order.out.clone()));
    }
    let began = Instant::now();
    dir.save(&run)?;
    let drawn = draw::all(&order.plan, order.seed);
    let mut examination = Examination::new(lab, order, dir, run, lock, progress, runs(&order.plan, &drawn));
    let score = score(&order.plan, &drawn, &mut examination)?;
    let Examination { mut run, dir, invalid, failed, stopped, .. } = examination;
    run.checks = score.checks();
    if order.plan.is_waived() {
        run.checks.iter_mut().for_each(Check::unmeasured);
    }
    run.elapsed_s = began.elapsed().as_secs_f64();
    run.valid = invalid.is_empty() && failed.is_empty() && stopped.is_none();
    let result = serde_json::to_vec_pretty(&score)
        .map_err(|error| LabError::File { path: dir.path().join(RESULT_FILE), source: error.into() })?;
    dir.write(RESULT_FILE, &result)?;
    let text = shown::text(&score);
    dir.write(shown::FILE, text.as_bytes())?;
    dir.save(&run)?;
    let tour = Tour::collect(&dir)?;
    let path = order.out.display().to_string();
    let rebuild = crate::quoted(&["farlun".to_owned(), "report".to_owned(), path]);
    let report_path = dir.write(tables::REPORT_FILE, report::html(&tour, &rebuild).as_bytes())?;
    let variant = order.plan.variant;
    let is_waived = order.plan.is_waived();
    Ok(Outcome { tour, report_path, invalid, failed, stopped, cases: Some(text), variant, is_waived })
}

/// Cases of a run, judged by the present rules.
#[derive(Clone, PartialEq, Debug)]
pub struct Cases {
    /// As Markdown.
    pub text: String,
    /// Everything.
    pub json: Value,
}

/// Judges the cells of a recorded run by the present rules, against the recorded results of every intervention;
/// `None` if its plan has no cases. Nothing is run or written: a change of the doctor shows in seconds.
pub fn judged_again(dir: &RunDir) -> Result<Option<Cases>, LabError> {
    let run = dir.manifest()?;
    let parsed = [Variant::Full, Variant::Quick, Variant::Smoke]
        .map(|variant| Plan::parse(&run.plan_text, variant).ok());
    let is_of_run = |plan: &Plan| run.plan == through_text(&plan.to_json()) && !plan.cases.is_empty();
    let as_run = |plan: Plan| [plan.clone(), plan.without_validity()];
    let Some(plan) = parsed.into_iter().flatten().flat_map(as_run).find(is_of_run) else { return Ok(None) };
    let drawn = draw::all(&plan, run.seed);
    let score = score(&plan, &drawn, &mut Recorded { dir, run: &run })?;
    Ok(Some(Cases { text: shown::text(&score), json: json!(score) }))
}

/// The plan through its text form: numbers may lose their last digit there.
fn through_text(plan: &Value) -> Value {
    serde_json::from_str(&plan.to_string()).unwrap_or_default()
}

/// Examines every case.
fn score(plan: &Plan, drawn: &[Drawn<'_>], examine: &mut dyn Examine) -> Result<Score, LabError> {
    let mut score = Score::default();
    for drawn in drawn {
        let Some(setup) = prepared(plan, drawn) else { continue };
        match setup.aims[..] {
            [_] => score.singles.extend(single(examine, drawn, &setup)?),
            _ => score.pairs.extend(pair(examine, drawn, &setup)?),
        }
        if examine.is_over() {
            break;
        }
    }
    Ok(score)
}

/// Expected time of the cases.
pub fn expected(plan: &Plan) -> Duration {
    runs(plan, &draw::all(plan, 1)).into_iter().sum()
}

/// A case as it is run.
struct Prepared {
    healthy: Setup,
    injected: Setup,
    /// Metric that each of its limiters harms.
    aims: Vec<Aim>,
}

impl Prepared {
    fn aim(&self) -> Aim {
        self.aims[0]
    }

    /// The load with each relevant setting relieved.
    fn relieved(&self) -> Vec<(Limiter, Setup)> {
        // A caller that waits for every request is not helped by more or longer ones at a time.
        let helps = |limiter: &Limiter| {
            let more = [Limiter::QueueDepth, Limiter::BlockSize, Limiter::Connections];
            self.aim() == Aim::Throughput || !more.contains(limiter)
        };
        let knobs = LIMITERS.iter().copied().filter(helps);
        knobs.filter_map(|limiter| Some((limiter, self.injected.without(limiter, &self.healthy)?))).collect()
    }
}

/// The load of the plan on the path of a case, with its limiters in it.
fn prepared(plan: &Plan, drawn: &Drawn<'_>) -> Option<Prepared> {
    let mut cell = plan.cells().into_iter().next()?;
    if let Some(window) = drawn.case.window {
        cell.load.window = window;
    }
    let lun = plan.far.luns.first().map(Lun::spec)?.clone();
    let healthy = Setup::healthy(cell, lun, drawn.case.op, drawn.rtt);
    let mut injected = healthy.clone();
    for (limiter, leaves) in &drawn.injected {
        injected.inject(*limiter, *leaves)?;
    }
    Some(Prepared { healthy, injected, aims: drawn.case.limiters.iter().map(|l| Aim::of(*l)).collect() })
}

/// Expected times of the cells to run.
fn runs(plan: &Plan, drawn: &[Drawn<'_>]) -> Vec<Duration> {
    let mut times = Vec::new();
    for prepared in drawn.iter().filter_map(|drawn| prepared(plan, drawn)) {
        let base = expected_time(&prepared.injected.cell);
        times.push(base);
        match prepared.aims.len() {
            1 => times.extend(prepared.relieved().iter().map(|(_, setup)| expected_time(&setup.cell))),
            _ => times.extend([base; FIXES]),
        }
    }
    times
}

fn single(
    examine: &mut dyn Examine,
    drawn: &Drawn<'_>,
    prepared: &Prepared,
) -> Result<Option<Single>, LabError> {
    let name = drawn.name();
    let relieved = prepared.relieved();
    let Some(diagnosis) = examine.examine(&prepared.injected, &name)? else {
        examine.skip(relieved.len());
        return Ok(None);
    };
    let mut single = Single {
        name: name.clone(),
        injected: drawn.injected[0].0,
        leaves: drawn.injected[0].1,
        aim: prepared.aim(),
        measured: diagnosis.current,
        relieved: Default::default(),
        diagnosis,
    };
    for (limiter, setup) in relieved {
        if let Some(found) = examine.examine(&setup, &format!("{name} without {}", limiter.name()))? {
            single.relieved.insert(limiter, found.current);
        }
    }
    Ok(Some(single))
}

fn pair(examine: &mut dyn Examine, drawn: &Drawn<'_>, prepared: &Prepared) -> Result<Option<Pair>, LabError> {
    let name = drawn.name();
    let [(first, one), (second, two)] = drawn.injected[..] else { return Ok(None) };
    let (injected, leaves) = ([first, second], [one, two]);
    let mut pair = Pair { name: name.clone(), injected, leaves, aim: prepared.aim(), steps: Vec::new() };
    let mut setup = prepared.injected.clone();
    let mut words = name;
    for fixed in 0..=FIXES {
        let Some(found) = examine.examine(&setup, &words)? else {
            examine.skip(FIXES - fixed);
            return Ok(None);
        };
        let verdict = found.first().map(|verdict| verdict.limiter);
        pair.steps.push(found);
        let relieved =
            verdict.and_then(|limiter| Some((limiter, setup.without(limiter, &prepared.healthy)?)));
        match relieved.filter(|_| fixed < FIXES) {
            Some((limiter, without)) => {
                words = format!("{words} without {}", limiter.name());
                setup = without;
            }
            None => {
                examine.skip(FIXES - fixed);
                break;
            }
        }
    }
    Ok(Some(pair))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Source;

    fn shipped(variant: Variant) -> Plan {
        Source::find("doctor-matrix").unwrap().plan(variant).unwrap()
    }

    #[test]
    fn there_are_enough_cases_and_each_limiter_can_be_put_in_and_taken_out() {
        let plan = shipped(Variant::Full);
        for seed in 1..20 {
            let drawn = draw::all(&plan, seed);
            let (singles, pairs): (Vec<_>, Vec<_>) = drawn.iter().partition(|d| d.injected.len() == 1);
            assert!(singles.len() >= 36 && pairs.len() >= 12, "{} and {}", singles.len(), pairs.len());
            for drawn in &drawn {
                let name = drawn.name();
                let prepared = prepared(&plan, drawn).unwrap_or_else(|| panic!("{name}: not put in"));
                assert_ne!(prepared.injected, prepared.healthy, "{name}");
                let knobs: Vec<Limiter> = prepared.relieved().iter().map(|(limiter, _)| *limiter).collect();
                for (limiter, _) in &drawn.injected {
                    let is_there = knobs.contains(limiter) || *limiter == Limiter::RoundTrip;
                    assert!(is_there, "{name}: {} is no knob of {knobs:?}", limiter.name());
                }
            }
        }
    }

    #[test]
    fn a_seed_draws_the_same_again_and_another_something_else() {
        let plan = shipped(Variant::Full);
        assert_eq!(draw::all(&plan, 7), draw::all(&plan, 7));
        assert_ne!(draw::all(&plan, 7), draw::all(&plan, 8));
    }

    #[test]
    fn the_whole_is_bearable_and_the_quick_part_is_short() {
        let minutes = expected(&shipped(Variant::Full)).as_secs() / 60;
        let seconds = expected(&shipped(Variant::Quick)).as_secs();
        assert!(minutes <= 20 && seconds <= 65, "{minutes} min, quick {seconds} s");
    }
}
