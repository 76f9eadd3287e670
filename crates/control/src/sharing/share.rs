//! How senders that one process serves, or receives from, share lines: by weight, nobody starved, a newcomer within a
//! few round trips.
//!
//! Left to themselves, flows that are each paced at what they get keep what they have: who comes late stays small. One
//! process that serves them all knows what they carry together (`line.rs`), and by their queues which of them are on one line
//! (`bottleneck.rs`).
//!
//! Those whose device takes packets one by one share that as well (`ring.rs`), and have the smaller of the two parts.

use core::time::Duration;

use event::Instant;

use crate::lone::space::bulk_depth_bytes;
use crate::sharing::bottleneck::Bottlenecks;
use crate::sharing::line::Line;
use crate::sharing::meeting::{Meeting, Met};
use crate::sharing::parts::{Counted, counted, of_counted, parts, sum};
use crate::sharing::ring::{Ring, Seen};

/// One sender in bulk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Claim {
    /// Owner of the sender. Another sender of the same owner is no newcomer to the line.
    pub owner: usize,
    /// Its weight, at least 1.
    pub weight: u32,
    /// What it has delivered of late, in bytes per second and over a round trip at least; `None` if that is not counted
    /// yet.
    pub rate_bytes_per_s: Option<u64>,
    /// The round trip of its path.
    pub rtt: Duration,
    /// By how much its round trip is longer than without a queue.
    pub waits: Duration,
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
}

/// A queue counts for so long, and so many round trips.
const QUEUE_LASTS: Duration = Duration::from_secs(2);
const QUEUE_ROUNDS: u32 = 8;

/// What is known of the senders together.
#[derive(Clone, Debug, Default)]
pub struct Sharing {
    bottlenecks: Bottlenecks,
    /// By the number of the bottleneck.
    lines: Vec<(u32, Line)>,
    ring: Ring,
    meeting: Meeting,
}

impl Sharing {
    /// Nothing is known.
    pub fn new() -> Sharing {
        Sharing::default()
    }

    /// Takes what the senders claim at `now`; what each may send at most, in the same order. `None` for those who
    /// share nothing.
    pub fn share(&mut self, now: Instant, claims: &[Claim]) -> Vec<Option<u64>> {
        let of_ring = self.share_ring(now, claims);
        let of_lines = self.share_lines(now, claims);
        let smaller = |parts: (Option<u64>, Option<u64>)| parts.0.into_iter().chain(parts.1).min();
        of_ring.into_iter().zip(of_lines).map(smaller).collect()
    }

    /// Takes what lone senders show at `now`, by their owner's numbers; `has_waited` if the bucket that all go through kept one of
    /// them waiting since the last look.
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
        let is_behind = |claim: &Claim| claim.handed.is_some();
        let behind = || claims.iter().filter(|claim| is_behind(claim));
        let Some(rtt) = behind().map(|claim| claim.rtt).max() else { return vec![None; claims.len()] };
        let counted = counted(claims, is_behind);
        self.ring.observe(&Seen {
            now,
            arrived_bytes_per_s: sum(&counted),
            rtt,
            waits: behind().map(|claim| claim.waits).min().unwrap_or_default(),
            has_refused: behind().filter_map(|claim| claim.handed).any(|handed| handed.is_refused),
        });
        let Some(taken) = self.ring.bytes_per_s() else { return vec![None; claims.len()] };
        let parts = parts(taken, &counted, Counted::left_of_ring);
        of_counted(
            claims,
            is_behind,
            parts.into_iter().zip(&counted).map(|(part, sender)| sender.of_ring(part)),
        )
    }

    /// Parts of the lines, each for those behind it.
    fn share_lines(&mut self, now: Instant, claims: &[Claim]) -> Vec<Option<u64>> {
        let behind = self.bottlenecks.observe(now, claims);
        self.lines.retain(|(number, _)| self.bottlenecks.is_known(*number));
        let mut parts = vec![None; claims.len()];
        let mut numbers = behind.clone();
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers {
            let members = || (0..claims.len()).filter(|n| behind[*n] == number);
            let claims: Vec<Claim> = members().map(|n| claims[n]).collect();
            for (n, part) in members().zip(self.line(number).share(now, &claims)) {
                parts[n] = part;
            }
        }
        self.bottlenecks.told(claims, &parts);
        parts
    }

    fn line(&mut self, number: u32) -> &mut Line {
        let known = self.lines.iter().position(|line| line.0 == number);
        let place = known.unwrap_or_else(|| {
            self.lines.push((number, Line::default()));
            self.lines.len() - 1
        });
        &mut self.lines[place].1
    }
}

/// How long a queue counts that was seen on a path of such a round trip.
pub(crate) fn queue_lasts(rtt: Duration) -> Duration {
    QUEUE_LASTS.max(QUEUE_ROUNDS * rtt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{LINE, RTT, claim};

    /// Senders and the lines that bring them here, one round trip after another: each sends a little more than what arrives, or less
    /// while packets of its line wait; who has little of its part a quarter more.
    struct Sites {
        sharing: Sharing,
        now: Instant,
        /// What each line carries, and for how long packets wait for it.
        lines: Vec<(u64, Duration)>,
        senders: Vec<Sent>,
    }

    struct Sent {
        line: usize,
        rate_bytes_per_s: u64,
        queue_until: Instant,
        /// In the rounds that count.
        arrived_bytes_per_s: u64,
    }

    impl Sites {
        /// By the line of each, and what it has to begin with.
        fn new(lines: &[u64], senders: &[(usize, u64)]) -> Sites {
            let sent = |(line, rate_bytes_per_s): &(usize, u64)| Sent {
                line: *line,
                rate_bytes_per_s: *rate_bytes_per_s,
                queue_until: Instant::ZERO,
                arrived_bytes_per_s: 0,
            };
            Sites {
                sharing: Sharing::new(),
                now: Instant::ZERO,
                lines: lines.iter().map(|carries| (*carries, Duration::ZERO)).collect(),
                senders: senders.iter().map(sent).collect(),
            }
        }

        fn round(&mut self) {
            self.now += RTT;
            let has_queue = |waits: Duration| waits > RTT / 10 + Duration::from_millis(1);
            let mut claims = Vec::new();
            for (owner, sender) in self.senders.iter_mut().enumerate() {
                let waits = self.lines[sender.line].1;
                if has_queue(waits) {
                    sender.queue_until = self.now + queue_lasts(RTT);
                }
                claims.push(Claim {
                    owner,
                    rtt: RTT + waits,
                    waits,
                    has_queue: has_queue(waits),
                    had_queue: self.now < sender.queue_until,
                    ..claim(1, sender.rate_bytes_per_s)
                });
            }
            let parts = self.sharing.share(self.now, &claims);
            for (sender, part) in self.senders.iter_mut().zip(parts) {
                let (rate, waits) = (sender.rate_bytes_per_s, self.lines[sender.line].1);
                let percent = match part {
                    Some(part) if rate < part / 100 * 90 && waits < RTT => 125,
                    _ if has_queue(waits) => 90,
                    _ => 105,
                };
                sender.rate_bytes_per_s = (rate / 100 * percent).min(part.unwrap_or(u64::MAX));
            }
            for (n, (carries, waits)) in self.lines.iter_mut().enumerate() {
                let mut here: Vec<&mut Sent> =
                    self.senders.iter_mut().filter(|sender| sender.line == n).collect();
                let sent: u64 = here.iter().map(|sender| sender.rate_bytes_per_s).sum();
                let longer = RTT.mul_f64(sent as f64 / *carries as f64);
                *waits = (*waits + longer).saturating_sub(RTT);
                for sender in &mut here {
                    if !waits.is_zero() && sent > *carries {
                        let part =
                            u128::from(sender.rate_bytes_per_s) * u128::from(*carries) / u128::from(sent);
                        sender.rate_bytes_per_s = part as u64;
                    }
                    sender.arrived_bytes_per_s += sender.rate_bytes_per_s;
                }
            }
        }

        /// What each has of its part of its line in so many rounds, after those that do not count.
        fn shares(&mut self, before: u64, rounds: u64) -> Vec<f64> {
            (0..before).for_each(|_| self.round());
            self.senders.iter_mut().for_each(|sender| sender.arrived_bytes_per_s = 0);
            (0..rounds).for_each(|_| self.round());
            let share = |sender: &Sent| {
                let beside = self.senders.iter().filter(|other| other.line == sender.line).count();
                let part = self.lines[sender.line].0 / beside as u64;
                sender.arrived_bytes_per_s as f64 / (rounds * part) as f64
            };
            self.senders.iter().map(share).collect()
        }
    }

    #[test]
    fn those_on_lines_of_their_own_have_them_and_those_on_one_share_it() {
        const MB: u64 = 1_000_000;
        let own: [&[u64]; 5] =
            [&[300, 100], &[200, 100], &[300, 100, 100], &[300, 300, 100], &[400, 300, 200, 100]];
        for lines in own {
            let lines: Vec<u64> = lines.iter().map(|line| line * MB).collect();
            let senders: Vec<(usize, u64)> = lines.iter().copied().enumerate().collect();
            let shares = Sites::new(&lines, &senders).shares(300, 3_000);
            assert!(shares.iter().all(|share| *share > 0.93), "{lines:?}: {shares:.3?}");
        }
        for others in [1, 2, 3, 7] {
            let mut senders = vec![(0, 300 * MB / others); others as usize];
            senders.push((0, 3 * MB));
            let shares = Sites::new(&[300 * MB], &senders).shares(60, 3_000);
            assert!(shares.iter().all(|share| (0.9..1.1).contains(share)), "{shares:.3?}");
        }
        // One comes to one of two lines.
        for (line, rate) in [(0, 297 * MB), (1, 97 * MB)] {
            let mut sites = Sites::new(&[300 * MB, 100 * MB], &[(0, rate.max(200 * MB)), (1, 97 * MB)]);
            sites.shares(500, 1);
            let queue_until = Instant::ZERO;
            sites.senders.push(Sent { line, rate_bytes_per_s: 3 * MB, queue_until, arrived_bytes_per_s: 0 });
            let shares = sites.shares(120, 3_000);
            assert!(shares.iter().all(|share| (0.85..1.15).contains(share)), "on line {line}: {shares:.3?}");
        }
    }

    /// One behind a device that takes packets one by one, and refuses some or not.
    fn handed(weight: u32, rate_bytes_per_s: u64, is_refused: bool) -> Claim {
        let handed = Some(Handed { is_refused });
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
            now += Duration::from_millis(250);
            parts = sharing.share(now, &[queued(2, slow / 2), queued(1, slow / 2)]);
        }
        assert!(
            parts[0] <= Some(slow / 3 * 2 / 100 * 105) && parts[1] <= Some(slow / 3 / 100 * 105),
            "{parts:?}"
        );
    }
}
