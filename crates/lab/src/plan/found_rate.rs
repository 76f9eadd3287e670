//! A rate that a run finds itself before it can be used: `0.8 * unshaped.throughput`.
//!
//! An expression as expectations have it, over the throughput of other loads and nothing else. Measures nothing: whoever
//! runs the plan asks for the value when those loads have been run.

use std::fmt;

use document::{Scalar, instead};
use event::BitRate;

use super::dimension::Dimension;
use super::expression::{Expression, MetricName};
use super::{Cell, Plan, Point};

/// The one figure that a rate may follow.
const FIGURE: &str = "throughput";
/// Rates are whole numbers of this, so that people can read and type them.
const STEP: u64 = 1_000_000;

/// A rate that follows what other loads of the plan carry.
#[derive(Clone, PartialEq, Debug)]
pub struct FoundRate(Expression);

impl FoundRate {
    /// Reads a value that is no rate by itself; `None` if it names no figure, and so is a mistyped rate.
    pub(super) fn read(value: &Scalar) -> Option<Result<FoundRate, String>> {
        let text = value.text().ok().filter(|text| text.contains(&format!(".{FIGURE}")))?;
        Some(Expression::parse(text).and_then(|expression| {
            let other = expression.metrics().into_iter().find(|name| name.metric != FIGURE);
            match other.map(ToString::to_string) {
                Some(name) => {
                    Err(format!("a rate follows the throughput of a load and nothing else, found '{name}'"))
                }
                None => Ok(FoundRate(expression)),
            }
        }))
    }

    /// The loads that it follows.
    pub fn loads(&self) -> impl Iterator<Item = &str> {
        self.0.metrics().into_iter().map(|name| name.owner.as_str())
    }

    /// The rate of a cell, where `figure` gives the throughput of a load at a place in bits per second; `None` if one
    /// is missing, or what comes of them is no rate.
    pub fn value(
        &self,
        point: &Point,
        mut figure: impl FnMut(&str, &Point) -> Option<f64>,
    ) -> Option<BitRate> {
        let bits_per_s = self.0.value(|name| figure(&name.owner, &point.moved(&name.at)))?;
        Some(BitRate(bits_per_s as u64 / STEP * STEP)).filter(|rate| rate.0 > 0)
    }

    /// Why it cannot be found for a cell of the plan.
    pub(super) fn problem(&self, cell: &Cell, plan: &Plan, cells: &[Cell]) -> Option<String> {
        let metrics = self.0.metrics();
        metrics.iter().find_map(|name| followed(name, cell, plan, cells).err()).or_else(|| {
            match self.0.dimension(|_| Dimension::RATE) {
                Ok(Dimension::RATE) => None,
                Ok(other) => Some(format!("'{self}' is {other}, and no rate")),
                Err(text) => Some(text),
            }
        })
    }
}

/// That a figure is that of one cell, which has a rate of its own.
fn followed(name: &MetricName, cell: &Cell, plan: &Plan, cells: &[Cell]) -> Result<(), String> {
    let load = &name.owner;
    if !plan.loads.iter().any(|known| known.name == *load) {
        let hint = instead(load, plan.loads.iter().map(|load| load.name.as_str()));
        return Err(format!("no load is named '{load}'{hint}"));
    }
    for (axis, value) in &name.at {
        super::read_expect::place(plan, axis, value)?;
    }
    let place = cell.point.moved(&name.at);
    let mut there = cells.iter().filter(|other| other.load.name == *load && other.point.agrees(&place));
    match (there.next(), there.next()) {
        (Some(other), None) if other.path.found_rate.is_none() => Ok(()),
        (Some(_), None) => Err(format!(
            "the rate follows '{load}', whose own rate would have to be found: give that load a rate, such as \
             path = {{ rate = \"10gbit\" }}"
        )),
        _ => Err(format!(
            "'{name}' is that of several places of the matrix; say which, such as {load}.{FIGURE}[axis=value]"
        )),
    }
}

impl fmt::Display for FoundRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
