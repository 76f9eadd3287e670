//! The order of cells and of further attempts, and rates that are known only after other cells.

pub(super) mod found_rate;
pub(super) mod order;
mod turns;

pub use order::expected_time;
pub(super) use turns::{MAX_ATTEMPTS, Turn, Turns};
