//! Figures that are kept in little memory while packets pass: distributions, levels, rates, sums of time.

pub(crate) mod ack_clock;
pub(crate) mod delivery;
pub(crate) mod distribution;
pub(crate) mod edges;
pub(crate) mod late_round_trip;
pub(crate) mod level;
pub(crate) mod slow_start;
pub(crate) mod time_use;
pub(crate) mod trains;
