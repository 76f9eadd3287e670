//! Metrics of a cell: names and units, lookup for the checks of a plan, spread over repeats.
//!
//! A metric is addressed as `load.metric`: `read.throughput`, `write1m.excess_over_rtt_in_serialisations`.
//! The owner is the load's name in the plan, or `line` for figures that follow from the path alone. [`METRICS`]
//! lists every metric with its unit: seconds, bits per second, and plain counts and ratios.

mod lookup;
mod names;
mod spread;

pub use lookup::Metrics;
pub(crate) use names::{GATE, IN_FLIGHT_MAX};
pub use names::{LINE, METRICS, Metric};
pub use spread::Spread;
pub(crate) use spread::{put, spreads};
