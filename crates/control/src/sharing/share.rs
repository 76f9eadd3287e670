//! How senders that one process serves, or receives from, share a line: by weight, nobody starved, a newcomer within a
//! few round trips.
//!
//! Left to themselves, flows that are each paced at what they get keep what they have: who comes late stays small. One
//! process that serves them all knows what they carry together. While any of them shows a queue, that sum is the line,
//! and each may have its part of it by weight; what somebody does not use is shared among the others (max-min). To who uses
//! less than its part they leave twice what it does, so a newcomer doubles each round trip until it has its part, and
//! somebody whose own path is slower does not keep others from the rest. Whose own path has shown no queue of late is on
//! a line with room, its own or one that all share, and may grow in the same way even beyond its part. That is all that
//! keeps senders whose lines are different ones from holding each other down, and it is not enough where a queue shows on
//! them again and again (`docs/control.md`, "What is open"). Who cannot be counted yet has no part for this round trip, and
//! takes none from the others. Those who know the line keep it full without a queue: so it is shared as well while
//! somebody has come to others and has little, and for a while after that.
//!
//! Those whose device takes packets one by one share that as well (`ring.rs`), and have the smaller of the two parts.

use core::time::Duration;

use event::Instant;

use crate::bulk::cap::PACED_MIN;
use crate::lone::space::bulk_depth_bytes;
use crate::measure::max_filter::MaxFilter;
use crate::sharing::meeting::{Meeting, Met};
use crate::sharing::ring::{Ring, Seen};

/// One sender in bulk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Claim {
    /// Whose it is: senders of one owner do not come to each other.
    pub owner: usize,
    /// Its weight, at least 1.
    pub weight: u32,
    /// What it has delivered of late, in bytes per second and over a round trip at least; `None` if that is not counted
    /// yet.
    pub rate_bytes_per_s: Option<u64>,
    /// The round trip of its path.
    pub rtt: Duration,
    /// A queue stands on its path, or has just overflowed.
    pub has_queue: bool,
    /// That was so of late: for two seconds, and eight round trips.
    pub had_queue: bool,
    /// Its device takes packets one by one, so that the process itself hands them over at their time.
    pub handed: Option<Handed>,
}

/// How a device that takes packets one by one has taken them of late.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handed {
    /// It has refused some since the last look.
    pub is_refused: bool,
    /// By how much the round trip is longer than it has been: what waits in the ring is part of that.
    pub waits: Duration,
}

/// Time slots of which the sum is remembered.
const SLOT: Duration = Duration::from_millis(250);
const SLOTS: usize = 8;
/// A queue counts for so long, and so many round trips.
const QUEUE_LASTS: Duration = Duration::from_secs(2);
const QUEUE_ROUNDS: u32 = 8;
/// Who uses less than its part is left so many times what it does use, and may grow.
const GROWTH: u64 = 2;
/// Who uses nothing of its part of a ring begins with one of so many of it, which the others leave to it.
const FIRST_SHARE: u64 = 16;
/// Who uses less than one in so many of its part has little, and there may be a newcomer.
const LITTLE_SHARE: u64 = 2;
/// Beyond its part, so that a line that has become faster is found.
const HEADROOM_PERCENT: u64 = 104;

/// What is known of the senders together.
#[derive(Clone, Debug, Default)]
pub struct Sharing {
    line: MaxFilter<SLOTS>,
    slot_ends: Instant,
    shared_until: Instant,
    ring: Ring,
    meeting: Meeting,
}

impl Sharing {
    /// Nothing is known.
    pub fn new() -> Sharing {
        Sharing::default()
    }

    /// Takes what the senders claim at `now`; what each may send at most, in the same order. `None` for all while
    /// there is nothing to share.
    pub fn share(&mut self, now: Instant, claims: &[Claim]) -> Vec<Option<u64>> {
        if now >= self.slot_ends + SLOT * SLOTS as u32 {
            self.line = MaxFilter::new();
        }
        if now >= self.slot_ends {
            self.line.advance();
            self.slot_ends = now + SLOT;
        }
        let of_ring = self.share_ring(now, claims);
        let of_line = self.share_line(now, claims);
        let smaller = |parts: (Option<u64>, Option<u64>)| parts.0.into_iter().chain(parts.1).min();
        of_ring.into_iter().zip(of_line).map(smaller).collect()
    }

    /// Takes what lone senders show at `now`, by their owner's numbers; `has_waited` if the bucket that all go through kept one of them waiting since the
    /// last look.
    pub fn meet(&mut self, now: Instant, met: &[(usize, Met)], has_waited: bool) {
        self.meeting.observe(&mut self.ring, now, met, has_waited);
    }

    /// What the device takes in all that hands over one by one, if that is known, and the most of it at one time.
    pub fn ring(&self) -> Option<(u64, u64)> {
        let taken = self.ring.bytes_per_s().or(self.meeting.fastest_bytes_per_s());
        taken.map(|bytes_per_s| (bytes_per_s, bulk_depth_bytes(bytes_per_s)))
    }

    /// Parts of what the device takes that hands over one by one, for those behind it.
    fn share_ring(&mut self, now: Instant, claims: &[Claim]) -> Vec<Option<u64>> {
        let Some(rtt) = claims.iter().filter(|claim| claim.handed.is_some()).map(|claim| claim.rtt).max()
        else {
            return vec![None; claims.len()];
        };
        let is_behind = |claim: &Claim| claim.handed.is_some();
        let counted = counted(claims, is_behind);
        let handed = || claims.iter().filter_map(|claim| claim.handed);
        self.ring.observe(&Seen {
            now,
            arrived_bytes_per_s: sum(&counted),
            rtt,
            waits: handed().map(|handed| handed.waits).min().unwrap_or_default(),
            has_refused: handed().any(|handed| handed.is_refused),
        });
        let Some(taken) = self.ring.bytes_per_s() else { return vec![None; claims.len()] };
        let parts = parts(taken, &counted, Counted::left_of_ring);
        of_counted(
            claims,
            is_behind,
            parts.into_iter().zip(&counted).map(|(part, sender)| sender.of_ring(part)),
        )
    }

    fn share_line(&mut self, now: Instant, claims: &[Claim]) -> Vec<Option<u64>> {
        let counted = counted(claims, |_| true);
        self.line.add(sum(&counted));
        let line = self.line.max();
        let has_newcomer = has_newcomer(line, claims, &counted);
        let is_reason = |claim: &&Claim| claim.has_queue || has_newcomer;
        if let Some(rtt) = claims.iter().filter(is_reason).map(|claim| claim.rtt).max() {
            self.shared_until = self.shared_until.max(now + queue_lasts(rtt));
        }
        if counted.len() < 2 || now >= self.shared_until || line == 0 {
            return vec![None; claims.len()];
        }
        let parts = parts(line, &counted, Counted::left_of_line);
        of_counted(
            claims,
            |_| true,
            parts.into_iter().zip(&counted).map(|(part, sender)| sender.of_line(part)),
        )
    }
}

/// How long a queue counts that was seen on a path of such a round trip.
pub(crate) fn queue_lasts(rtt: Duration) -> Duration {
    QUEUE_LASTS.max(QUEUE_ROUNDS * rtt)
}

/// Those whose rate is known, of some.
fn counted(claims: &[Claim], is_meant: impl Fn(&Claim) -> bool) -> Vec<Counted> {
    claims.iter().filter(|claim| is_meant(claim)).filter_map(Counted::of).collect()
}

/// What each may send, given what those may that were counted.
fn of_counted(
    claims: &[Claim],
    is_meant: impl Fn(&Claim) -> bool,
    mut granted: impl Iterator<Item = u64>,
) -> Vec<Option<u64>> {
    let is_counted = |claim: &Claim| is_meant(claim) && claim.rate_bytes_per_s.is_some();
    claims.iter().map(|claim| if is_counted(claim) { granted.next() } else { None }).collect()
}

fn sum(counted: &[Counted]) -> u64 {
    counted.iter().map(|sender| sender.rate_bytes_per_s).sum()
}

/// A sender whose rate is known.
#[derive(Clone, Copy, Debug)]
struct Counted {
    owner: usize,
    weight: u64,
    rate_bytes_per_s: u64,
    had_queue: bool,
}

impl Counted {
    fn of(claim: &Claim) -> Option<Counted> {
        let rate_bytes_per_s = claim.rate_bytes_per_s?;
        let Claim { owner, weight, had_queue, .. } = *claim;
        Some(Counted { owner, weight: weight.max(1).into(), rate_bytes_per_s, had_queue })
    }

    /// What it may use a round trip from now.
    fn grown(&self) -> u64 {
        self.rate_bytes_per_s.saturating_mul(GROWTH)
    }

    /// What others leave to it of a part of a line that is more: it pushes in where it has none yet.
    fn left_of_line(&self, _part: u64) -> u64 {
        self.grown()
    }

    /// The same of a ring, where nobody who comes is to wait for what others leave in the bucket that all share.
    fn left_of_ring(&self, part: u64) -> u64 {
        self.grown().max(part / FIRST_SHARE)
    }

    /// What it may send at most if this is its part of a ring, which has no room for what others use of it.
    fn of_ring(&self, part: u64) -> u64 {
        part.min(self.left_of_ring(part)).max(PACED_MIN)
    }

    /// What it may send at most if this is its part of a line.
    fn of_line(&self, part: u64) -> u64 {
        let part = (part / 100).saturating_mul(HEADROOM_PERCENT);
        let grown = if self.had_queue { 0 } else { self.grown() };
        part.max(grown).max(PACED_MIN)
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

/// Parts of a line by weight; what somebody cannot use goes to the others.
fn parts(line: u64, senders: &[Counted], left_of: impl Fn(&Counted, u64) -> u64) -> Vec<u64> {
    let mut parts = vec![0; senders.len()];
    let mut open: Vec<usize> = (0..senders.len()).collect();
    let mut left = line;
    while !open.is_empty() {
        let weights: u64 = open.iter().map(|n| senders[*n].weight).sum();
        let all = left;
        let part = |n: usize| {
            let part = u128::from(all) * u128::from(senders[n].weight) / u128::from(weights);
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        let (modest, rest): (Vec<usize>, Vec<usize>) =
            open.iter().partition(|n| left_of(&senders[**n], part(**n)) < part(**n));
        if modest.is_empty() {
            rest.iter().for_each(|n| parts[*n] = part(*n));
            break;
        }
        for n in modest {
            parts[n] = part(n);
            left = left.saturating_sub(left_of(&senders[n], part(n)));
        }
        open = rest;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: u64 = 117_000_000;
    const RTT: Duration = Duration::from_millis(16);

    fn claim(weight: u32, rate_bytes_per_s: u64) -> Claim {
        Claim {
            weight,
            rate_bytes_per_s: Some(rate_bytes_per_s),
            rtt: RTT,
            has_queue: true,
            had_queue: true,
            ..Claim::default()
        }
    }

    /// Senders on one line: each sends what its own window lets it and no more than its part; a line that has too much
    /// gives to each by what it sends.
    struct Line {
        sharing: Sharing,
        now: Instant,
        /// Weight, window as a rate, delivered.
        senders: Vec<(u32, u64, u64)>,
    }

    impl Line {
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
            let mut line = Line { sharing: Sharing::new(), now: Instant::ZERO, senders: Vec::new() };
            line.senders.extend((0..others).map(|_| (1, LINE, LINE / others as u64)));
            (0..50).for_each(|_| line.round());
            line.senders.push((weight, 900_000, 900_000));
            (0..20).for_each(|_| line.round());
            for n in 0..line.senders.len() {
                let share = share_of(&line.senders, n);
                assert!(
                    (0.9..=1.1).contains(&share),
                    "{others} and one of weight {weight}: {:?}",
                    line.senders
                );
            }
            let all: u64 = line.senders.iter().map(|sender| sender.2).sum();
            assert!(all > LINE / 100 * 97, "the line stays full: {all}");
        }
    }

    #[test]
    fn a_small_window_is_not_starved_and_the_others_have_the_rest() {
        let claims = [claim(1, 3_000_000), claim(1, 57_000_000), claim(1, 57_000_000)];
        let parts = parts(LINE, &counted(&claims, |_| true), Counted::left_of_line);
        assert_eq!(parts[0], LINE / 3, "it may have its part at any time");
        let rest = (LINE - 6_000_000) / 2;
        assert_eq!(parts[1..], [rest, rest]);
    }

    #[test]
    fn lines_that_are_not_shared_are_not_throttled() {
        let (fast, slow) = (claim(1, 1_000_000_000), claim(1, 10_000_000));
        let parts = parts(1_010_000_000, &counted(&[fast, slow], |_| true), Counted::left_of_line);
        assert!(parts[0] >= 990_000_000 / 100 * 99 && parts[1] > 10_000_000, "{parts:?}");
    }

    #[test]
    fn who_comes_to_others_has_a_part_although_nobody_sees_a_queue() {
        let quiet = |owner, rate| Claim { owner, has_queue: false, had_queue: false, ..claim(1, rate) };
        let share = |claims: &[Claim]| Sharing::new().share(Instant::ZERO, claims);
        let parts = share(&[quiet(0, LINE), quiet(1, LINE / 100)]);
        assert!(parts[0] >= Some(LINE) && parts[1] >= Some(LINE / 2), "nobody is held back: {parts:?}");
        assert_eq!(share(&[quiet(0, LINE / 3), quiet(1, LINE / 4)]), [None, None], "both have been there");
        let mut sharing = Sharing::new();
        for rate in [LINE, LINE / 10] {
            let parts = sharing.share(Instant::ZERO, &[quiet(0, rate), quiet(0, 0)]);
            assert_eq!(parts, [None, None], "they are one's own");
        }
        let three = [quiet(0, LINE), quiet(1, LINE), quiet(0, 0)];
        for [a, b, c] in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            assert_eq!(share(&[three[a], three[b], three[c]]), [None; 3], "one of them has it");
        }
        assert_eq!(share(&[quiet(0, LINE)]), [None]);
        let handed = Some(Handed { is_refused: false, waits: Duration::ZERO });
        let behind_ring = Claim { handed, ..quiet(1, LINE / 100) };
        assert_eq!(share(&[quiet(0, LINE), behind_ring]), [None, None], "its device is shared");
    }

    #[test]
    fn a_fast_newcomer_is_not_held_down_by_a_slow_queue() {
        let (slow, fast) = (10_000_000, 1_000_000_000);
        let (mut sharing, mut now, mut rate) = (Sharing::new(), Instant::ZERO, 1 << 20);
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
        let mut sharing = Sharing::new();
        let fresh = Claim { rate_bytes_per_s: None, ..claim(1, 0) };
        assert_eq!(sharing.share(at(0), &[claim(1, 0), claim(1, 0)]), [None, None]);
        assert_eq!(sharing.share(at(1), &[claim(1, LINE), fresh]), [None, None]);
        assert!(
            Sharing::new()
                .share(at(2), &[claim(1, 1), claim(1, 1)])
                .iter()
                .all(|part| *part >= Some(PACED_MIN))
        );
    }

    #[test]
    fn one_that_has_just_come_or_has_stalled_does_not_lift_what_the_others_have() {
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let mut sharing = Sharing::new();
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
        let mut sharing = Sharing::new();
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
            let mut sharing = Sharing::new();
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
        let granted = Sharing::new().share(Instant::ZERO, &claims)[400].unwrap();
        assert!(granted > LINE * 9 / 10, "{granted}");
    }

    #[test]
    fn weights_divide_small_lines_as_well() {
        let weights = [65_536, 32_768, 32_768, 21_845];
        let claims = weights.map(|weight| claim(weight, 1 << 30));
        let parts = parts(1 << 20, &counted(&claims, |_| true), Counted::left_of_line);
        let all: u32 = weights.iter().sum();
        for (part, weight) in parts.iter().zip(weights) {
            let expected = (1 << 20) * u64::from(weight) / u64::from(all);
            assert!(part.abs_diff(expected) <= 1, "{parts:?}");
        }
    }

    /// One behind a device that takes packets one by one, and refuses some or not.
    fn handed(weight: u32, rate_bytes_per_s: u64, is_refused: bool) -> Claim {
        let handed = Some(Handed { is_refused, waits: Duration::ZERO });
        Claim { handed, has_queue: false, had_queue: false, ..claim(weight, rate_bytes_per_s) }
    }

    /// A lone sender has just found what its device takes.
    fn with_ring() -> (Sharing, Instant) {
        let (mut sharing, mut now) = (Sharing::new(), Instant::ZERO);
        for round in 0..7 {
            now += RTT;
            sharing.share(now, &[handed(1, LINE, round == 2)]);
        }
        (sharing, now)
    }

    const RING: u64 = LINE / 100 * 98;

    #[test]
    fn a_ring_is_shared_by_weight_among_those_behind_it_alone() {
        let (mut sharing, now) = with_ring();
        let elsewhere = Claim { has_queue: false, had_queue: false, ..claim(1, 50 * LINE) };
        let claims = [handed(2, RING / 2, false), elsewhere, handed(1, RING / 2, false)];
        let parts = sharing.share(now, &claims);
        let ring = sharing.ring.bytes_per_s().expect("it is known");
        assert!((RING..RING / 100 * 101).contains(&ring), "{ring}");
        assert_eq!(parts, [Some(ring / 3 * 2), None, Some(ring / 3)]);
        assert_eq!(sharing.share(now, &[elsewhere]), [None]);
        let after = now + Duration::from_secs(600);
        let parts = sharing.share(after, &[elsewhere, handed(1, RING, false)]);
        assert_eq!(parts, [None, sharing.ring.bytes_per_s()]);
    }

    #[test]
    fn who_comes_back_does_not_hand_over_what_others_use_of_the_ring() {
        let (mut sharing, now) = with_ring();
        let parts = sharing.share(now, &[handed(1, RING, false), handed(1, 0, false)]);
        let all: u64 = parts.iter().flatten().sum();
        assert!(Some(all) <= sharing.ring.bytes_per_s(), "{parts:?}");
        assert!(parts[1] >= Some(RING / 40), "it may begin: {parts:?}");
    }

    #[test]
    fn a_slower_line_behind_a_ring_is_shared_as_well() {
        let (mut sharing, mut now) = with_ring();
        let slow = LINE / 10;
        let queued = |weight, rate| Claim { has_queue: true, had_queue: true, ..handed(weight, rate, false) };
        let mut parts = Vec::new();
        for _ in 0..10 {
            now += SLOT;
            parts = sharing.share(now, &[queued(2, slow / 2), queued(1, slow / 2)]);
        }
        assert!(
            parts[0] <= Some(slow / 3 * 2 / 100 * 105) && parts[1] <= Some(slow / 3 / 100 * 105),
            "{parts:?}"
        );
    }

    #[test]
    fn alone_or_without_a_queue_there_is_nothing_to_share() {
        let mut sharing = Sharing::new();
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
