//! Two runs side by side: the figures that differ, by how much, and with what significance.
//!
//! Cells are paired by load and point in the matrix; two runs of one cell each are paired as they are. If both sides
//! have four repeats or more, repeats are compared. Otherwise the window of one repeat is cut into stretches, each with
//! one value: this compares these two runs, and leaves open the result of another pair.

pub mod interval;
mod naming;
mod refusal;
mod significance;
mod stretches;
#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::Sample;
use crate::gaps::{Cause, Kind, Tap};
use crate::metrics::{METRICS, Spread};
use crate::run::cell::{CellResult, Repeat};
use crate::run::result::Tour;

pub use refusal::Refusal;
pub use stretches::STRETCHES;

use naming::{name, place};

/// Repeats from which on they are compared instead of stretches: fewer could not show anything.
const REPEATS_MIN: usize = 4;
/// A difference has a corrected p-value below this.
const CHANCE_MAX: f64 = 0.05;
/// Least difference, as a share: emulated paths repeat so well that smaller differences are significant all the time.
const DIFFERENCE_MIN: f64 = 0.01;

/// Result of comparing two runs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparison {
    /// Titles of the plans.
    pub plans: [String; 2],
    /// Cells of both that are left out: nothing judged the path of one of them.
    pub unvalidated: Vec<String>,
    /// Cells that both runs have.
    pub pairs: Vec<Pair>,
    /// Cells that only one has.
    pub alone: [Vec<String>; 2],
}

/// A cell of each run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Pair {
    /// The load, or both loads.
    pub name: String,
    /// Point in each run's matrix.
    pub places: [String; 2],
    /// Differences of their paths: name and both values.
    pub paths: Vec<(&'static str, [u64; 2])>,
    /// Figures that both have.
    pub rows: Vec<ComparedFigure>,
    /// Causes that the gaps between their packets show, with their periods in seconds.
    pub causes: [Vec<(Cause, f64)>; 2],
    /// Figures that could not be compared, with reasons.
    pub notes: Vec<String>,
    /// Series of each for figures.
    #[serde(skip)]
    pub drawn: [Repeat; 2],
}

/// One figure of both runs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ComparedFigure {
    /// Name.
    pub name: String,
    /// Unit, as in [`METRICS`].
    pub unit: &'static str,
    /// Medians.
    pub medians: [f64; 2],
    /// Second median ÷ first.
    pub ratio: Option<f64>,
    /// Number of values of each.
    pub samples: [usize; 2],
    /// True if the values are repeats; otherwise they are stretches of one repeat.
    pub of_repeats: bool,
    /// p-value of no difference, corrected for the number of tests of all pairs; `None` with too few values.
    pub chance: Option<f64>,
    /// Outcome.
    pub outcome: Outcome,
}

/// Outcome of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Significant difference of one hundredth at least.
    Differs,
    /// No more than chance or than a hundredth.
    Alike,
    /// Too few values for a decision.
    Open,
}

impl Comparison {
    /// Compares two runs.
    ///
    /// # Errors
    /// [`Refusal`] if they have nothing in common that could be compared.
    pub fn of(runs: [&Tour; 2]) -> Result<Comparison, Refusal> {
        let [a, b] = runs;
        let pairs: Vec<(&CellResult, &CellResult)> = match (&a.cells[..], &b.cells[..]) {
            ([one], [other]) => vec![(one, other)],
            _ => {
                let partner = |cell: &CellResult| {
                    b.cells.iter().find(|other| other.load == cell.load && other.point == cell.point)
                };
                a.cells.iter().filter_map(|cell| Some((cell, partner(cell)?))).collect()
            }
        };
        if pairs.is_empty() {
            return Err(Refusal::NothingInCommon { cells: runs.map(|run| names(&run.cells)) });
        }
        let is_judged =
            |(one, other): &(&CellResult, &CellResult)| !one.is_unvalidated() && !other.is_unvalidated();
        // A plan may have loads that it wants no rule for beside others; a run without any rule is refused.
        let (compared, left_out): (Vec<_>, Vec<_>) = pairs.iter().copied().partition(is_judged);
        for (one, other) in if compared.is_empty() { &pairs } else { &compared } {
            refusal::check([one, other])?;
        }
        let alone = |cells: &[CellResult], of: fn(&(&CellResult, &CellResult)) -> *const CellResult| {
            let paired = |cell: &&CellResult| !pairs.iter().any(|pair| std::ptr::eq(of(pair), *cell));
            cells.iter().filter(paired).map(name).collect()
        };
        let mut compared: Vec<Pair> = compared.iter().map(|(one, other)| Pair::of([one, other])).collect();
        judge(&mut compared);
        Ok(Comparison {
            plans: runs.map(|run| run.gist.title.clone()),
            unvalidated: left_out.iter().map(|(one, _)| name(one)).collect(),
            alone: [alone(&a.cells, |pair| pair.0), alone(&b.cells, |pair| pair.1)],
            pairs: compared,
        })
    }
}

impl Pair {
    fn of(cells: [&CellResult; 2]) -> Pair {
        let drawn = cells.map(|cell| cell.repeats.iter().find(|r| r.valid).cloned().unwrap_or_default());
        let mut notes = Vec::new();
        let requests = cells.map(|cell| (cell.block_bytes, cell.depth));
        let same_requests = requests[0] == requests[1];
        if !same_requests && cells.iter().any(|cell| !cell.bulk) {
            notes.push("their requests differ in size or number: latencies are not compared".to_owned());
        }
        let windows = [&drawn[0], &drawn[1]].map(|repeat| repeat.window_s);
        if windows[0] != windows[1] {
            notes.push("their figures are of windows that differ in place or length".to_owned());
        }
        let mut rows = Vec::new();
        for question in QUESTIONS {
            if question.of_requests && !same_requests {
                continue;
            }
            rows.extend(question.row(cells, &drawn));
        }
        Pair {
            name: if cells[0].load == cells[1].load {
                cells[0].load.clone()
            } else {
                format!("{} / {}", cells[0].load, cells[1].load)
            },
            places: cells.map(place),
            paths: paths(cells),
            rows,
            causes: [&drawn[0], &drawn[1]]
                .map(|repeat| repeat.gaps.as_ref().map(crate::gaps::Gaps::causes).unwrap_or_default()),
            notes,
            drawn,
        }
    }
}

/// Every figure of every pair is a question: chances are corrected for all of them.
fn judge(pairs: &mut [Pair]) {
    let rows = || pairs.iter().flat_map(|pair| &pair.rows);
    let mut chances: Vec<f64> = rows().filter_map(|row| row.chance).collect();
    significance::holm(&mut chances);
    let mut chances = chances.into_iter();
    for row in pairs.iter_mut().flat_map(|pair| &mut pair.rows) {
        row.chance = row.chance.and_then(|_| chances.next());
        row.outcome = row.judged();
    }
}

impl ComparedFigure {
    fn judged(&self) -> Outcome {
        let [a, b] = self.medians;
        let large = (a - b).abs() > DIFFERENCE_MIN * a.abs().max(b.abs());
        match self.chance {
            None => Outcome::Open,
            Some(chance) if chance < CHANCE_MAX && large => Outcome::Differs,
            Some(_) => Outcome::Alike,
        }
    }
}

/// One figure to compare.
struct ComparedMetric {
    /// Name, of [`METRICS`] or of its own.
    name: &'static str,
    unit: &'static str,
    /// True if it depends on size and number of the requests.
    of_requests: bool,
    /// Values of stretches of a repeat, if it has such.
    stretches: fn(&Repeat) -> Vec<f64>,
}

const fn question(
    name: &'static str,
    unit: &'static str,
    stretches: fn(&Repeat) -> Vec<f64>,
) -> ComparedMetric {
    ComparedMetric { name, unit, of_requests: false, stretches }
}

const QUESTIONS: &[ComparedMetric] = &[
    question("throughput", "bit/s", rates),
    question("ramp", "s", |_| Vec::new()),
    ComparedMetric {
        name: "latency_p50",
        unit: "s",
        of_requests: true,
        stretches: |repeat| repeat.latency_stretches.clone(),
    },
    ComparedMetric { name: "latency_p99", unit: "s", of_requests: true, stretches: |_| Vec::new() },
    question("gap of data, sent", "s", |repeat| gaps(repeat, Kind::Data, Tap::Sent)),
    question("gap of data, behind the path", "s", |repeat| gaps(repeat, Kind::Data, Tap::Due)),
    question("gap of ACKs, sent", "s", |repeat| gaps(repeat, Kind::Acks, Tap::Sent)),
    question("gap of ACKs, behind the path", "s", |repeat| gaps(repeat, Kind::Acks, Tap::Due)),
    question("acks_together", "", |repeat| together(repeat, Kind::Acks, Tap::Due)),
    question("retransmitted", "packets", |_| Vec::new()),
    question("dropped_queue_full", "packets", |_| Vec::new()),
    question("cpu_near_per_io", "s", |_| Vec::new()),
];

impl ComparedMetric {
    /// `None` if one side has no such figure.
    fn row(&self, cells: [&CellResult; 2], drawn: &[Repeat; 2]) -> Option<ComparedFigure> {
        let repeats = cells.map(|cell| {
            let valid = cell.repeats.iter().filter(|repeat| repeat.valid);
            valid.filter_map(|repeat| repeat.values.get(self.name).copied()).collect::<Vec<f64>>()
        });
        let of_repeats = repeats.iter().all(|values| values.len() >= REPEATS_MIN);
        let stretches = [&drawn[0], &drawn[1]].map(self.stretches);
        let cut = stretches.iter().all(|values| values.len() >= REPEATS_MIN);
        let values = if of_repeats || !cut { &repeats } else { &stretches };
        let (a, b) = (median(&values[0])?, median(&values[1])?);
        let sizes = [values[0].len(), values[1].len()];
        let able = significance::least(sizes[0], sizes[1]) < CHANCE_MAX;
        let known = METRICS.iter().find(|metric| metric.name == self.name && !metric.of_line);
        Some(ComparedFigure {
            name: self.name.to_owned(),
            unit: known.map_or(self.unit, |metric| metric.unit),
            medians: [a, b],
            ratio: (a != 0.0).then(|| b / a),
            samples: sizes,
            of_repeats: of_repeats || !cut,
            chance: able.then(|| significance::rank_test(&values[0], &values[1])).flatten(),
            outcome: Outcome::Open,
        })
    }
}

/// The rate in stretches of the window.
fn rates(repeat: &Repeat) -> Vec<f64> {
    let Some((start_s, length_s)) = repeat.window_s else { return Vec::new() };
    let within = |sample: &&Sample| (start_s..start_s + length_s).contains(&sample.0);
    let rates: Vec<f64> = repeat.rate.iter().filter(within).map(|(_, rate)| *rate).collect();
    let each = rates.len().div_ceil(STRETCHES).max(1);
    rates.chunks(each).map(|stretch| stretch.iter().sum::<f64>() / stretch.len() as f64).collect()
}

fn gaps(repeat: &Repeat, kind: Kind, tap: Tap) -> Vec<f64> {
    let found = repeat.gaps.as_ref().and_then(|gaps| gaps.at(kind, tap));
    found.map_or_else(Vec::new, |gaps| gaps.stretches.iter().map(|stretch| stretch.mean_s).collect())
}

fn together(repeat: &Repeat, kind: Kind, tap: Tap) -> Vec<f64> {
    let found = repeat.gaps.as_ref().and_then(|gaps| gaps.at(kind, tap));
    found.map_or_else(Vec::new, |gaps| gaps.stretches.iter().map(|stretch| stretch.zero_share).collect())
}

fn median(values: &[f64]) -> Option<f64> {
    Spread::of(values).map(|spread| spread.median)
}

fn paths(cells: [&CellResult; 2]) -> Vec<(&'static str, [u64; 2])> {
    let [Some(a), Some(b)] = cells.map(|cell| cell.path) else { return Vec::new() };
    let all = [
        ("delay_ns", [a.delay_ns, b.delay_ns]),
        ("rate_bits_per_s", [a.rate_bits_per_s, b.rate_bits_per_s]),
        ("queue_bytes", [a.queue_bytes, b.queue_bytes]),
        ("mtu", [u64::from(a.mtu), u64::from(b.mtu)]),
    ];
    all.into_iter().filter(|(_, values)| values[0] != values[1]).collect()
}

fn names(cells: &[CellResult]) -> Vec<String> {
    cells.iter().map(name).collect()
}
