//! What lone senders whose bursts meet show of the device that takes packets one by one.
//!
//! One alone fills no ring, and several do when it refuses something. For a while after that they go as fast as the fastest of
//! them does, one after the other, until their trains show what the line carries; with that the ring begins (`ring.rs`). How
//! much more it takes cannot be seen by what arrives alone, since lone senders have pauses; but as long as one of them waits
//! there is none, and what trains show is as good. That is what arrives of all, where each has a slower line of its own.

use core::time::Duration;

use event::Instant;

use crate::lone::crowd::Arrived;
use crate::measure::counter::Counter;
use crate::sharing::ring::{Ring, Seen};

/// A lone sender whose bursts are handed to a device that takes packets one by one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Met {
    /// What the line carries, as its trains show it, if they do.
    pub line_bytes_per_s: Option<u64>,
    /// The last of its trains.
    pub last: Option<Arrived>,
    /// How fast it hands over a burst.
    pub burst_bytes_per_s: u64,
    /// What has arrived of it in all.
    pub arrived_bytes: u64,
    /// The round trip of its path.
    pub rtt: Duration,
    /// The device has refused some of it since the last look.
    pub is_refused: bool,
}

/// What a device has refused to several lone senders counts for so long.
const REFUSED_LASTS: Duration = Duration::from_secs(2);
/// What arrives of all of them is counted over so many round trips.
const COUNT_ROUNDS: u32 = 4;
/// A train that arrives at less than this part of what the ring is taken for, in percent, shows that it takes less.
const SLOWER_PERCENT: u64 = 97;

/// See the file's beginning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meeting {
    refused_until: Instant,
    fastest_bytes_per_s: Option<u64>,
    /// Which ones, and what arrives of all.
    members: Vec<usize>,
    counter: Counter,
    all_bytes_per_s: Option<u64>,
}

impl Meeting {
    /// Takes what they show at `now`, and tells `ring`; `has_waited` if their bucket kept one of them waiting since the last
    /// look.
    pub(crate) fn observe(&mut self, ring: &mut Ring, now: Instant, met: &[(usize, Met)], has_waited: bool) {
        self.fastest_bytes_per_s = None;
        let rtt = met.iter().map(|(_, met)| met.rtt).max().unwrap_or_default();
        self.count(now, rtt, met);
        if met.len() < 2 {
            return;
        }
        let has_refused = met.iter().any(|(_, met)| met.is_refused);
        if has_refused {
            self.refused_until = now + REFUSED_LASTS;
        }
        if now >= self.refused_until && ring.bytes_per_s().is_none() {
            return;
        }
        self.fastest_bytes_per_s = met.iter().map(|(_, met)| met.burst_bytes_per_s).max();
        let Some(taken) = ring.bytes_per_s() else {
            if let Some(line) = shown(met) {
                ring.begin(now, rtt, line);
            }
            return;
        };
        let all = shown(met).into_iter().chain(self.all_bytes_per_s).max().unwrap_or(0).min(taken);
        // It is too much if most trains were slower than that and so is all that arrives.
        let less = taken / 100 * SLOWER_PERCENT;
        let is_slower = |last: Arrived| last.is_line && last.bytes_per_s < less;
        let slower = met.iter().filter(|(_, met)| met.last.is_some_and(is_slower)).count();
        let is_too_much = all < less && 2 * slower > met.len();
        // What all of them send has pauses in which nobody asks for anything. While somebody waits it has none, and what
        // arrives shows whether more can be tried.
        let mut seen = Seen { now, arrived_bytes_per_s: 0, rtt, waits: Duration::ZERO, has_refused: false };
        match (has_refused, is_too_much) {
            (true, true) => (seen.arrived_bytes_per_s, seen.has_refused) = (all, true),
            (true, false) => ring.was_full_for_a_moment(now, rtt),
            // A long ring is not full for a long time.
            (false, true) if has_waited && now >= self.refused_until => ring.was_too_much(now, rtt, all),
            (false, _) if has_waited => seen.arrived_bytes_per_s = all,
            (false, _) => {}
        }
        ring.observe(&seen);
    }

    fn count(&mut self, now: Instant, rtt: Duration, met: &[(usize, Met)]) {
        let numbers = met.iter().map(|(number, _)| *number);
        if !self.members.iter().copied().eq(numbers.clone()) {
            (self.counter, self.all_bytes_per_s) = (Counter::default(), None);
            self.members.clear();
            self.members.extend(numbers);
        }
        let all_bytes = met.iter().map(|(_, met)| met.arrived_bytes).sum();
        let rate = self.counter.rate(now, all_bytes, COUNT_ROUNDS * rtt);
        self.all_bytes_per_s = rate.or(self.all_bytes_per_s);
    }

    /// What they may hand over together as long as nothing is known of the ring that has refused something.
    pub(crate) fn fastest_bytes_per_s(&self) -> Option<u64> {
        self.fastest_bytes_per_s
    }
}

/// What the trains of lone senders show of the line: the second fastest of the last ones, since a single one may be faster for
/// the way in which its acknowledgements came, or what is typical of one of them.
fn shown(met: &[(usize, Met)]) -> Option<u64> {
    let mut last: Vec<u64> =
        met.iter().filter_map(|(_, met)| met.last).map(|last| last.bytes_per_s).collect();
    last.sort_unstable_by(|one, other| other.cmp(one));
    let typical = met.iter().filter_map(|(_, met)| met.line_bytes_per_s).max()?;
    Some(last.get(1).map_or(typical, |second| typical.max(*second)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sharing;

    const LINE: u64 = 117_000_000;
    const RTT: Duration = Duration::from_millis(16);

    /// Lone senders of which each handed over half of the line, and what the last train of each was.
    fn met(lasts: &[(u64, bool)], is_refused: bool) -> Vec<(usize, Met)> {
        let met = |&(bytes_per_s, is_line): &(u64, bool)| Met {
            line_bytes_per_s: (bytes_per_s > 0).then_some(bytes_per_s),
            last: (bytes_per_s > 0).then_some(Arrived { trains: 1, bytes_per_s, is_line }),
            burst_bytes_per_s: LINE / 2,
            arrived_bytes: 0,
            rtt: RTT,
            is_refused,
        };
        lasts.iter().map(met).enumerate().collect()
    }

    fn taken(sharing: &Sharing) -> Option<u64> {
        sharing.ring().map(|(bytes_per_s, _)| bytes_per_s)
    }

    #[test]
    fn lone_senders_go_through_the_ring_once_it_has_refused_something_of_several() {
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let (unknown, shown) = ([(0, false); 2], [(LINE, false), (LINE / 2, false)]);
        let mut sharing = Sharing::new();
        sharing.meet(at(0), &met(&shown, false), false);
        assert_eq!(taken(&sharing), None, "nobody has refused anything");
        sharing.meet(at(2), &met(&shown[..1], true), false);
        assert_eq!(taken(&sharing), None, "one alone fills no ring");
        sharing.meet(at(4), &met(&unknown, true), false);
        assert_eq!(taken(&sharing), Some(LINE / 2), "as fast as one of them");
        sharing.meet(at(2_003), &met(&unknown, false), false);
        assert_eq!(taken(&sharing), Some(LINE / 2));
        sharing.meet(at(2_004), &met(&unknown, false), false);
        assert_eq!(taken(&sharing), None, "nobody has shown anything");
        sharing.meet(at(2_006), &met(&shown, true), false);
        assert_eq!(taken(&sharing), Some(LINE / 100 * 98));
    }

    /// A ring that has begun at such a rate, after half a second in which somebody waited and all trains were like that.
    fn after_half_a_second(begun: u64, last: (u64, bool)) -> (Sharing, Instant) {
        let mut sharing = Sharing::new();
        let mut now = Instant::ZERO;
        sharing.meet(now, &met(&[(begun, false); 3], true), false);
        for _ in 0..250 {
            now += Duration::from_millis(2);
            sharing.meet(now, &met(&[last; 3], false), true);
        }
        (sharing, now)
    }

    #[test]
    fn more_is_tried_while_trains_arrive_as_fast_and_somebody_waits() {
        let (faster, _) = after_half_a_second(LINE / 2, (LINE, false));
        assert!(taken(&faster) > Some(LINE / 10 * 9), "{:?}", taken(&faster));
        let (same, _) = after_half_a_second(LINE, (LINE / 100 * 92, true));
        assert_eq!(taken(&same), Some(LINE / 100 * 98));
        let mut sharing = Sharing::new();
        let now = |look: u64| Instant::ZERO + Duration::from_millis(2 * look);
        (0..250).for_each(|look| sharing.meet(now(look), &met(&[(LINE, false); 3], look == 0), false));
        assert_eq!(taken(&sharing), Some(LINE / 100 * 98), "nobody waits");
    }

    #[test]
    fn a_refusal_is_of_a_moment_unless_most_trains_have_been_slower() {
        let refused = |lasts: [(u64, bool); 3]| {
            let (mut sharing, now) = after_half_a_second(LINE, (LINE / 100 * 92, true));
            let before = taken(&sharing).unwrap();
            for ms in [2, 4, 70, 72] {
                sharing.meet(now + Duration::from_millis(ms), &met(&lasts, true), true);
            }
            taken(&sharing).unwrap() as f64 / before as f64
        };
        let (slow, fast) = ((LINE / 100 * 90, true), (LINE / 100 * 98, false));
        let moments = refused([slow, fast, fast]);
        assert!((0.955..0.965).contains(&moments), "{moments}: two of them");
        let too_much = refused([slow, slow, slow]);
        assert!((0.94..0.955).contains(&too_much), "{too_much}: a step, once the second has confirmed it");
    }

    #[test]
    fn one_that_comes_when_another_goes_is_not_taken_for_it() {
        let (mut meeting, mut ring) = (Meeting::default(), Ring::default());
        let mut all = met(&[(LINE, false); 2], false);
        for ms in 0..200 {
            let now = Instant::ZERO + Duration::from_millis(ms);
            if ms == 100 {
                (all[1].0, all[1].1.arrived_bytes) = (7, 1 << 40);
            }
            all.iter_mut().for_each(|(_, met)| met.arrived_bytes += LINE / 2000);
            meeting.observe(&mut ring, now, &all, false);
            let counted = meeting.all_bytes_per_s.unwrap_or(0);
            assert!(counted <= LINE, "{counted} after {ms} ms");
        }
        assert!(meeting.all_bytes_per_s.is_some());
    }

    #[test]
    fn slower_lines_of_their_own_add_up() {
        let (mut sharing, mut now, mut arrived_bytes) = (Sharing::new(), Instant::ZERO, 0);
        sharing.meet(now, &met(&[(LINE / 5, true); 4], true), false);
        for _ in 0..1500 {
            now += Duration::from_millis(2);
            let most = LINE / 5 * 4;
            let has_waited = taken(&sharing).is_some_and(|taken| taken < most);
            arrived_bytes += taken(&sharing).unwrap_or(most).min(most) / 500 / 4;
            let mut all = met(&[(LINE / 5, true); 4], false);
            all.iter_mut().for_each(|(_, met)| met.arrived_bytes = arrived_bytes);
            sharing.meet(now, &all, has_waited);
        }
        assert!(taken(&sharing) >= Some(LINE / 5 * 4), "{:?}", taken(&sharing));
    }
}
