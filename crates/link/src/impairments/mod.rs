//! Impairments: a file for each stage that drops, delays, reorders, copies or aggregates packets.
//!
//! `drops` acts at the entry of a path, before a packet waits; the other stages lie behind the bottleneck.

mod coalesce;
mod departures;
mod drops;
mod duplicate;
mod jitter;
mod merge;
mod reorder;
mod tick;

pub use coalesce::Coalesce;
pub use drops::{Contract, Gate, Loss, LossModel, Outage, Outages, Policer};
pub use duplicate::Duplicate;
pub use jitter::{Jitter, JitterModel};
pub use merge::{Merge, SMALL_BYTES};
pub use reorder::{Reorder, Reordering};
pub use tick::Tick;
