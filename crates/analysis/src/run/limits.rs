//! Limiters of the loads of a run, and their cells: cells of a load with the same limiter are listed together.

use diagnosis::{Certainty, Diagnosis, Facts, Limiter, judge};
use tables::{CellDir, RunDir, RunError};

use super::cell::{CellResult, Point};
use super::error::TourError;
use super::order::{in_order, place};
use crate::doctor::{Question, steps, survey};

/// A cell of a run with the facts and the diagnosis of its first valid repeat.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// Directory of the repeat, relative to the run.
    pub dir: String,
    /// The load's name.
    pub load: String,
    /// Point in the plan's matrix.
    pub point: Point,
    /// No rule of validity was applied to its path.
    pub unvalidated: bool,
    /// Facts of the load.
    pub facts: Facts,
    /// Its limiters.
    pub diagnosis: Diagnosis,
}

impl Found {
    /// The cell in the form that is listed with others.
    pub fn examined(&self) -> Examined<'_> {
        Examined {
            load: &self.load,
            point: &self.point,
            diagnosis: &self.diagnosis,
            is_unvalidated: self.unvalidated,
        }
    }
}

impl CellResult {
    /// Limiters of its first valid repeat.
    pub fn examined(&self) -> Option<Examined<'_>> {
        let diagnosis = self.repeats.iter().find_map(|repeat| repeat.diagnosis.as_ref())?;
        Some(Examined {
            load: &self.load,
            point: &self.point,
            diagnosis,
            is_unvalidated: self.is_unvalidated(),
        })
    }
}

/// Limiters of the loads of a run, in the order of its plan; nothing else of the run is computed.
pub fn of_run(dir: &RunDir) -> Result<Vec<Found>, TourError> {
    let run = dir.manifest()?;
    let mut found: Vec<Found> = Vec::new();
    let dirs = run.cells.iter().map(|entry| Ok((entry.dir.as_str(), dir.cell(&entry.dir)?)));
    let dirs: Vec<(&str, CellDir)> = dirs.collect::<Result<_, RunError>>()?;
    let stepped = steps::of_cells(dirs.iter().map(|(dir, cell)| (*dir, cell)))?;
    for entry in in_order(&run.cells) {
        let (load, point) = place(entry);
        if found.iter().any(|known| known.load == load && known.point == point) {
            continue;
        }
        let cell = dir.cell(&entry.dir)?;
        if !cell.cell.valid {
            continue;
        }
        let Some(facts) = survey(&cell.path, Question::of(&cell.cell))? else { continue };
        let diagnosis = match stepped.get(&entry.dir) {
            Some(Some(diagnosis)) => diagnosis.clone(),
            // A step of a measurement; its diagnosis stands at the requested load.
            Some(None) => continue,
            None => judge(&facts),
        };
        let unvalidated = cell.cell.unvalidated;
        found.push(Found { dir: entry.dir.clone(), load, point, unvalidated, facts, diagnosis });
    }
    Ok(found)
}

/// A load at one point of a plan's matrix, and its diagnosis.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Examined<'a> {
    /// The load.
    pub load: &'a str,
    /// Point in the matrix.
    pub point: &'a Point,
    /// Its limiters.
    pub diagnosis: &'a Diagnosis,
    /// No rule of validity was applied to its path.
    pub is_unvalidated: bool,
}

/// One limiter of one load.
#[derive(Clone, PartialEq, Debug)]
pub struct Limit<'a> {
    /// The load.
    pub load: &'a str,
    /// Its first limiter.
    pub limiter: Limiter,
    /// The cells in which it does; at least one.
    pub cells: Vec<Examined<'a>>,
    /// The same cells as few ranges of the plan's matrix.
    pub places: Vec<Vec<Axis>>,
    /// Throughput without it ÷ throughput now: the least and the most of these cells.
    pub gain: (f64, f64),
    /// Standing of the least certain of these gains.
    pub certainty: Certainty,
    /// Next limiter, if it is the same in all of them.
    pub next: Option<Limiter>,
}

/// A number that the plan varies, and which of its values are meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Axis {
    /// Name.
    pub name: String,
    /// In the order of the plan.
    pub values: Vec<String>,
}

/// Limiters of each load, in the order of the cells; those of one load follow each other.
pub fn limits<'a>(cells: impl IntoIterator<Item = Examined<'a>>) -> Vec<Limit<'a>> {
    let mut found: Vec<Limit<'a>> = Vec::new();
    for cell in cells {
        let Some(first) = cell.diagnosis.first() else { continue };
        let (gain, next) = (first.gain(cell.diagnosis.current), Some(first.next));
        let same = |known: &&mut Limit<'_>| known.load == cell.load && known.limiter == first.limiter;
        match found.iter_mut().find(same) {
            Some(known) => {
                known.cells.push(cell);
                known.gain = (known.gain.0.min(gain), known.gain.1.max(gain));
                known.certainty = known.certainty.max(first.certainty);
                known.next = known.next.filter(|_| known.next == next);
            }
            None => {
                let limit = Limit {
                    load: cell.load,
                    limiter: first.limiter,
                    cells: vec![cell],
                    places: Vec::new(),
                    gain: (gain, gain),
                    certainty: first.certainty,
                    next,
                };
                let last_of_load = found.iter().rposition(|known| known.load == cell.load);
                found.insert(last_of_load.map_or(found.len(), |at| at + 1), limit);
            }
        }
    }
    for limit in &mut found {
        limit.places = places(limit.cells.iter().map(|cell| cell.point));
    }
    found
}

/// Points as ranges: points that differ in one axis alone are joined. Axes with most values are joined first.
fn places<'a>(points: impl Iterator<Item = &'a Point>) -> Vec<Vec<Axis>> {
    let axis = |(name, value): (&String, &String)| Axis { name: name.clone(), values: vec![value.clone()] };
    let mut places: Vec<Vec<Axis>> = points.map(|point| point.iter().map(axis).collect()).collect();
    let mut axes: Vec<Axis> = Vec::new();
    for axis in places.iter().flatten() {
        match axes.iter_mut().find(|known| known.name == axis.name) {
            Some(known) if known.values.contains(&axis.values[0]) => {}
            Some(known) => known.values.push(axis.values[0].clone()),
            None => axes.push(axis.clone()),
        }
    }
    axes.sort_by_key(|axis| std::cmp::Reverse(axis.values.len()));
    for axis in &axes {
        places = joined(places, &axis.name);
    }
    places
}

/// Places that differ in nothing but `name` as one.
fn joined(places: Vec<Vec<Axis>>, name: &str) -> Vec<Vec<Axis>> {
    let mut kept: Vec<Vec<Axis>> = Vec::new();
    for place in places {
        let differs_in_it_alone = |known: &&mut Vec<Axis>| {
            known.len() == place.len()
                && known.iter().zip(&place).all(|(a, b)| a.name == b.name && (a.name == name || a == b))
        };
        let Some(known) = kept.iter_mut().find(differs_in_it_alone) else {
            kept.push(place);
            continue;
        };
        for (known, axis) in known.iter_mut().zip(place) {
            let new = axis.values.into_iter().filter(|value| !known.values.contains(value));
            let new: Vec<String> = new.collect();
            known.values.extend(new);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use diagnosis::{Performance, Verdict};

    use super::*;

    /// A cell of which something was found.
    struct Cell {
        load: &'static str,
        point: Point,
        diagnosis: Diagnosis,
    }

    impl Cell {
        fn examined(&self) -> Examined<'_> {
            let (point, diagnosis) = (&self.point, &self.diagnosis);
            Examined { load: self.load, point, diagnosis, is_unvalidated: false }
        }
    }

    fn cell(load: &'static str, point: &[(&str, &str)], limiter: Limiter, gain: f64, next: Limiter) -> Cell {
        let at = |bytes_per_s| Performance { bytes_per_s, latency_s: 0.01 };
        let verdict = Verdict {
            limiter,
            share: 1.0,
            evidence: Vec::new(),
            predicted: at(1e6 * gain),
            certainty: Certainty::Figure,
            next,
            remedies: Vec::new(),
        };
        let diagnosis = Diagnosis { current: at(1e6), verdicts: vec![verdict], cannot_know: Vec::new() };
        let point = point.iter().map(|(axis, value)| ((*axis).to_owned(), (*value).to_owned())).collect();
        Cell { load, point, diagnosis }
    }

    fn words(places: &[Vec<Axis>]) -> String {
        let axis = |axis: &Axis| format!("{} {}", axis.name, axis.values.join(" "));
        let place = |place: &Vec<Axis>| place.iter().map(axis).collect::<Vec<_>>().join(", ");
        places.iter().map(place).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn cells_that_agree_are_one_and_the_others_stand_beside_them() {
        use Limiter::{CommandWindow, LinkRate, QueueDepth};
        let cells = [
            cell("read", &[("delay", "0")], LinkRate, 1.0, LinkRate),
            cell("write", &[("delay", "0")], LinkRate, 1.0, LinkRate),
            cell("read", &[("delay", "8ms")], QueueDepth, 3.0, LinkRate),
            cell("write", &[("delay", "8ms")], LinkRate, 1.0, LinkRate),
            cell("read", &[("delay", "50ms")], QueueDepth, 2.0, CommandWindow),
        ];
        let found = limits(cells.iter().map(Cell::examined));
        let told: Vec<_> =
            found.iter().map(|l| (l.load, l.limiter, words(&l.places), l.gain, l.next)).collect();
        let expected = [
            ("read", LinkRate, "delay 0".to_owned(), (1.0, 1.0), Some(LinkRate)),
            ("read", QueueDepth, "delay 8ms 50ms".to_owned(), (2.0, 3.0), None),
            ("write", LinkRate, "delay 0 8ms".to_owned(), (1.0, 1.0), Some(LinkRate)),
        ];
        assert_eq!(told, expected);
        assert_eq!(found.iter().map(|limit| limit.cells.len()).collect::<Vec<_>>(), [1, 2, 2]);
    }

    #[test]
    fn a_matrix_is_told_in_stretches() {
        let depths = ["8", "16", "32", "64"];
        let all = |windows: &[(&'static str, usize)]| {
            let pairs =
                windows.iter().flat_map(|(window, from)| depths[*from..].iter().map(move |d| (*window, *d)));
            let points = pairs.map(|(window, depth)| {
                Point::from([
                    ("depth".to_owned(), depth.to_owned()),
                    ("window".to_owned(), window.to_owned()),
                ])
            });
            words(&places(points.collect::<Vec<_>>().iter()))
        };
        assert_eq!(all(&[("100", 0), ("150", 0)]), "depth 8 16 32 64, window 100 150");
        assert_eq!(all(&[("100", 2), ("150", 3)]), "depth 32 64, window 100; depth 64, window 150");
        assert_eq!(all(&[("100", 3)]), "depth 64, window 100");
        assert_eq!(words(&places([Point::new()].iter())), "");
    }
}
