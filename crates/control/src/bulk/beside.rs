//! What the line carries, from what slowing down does to the round trip while others keep its queue filled.
//!
//! What the others have under way stays as it is for the second in which we have less. So the queue becomes shorter by
//! just that much, and the round trip by the time that the line needs for it: by how many bytes we have less, over by
//! how much it is shorter, is the line. Others who are cut meanwhile make it look slower, those who grow faster; so it
//! takes two times, and the middle one of three.

use core::time::Duration;

/// How much a new value counts in a mean: what is under way goes out in bursts.
const MEAN_SHARE: f64 = 1.0 / 8.0;
/// Less than these parts of a round trip and of a window are noise.
const RTT_SHARE: f64 = 1.0 / 32.0;
const WINDOW_SHARE: f64 = 1.0 / 16.0;
/// So many times count, and fewer than so many tell nothing.
const TIMES: usize = 3;
const LEAST_TIMES: usize = 2;

/// See the file's beginning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beside {
    now: Option<Flight>,
    /// When it began to slow down.
    before: Option<Flight>,
    /// What each time told, the last one at the end, in bytes per second.
    told: [Option<u64>; TIMES],
}

/// Means of what is under way, and of how long it is.
#[derive(Clone, Copy, Debug)]
struct Flight {
    bytes: f64,
    rtt_s: f64,
}

impl Beside {
    /// Takes what is under way.
    pub(crate) fn observe(&mut self, bytes: u64, rtt: Duration) {
        let seen = Flight { bytes: bytes as f64, rtt_s: rtt.as_secs_f64() };
        let before = self.now.unwrap_or(seen);
        let mean = |was: f64, is: f64| was + (is - was) * MEAN_SHARE;
        self.now =
            Some(Flight { bytes: mean(before.bytes, seen.bytes), rtt_s: mean(before.rtt_s, seen.rtt_s) });
    }

    /// It slows down from now on.
    pub(crate) fn begin(&mut self) {
        self.before = self.now;
    }

    /// Whether it is slow to see what that does.
    pub(crate) fn is_slow(&self) -> bool {
        self.before.is_some()
    }

    /// It has been slow for long enough, or the queue has gone by that. Nothing if it was not slow.
    pub(crate) fn end(&mut self) {
        let (Some(before), Some(now)) = (self.before.take(), self.now) else { return };
        let (less_bytes, shorter_s) = (before.bytes - now.bytes, before.rtt_s - now.rtt_s);
        let is_clear = less_bytes > before.bytes * WINDOW_SHARE && shorter_s > before.rtt_s * RTT_SHARE;
        self.told.rotate_left(1);
        self.told[TIMES - 1] = is_clear.then(|| (less_bytes / shorter_s) as u64);
    }

    /// Something else than slowing down has changed what is under way.
    pub(crate) fn give_up(&mut self) {
        self.before = None;
    }

    /// What the line carries; `None` as long as that is not known.
    pub(crate) fn line_bytes_per_s(&self) -> Option<u64> {
        let mut told = self.told;
        told.sort_unstable();
        // Those that told nothing come first. The middle one, or the faster one of two.
        let known = told.iter().flatten().count();
        told.get(TIMES - known + known / 2).copied().flatten().filter(|_| known >= LEAST_TIMES)
    }

    /// The others have gone.
    pub(crate) fn forget(&mut self) {
        (self.before, self.told) = (None, [None; TIMES]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: f64 = 100e6;
    const OTHERS: f64 = 1e6;

    /// So many bytes under way beside the others', for a second.
    fn flies(beside: &mut Beside, bytes: f64) {
        let rtt = Duration::from_secs_f64((bytes + OTHERS) / LINE);
        (0..50).for_each(|_| beside.observe(bytes as u64, rtt));
    }

    fn look(beside: &mut Beside, from: f64, to: f64) {
        flies(beside, from);
        beside.begin();
        flies(beside, to);
        beside.end();
    }

    #[test]
    fn the_line_is_what_slowing_down_takes_off_the_round_trip() {
        let mut beside = Beside::default();
        look(&mut beside, 1.5e6, 1.0e6);
        assert_eq!(beside.line_bytes_per_s(), None, "once is nothing");
        look(&mut beside, 1.2e6, 0.9e6);
        let line = beside.line_bytes_per_s().expect("a line") as f64;
        assert!((line / LINE - 1.0).abs() < 0.01, "{line}");
        beside.forget();
        assert_eq!(beside.line_bytes_per_s(), None);
    }

    #[test]
    fn what_is_small_tells_nothing() {
        let mut beside = Beside::default();
        for (from, to) in [(1.5e6, 1.45e6), (30e3, 20e3)] {
            look(&mut beside, from, to);
            look(&mut beside, from, to);
            assert_eq!(
                beside.line_bytes_per_s(),
                None,
                "it is hardly less, or the round trip hardly shorter"
            );
        }
        (0..3).for_each(|_| look(&mut beside, 1.5e6, 1.0e6));
        assert!(beside.line_bytes_per_s().is_some());
        (0..2).for_each(|_| look(&mut beside, 30e3, 20e3));
        assert_eq!(beside.line_bytes_per_s(), None, "what was known is of long ago");
    }

    #[test]
    fn one_time_in_which_others_are_cut_or_grow_does_not_count() {
        let mut beside = Beside::default();
        for odd_rtt_ms in [10, 22] {
            look(&mut beside, 1.5e6, 1.0e6);
            flies(&mut beside, 1.5e6);
            beside.begin();
            (0..50).for_each(|_| beside.observe(1_000_000, Duration::from_millis(odd_rtt_ms)));
            beside.end();
            look(&mut beside, 1.5e6, 1.0e6);
            let line = beside.line_bytes_per_s().expect("a line") as f64;
            assert!((line / LINE - 1.0).abs() < 0.01, "{line}");
        }
    }
}
