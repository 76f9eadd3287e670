//! Measurements with their bounds, and the reasons that invalidate one.

use event::{Bytes, format_delay};
use link::Shape;
use net::cpu_time::OTHERS_BUSY_MAX;
use serde::Serialize;

use super::rig::Seen;
use crate::Spec;

/// A measured value and its bound.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Check {
    /// Name of the measured quantity.
    pub name: String,
    /// Measured value; `None` if the measurement is invalid.
    pub value: Option<f64>,
    /// Comparison of value and bound: `<=` or `>=`.
    pub op: &'static str,
    /// Bound: the upper limit for `<=`, the lower limit for `>=`.
    pub bound: f64,
    /// Unit of both.
    pub unit: &'static str,
    /// True if the value keeps its bound; false without a value.
    pub ok: bool,
    /// Emulated path and workload of the measurement.
    pub path: String,
}

/// Accuracy and capacity of the emulator on this machine.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SelfTest {
    /// Every figure with its bound.
    pub checks: Vec<Check>,
    /// True if every measurement is valid.
    pub valid: bool,
    /// Reasons for invalid measurements, one sentence each.
    pub reasons: Vec<String>,
    /// Bounds of the added delay: `real-time` if the kernel granted that priority to the emulator, as it does to root,
    /// otherwise `ordinary`.
    pub bounds: &'static str,
    /// True if the kernel granted the emulator real-time priority.
    pub realtime: bool,
    /// CPUs used by other processes during the most disturbed measurement.
    pub others_busy: f64,
    /// Upper limit of `others_busy` for a valid measurement.
    pub others_busy_max: f64,
    /// Processors of this machine.
    pub cpus: usize,
}

impl SelfTest {
    /// Returns true if every value keeps its bound.
    pub fn ok(&self) -> bool {
        self.checks.iter().all(|check| check.ok)
    }
}

/// Measurements so far.
#[derive(Default)]
pub(super) struct Checks {
    list: Vec<Check>,
    reasons: Vec<String>,
    realtime: bool,
    others_busy: f64,
    path: String,
}

impl Checks {
    /// Sets the path and the workload of the following measurements.
    pub(super) fn on(&mut self, spec: &Spec, load: &str) {
        let Shape { delay, rate, queue_bytes } = spec.near.shape;
        let (delay, queue, mtu) = (format_delay(delay), Bytes(queue_bytes), spec.mtu_bytes);
        let cut = if spec.segment { ", super-packets cut" } else { "" };
        self.path = format!("{rate}, {delay} one way, queue {queue}, MTU {mtu}{cut}; {load}");
    }

    /// Adds a value with an upper bound.
    pub(super) fn at_most(&mut self, name: &str, value: Option<f64>, bound: f64, unit: &'static str) {
        let ok = value.is_some_and(|value| value <= bound);
        self.list.push(Check {
            name: name.to_owned(),
            value,
            op: "<=",
            bound,
            unit,
            ok,
            path: self.path.clone(),
        });
    }

    /// Adds a value with a lower bound.
    pub(super) fn at_least(&mut self, name: &str, value: Option<f64>, bound: f64, unit: &'static str) {
        let ok = value.is_some_and(|value| value >= bound);
        self.list.push(Check {
            name: name.to_owned(),
            value,
            op: ">=",
            bound,
            unit,
            ok,
            path: self.path.clone(),
        });
    }

    /// Returns true if the measurement of `what` is valid; otherwise records the reasons.
    pub(super) fn accept(&mut self, what: &str, seen: &Seen) -> bool {
        self.realtime |= seen.cost.realtime;
        self.others_busy = self.others_busy.max(seen.others_busy);
        let found = self.reasons.len();
        if seen.others_busy > OTHERS_BUSY_MAX {
            self.refuse(
                what,
                &format!(
                    "other processes kept {:.2} processors busy, expected at most {OTHERS_BUSY_MAX}",
                    seen.others_busy
                ),
            );
        }
        for (count, of) in [
            (seen.traffic.no_buffer, "packets were dropped because the emulator had no buffer for them"),
            (seen.traffic.device_refused, "packets were dropped because the receiving device refused them"),
            (seen.traffic.lost_rows, "packets were not recorded"),
            (seen.device_drops, "packets were dropped by the sending device"),
        ] {
            if count > 0 {
                self.refuse(what, &format!("{count} {of}, expected none; repeat it on an idle machine"));
            }
        }
        self.reasons.len() == found
    }

    /// Marks the measurement of `what` as invalid, with the reason.
    pub(super) fn refuse(&mut self, what: &str, why: &str) {
        self.reasons.push(format!("{what}: {why}"));
    }

    pub(super) fn finish(self) -> SelfTest {
        SelfTest {
            valid: self.list.iter().all(|check| check.value.is_some()),
            checks: self.list,
            reasons: self.reasons,
            bounds: if self.realtime { "real-time" } else { "ordinary" },
            realtime: self.realtime,
            others_busy: self.others_busy,
            others_busy_max: OTHERS_BUSY_MAX,
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_is_not_there_is_neither_good_nor_valid() {
        let mut checks = Checks::default();
        checks.at_most("late", Some(15.0), 15.0, "us");
        checks.at_least("fast", Some(3.0), 2.0, "Gb/s");
        let good = checks.finish();
        assert!(good.ok() && good.valid);
        for (value, valid) in [(Some(15.1), true), (None, false)] {
            let mut checks = Checks::default();
            checks.at_most("late", value, 15.0, "us");
            let seen = checks.finish();
            assert_eq!((seen.ok(), seen.valid), (false, valid));
        }
    }
}
