//! Plans: loads, paths and expectations. Format: `docs/reference/plans.md`.
//!
//! TOML in, a typed [`Plan`] out, or every problem of the text with its line. Runs nothing. A key of a plan is in
//! `keys`, an expectation in `checks`, their reading in `read`.

mod cell;
mod checks;
mod definition;
mod error;
mod json;
mod keys;
mod matrix;
mod point;
mod read;
mod shipped;

pub use cell::Cell;
pub use checks::{Dimension, Expect, Expression, Interval, MetricName, Shape, Unit};
pub use definition::{FarHosts, Plan, Variant};
pub use error::PlanError;
pub use keys::background::Background;
pub use keys::case::{Bounds, Case};
pub use keys::found_rate::FoundRate;
pub use keys::load::{Bench, Bursts, Command, DEFAULT_CONGESTION, Load, LoadKind, Pacing, Validity};
pub use keys::lun::Lun;
pub use keys::need::{LoadNeeds, Need};
pub use keys::path::{Back, Path, Queue};
pub use keys::recording::{Drawing, Recording, Table};
pub use keys::shell_line::ShellLine;
pub use keys::target::Target;
pub use keys::time::PathTime;
pub use matrix::Axis;
pub use point::{Point, Region};
pub use shipped::{SHIPPED, Shipped, Source};
