//! A probe of the machine: the share of processor time that this virtual machine, or other programs, took from a busy
//! thread.
//!
//! Checks of the emulated path decide only on a machine that keeps time. On one that the probe finds quiet they have to
//! decide; on a busy one the run says how many did not.

use std::sync::mpsc;
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

/// Length of one reading.
const READING: Duration = Duration::from_secs(1);
/// A gap between two clock readings above this is time of another program. Timer interrupts take some µs.
const GAP: Duration = Duration::from_micros(100);
/// Largest share of time taken by other programs on a quiet machine.
const LOST_MAX: f64 = 0.02;

/// Readings of a run.
#[derive(Default)]
pub(super) struct Probe {
    /// Shares of time that were lost, 0 to 1.
    lost: Vec<f64>,
}

impl Probe {
    /// Takes one reading: a busy thread for each processor, for a second.
    pub(super) fn read(&mut self) {
        let (sender, shares) = mpsc::channel();
        let threads = available_parallelism().map_or(1, usize::from);
        for _ in 0..threads {
            let sender = sender.clone();
            thread::spawn(move || {
                sender.send(lost_share(READING)).expect("the shares are read to their end");
            });
        }
        drop(sender);
        self.lost.push(shares.iter().fold(0.0, f64::max));
    }

    /// All readings found the processors free.
    pub(super) fn is_quiet(&self) -> bool {
        self.lost.iter().all(|lost| *lost <= LOST_MAX)
    }

    /// The readings in words.
    pub(super) fn text(&self) -> String {
        let readings: Vec<String> = self.lost.iter().map(|lost| format!("{:.1} %", lost * 100.0)).collect();
        let state = if self.is_quiet() { "quiet" } else { "busy" };
        format!("the machine was {state}: a busy thread lost {} of its time", readings.join(", "))
    }
}

/// Share of the time that a thread which never waits was not running.
fn lost_share(length: Duration) -> f64 {
    let began = Instant::now();
    let (mut last, mut lost) = (began, Duration::ZERO);
    while last.duration_since(began) < length {
        let now = Instant::now();
        let gap = now.duration_since(last);
        if gap > GAP {
            lost += gap;
        }
        last = now;
    }
    lost.as_secs_f64() / last.duration_since(began).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_time_lies_between_none_and_all() {
        let share = lost_share(Duration::from_millis(5));
        assert!((0.0..=1.0).contains(&share), "{share}");
    }

    #[test]
    fn one_busy_reading_makes_a_busy_machine() {
        let probe = Probe { lost: vec![0.001, 0.3] };
        assert!(!probe.is_quiet());
        assert_eq!(probe.text(), "the machine was busy: a busy thread lost 0.1 %, 30.0 % of its time");
        assert!(Probe { lost: vec![0.001, 0.02] }.is_quiet());
    }
}
