//! A rate that depends on the throughput of other loads of the run: `0.8 * unshaped.throughput`.
//!
//! An expression as in expectations, over the throughput of other loads alone. Nothing is measured here: the run
//! evaluates it after those loads.

use std::fmt;

use document::Scalar;
use event::BitRate;

use crate::plan::checks::Expression;
use crate::plan::point::Point;

/// The only metric that a rate may depend on.
pub(in crate::plan) const FIGURE: &str = "throughput";
/// Rates are whole numbers of this, so that people can read and type them.
const STEP: u64 = 1_000_000;

/// Rate as an expression over the throughput of other loads of the plan.
#[derive(Clone, PartialEq, Debug)]
pub struct FoundRate(Expression);

impl FoundRate {
    /// Reads a value that is no rate by itself; `None` if it names no figure, and so is a mistyped rate.
    pub(in crate::plan) fn read(value: &Scalar) -> Option<Result<FoundRate, String>> {
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

    /// Expression over the throughput of other loads.
    pub(in crate::plan) fn expression(&self) -> &Expression {
        &self.0
    }

    /// The loads that it follows.
    pub fn loads(&self) -> impl Iterator<Item = &str> {
        self.0.metrics().into_iter().map(|name| name.owner.as_str())
    }

    /// Rate of a cell, where `figure` gives the throughput of a load at a point in bits per second; `None` if one is
    /// missing, or the result is no rate.
    pub fn value(
        &self,
        point: &Point,
        mut figure: impl FnMut(&str, &Point) -> Option<f64>,
    ) -> Option<BitRate> {
        let bits_per_s = self.0.value(|name| figure(&name.owner, &point.moved(&name.at)))?;
        Some(BitRate(bits_per_s as u64 / STEP * STEP)).filter(|rate| rate.0 > 0)
    }
}

impl fmt::Display for FoundRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
