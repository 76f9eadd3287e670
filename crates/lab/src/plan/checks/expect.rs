//! An `[[expect]]` of a plan: a figure and the bound it must keep.

use tables::manifest::Comparison;

use super::dimension::Dimension;
use super::expression::Expression;
use crate::plan::point::Region;

/// One expectation; it becomes one check for every point of the matrix that is left.
#[derive(Clone, PartialEq, Debug)]
pub struct Expect {
    /// The expectation in words.
    pub name: String,
    /// The figure.
    pub value: Expression,
    /// Comparison with the bound.
    pub op: Comparison,
    /// The bound, in the unit of the check.
    pub bound: f64,
    /// Unit of the check.
    pub unit: Unit,
    /// Shape of the values along an axis; `None` for a comparison at every point.
    pub shape: Option<(Shape, String)>,
    /// Statistic over the repeats; `None` for their median.
    pub interval: Option<Interval>,
    /// Points of the matrix that it covers.
    pub only: Region,
    /// One check per point; otherwise one check of the worst point.
    pub each: bool,
}

/// Statistic over the repeats of a ratio.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interval {
    /// The lower end of its 95 % interval ([`analysis::interval::lower_95`]).
    Lower95,
}

/// Intervals by name.
pub(in crate::plan) const INTERVALS: &[(&str, Interval)] = &[("lower95", Interval::Lower95)];

impl Interval {
    /// As plans write it.
    pub fn name(self) -> &'static str {
        INTERVALS.iter().find(|(_, interval)| *interval == self).map_or("", |(name, _)| name)
    }
}

/// Shape of a row of values, compared as a ratio.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// The largest value ÷ the smallest.
    Flat,
    /// The smallest ratio of neighbours, each ÷ the one before it.
    Rising,
    /// The largest ratio of neighbours, each ÷ the one before it.
    Falling,
}

/// Shapes by name.
pub(in crate::plan) const SHAPES: &[(&str, Shape)] =
    &[("flat", Shape::Flat), ("rising", Shape::Rising), ("falling", Shape::Falling)];

impl Shape {
    /// As plans write it.
    pub fn name(self) -> &'static str {
        SHAPES.iter().find(|(_, shape)| *shape == self).map_or("", |(name, _)| name)
    }
}

/// A unit of a check, with its size in the metrics' own unit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Unit {
    /// Name as in run.json; empty for a ratio.
    pub name: &'static str,
    /// A metric divided by this is in the unit.
    pub size: f64,
    /// Dimension of values in the unit.
    pub dimension: Dimension,
}

/// Metrics are kept in seconds, bits per second, bytes and plain counts; these are the units of checks.
pub(in crate::plan) const UNITS: &[Unit] = &[
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

/// Comparisons of an expectation.
pub(in crate::plan) const COMPARISONS: [Comparison; 5] =
    [Comparison::AtLeast, Comparison::AtMost, Comparison::Above, Comparison::Below, Comparison::Equal];

impl Unit {
    pub(in crate::plan) fn named(name: &str) -> Option<Unit> {
        UNITS.iter().find(|unit| unit.name == name).copied()
    }
}
