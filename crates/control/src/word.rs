//! When a sender at the other end is told its part of a line: when it changes, again before it lapses, and not often.

use core::time::Duration;

use event::{Granted, Instant};

/// A part is told at most so often, and never twice in a round trip.
const PAUSE: Duration = Duration::from_millis(250);
/// It is told again after so long.
const AGAIN: Duration = Duration::from_millis(750);
/// A change of one in so many is none.
const CHANGE_SHARE: u64 = 32;
/// A part that was not told again for so long is no longer in force.
pub const PART_LASTS: Duration = Duration::from_secs(2);

/// What one sender was told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Word {
    last: Option<(Instant, Option<u64>)>,
}

impl Word {
    /// What is to be said at `now` to a sender so far away of which `part` is the part; everything if `None`.
    pub fn say(&mut self, now: Instant, rtt: Duration, part: Option<u64>) -> Granted {
        let (at, told) = match self.last {
            None if part.is_none() => return Granted::Unsaid,
            None => (None, None),
            Some((at, told)) => (Some(at), told),
        };
        let age = at.map_or(Duration::MAX, |at| now.since(at));
        let is_due = match (told, part) {
            (None, None) => false,
            (Some(told), Some(part)) => told.abs_diff(part) > told / CHANGE_SHARE || age >= AGAIN,
            (None, Some(_)) | (Some(_), None) => true,
        };
        if !is_due || age < PAUSE.max(rtt) {
            return Granted::Unsaid;
        }
        self.last = Some((now, part));
        part.map_or(Granted::All, Granted::Part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(16);

    fn said(parts: impl Fn(u64) -> Option<u64>, rtt: Duration, ms: u64) -> Vec<(u64, Granted)> {
        let mut word = Word::default();
        let looks = (0..ms).step_by(20);
        let said = looks.map(|ms| (ms, word.say(Instant::ZERO + Duration::from_millis(ms), rtt, parts(ms))));
        said.filter(|(_, said)| *said != Granted::Unsaid).collect()
    }

    #[test]
    fn who_has_everything_is_told_nothing() {
        assert_eq!(said(|_| None, RTT, 5_000), []);
    }

    #[test]
    fn a_part_is_told_at_once_and_again_before_it_lapses() {
        let said = said(|_| Some(6_000_000), RTT, 3_000);
        assert_eq!(said[0], (0, Granted::Part(6_000_000)));
        assert!(
            said.windows(2).all(|two| two[1].0 - two[0].0 < PART_LASTS.as_millis() as u64 / 2),
            "{said:?}"
        );
        assert!(said.len() <= 5, "{said:?}");
    }

    #[test]
    fn a_change_is_told_soon_and_noise_is_not() {
        let noisy = said(|ms| Some(6_000_000 + ms % 7 * 10_000), RTT, 3_000);
        assert!(noisy.len() <= 5, "{noisy:?}");
        let changed = said(|ms| Some(if ms < 400 { 6_000_000 } else { 3_000_000 }), RTT, 700);
        assert_eq!(changed, [(0, Granted::Part(6_000_000)), (400, Granted::Part(3_000_000))]);
        let restless = said(|ms| Some(1_000_000 * (1 + ms / 20 % 9)), RTT, 10_000);
        assert!(restless.len() <= 40, "four a second: {}", restless.len());
        let far = said(|ms| Some(1_000_000 * (1 + ms / 20 % 9)), Duration::from_secs(1), 10_000);
        assert!(far.len() <= 10, "one a round trip: {}", far.len());
    }

    #[test]
    fn the_end_of_sharing_is_told_once() {
        let said = said(|ms| (ms < 500).then_some(6_000_000), RTT, 3_000);
        assert_eq!(said, [(0, Granted::Part(6_000_000)), (500, Granted::All)]);
    }
}
