//! Consecutive attempts that were invalid for the same reason: such a run yields no figure.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Attempts in a row, while none was valid yet. A virtual machine whose host disturbs one attempt in four has four in a
/// row at its start in one run of 256.
const ATTEMPTS: u32 = 4;
/// Time to wait for the end of a disturbance once an attempt was valid: invalid cells are run again after all others.
const PATIENCE: Duration = Duration::from_secs(300);

/// The attempts since the last one that was valid, or not valid for another reason.
#[derive(Debug, Default)]
pub(crate) struct Streak {
    /// Kinds of reasons that all of them have in common.
    kinds: BTreeSet<String>,
    /// The last attempt's reasons of these kinds, in words.
    reasons: Vec<String>,
    cells: BTreeSet<String>,
    attempts: u32,
    since: Option<Instant>,
    /// An earlier attempt was valid.
    has_valid: bool,
}

impl Streak {
    /// An attempt that was valid.
    pub(crate) fn valid(&mut self) {
        *self = Streak { has_valid: true, ..Streak::default() };
    }

    /// Records an attempt with another end, which is independent of the machine.
    pub(crate) fn other(&mut self) {
        *self = Streak { has_valid: self.has_valid, ..Streak::default() };
    }

    /// An attempt at `cell` that was not valid.
    pub(crate) fn invalid(&mut self, cell: &str, reasons: &[String], now: Instant) {
        let kinds: BTreeSet<String> = reasons.iter().map(|reason| kind(reason)).collect();
        let common: BTreeSet<String> = self.kinds.intersection(&kinds).cloned().collect();
        if common.is_empty() {
            self.other();
            self.kinds = kinds;
        } else {
            self.kinds = common;
        }
        self.reasons = reasons.iter().filter(|reason| self.kinds.contains(&kind(reason))).cloned().collect();
        self.cells.insert(cell.to_owned());
        self.attempts += 1;
        self.since.get_or_insert(now);
    }

    /// The reason to stop, if no other of the plan's `cells` will do better.
    pub(crate) fn stop_reason(&self, cells: usize, now: Instant) -> Option<String> {
        let lasted = self.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let is_enough = self.attempts >= ATTEMPTS && self.cells.len() >= cells.min(2);
        let is_long = !self.has_valid || lasted >= PATIENCE;
        (is_enough && is_long).then(|| {
            format!(
                "stopped after {} attempts in a row at {} that were not valid for the same reason: {}",
                self.attempts,
                if self.cells.len() == 1 {
                    "one cell".to_owned()
                } else {
                    format!("{} cells", self.cells.len())
                },
                self.reasons.join("; ")
            )
        })
    }
}

/// A reason without its figures and its bound, which differ from cell to cell.
fn kind(reason: &str) -> String {
    let found = reason.split(", expected").next().unwrap_or(reason);
    let word = |word: &str| if word.contains(|c: char| c.is_ascii_digit()) { "#" } else { word }.to_owned();
    found.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(ms: u32) -> Vec<String> {
        vec![format!("packets were late by {ms}ms (p99), expected at most {ms}ms for figures of throughput")]
    }

    fn busy(share: f64) -> String {
        format!(
            "other programs kept {share:.2} of 2 processors busy and 0.00 were idle, expected at most 0.25 busy"
        )
    }

    #[test]
    fn a_few_cells_that_are_invalid_for_the_same_reason_are_enough() {
        let (mut streak, now) = (Streak::default(), Instant::now());
        for (n, cell) in ["a", "b", "c", "d"].iter().enumerate() {
            assert_eq!(streak.stop_reason(33, now), None, "{n}");
            streak.invalid(cell, &[late(3 + n as u32), vec![busy(1.5)]].concat(), now);
        }
        let text = streak.stop_reason(33, now).unwrap();
        assert!(
            text.starts_with("stopped after 4 attempts in a row at 4 cells that were not valid"),
            "{text}"
        );
        assert!(text.contains("late by 6ms") && text.contains("other programs kept 1.50"), "{text}");
    }

    #[test]
    fn the_reason_is_what_they_have_in_common() {
        let (mut streak, now) = (Streak::default(), Instant::now());
        streak.invalid("a", &late(3), now);
        streak.invalid("b", &[late(4), vec![busy(1.5)]].concat(), now);
        streak.invalid("c", &late(9), now);
        streak.invalid("d", &[vec![busy(1.0)], late(5)].concat(), now);
        assert_eq!(streak.stop_reason(9, now).unwrap().matches("other programs").count(), 0);
        // A reason of another kind begins anew.
        let mut streak = Streak::default();
        for cell in ["a", "b", "c"] {
            streak.invalid(cell, &late(3), now);
        }
        streak.invalid("d", &[busy(1.0)], now);
        assert_eq!(streak.stop_reason(9, now), None);
    }

    #[test]
    fn one_cell_alone_stops_no_plan_of_several() {
        let (mut streak, now) = (Streak::default(), Instant::now());
        (0..5).for_each(|_| streak.invalid("a", &late(3), now));
        assert_eq!(streak.stop_reason(2, now), None);
        assert!(streak.stop_reason(1, now).is_some());
        streak.invalid("b", &late(3), now);
        assert!(streak.stop_reason(2, now).is_some());
    }

    #[test]
    fn a_run_that_has_figures_waits_for_some_minutes() {
        let (mut streak, now) = (Streak::default(), Instant::now());
        streak.valid();
        for cell in ["a", "b", "c", "d", "e"] {
            streak.invalid(cell, &late(3), now);
        }
        assert_eq!(streak.stop_reason(33, now + Duration::from_secs(200)), None);
        assert!(streak.stop_reason(33, now + PATIENCE).is_some());
        streak.valid();
        assert_eq!(streak.stop_reason(33, now + PATIENCE), None);
    }
}
