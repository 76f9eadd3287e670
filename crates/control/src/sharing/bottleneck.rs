//! Which of those who share are behind one bottleneck, as far as their queues show.
//!
//! What goes through one queue waits in it for the same time. So whoever is held to its part, and waits for less than half of
//! what others wait for in a queue, gives way in vain: it is behind another one, and so are those who wait for as little. Those on either
//! side share among themselves only, until it is tried again: after a while, and when somebody comes who may be behind any of
//! them.
//!
//! RFC 8382 groups flows by how their delays vary over many seconds. Here they share from the first round trip on, which shows
//! it sooner, and that they may is the question. Devices that take packets one by one are a bottleneck of their own, in which
//! all wait (`ring.rs`): behind those nobody is set apart.

use core::time::Duration;

use event::Instant;

use crate::sharing::share::{Claim, queue_lasts};

/// Who waits for less than one in so many parts of what another one does is behind another queue. It is a good part, since
/// bunches of packets wait for a slow line although nobody gives it too much.
const LESS_SHARE: u32 = 2;
/// That has to be seen for so long, and for so many round trips: what is smoothed lags.
const SEEN_TIME: Duration = Duration::from_millis(300);
const SEEN_ROUNDS: u32 = 8;
/// It is forgotten after so many times as long as a queue counts.
const SEEN_LASTS: u32 = 4;
/// Who waits for one in so many parts of its path, and for so much more, waits in a queue.
const QUEUE_SHARE: u32 = 40;
const QUEUE_NOISE: Duration = Duration::from_millis(2);
/// One look says nothing of more than this.
const LOOK_MOST: Duration = Duration::from_millis(50);
/// Who has so many percent of its part is held to it.
const HELD_PERCENT: u64 = 90;
/// It is tried again after so long, and so many round trips; after twice as long each time that it was found again, up to a most,
/// since to see it costs those who give way.
const LASTS: Duration = Duration::from_secs(30);
const LASTS_ROUNDS: u32 = 128;
const LASTS_MOST: Duration = Duration::from_secs(480);

/// See the file's beginning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bottlenecks {
    senders: Vec<Sender>,
    looked_at: Instant,
    /// The last one that was found.
    number: u32,
    /// Until when what was found holds, if anything was.
    apart_until: Option<Instant>,
    /// For how long it was to hold, and whether it has held for so long.
    apart_for: Duration,
    has_held: bool,
}

#[derive(Clone, Debug)]
struct Sender {
    owner: usize,
    /// Behind which one it is: 0 is the one that all are behind of whom nothing else is known.
    number: u32,
    /// It waited for little when others last waited.
    is_elsewhere: bool,
    /// For how long it has been held and waited for little, since it was held and waited as others do, and when last.
    in_vain: Duration,
    in_vain_at: Instant,
    part_bytes_per_s: Option<u64>,
    forgotten_at: Instant,
}

/// What an owner's claims show together.
#[derive(Clone, Copy, Debug)]
struct Look {
    owner: usize,
    rate_bytes_per_s: u64,
    /// Without a queue.
    path: Duration,
    waits: Duration,
}

impl Bottlenecks {
    /// Takes what is claimed at `now`; behind which bottleneck each is, in the same order.
    pub(crate) fn observe(&mut self, now: Instant, claims: &[Claim]) -> Vec<u32> {
        if claims.iter().any(|claim| claim.handed.is_some()) {
            *self = Bottlenecks { number: self.number, ..Bottlenecks::default() };
            return vec![0; claims.len()];
        }
        let looks = looks(claims);
        self.keep(now, &looks);
        let looked = now.since(self.looked_at).min(LOOK_MOST);
        self.looked_at = now;
        let mut numbers: Vec<u32> = self.senders.iter().map(|sender| sender.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers {
            self.compare(now, looked, number, &looks);
        }
        let number = |claim: &Claim| self.place(claim.owner).map_or(0, |n| self.senders[n].number);
        claims.iter().map(number).collect()
    }

    /// Takes what each was told of its line.
    pub(crate) fn told(&mut self, claims: &[Claim], parts: &[Option<u64>]) {
        self.senders.iter_mut().for_each(|sender| sender.part_bytes_per_s = None);
        for (claim, part) in claims.iter().zip(parts) {
            if let (Ok(n), Some(part)) = (self.place(claim.owner), part) {
                let told = &mut self.senders[n].part_bytes_per_s;
                *told = Some(told.unwrap_or(0).saturating_add(*part));
            }
        }
    }

    /// Whether somebody is behind this one, or was of late.
    pub(crate) fn is_known(&self, number: u32) -> bool {
        number == 0 || self.senders.iter().any(|sender| sender.number == number)
    }

    /// Keeps who is there, and who was of late.
    fn keep(&mut self, now: Instant, looks: &[Look]) {
        self.senders.retain(|sender| sender.forgotten_at > now);
        let mut has_come = false;
        for look in looks {
            let forgotten_at = now + lasts(look.path);
            match self.place(look.owner) {
                Ok(n) => self.senders[n].forgotten_at = forgotten_at,
                Err(n) => {
                    has_come = true;
                    self.senders.insert(n, Sender::new(look.owner, forgotten_at));
                }
            }
        }
        let is_over = self.apart_until.is_some_and(|until| now >= until);
        if has_come || is_over {
            for sender in &mut self.senders {
                *sender = Sender {
                    part_bytes_per_s: sender.part_bytes_per_s,
                    ..Sender::new(sender.owner, sender.forgotten_at)
                };
            }
            (self.apart_until, self.has_held) = (None, is_over && !has_come);
        }
    }

    /// Compares those behind one bottleneck, as it is thought.
    fn compare(&mut self, now: Instant, looked: Duration, number: u32, looks: &[Look]) {
        let is_behind = |look: &&Look| self.place(look.owner).is_ok_and(|n| self.senders[n].number == number);
        let looks: Vec<&Look> = looks.iter().filter(is_behind).collect();
        let Some(most) = looks.iter().filter(|look| look.has_queue()).max_by_key(|look| look.waits) else {
            return;
        };
        let mut is_found = false;
        for look in &looks {
            let Ok(n) = self.place(look.owner) else { continue };
            let sender = &mut self.senders[n];
            sender.is_elsewhere = look.waits * LESS_SHARE < most.waits;
            // One that is not held makes a queue of its own, or has none yet.
            let held_from = sender.part_bytes_per_s.map(|part| part / 100 * HELD_PERCENT);
            if held_from.is_none_or(|from| look.rate_bytes_per_s < from) {
                continue;
            }
            let path = look.path.max(most.path);
            if !sender.is_elsewhere || now > sender.in_vain_at + queue_lasts(path) * SEEN_LASTS {
                sender.in_vain = Duration::ZERO;
            }
            sender.in_vain_at = now;
            if sender.is_elsewhere {
                sender.in_vain += looked;
                is_found |= sender.in_vain >= SEEN_TIME.max(SEEN_ROUNDS * path);
            }
        }
        if is_found {
            let path = looks.iter().map(|look| look.path).max().unwrap_or_default();
            self.part(now, number, path);
        }
    }

    /// Tells those behind one bottleneck apart, also those who rest.
    fn part(&mut self, now: Instant, number: u32, path: Duration) {
        // Neither has to do with what both carried together.
        self.number += 2;
        for sender in self.senders.iter_mut().filter(|sender| sender.number == number) {
            sender.number = self.number - u32::from(sender.is_elsewhere);
            sender.in_vain = Duration::ZERO;
        }
        if self.apart_until.is_none() {
            let longer = if self.has_held { (self.apart_for * 2).min(LASTS_MOST) } else { LASTS };
            self.apart_for = longer.max(lasts(path));
            self.apart_until = Some(now + self.apart_for);
        }
    }

    fn place(&self, owner: usize) -> Result<usize, usize> {
        self.senders.binary_search_by_key(&owner, |sender| sender.owner)
    }
}

impl Sender {
    const fn new(owner: usize, forgotten_at: Instant) -> Sender {
        Sender {
            owner,
            number: 0,
            is_elsewhere: false,
            in_vain: Duration::ZERO,
            in_vain_at: Instant::ZERO,
            part_bytes_per_s: None,
            forgotten_at,
        }
    }
}

impl Look {
    fn has_queue(&self) -> bool {
        self.waits > self.path / QUEUE_SHARE + QUEUE_NOISE
    }
}

fn lasts(path: Duration) -> Duration {
    LASTS.max(LASTS_ROUNDS * path)
}

/// What is claimed, owner by owner.
fn looks(claims: &[Claim]) -> Vec<Look> {
    let look = |claim: &Claim| {
        let path = claim.rtt.saturating_sub(claim.waits);
        Some(Look { owner: claim.owner, rate_bytes_per_s: claim.rate_bytes_per_s?, path, waits: claim.waits })
    };
    let mut looks: Vec<Look> = claims.iter().filter_map(look).collect();
    looks.sort_unstable_by_key(|look| look.owner);
    looks.dedup_by(|next, kept| {
        let is_same = next.owner == kept.owner;
        if is_same {
            kept.rate_bytes_per_s = kept.rate_bytes_per_s.saturating_add(next.rate_bytes_per_s);
            kept.path = kept.path.max(next.path);
            kept.waits = kept.waits.max(next.waits);
        }
        is_same
    });
    looks
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(16);
    const HELD: Claim = Claim {
        owner: 0,
        weight: 1,
        rate_bytes_per_s: Some(5_000_000),
        rtt: RTT,
        waits: Duration::ZERO,
        has_queue: false,
        had_queue: false,
        handed: None,
    };

    /// One of an owner that waits for so long.
    fn waiting(owner: usize, waits_us: u64) -> Claim {
        let waits = Duration::from_micros(waits_us);
        Claim { owner, waits, rtt: RTT + waits, ..HELD }
    }

    /// What is known, looked at every 20 milliseconds.
    struct Scene {
        bottlenecks: Bottlenecks,
        now: Instant,
        /// What each is told that it may send.
        part_bytes_per_s: Option<u64>,
    }

    impl Scene {
        fn new() -> Scene {
            let part_bytes_per_s = Some(5_000_000);
            Scene { bottlenecks: Bottlenecks::default(), now: Instant::ZERO, part_bytes_per_s }
        }

        fn look(&mut self, claims: &[Claim]) -> Vec<u32> {
            self.now += Duration::from_millis(20);
            let numbers = self.bottlenecks.observe(self.now, claims);
            self.bottlenecks.told(claims, &vec![self.part_bytes_per_s; claims.len()]);
            numbers
        }

        /// After so many milliseconds.
        fn after(&mut self, ms: u64, claims: &[Claim]) -> Vec<u32> {
            (0..ms / 20).map(|_| self.look(claims)).last().expect("some time passes")
        }
    }

    #[test]
    fn who_gives_way_in_vain_is_behind_another_one() {
        let mut scene = Scene::new();
        let two = [waiting(7, 200), waiting(3, 3_000)];
        let mut ms_until = |numbers: [u32; 2]| {
            let looks = (1..10_000).find(|_| scene.look(&two) == numbers).expect("it comes to that");
            20 * looks
        };
        assert_eq!((ms_until([0, 0]), ms_until([1, 2])), (20, 300));
        assert_eq!(ms_until([0, 0]), 30_000, "it is tried again");
        assert_eq!(ms_until([3, 4]), 280);
        assert_eq!(ms_until([0, 0]), 60_000, "it was for longer then");
    }

    #[test]
    fn those_who_wait_as_long_or_are_not_held_are_behind_the_same() {
        let after = |part_bytes_per_s, claims: &[Claim]| {
            Scene { part_bytes_per_s, ..Scene::new() }.after(5_000, claims)
        };
        let part = Some(5_000_000);
        assert_eq!(after(part, &[waiting(0, 2_000), waiting(1, 3_000)]), [0, 0], "they wait alike");
        assert_eq!(after(part, &[waiting(0, 200), waiting(1, 1_500)]), [0, 0], "that is noise");
        assert_eq!(after(None, &[waiting(0, 200), waiting(1, 3_000)]), [0, 0], "nobody is held");
        assert_eq!(after(Some(6_000_000), &[waiting(0, 200), waiting(1, 3_000)]), [0, 0], "it has less");
        assert_eq!(after(part, &[waiting(0, 200), waiting(0, 3_000)]), [0, 0], "they are one's own");
        let handed = Some(crate::Handed { is_refused: false });
        assert_eq!(after(part, &[Claim { handed, ..waiting(0, 200) }, waiting(1, 3_000)]), [0, 0]);
        let far = |claim: Claim| Claim { rtt: 20 * RTT + claim.waits, ..claim };
        let mut scene = Scene::new();
        let two = [far(waiting(0, 200)), far(waiting(1, 50_000))];
        assert_eq!(
            (scene.after(2_400, &two), scene.after(400, &two)),
            (vec![0, 0], vec![1, 2]),
            "eight rounds"
        );
    }

    #[test]
    fn one_that_waits_at_times_as_others_do_is_not_apart() {
        let mut scene = Scene::new();
        for _ in 0..50 {
            assert_eq!(scene.after(200, &[waiting(0, 200), waiting(1, 3_000)]), [0, 0]);
            assert_eq!(scene.look(&[waiting(0, 2_000), waiting(1, 3_000)]), [0, 0]);
        }
        // A look that says nothing takes nothing back, nor does one at who is not held.
        for _ in 0..7 {
            scene.look(&[waiting(0, 200), waiting(1, 3_000)]);
            scene.look(&[waiting(0, 200), waiting(1, 200)]);
            scene
                .look(&[Claim { rate_bytes_per_s: Some(4_000_000), ..waiting(0, 3_000) }, waiting(1, 3_000)]);
        }
        assert_eq!(scene.after(200, &[waiting(0, 200), waiting(1, 3_000)]), [1, 2]);
    }

    #[test]
    fn those_on_each_side_share_among_themselves() {
        let mut scene = Scene::new();
        let claims = [waiting(0, 200), waiting(1, 3_000), waiting(2, 0), waiting(3, 2_500), waiting(2, 100)];
        assert_eq!(scene.after(400, &claims), [1, 2, 1, 2, 1]);
        // Two lines more: one after the other is found, and all are tried again at the same time.
        let claims = [waiting(0, 3_000), waiting(1, 3_000), waiting(2, 100), waiting(3, 2_500)];
        assert_eq!(scene.after(400, &claims), [4, 2, 3, 2]);
        assert_eq!(scene.after(29_280, &claims)[1], 2);
        assert_eq!(scene.after(300, &claims), [0; 4]);
    }

    #[test]
    fn all_are_behind_one_when_somebody_comes_and_not_when_somebody_comes_back() {
        let mut scene = Scene::new();
        let three = [waiting(0, 200), waiting(1, 3_000), waiting(2, 3_000)];
        assert_eq!(scene.after(400, &three[..2]), [1, 2]);
        assert_eq!(scene.look(&three), [0; 3]);
        assert_eq!(scene.after(400, &three), [3, 4, 4]);
        scene.after(10_000, &three[..1]);
        assert_eq!(scene.look(&three), [3, 4, 4], "they had rested");
        scene.after(40_000, &three[..1]);
        assert_eq!(scene.look(&three), [0; 3], "who they were is forgotten");
    }

    #[test]
    fn who_rests_while_it_is_found_is_where_it_was() {
        let mut scene = Scene::new();
        let three = [waiting(0, 200), waiting(1, 3_000), waiting(2, 100)];
        scene.after(100, &three);
        assert_eq!(scene.after(400, &three[..2]), [1, 2]);
        assert_eq!(scene.look(&three), [1, 2, 1]);
    }

    #[test]
    fn what_was_seen_long_ago_or_before_somebody_came_counts_no_more() {
        let mut scene = Scene::new();
        let two = [waiting(0, 200), waiting(1, 3_000)];
        for _ in 0..20 {
            assert_eq!(scene.after(200, &two), [0, 0]);
            scene.part_bytes_per_s = None;
            scene.after(9_000, &two);
            scene.part_bytes_per_s = Some(5_000_000);
        }
        scene.after(260, &two);
        let three = [two[0], two[1], waiting(2, 3_000)];
        assert_eq!((scene.after(200, &three), scene.after(200, &three)), (vec![0; 3], vec![1, 2, 2]));
    }

    #[test]
    fn who_cannot_be_counted_is_compared_with_nobody() {
        let mut scene = Scene::new();
        let fresh = Claim { rate_bytes_per_s: None, ..waiting(1, 3_000) };
        assert_eq!(scene.after(1_000, &[waiting(0, 200), fresh]), [0, 0]);
    }
}
