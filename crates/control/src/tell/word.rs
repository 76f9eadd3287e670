//! When the initiator at the other end of a connection is told something, and which of two things comes first: the window
//! that the connection sends with, or the initiator's part of a line. A part is told when it changes, again before it
//! lapses, and not often; a window whenever there is something new of it (`monitor.rs`).
//!
//! Both share the time of the next word, so that there are ten a second and one in a round trip at most; where both wait
//! they take turns. What waits is replaced by what is newer.

use core::time::Duration;

use event::{Granted, Instant, WindowNotice};

/// Least time between two words, which is never less than a round trip.
const GAP_MIN: Duration = Duration::from_millis(100);
/// A part is told at most so often.
const PAUSE: Duration = Duration::from_millis(250);
/// It is told again after so long.
const AGAIN: Duration = Duration::from_millis(750);
/// A change of one in so many is none.
const CHANGE_SHARE: u64 = 32;
/// A part that was not told again for so long, and for so many round trips, is no longer in force: those that take turns with
/// windows come every second round trip.
const PART_LASTS: Duration = Duration::from_secs(2);
const PART_ROUNDS: u32 = 4;

/// How long a part is in force that was told over a path of this round trip, unless it is told again.
pub fn part_lasts(rtt: Duration) -> Duration {
    PART_LASTS.max(PART_ROUNDS * rtt)
}

/// What is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// The window that the connection sends with.
    Window(WindowNotice),
    /// The initiator's part of the line in bytes per second; everything if `None`.
    Part(Option<u64>),
}

/// What the initiator of one connection was told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Words {
    /// The last part.
    part: Option<(Instant, Option<u64>)>,
    /// A window that waits.
    window: Option<WindowNotice>,
    was_window: bool,
    next_at: Instant,
}

impl Words {
    /// What is to be said at `now` to an initiator so far away: there is something new of the window, or nothing; and
    /// `part` is its part.
    pub fn say(
        &mut self,
        now: Instant,
        rtt: Duration,
        window: Option<WindowNotice>,
        part: Granted,
    ) -> Option<Word> {
        self.window = window.or(self.window);
        if now < self.next_at {
            return None;
        }
        let part = self.due(now, part);
        let word = match self.window {
            Some(notice) if part.is_none() || !self.was_window => Word::Window(notice),
            _ => Word::Part(part?),
        };
        match word {
            Word::Window(_) => self.window = None,
            Word::Part(part) => self.part = Some((now, part)),
        }
        self.was_window = matches!(word, Word::Window(_));
        self.next_at = now + rtt.max(GAP_MIN);
        Some(word)
    }

    /// The part, if it is to be told.
    fn due(&self, now: Instant, part: Granted) -> Option<Option<u64>> {
        let part = match part {
            Granted::Unsaid => return None,
            Granted::All => None,
            Granted::Part(bytes_per_s) => Some(bytes_per_s),
        };
        let Some((at, told)) = self.part else {
            // Who was never told of a part has everything.
            return part.map(Some);
        };
        let age = now.since(at);
        let is_due = match (told, part) {
            (None, None) => false,
            (Some(told), Some(part)) => told.abs_diff(part) > told / CHANGE_SHARE || age >= AGAIN,
            (None, Some(_)) | (Some(_), None) => true,
        };
        (is_due && age >= PAUSE).then_some(part)
    }
}

#[cfg(test)]
mod tests {
    use event::WindowKind;

    use super::*;

    const RTT: Duration = Duration::from_millis(16);
    const NOTICE: WindowNotice =
        WindowNotice { kind: WindowKind::CutByLoss, cwnd_packets: 100, mss_bytes: 1448 };

    /// What is said, looked at every 20 ms.
    fn said(
        windows: impl Fn(u64) -> Option<WindowNotice>,
        parts: impl Fn(u64) -> Granted,
        rtt: Duration,
        ms: u64,
    ) -> Vec<(u64, Word)> {
        let mut words = Words::default();
        let mut say = |ms| words.say(Instant::ZERO + Duration::from_millis(ms), rtt, windows(ms), parts(ms));
        (0..ms).step_by(20).filter_map(|ms| Some((ms, say(ms)?))).collect()
    }

    fn parts_said(parts: impl Fn(u64) -> Granted, rtt: Duration, ms: u64) -> Vec<(u64, Word)> {
        said(|_| None, parts, rtt, ms)
    }

    #[test]
    fn who_has_everything_is_told_nothing() {
        assert_eq!(parts_said(|_| Granted::All, RTT, 5_000), []);
        assert_eq!(parts_said(|_| Granted::Unsaid, RTT, 5_000), []);
    }

    #[test]
    fn a_part_is_told_at_once_and_again_before_it_lapses() {
        let said = parts_said(|_| Granted::Part(6_000_000), RTT, 3_000);
        assert_eq!(said[0], (0, Word::Part(Some(6_000_000))));
        assert!(
            said.windows(2).all(|two| two[1].0 - two[0].0 < part_lasts(RTT).as_millis() as u64 / 2),
            "{said:?}"
        );
        assert!(said.len() <= 5, "{said:?}");
    }

    #[test]
    fn a_change_is_told_soon_and_noise_is_not() {
        let noisy = parts_said(|ms| Granted::Part(6_000_000 + ms % 7 * 10_000), RTT, 3_000);
        assert!(noisy.len() <= 5, "{noisy:?}");
        let halved = |ms| Granted::Part(if ms < 400 { 6_000_000 } else { 3_000_000 });
        let changed = parts_said(halved, RTT, 700);
        assert_eq!(changed, [(0, Word::Part(Some(6_000_000))), (400, Word::Part(Some(3_000_000)))]);
        let restless = |ms| Granted::Part(1_000_000 * (1 + ms / 20 % 9));
        let near = parts_said(restless, RTT, 10_000);
        assert!(near.len() <= 40, "four a second: {}", near.len());
        let far = parts_said(restless, Duration::from_secs(1), 10_000);
        assert!(far.len() <= 10, "one a round trip: {}", far.len());
    }

    #[test]
    fn the_end_of_sharing_is_told_once() {
        let ends = |ms| if ms < 500 { Granted::Part(6_000_000) } else { Granted::All };
        let said = parts_said(ends, RTT, 3_000);
        assert_eq!(said, [(0, Word::Part(Some(6_000_000))), (500, Word::Part(None))]);
    }

    #[test]
    fn both_kinds_together_keep_to_ten_a_second_and_one_a_round_trip() {
        for (rtt_ms, most) in [(16, 100), (250, 40), (400, 25), (1200, 9)] {
            let rtt = Duration::from_millis(rtt_ms);
            let restless = |ms| Granted::Part(1_000_000 * (1 + ms / 20 % 9));
            let said = said(|_| Some(NOTICE), restless, rtt, 10_000);
            let gap = rtt.max(GAP_MIN).as_millis() as u64;
            assert!(said.windows(2).all(|two| two[1].0 - two[0].0 >= gap), "{said:?}");
            assert!((most * 9 / 10..=most).contains(&said.len()), "{} in {rtt:?}", said.len());
            // Neither keeps the other from being told.
            let is_window = |said: &&(u64, Word)| matches!(said.1, Word::Window(_));
            let windows = said.iter().filter(is_window).count();
            let parts: Vec<u64> = said.iter().filter(|said| !is_window(said)).map(|said| said.0).collect();
            assert!(windows >= said.len() / 2, "{windows} of {}", said.len());
            let lapses = part_lasts(rtt).as_millis() as u64;
            assert!(parts.windows(2).all(|two| two[1] - two[0] < lapses), "{parts:?}");
        }
    }

    #[test]
    fn a_window_that_has_to_wait_is_replaced_by_a_newer_one() {
        let newer = WindowNotice { cwnd_packets: 50, ..NOTICE };
        let windows = |ms| match ms {
            0 | 20 => Some(NOTICE),
            60 => Some(newer),
            _ => None,
        };
        let said = said(windows, |_| Granted::Unsaid, RTT, 1_000);
        assert_eq!(said, [(0, Word::Window(NOTICE)), (100, Word::Window(newer))]);
    }
}
