//! Which of those who share are behind one bottleneck, as far as their queues show.
//!
//! What goes through one queue waits in it for the same time. So whoever is held to its part, and waits for nothing while
//! others' packets stand in a queue, gives way in vain: it is behind another one, and so are those who do not wait either. For a
//! while they share among themselves only. All are taken to be behind one again after that, and when somebody comes who may be
//! behind any of them.
//!
//! RFC 8382 groups flows by how their delays vary over many seconds. Here they share from the first round trip on, which shows
//! it sooner, and that they may is the question. Devices that take packets one by one are a bottleneck of their own, in which
//! all wait (`ring.rs`): behind those nobody is set apart.

use core::time::Duration;

use event::Instant;

use crate::sharing::share::Claim;

/// Who waits for less than one in so many parts of what another one does is behind another queue. It is a good part, since
/// bunches of packets wait for a slow line although nobody gives it too much.
const LESS_SHARE: u32 = 2;
/// That has to be seen for so long, and for so many round trips: what is smoothed lags.
const SEEN_TIME: Duration = Duration::from_millis(300);
const SEEN_ROUNDS: u32 = 8;
/// Who waits for so much of its round trip, and for so much more, waits in a queue.
const QUEUE_SHARE: u32 = 40;
const QUEUE_NOISE: Duration = Duration::from_millis(2);
/// One look says nothing of more than this.
const LOOK_MOST: Duration = Duration::from_millis(50);
/// Who has so many percent of its part is held to it.
const HELD_PERCENT: u64 = 90;
/// For so long, and so many round trips, they are behind different ones; twice as long each time that it is found again, up to
/// a most, since to see it costs those who give way.
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
}

#[derive(Clone, Debug)]
struct Sender {
    owner: usize,
    /// Behind which one it is: 0 is the one that all are behind of whom nothing else is known.
    number: u32,
    apart_until: Instant,
    /// For how long it was last found apart.
    apart_for: Duration,
    /// For how long it has been held and waited for nothing, since it was held and waited as others do.
    in_vain: Duration,
    part_bytes_per_s: Option<u64>,
    forgotten_at: Instant,
}

/// What an owner's claims show together.
#[derive(Clone, Copy, Debug)]
struct Look {
    owner: usize,
    rate_bytes_per_s: u64,
    rtt: Duration,
    waits: Duration,
    has_queue: bool,
}

impl Bottlenecks {
    /// Takes what is claimed at `now`; behind which bottleneck each is, in the same order.
    pub(crate) fn observe(&mut self, now: Instant, claims: &[Claim]) -> Vec<u32> {
        if claims.iter().any(|claim| claim.handed.is_some()) {
            self.senders.clear();
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
        let number = |claim: &Claim| self.sender(claim.owner).map_or(0, |sender| sender.number);
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

    /// Keeps who is there, and who was of late.
    fn keep(&mut self, now: Instant, looks: &[Look]) {
        self.senders.retain(|sender| sender.forgotten_at > now);
        let mut has_come = false;
        for look in looks {
            let forgotten_at = now + lasts(look.rtt);
            match self.place(look.owner) {
                Ok(n) => self.senders[n].forgotten_at = forgotten_at,
                Err(n) => {
                    has_come = true;
                    self.senders.insert(
                        n,
                        Sender {
                            owner: look.owner,
                            number: 0,
                            apart_until: now,
                            apart_for: Duration::ZERO,
                            in_vain: Duration::ZERO,
                            part_bytes_per_s: None,
                            forgotten_at,
                        },
                    );
                }
            }
        }
        for sender in &mut self.senders {
            if sender.number != 0 && (has_come || now >= sender.apart_until) {
                (sender.number, sender.in_vain) = (0, Duration::ZERO);
            }
        }
    }

    /// Compares those behind one bottleneck, as it is thought.
    fn compare(&mut self, now: Instant, looked: Duration, number: u32, looks: &[Look]) {
        let behind = |senders: &[Sender], look: &&Look| {
            senders.iter().any(|sender| sender.owner == look.owner && sender.number == number)
        };
        let looks: Vec<&Look> = looks.iter().filter(|look| behind(&self.senders, look)).collect();
        let rtt = looks.iter().map(|look| look.rtt).max().unwrap_or_default();
        let Some(most) = looks.iter().filter(|look| look.has_queue).map(|look| look.waits).max() else {
            return;
        };
        let is_elsewhere = |look: &Look| !look.has_queue && look.waits * LESS_SHARE < most;
        let mut is_found = false;
        for look in &looks {
            let Ok(n) = self.place(look.owner) else { continue };
            let sender = &mut self.senders[n];
            let held_from = sender.part_bytes_per_s.map(|part| part / 100 * HELD_PERCENT);
            // One that is not makes a queue of its own.
            if held_from.is_none_or(|from| look.rate_bytes_per_s < from) {
                continue;
            }
            if look.waits * LESS_SHARE >= most {
                sender.in_vain = Duration::ZERO;
            } else if is_elsewhere(look) {
                sender.in_vain += looked;
                is_found |= sender.in_vain >= SEEN_TIME.max(SEEN_ROUNDS * rtt);
            }
        }
        if !is_found {
            return;
        }
        // Neither has to do with what both carried together.
        self.number += 2;
        let longest =
            looks.iter().filter_map(|look| self.sender(look.owner)).map(|sender| sender.apart_for).max();
        let apart_for = (longest.unwrap_or_default() * 2).min(LASTS_MOST).max(lasts(rtt));
        for look in looks {
            if let Ok(n) = self.place(look.owner) {
                let sender = &mut self.senders[n];
                sender.number = self.number - u32::from(is_elsewhere(look));
                (sender.apart_until, sender.apart_for) = (now + apart_for, apart_for);
                sender.in_vain = Duration::ZERO;
            }
        }
    }

    /// Whether somebody is behind this one, or was of late.
    pub(crate) fn is_known(&self, number: u32) -> bool {
        number == 0 || self.senders.iter().any(|sender| sender.number == number)
    }

    fn sender(&self, owner: usize) -> Option<&Sender> {
        self.place(owner).ok().map(|n| &self.senders[n])
    }

    fn place(&self, owner: usize) -> Result<usize, usize> {
        self.senders.binary_search_by_key(&owner, |sender| sender.owner)
    }
}

fn lasts(rtt: Duration) -> Duration {
    LASTS.max(LASTS_ROUNDS * rtt)
}

/// What is claimed, owner by owner.
fn looks(claims: &[Claim]) -> Vec<Look> {
    let mut looks: Vec<Look> = claims
        .iter()
        .filter_map(|claim| {
            Some(Look {
                owner: claim.owner,
                rate_bytes_per_s: claim.rate_bytes_per_s?,
                rtt: claim.rtt,
                waits: claim.waits,
                has_queue: claim.waits > claim.rtt.saturating_sub(claim.waits) / QUEUE_SHARE + QUEUE_NOISE,
            })
        })
        .collect();
    looks.sort_unstable_by_key(|look| look.owner);
    looks.dedup_by(|next, kept| {
        let is_same = next.owner == kept.owner;
        if is_same {
            kept.rate_bytes_per_s = kept.rate_bytes_per_s.saturating_add(next.rate_bytes_per_s);
            kept.rtt = kept.rtt.max(next.rtt);
            kept.waits = kept.waits.max(next.waits);
            kept.has_queue |= next.has_queue;
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
            (scene.after(2_800, &two), scene.after(400, &two)),
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
        // Two lines more: one after the other is found.
        let claims = [waiting(0, 3_000), waiting(1, 3_000), waiting(2, 100), waiting(3, 2_500)];
        assert_eq!(scene.after(400, &claims), [4, 2, 3, 2]);
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
    fn who_cannot_be_counted_is_compared_with_nobody() {
        let mut scene = Scene::new();
        let fresh = Claim { rate_bytes_per_s: None, ..waiting(1, 3_000) };
        assert_eq!(scene.after(1_000, &[waiting(0, 200), fresh]), [0, 0]);
    }
}
