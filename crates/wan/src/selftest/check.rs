//! A figure with its bound, and what keeps it from being one.

use serde::Serialize;

use super::SelfTest;
use super::rig::Seen;

/// A figure and the bound it must keep.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Check {
    /// What was measured.
    pub name: String,
    /// `None` if the run was not valid for it.
    pub value: Option<f64>,
    /// `<=` or `>=`.
    pub op: &'static str,
    /// What the value must not be above, or below.
    pub bound: f64,
    /// Unit of both.
    pub unit: &'static str,
    /// Whether it is within.
    pub ok: bool,
}

/// Processors that others may keep busy meanwhile.
const OTHERS_BUSY_MAX: f64 = 0.25;

/// The figures so far.
#[derive(Default)]
pub(super) struct Checks {
    list: Vec<Check>,
    reasons: Vec<String>,
    realtime: bool,
}

impl Checks {
    /// `name` must be at most `bound`.
    pub(super) fn at_most(&mut self, name: &str, value: Option<f64>, bound: f64, unit: &'static str) {
        let ok = value.is_some_and(|value| value <= bound);
        self.list.push(Check { name: name.to_owned(), value, op: "<=", bound, unit, ok });
    }

    /// `name` must be at least `bound`.
    pub(super) fn at_least(&mut self, name: &str, value: Option<f64>, bound: f64, unit: &'static str) {
        let ok = value.is_some_and(|value| value >= bound);
        self.list.push(Check { name: name.to_owned(), value, op: ">=", bound, unit, ok });
    }

    /// Whether what was `seen` while `what` was measured yields a figure; a reason is noted if not.
    pub(super) fn accept(&mut self, what: &str, seen: &Seen) -> bool {
        self.realtime |= seen.cost.realtime;
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
            (seen.traffic.no_buffer, "packets found no buffer"),
            (seen.traffic.device_refused, "packets were refused by the receiving device"),
            (seen.traffic.lost_rows, "packets were not recorded"),
            (seen.device_drops, "packets were dropped by the sending device"),
        ] {
            if count > 0 {
                self.refuse(what, &format!("{count} {of}, expected none"));
            }
        }
        self.reasons.len() == found
    }

    /// Notes why `what` has no figure.
    pub(super) fn refuse(&mut self, what: &str, why: &str) {
        self.reasons.push(format!("{what}: {why}"));
    }

    pub(super) fn finish(self) -> SelfTest {
        SelfTest {
            valid: self.list.iter().all(|check| check.value.is_some()),
            checks: self.list,
            reasons: self.reasons,
            realtime: self.realtime,
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
