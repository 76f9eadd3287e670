//! Lookup of a metric by the name and the point of the matrix that a plan gives.

use super::names::LINE;
use super::spread::Spread;
use crate::run::cell::CellResult;

/// The figures of all cells of a run.
#[derive(Clone, Copy, Debug)]
pub struct Metrics<'a> {
    pub(crate) cells: &'a [CellResult],
}

impl Metrics<'_> {
    /// The median of `owner.metric` at a point of the matrix; see [`Metrics::spread`].
    pub fn value(&self, point: &[(String, String)], name: &str) -> Option<f64> {
        self.spread(point, name).map(|spread| spread.median)
    }

    /// Median and range of `owner.metric` (such as `read.throughput`) at a point of the matrix, given as
    /// axes and their values as written in the plan (`("delay", "8ms")`). Axes that a cell does not have
    /// do not matter to it. `None` if the name is unknown, no valid repeat has the figure, or the point
    /// leaves open which of several cells (for `line`: paths) is meant.
    pub fn spread(&self, point: &[(String, String)], name: &str) -> Option<Spread> {
        let (owner, metric) = name.split_once('.')?;
        let load = (owner != LINE).then_some(owner);
        self.figure(point, load, owner == LINE, metric)
    }

    /// The median of a figure of the path that `load` had at a point of the matrix.
    pub fn line_of(&self, point: &[(String, String)], load: &str, metric: &str) -> Option<f64> {
        self.figure(point, Some(load), true, metric).map(|spread| spread.median)
    }

    /// `owner.metric` of a load in one valid repeat at a point of the matrix; otherwise as [`Metrics::value`].
    pub fn in_repeat(&self, point: &[(String, String)], name: &str, repeat: u32) -> Option<f64> {
        let (owner, metric) = name.split_once('.')?;
        let mut cells = self.cells.iter().filter(|cell| cell.load == owner && is_at(cell, point));
        let (Some(cell), None) = (cells.next(), cells.next()) else { return None };
        let valid = cell.repeats.iter().find(|known| known.valid && known.repeat == repeat)?;
        valid.values.get(metric).copied()
    }

    fn figure(
        &self,
        point: &[(String, String)],
        load: Option<&str>,
        of_line: bool,
        metric: &str,
    ) -> Option<Spread> {
        let agrees = |cell: &&CellResult| load.is_none_or(|load| cell.load == load) && is_at(cell, point);
        // A load with a path of its own lacks the point's axes that others have: the line at the point is theirs.
        let axes = |cell: &CellResult| point.iter().filter(|(axis, _)| cell.point.contains_key(axis)).count();
        let most = self.cells.iter().filter(agrees).map(axes).max()?;
        let theirs = |cell: &&CellResult| !of_line || load.is_some() || axes(cell) == most;
        let mut cells = self.cells.iter().filter(agrees).filter(theirs);
        let first = cells.next()?;
        let values = |cell: &CellResult| {
            let values = if of_line { &cell.line } else { &cell.values };
            values.get(metric).copied()
        };
        let same = |other: &CellResult| of_line && values(other) == values(first);
        if cells.all(same) { values(first) } else { None }
    }
}

/// True if a cell agrees with a point on every axis that it has.
fn is_at(cell: &CellResult, point: &[(String, String)]) -> bool {
    point.iter().all(|(axis, value)| cell.point.get(axis).is_none_or(|known| known == value))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Repeat;

    fn cell(load: &str, point: &[(&str, &str)], throughput: f64, goodput: f64) -> CellResult {
        let one = |name, value| BTreeMap::from([(name, Spread::of(&[value]).unwrap())]);
        CellResult {
            load: load.to_owned(),
            point: point.iter().map(|(a, v)| ((*a).to_owned(), (*v).to_owned())).collect(),
            values: one("throughput", throughput),
            line: one("goodput", goodput),
            ..CellResult::default()
        }
    }

    fn point(axes: &[(&str, &str)]) -> Vec<(String, String)> {
        axes.iter().map(|(a, v)| ((*a).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn figures_are_found_by_load_and_place() {
        let cells = [
            cell("read", &[("delay", "8ms")], 1.0, 9.0),
            cell("read", &[("delay", "50ms")], 2.0, 9.0),
            cell("write", &[("delay", "8ms")], 3.0, 9.0),
        ];
        let metrics = Metrics { cells: &cells };
        let far = point(&[("delay", "50ms")]);
        assert_eq!(metrics.value(&far, "read.throughput"), Some(2.0));
        assert_eq!(metrics.value(&point(&[("delay", "50ms"), ("depth", "1")]), "read.throughput"), Some(2.0));
        assert_eq!(metrics.value(&[], "read.throughput"), None, "which delay?");
        assert_eq!(metrics.value(&[], "write.throughput"), Some(3.0));
        assert_eq!(metrics.value(&[], "line.goodput"), Some(9.0), "the same on all paths");
        assert_eq!(metrics.line_of(&far, "read", "goodput"), Some(9.0));
        assert_eq!(metrics.line_of(&far, "write", "goodput"), None, "it never ran there");
        for name in ["write.throughput", "read.colour", "line.throughput", "read"] {
            assert_eq!(metrics.value(&far, name), None, "{name}");
        }
    }

    #[test]
    fn a_figure_of_one_repeat_is_that_of_a_valid_one() {
        let repeat = |repeat, valid, throughput| Repeat {
            repeat,
            valid,
            values: BTreeMap::from([("throughput", throughput)]),
            ..Repeat::default()
        };
        let with = |delay| CellResult {
            repeats: vec![repeat(1, true, 5.0), repeat(2, false, 6.0), repeat(4, true, 7.0)],
            ..cell("read", &[("delay", delay)], 5.0, 9.0)
        };
        let cells = [with("8ms"), with("50ms")];
        let metrics = Metrics { cells: &cells };
        let far = point(&[("delay", "50ms"), ("depth", "1")]);
        let found = [1, 2, 3, 4].map(|repeat| metrics.in_repeat(&far, "read.throughput", repeat));
        assert_eq!(found, [Some(5.0), None, None, Some(7.0)]);
        assert_eq!(metrics.in_repeat(&[], "read.throughput", 1), None, "which delay?");
        assert_eq!(metrics.in_repeat(&far, "read.colour", 1), None);
    }

    #[test]
    fn the_line_at_a_point_is_that_of_the_loads_which_vary_there() {
        let cells = [
            cell("read", &[("delay", "8ms")], 1.0, 9.0),
            cell("read", &[("delay", "50ms")], 2.0, 8.0),
            cell("tunnel", &[], 3.0, 7.0),
        ];
        let metrics = Metrics { cells: &cells };
        let far = point(&[("delay", "50ms")]);
        assert_eq!(metrics.value(&far, "line.goodput"), Some(8.0));
        assert_eq!(metrics.line_of(&far, "tunnel", "goodput"), Some(7.0), "its own");
        assert_eq!(metrics.value(&[], "line.goodput"), None, "whose?");
    }
}
