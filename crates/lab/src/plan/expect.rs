//! An `[[expect]]` of a plan: a figure and the bound it must keep.

use analysis::LINE;
use analysis::interval::PAIRS_MIN;
use tables::manifest::Comparison;

use super::Plan;
use super::dimension::Dimension;
use super::expression::{Expression, MetricName};
use super::matrix::{Axis, Point, Region};

/// One expectation; it becomes one check for every point of the matrix that is left.
#[derive(Clone, PartialEq, Debug)]
pub struct Expect {
    /// What is expected, in words.
    pub name: String,
    /// The figure.
    pub value: Expression,
    /// How it compares with the bound.
    pub op: Comparison,
    /// The bound, in the unit of the check.
    pub bound: f64,
    /// Unit of the check.
    pub unit: Unit,
    /// What the figure is to look like along an axis; otherwise it is asked at every point.
    pub shape: Option<(Shape, String)>,
    /// What the repeats say of the figure together; otherwise it is their median that counts.
    pub interval: Option<Interval>,
    /// Restricts it to these points.
    pub only: Region,
    /// One check per point; otherwise one check of the worst point.
    pub each: bool,
}

impl Expect {
    /// Whether the plan is run often enough for its interval, if it asks for one.
    pub(super) fn has_pairs(&self, plan: &Plan) -> bool {
        self.interval.is_none() || plan.repeats as usize >= PAIRS_MIN
    }

    /// Whether its shape, if it asks for one, is that of two values at least: one alone has every shape.
    pub(super) fn has_row(&self, plan: &Plan) -> bool {
        let Some((_, along)) = &self.shape else { return true };
        let Some(axis) = plan.matrix.iter().find(|axis| axis.name == *along) else { return false };
        let there = |label: &String| self.only.has(&Point(vec![(along.clone(), label.clone())]));
        self.varies_along(axis, plan) && axis.labels().filter(there).count() > 1
    }

    /// Whether its figure may differ along an axis. A metric that has its own place on it is the same wherever the others
    /// are. The line is that of the first load that is named.
    pub fn varies_along(&self, axis: &Axis, plan: &Plan) -> bool {
        let names = self.value.metrics();
        let load_of = |name: &MetricName| plan.loads.iter().find(|load| load.name == name.owner);
        let first = names.iter().find_map(|name| load_of(name));
        let varies = |name: &&MetricName| match load_of(name).or(first) {
            _ if name.at.iter().any(|(pinned, _)| *pinned == axis.name) => false,
            Some(load) if name.owner == LINE => axis.is_path() && axis.concerns(load, &plan.backgrounds),
            Some(load) => axis.concerns(load, &plan.backgrounds),
            None => axis.is_path(),
        };
        names.iter().any(varies)
    }
}

/// What the repeats of a ratio say of it together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interval {
    /// The lower end of its 95 % interval ([`analysis::interval::lower_95`]).
    Lower95,
}

/// Intervals by name.
pub(super) const INTERVALS: &[(&str, Interval)] = &[("lower95", Interval::Lower95)];

impl Interval {
    /// As plans write it.
    pub fn name(self) -> &'static str {
        INTERVALS.iter().find(|(_, interval)| *interval == self).map_or("", |(name, _)| name)
    }
}

/// What a row of figures looks like; it is asked as a ratio.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// The largest ÷ the smallest.
    Flat,
    /// The smallest of each ÷ the one before it.
    Rising,
    /// The largest of each ÷ the one before it.
    Falling,
}

/// Shapes by name.
pub(super) const SHAPES: &[(&str, Shape)] =
    &[("flat", Shape::Flat), ("rising", Shape::Rising), ("falling", Shape::Falling)];

impl Shape {
    /// As plans write it.
    pub fn name(self) -> &'static str {
        SHAPES.iter().find(|(_, shape)| *shape == self).map_or("", |(name, _)| name)
    }
}

/// A unit of a check, and how many of the metrics' own units it has.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Unit {
    /// As run.json says it; empty for a ratio.
    pub name: &'static str,
    /// A metric divided by this is in the unit.
    pub size: f64,
    /// What it measures.
    pub dimension: Dimension,
}

/// Metrics are kept in seconds, bits per second, bytes and plain counts; these are the units of checks.
pub(super) const UNITS: &[Unit] = &[
    unit("", 1.0, Dimension::NONE),
    unit("packets", 1.0, Dimension::NONE),
    unit("rtt", 1.0, Dimension::NONE),
    unit("s", 1.0, Dimension::TIME),
    unit("ms", 1e-3, Dimension::TIME),
    unit("us", 1e-6, Dimension::TIME),
    unit("ns", 1e-9, Dimension::TIME),
    unit("bit/s", 1.0, Dimension::RATE),
    unit("Mbit/s", 1e6, Dimension::RATE),
    unit("Gbit/s", 1e9, Dimension::RATE),
    unit("MB/s", 8e6, Dimension::RATE),
    unit("bytes", 1.0, Dimension::SIZE),
    unit("KiB", 1024.0, Dimension::SIZE),
    unit("MiB", 1_048_576.0, Dimension::SIZE),
    unit("IOPS", 1.0, Dimension::FREQUENCY),
];

const fn unit(name: &'static str, size: f64, dimension: Dimension) -> Unit {
    Unit { name, size, dimension }
}

/// How an expectation may compare.
pub(super) const COMPARISONS: [Comparison; 5] =
    [Comparison::AtLeast, Comparison::AtMost, Comparison::Above, Comparison::Below, Comparison::Equal];

impl Unit {
    pub(super) fn named(name: &str) -> Option<Unit> {
        UNITS.iter().find(|unit| unit.name == name).copied()
    }
}
