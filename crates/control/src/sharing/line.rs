//! A line that some senders share: what it carries, when it is shared, and what each may send.
//!
//! While any of them shows a queue, what they carry together is the line, and each may have its part of it by weight
//! (`parts.rs`). Whose own path has shown no queue of late is on a line with room, its own or one that all share, and may grow
//! even beyond its part. Who cannot be counted yet has no part for this round trip, and takes none from the others. Those who
//! know the line keep it full without a queue: so it is shared as well while somebody has come to others and has little, and
//! for a while after that. Whether they are on one line is not known here (`bottleneck.rs`).

use core::time::Duration;

use event::Instant;

use crate::measure::max_filter::MaxFilter;
use crate::sharing::parts::{Counted, counted, of_counted, parts, sum};
use crate::sharing::share::{Claim, queue_lasts};

/// Time slots of which the sum is remembered.
const SLOT: Duration = Duration::from_millis(250);
const SLOTS: usize = 8;
/// Who uses less than one in so many of its part has little, and there may be a newcomer.
const LITTLE_SHARE: u64 = 2;

/// See the file's beginning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    carried: MaxFilter<SLOTS>,
    slot_ends: Instant,
    shared_until: Instant,
}

impl Line {
    /// Takes what the senders claim at `now`; what each may send at most, in the same order. `None` for all while
    /// there is nothing to share.
    pub(crate) fn share(&mut self, now: Instant, claims: &[Claim]) -> Vec<Option<u64>> {
        if now >= self.slot_ends {
            // All may have rested for some.
            let over = 1 + now.since(self.slot_ends).as_nanos() / SLOT.as_nanos();
            (0..over.min(SLOTS as u128)).for_each(|_| self.carried.advance());
            self.slot_ends = now + SLOT;
        }
        let counted = counted(claims, |_| true);
        self.carried.add(sum(&counted));
        let carried = self.carried.max();
        let has_newcomer = has_newcomer(carried, claims, &counted);
        let is_reason = |claim: &&Claim| claim.has_queue || has_newcomer;
        if let Some(rtt) = claims.iter().filter(is_reason).map(|claim| claim.rtt).max() {
            self.shared_until = self.shared_until.max(now + queue_lasts(rtt));
        }
        if counted.len() < 2 || now >= self.shared_until || carried == 0 {
            return vec![None; claims.len()];
        }
        let parts = parts(carried, &counted, Counted::left_of_line);
        of_counted(
            claims,
            |_| true,
            parts.into_iter().zip(&counted).map(|(part, sender)| sender.of_line(part)),
        )
    }
}

/// Whether an owner has little of its part as yet. Those that have been there keep the line full without a queue, so that
/// nothing else says that it is; and where it is not, who sees no queue may grow all the same. Devices that take packets one by one show
/// what they have room for.
fn has_newcomer(line: u64, claims: &[Claim], counted: &[Counted]) -> bool {
    if claims.iter().any(|claim| claim.handed.is_some()) {
        return false;
    }
    let weights: u64 = counted.iter().map(|sender| sender.weight).sum();
    let has_little = |senders: &[Counted]| {
        let weight: u64 = senders.iter().map(|sender| sender.weight).sum();
        let is_alone = senders.len() == counted.len();
        !is_alone
            && u128::from(sum(senders)) * u128::from(LITTLE_SHARE * weights)
                < u128::from(line) * u128::from(weight)
    };
    let mut by_owner = counted.to_vec();
    by_owner.sort_unstable_by_key(|sender| sender.owner);
    by_owner.chunk_by(|one, next| one.owner == next.owner).any(has_little)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bulk::cap::PACED_MIN;
    use crate::sharing::share::Handed;
    use crate::testing::{LINE, RTT, claim};

    /// Senders that share it: each sends what its own window lets it and no more than its part; a line that has too much
    /// gives to each by what it sends.
    struct Path {
        sharing: Line,
        now: Instant,
        /// Weight, window as a rate, delivered.
        senders: Vec<(u32, u64, u64)>,
    }

    impl Path {
        fn round(&mut self) {
            self.now += RTT;
            let claims: Vec<Claim> =
                self.senders.iter().map(|(weight, _, rate)| claim(*weight, *rate)).collect();
            let parts = self.sharing.share(self.now, &claims);
            let sent: Vec<u64> = self
                .senders
                .iter()
                .zip(parts)
                .map(|((_, window, _), part)| part.unwrap_or(u64::MAX).min(*window))
                .collect();
            let all: u64 = sent.iter().sum();
            for ((_, window, rate), sent) in self.senders.iter_mut().zip(sent) {
                *rate = (u128::from(sent) * u128::from(LINE.min(all)) / u128::from(all.max(1))) as u64;
                // The window doubles while it is used.
                if sent == *window {
                    *window = (2 * *window).min(4 * LINE);
                }
            }
        }
    }

    fn share_of(rates: &[(u32, u64, u64)], n: usize) -> f64 {
        let weights: u32 = rates.iter().map(|sender| sender.0).sum();
        rates[n].2 as f64 / (LINE as f64 * f64::from(rates[n].0) / f64::from(weights))
    }

    #[test]
    fn a_newcomer_has_its_share_after_twenty_round_trips() {
        for (others, weight) in [(1, 1), (3, 1), (7, 1), (3, 2)] {
            let mut path = Path { sharing: Line::default(), now: Instant::ZERO, senders: Vec::new() };
            path.senders.extend((0..others).map(|_| (1, LINE, LINE / others as u64)));
            (0..50).for_each(|_| path.round());
            path.senders.push((weight, 900_000, 900_000));
            (0..20).for_each(|_| path.round());
            for n in 0..path.senders.len() {
                let share = share_of(&path.senders, n);
                assert!(
                    (0.9..=1.1).contains(&share),
                    "{others} and one of weight {weight}: {:?}",
                    path.senders
                );
            }
            let all: u64 = path.senders.iter().map(|sender| sender.2).sum();
            assert!(all > LINE / 100 * 97, "the line stays full: {all}");
        }
    }

    #[test]
    fn who_comes_to_others_has_a_part_although_nobody_sees_a_queue() {
        let quiet = |owner, rate| Claim { owner, has_queue: false, had_queue: false, ..claim(1, rate) };
        let share = |claims: &[Claim]| Line::default().share(Instant::ZERO, claims);
        let parts = share(&[quiet(0, LINE), quiet(1, LINE / 100)]);
        assert!(parts[0] >= Some(LINE) && parts[1] >= Some(LINE / 2), "nobody is held back: {parts:?}");
        assert_eq!(share(&[quiet(0, LINE / 3), quiet(1, LINE / 4)]), [None, None], "both have been there");
        let mut sharing = Line::default();
        for rate in [LINE, LINE / 10] {
            let parts = sharing.share(Instant::ZERO, &[quiet(0, rate), quiet(0, 0)]);
            assert_eq!(parts, [None, None], "they are one's own");
        }
        let three = [quiet(0, LINE), quiet(1, LINE), quiet(0, 0)];
        for [a, b, c] in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            assert_eq!(share(&[three[a], three[b], three[c]]), [None; 3], "one of them has it");
        }
        assert_eq!(share(&[quiet(0, LINE)]), [None]);
        let handed = Some(Handed { is_refused: false });
        let behind_ring = Claim { handed, ..quiet(1, LINE / 100) };
        assert_eq!(share(&[quiet(0, LINE), behind_ring]), [None, None], "its device is shared");
    }

    #[test]
    fn a_fast_newcomer_is_not_held_down_by_a_slow_queue() {
        let (slow, fast) = (10_000_000, 1_000_000_000);
        let (mut sharing, mut now, mut rate) = (Line::default(), Instant::ZERO, 1 << 20);
        for _ in 0..20 {
            now += RTT;
            let newcomer = Claim { has_queue: false, had_queue: false, ..claim(1, rate) };
            let grants = sharing.share(now, &[claim(1, slow), newcomer]);
            assert!(grants[0] >= Some(slow / 10 * 7), "it gives way for a moment at most: {grants:?}");
            rate = grants[1].unwrap_or(2 * rate).min(fast);
        }
        assert_eq!(rate, fast, "its window doubled all the way");
        let newcomer = Claim { has_queue: false, had_queue: false, ..claim(1, rate) };
        assert!(sharing.share(now, &[claim(1, slow), newcomer])[0] >= Some(slow));
    }

    #[test]
    fn what_cannot_be_counted_is_not_shared_and_nobody_is_granted_nothing() {
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let mut sharing = Line::default();
        let fresh = Claim { rate_bytes_per_s: None, ..claim(1, 0) };
        assert_eq!(sharing.share(at(0), &[claim(1, 0), claim(1, 0)]), [None, None]);
        assert_eq!(sharing.share(at(1), &[claim(1, LINE), fresh]), [None, None]);
        assert!(
            Line::default()
                .share(at(2), &[claim(1, 1), claim(1, 1)])
                .iter()
                .all(|part| *part >= Some(PACED_MIN))
        );
    }

    #[test]
    fn one_that_has_just_come_or_has_stalled_does_not_lift_what_the_others_have() {
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let mut sharing = Line::default();
        let half = claim(1, LINE / 2);
        let two = sharing.share(at(0), &[half, half]);
        assert!(two.iter().all(|part| part.is_some_and(|part| part < LINE * 53 / 100)), "{two:?}");
        let fresh = Claim { rate_bytes_per_s: None, has_queue: false, had_queue: false, ..half };
        assert_eq!(sharing.share(at(10), &[half, fresh, half]), [two[0], None, two[1]]);
        // A timeout: it takes nothing, and has its part when it comes back.
        let three = sharing.share(at(20), &[half, claim(1, 0), half]);
        let (rest, part) = (LINE / 2, LINE / 3);
        let percent = |part: u64, of: u64| part * 100 / of;
        let of: Vec<u64> =
            [rest, part, rest].iter().zip(&three).map(|(of, got)| percent(got.unwrap(), *of)).collect();
        assert!(of.iter().all(|percent| (103..=104).contains(percent)), "{three:?}");
    }

    #[test]
    fn a_newcomer_that_has_its_part_has_it_for_a_while() {
        let mut sharing = Line::default();
        let mut is_shared = |ms, rate| {
            let quiet = |owner, rate| Claim { owner, has_queue: false, had_queue: false, ..claim(1, rate) };
            let claims = [quiet(0, LINE - rate), quiet(1, rate)];
            sharing.share(Instant::ZERO + Duration::from_millis(ms), &claims)[0].is_some()
        };
        assert!(!is_shared(0, LINE / 2) && is_shared(10, LINE / 10));
        assert!(is_shared(2_000, LINE / 2) && !is_shared(2_010, LINE / 2));
    }

    #[test]
    fn a_queue_counts_for_longer_on_a_longer_path() {
        for (rtt_ms, until_ms) in [(16, 2_000), (500, 4_000)] {
            let mut sharing = Line::default();
            let busy =
                |has_queue| Claim { rtt: Duration::from_millis(rtt_ms), has_queue, ..claim(1, LINE / 2) };
            let mut is_shared = |ms| {
                let two = [busy(ms == 0); 2];
                sharing.share(Instant::ZERO + Duration::from_millis(ms), &two)[0].is_some()
            };
            let shared: Vec<u64> = (0..=5_000).step_by(100).filter(|ms| is_shared(*ms)).collect();
            assert_eq!((shared[0], shared.last()), (0, Some(&(until_ms - 100))), "{rtt_ms}");
        }
    }

    #[test]
    fn many_who_send_little_leave_the_line_to_one_who_sends_a_lot() {
        let mut claims = vec![claim(1, 10_000); 400];
        claims.push(claim(1, LINE));
        let granted = Line::default().share(Instant::ZERO, &claims)[400].unwrap();
        assert!(granted > LINE * 9 / 10, "{granted}");
    }
    #[test]
    fn alone_or_without_a_queue_there_is_nothing_to_share() {
        let mut sharing = Line::default();
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        assert_eq!(sharing.share(at(0), &[claim(1, LINE)]), [None]);
        let quiet = Claim { has_queue: false, ..claim(1, LINE / 2) };
        assert_eq!(sharing.share(at(3000), &[quiet, quiet]), [None, None]);
        assert!(sharing.share(at(3010), &[quiet, claim(1, LINE / 2)]).iter().all(Option::is_some));
        assert!(sharing.share(at(4000), &[quiet, quiet]).iter().all(Option::is_some), "for a while");
        assert_eq!(sharing.share(at(9000), &[quiet, quiet]), [None, None]);
        assert_eq!(sharing.share(at(9001), &[]), []);
    }
}
