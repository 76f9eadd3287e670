//! Whole runs: their cells and repeats as one plain result, its summary, and the limits of its loads.

pub(crate) mod cell;
pub(crate) mod error;
pub mod limits;
mod order;
pub mod policy_gain;
pub(crate) mod result;
pub(crate) mod summary;
mod timeline;
