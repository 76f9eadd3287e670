//! Checks of a plan: expectations, the expressions that they compare, and their units.

mod coverage;
mod dimension;
mod expect;
mod expression;

pub use dimension::Dimension;
pub(in crate::plan) use expect::{COMPARISONS, INTERVALS, SHAPES, UNITS};
pub use expect::{Expect, Interval, Shape, Unit};
pub use expression::{Expression, MetricName};
