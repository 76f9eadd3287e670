//! Figures of a page: throughput by delay, series over time, any metric against an axis of the plan, and their line styles.

pub(crate) mod decimate;
pub(crate) mod figure;
pub(crate) mod histogram;
pub(crate) mod line_style;
pub(crate) mod metric_by_axis;
pub(crate) mod over_time;
