//! Verification of a rate-based congestion control after a change, and its end when losses come with a queue.
//!
//! A trial ends well if a gain cycle delivers a tenth more than before and loses no larger share: a policer and a short queue
//! show there. After it a queue is looked for over two gain cycles. Since it may be the sender's own probing on a short
//! queue, the first answer is a cap at the delivered rate; if that does not end it, the host's congestion control returns.

use core::time::Duration;

use event::{Instant, LossReason};

use crate::loss::looks::per_second;
use crate::loss::rounds::{Round, Rounds};
use crate::loss::share::LossShare;
use crate::measure::unqueued::has_queue;
use crate::policy::Observation;
use crate::window::threshold::NO_THRESHOLD_PACKETS;

/// Rounds of a gain cycle of BBR (CYCLE_LEN in net/ipv4/tcp_bbr.c).
const CYCLE_ROUNDS: u64 = 8;
/// STARTUP is waited for at most so many rounds or so long, whichever is longer, and never longer than the last.
const STARTUP_ROUNDS: u64 = 24;
const STARTUP_LEAST: Duration = Duration::from_secs(3);
const STARTUP_MOST: Duration = Duration::from_secs(15);
/// Rounds in a row with a queue and a loss of more than four times the share and one packet in so many that end it.
const OVERFLOW_ROUNDS: u32 = 3;
const OVERFLOW_SHARE: u64 = 16;
/// Without a cycle of full rounds within so long the change is kept.
const JUDGING_MOST: Duration = Duration::from_secs(30);
/// Gain that keeps the change, in percent of the rate before.
const GAIN_PERCENT: u64 = 110;
/// Rounds that are judged together: two gain cycles at least, and until few losses show. Three of four have a queue if it is not
/// that of probing.
const WINDOW_ROUNDS: u64 = 16;
const WINDOW_ROUNDS_MAX: u64 = 256;
/// Least losses in those, and the share beyond random loss that is noise: one packet in so many.
const QUEUED_LOSSES: u64 = 16;
const NOISE_SHARE: u64 = 1000;
/// Cap of a rate-based sender in percent of the delivered rate, and after losses with a queue.
const PROBING_PERCENT: u64 = 130;
const GENTLE_PERCENT: u64 = 100;

/// A change under verification.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    begun: Instant,
    begun_count: u64,
    /// Packets delivered per second before the change; `None` if the route's memory began it.
    before_packets_per_s: Option<u64>,
    share: LossShare,
    /// The rate-based one is in force.
    has_started: bool,
    overflow_rounds: u32,
    judging: Option<Judging>,
}

/// Sum of the full rounds after STARTUP.
#[derive(Clone, Copy, Debug)]
struct Judging {
    begun: Instant,
    rounds: u64,
    delivered_packets: u64,
    lost_packets: u64,
    time: Duration,
}

/// Result of a trial.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// The change is kept.
    Kept,
    /// It is taken back.
    Refuted(LossReason),
}

impl Trial {
    /// Begins after random loss was found, with the rate of the round before: the host's has lost at it and cuts it further.
    pub(crate) fn new(now: Instant, rounds: &Rounds, share: LossShare) -> Trial {
        let before = rounds.last(1).next().map(|round| per_second(round.delivered_packets, round.length));
        Trial { before_packets_per_s: before, ..Trial::remembered(now, rounds, share) }
    }

    /// Begins by the memory of the route, without a rate to compare with.
    pub(crate) fn remembered(now: Instant, rounds: &Rounds, share: LossShare) -> Trial {
        Trial {
            begun: now,
            begun_count: rounds.count(),
            before_packets_per_s: None,
            share,
            has_started: false,
            overflow_rounds: 0,
            judging: None,
        }
    }

    /// Upper bound of the share of packets that random loss takes.
    pub(crate) fn share(&self) -> LossShare {
        self.share
    }

    /// Returns whether STARTUP is not over.
    pub(crate) fn is_starting(&self) -> bool {
        self.judging.is_none()
    }

    /// Takes a look after `rounds` has, and whether a round has ended in bulk; returns the verdict once it is known.
    pub(crate) fn observe(
        &mut self,
        seen: &Observation,
        (rounds, has_ended): (&Rounds, bool),
        base_rtt: Duration,
    ) -> Option<Verdict> {
        let has_threshold = seen.ssthresh_packets < NO_THRESHOLD_PACKETS;
        self.has_started |= seen.paces_itself && !has_threshold;
        let round = rounds.last(1).next().filter(|_| has_ended);
        if let Some(judging) = &mut self.judging {
            if let Some(round) = round {
                judging.add(round);
            }
            let is_judged = judging.rounds >= CYCLE_ROUNDS;
            let is_late = seen.now.since(judging.begun) >= JUDGING_MOST;
            return match judging.verdict(self.before_packets_per_s, self.share) {
                verdict if is_judged => Some(verdict),
                _ if is_late => Some(Verdict::Kept),
                _ => None,
            };
        }
        if let Some(round) = round {
            let is_lost = round.lost_packets
                > 4 * self.share.mean(round.delivered_packets) + round.delivered_packets / OVERFLOW_SHARE;
            let is_overflow = is_lost && has_queue(round.rtt, base_rtt);
            self.overflow_rounds = if is_overflow { self.overflow_rounds + 1 } else { 0 };
            if self.overflow_rounds >= OVERFLOW_ROUNDS {
                return Some(Verdict::Refuted(LossReason::CongestionLoss));
            }
        }
        let time = seen.now.since(self.begun);
        let is_long = rounds.count() - self.begun_count >= STARTUP_ROUNDS && time >= STARTUP_LEAST;
        if self.has_started && has_threshold || is_long || time >= STARTUP_MOST {
            self.judging = Some(Judging::new(seen.now));
        }
        None
    }
}

impl Judging {
    fn new(now: Instant) -> Judging {
        Judging { begun: now, rounds: 0, delivered_packets: 0, lost_packets: 0, time: Duration::ZERO }
    }

    fn add(&mut self, round: &Round) {
        self.rounds += 1;
        self.delivered_packets += round.delivered_packets;
        self.lost_packets += round.lost_packets;
        self.time += round.length;
    }

    /// Two times the share, four standard deviations of it and 0.2 % are no larger loss.
    fn verdict(&self, before_packets_per_s: Option<u64>, share: LossShare) -> Verdict {
        let packets = self.delivered_packets;
        let rate = per_second(packets, self.time);
        if self.lost_packets > share.expected(packets) + share.mean(packets) + packets / 500 {
            return Verdict::Refuted(LossReason::MoreLoss);
        }
        match before_packets_per_s {
            Some(before) if rate * 100 < before * GAIN_PERCENT => Verdict::Refuted(LossReason::NoGain),
            _ => Verdict::Kept,
        }
    }
}

/// Losses with a queue under a rate-based congestion control.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Standing {
    window: Window,
    /// Packets delivered and lost in rounds without a queue that follow such a one: a loss shows in the round after.
    unqueued: (u64, u64),
    was_queued: bool,
    /// Upper bound of the share that is lost, of the window that lost least.
    least: Option<LossShare>,
    is_gentle: bool,
}

/// Rounds that are judged together.
#[derive(Clone, Copy, Default, Debug)]
struct Window {
    rounds: u64,
    queued_rounds: u64,
    /// Rounds with a queue that is no small one.
    long_rounds: u64,
    /// Packets delivered and lost in rounds with a queue.
    queued: (u64, u64),
}

impl Standing {
    /// Takes the end of a round; returns whether the host's congestion control is to return.
    pub(crate) fn observe(
        &mut self,
        round: &Round,
        share: LossShare,
        (base_rtt, has_company): (Duration, bool),
    ) -> bool {
        self.add(round, base_rtt);
        if self.window.rounds < WINDOW_ROUNDS {
            return false;
        }
        let is_queued = self.window.queued_rounds * 4 >= self.window.rounds * 3;
        let is_long = self.window.long_rounds * 4 >= self.window.rounds * 3;
        let has_losses = is_queued && self.window.has_losses(self.share(share));
        // Losses with a queue, or a long queue that a sender at its delivered rate does not make. Beside connections of its own
        // process it may be theirs: two of one session on a line of 0.01 % would give it back to each other.
        if (has_losses || is_long && self.window.queued.1 > 0 && !has_company) && self.is_gentle {
            return true;
        }
        if has_losses || is_long && !self.is_gentle {
            (self.window, self.is_gentle) = (Window::default(), true);
        } else if !is_queued {
            // It was its own probing.
            (self.window, self.is_gentle) = (Window::default(), false);
        } else if self.window.rounds >= WINDOW_ROUNDS_MAX {
            self.least = Some(self.least.map_or(self.window.share(), |least| least.min(self.window.share())));
            self.window = Window::default();
        }
        false
    }

    /// The random share: as it was found, bounded by the window that lost least; more if rounds without a queue lose more.
    fn share(&self, found: LossShare) -> LossShare {
        let unqueued = LossShare::new(self.unqueued.0, self.unqueued.1);
        self.least.map_or(found, |least| least.min(found)).max(unqueued)
    }

    /// Cap in percent of the delivered rate.
    pub(crate) fn probing_percent(&self) -> u64 {
        if self.is_gentle { GENTLE_PERCENT } else { PROBING_PERCENT }
    }

    fn add(&mut self, round: &Round, base_rtt: Duration) {
        let is_queued = round.is_queued(base_rtt);
        self.window.rounds += 1;
        self.window.queued_rounds += u64::from(is_queued);
        self.window.long_rounds += u64::from(has_queue(round.rtt, base_rtt));
        let (packets, losses) = (round.delivered_packets, round.lost_packets);
        if is_queued {
            self.window.queued = (self.window.queued.0 + packets, self.window.queued.1 + losses);
        } else if !self.was_queued && !round.is_repair {
            self.unqueued = (self.unqueued.0 + packets, self.unqueued.1 + losses);
        }
        self.was_queued = is_queued;
    }
}

impl Window {
    /// Returns whether the rounds with a queue lost clearly more than random loss does: twice as much, and one in a thousand.
    fn has_losses(&self, share: LossShare) -> bool {
        let (packets, losses) = self.queued;
        let bound = share.expected(packets) + share.mean(packets) + packets / NOISE_SHARE;
        losses >= QUEUED_LOSSES && losses > bound
    }

    fn share(&self) -> LossShare {
        LossShare::upper(self.queued.0, self.queued.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::QUIET;

    const BASE: Duration = Duration::from_millis(100);
    const NONE: Duration = Duration::ZERO;
    const QUEUE: Duration = Duration::from_millis(20);

    struct Path {
        rounds: Rounds,
        seen: Observation,
    }

    impl Path {
        fn new() -> Path {
            Path { rounds: Rounds::default(), seen: Observation { rtt: BASE, ..QUIET } }
        }

        /// A round of ten looks, each shown to `look`.
        fn round(&mut self, packets: u32, lost: u64, queue: Duration, mut look: impl FnMut(&Path, bool)) {
            self.seen.rtt = BASE + queue;
            self.seen.delivered_packets += packets;
            self.seen.retransmitted_packets += lost;
            for _ in 0..10 {
                self.seen.now += self.seen.rtt / 10;
                let has_ended = self.rounds.observe(&self.seen, false);
                look(self, has_ended);
            }
        }

        /// Result of a trial of so many packets a round after 1000 before it, with these losses and this queue.
        fn trial(packets: u32, lost: u64, queue: Duration, startup_rounds: u32) -> Option<(u32, Verdict)> {
            let mut path = Path::new();
            (0..8).for_each(|_| path.round(1000, 1, NONE, |_, _| {}));
            let share = path.rounds.random_loss(BASE);
            let mut trial = Trial::new(path.seen.now, &path.rounds, share);
            path.seen.paces_itself = true;
            for round in 1..=60 {
                path.seen.ssthresh_packets = if round <= startup_rounds { u32::MAX } else { 1000 };
                let mut verdict = None;
                path.round(packets, lost, queue, |path, has_ended| {
                    verdict = verdict.or(trial.observe(&path.seen, (&path.rounds, has_ended), BASE));
                });
                if let Some(verdict) = verdict {
                    return Some((round, verdict));
                }
            }
            None
        }
    }

    #[test]
    fn a_tenth_more_keeps_it_and_less_does_not() {
        assert_eq!(Path::trial(1120, 1, NONE, 3).map(|(_, verdict)| verdict), Some(Verdict::Kept));
        let refuted = Some(Verdict::Refuted(LossReason::NoGain));
        assert_eq!(Path::trial(1080, 1, NONE, 3).map(|(_, verdict)| verdict), refuted);
    }

    #[test]
    fn it_is_judged_after_a_gain_cycle_that_follows_startup() {
        let (early, _) = Path::trial(2000, 1, NONE, 3).unwrap();
        assert!((11..=14).contains(&early), "{early}");
        // It never ends: 24 rounds, or 3 s, whichever is longer.
        let (late, _) = Path::trial(2000, 1, NONE, 60).unwrap();
        assert!((36..=40).contains(&late), "{late}");
    }

    #[test]
    fn a_policer_is_found_by_its_losses() {
        let refuted = Some(Verdict::Refuted(LossReason::MoreLoss));
        assert_eq!(Path::trial(1200, 36, NONE, 3).map(|(_, verdict)| verdict), refuted);
    }

    #[test]
    fn an_overflow_in_startup_ends_it_after_three_rounds() {
        let refuted = Verdict::Refuted(LossReason::CongestionLoss);
        let (rounds, verdict) = Path::trial(1200, 300, QUEUE, 20).unwrap();
        assert!(rounds <= 5 && verdict == refuted, "{rounds} {verdict:?}");
    }

    #[test]
    fn a_remembered_one_needs_no_gain() {
        let path = Path::new();
        let trial = Trial::remembered(Instant::ZERO, &path.rounds, LossShare::from_ppm(1000));
        assert!(trial.is_starting());
        let mut judging = Judging::new(Instant::ZERO);
        (judging.delivered_packets, judging.time) = (10, BASE);
        assert_eq!(judging.verdict(trial.before_packets_per_s, trial.share), Verdict::Kept);
        judging.lost_packets = 10;
        let refuted = Verdict::Refuted(LossReason::MoreLoss);
        assert_eq!(judging.verdict(trial.before_packets_per_s, trial.share), refuted);
    }

    /// The round at which the host's returns, and whether the cap was lowered, where `queued` says which rounds lose so many.
    fn returns(lost: u64, queue: Duration, queued: impl Fn(u32, bool) -> bool) -> (Option<u32>, bool) {
        returns_beside(false, lost, queue, queued)
    }

    /// The same, with connections of the same process beside it or without.
    fn returns_beside(
        has_company: bool,
        lost: u64,
        queue: Duration,
        queued: impl Fn(u32, bool) -> bool,
    ) -> (Option<u32>, bool) {
        let mut standing = Standing::default();
        let mut was_gentle = false;
        for number in 0..200 {
            let is_queued = queued(number, standing.probing_percent() == GENTLE_PERCENT);
            let (lost_packets, queue) = if is_queued { (lost, queue) } else { (1, NONE) };
            let round = Round {
                ended: Instant::ZERO + BASE * number,
                length: BASE,
                delivered_packets: 1000,
                lost_packets,
                rtt: BASE + queue,
                is_disturbed: false,
                is_repair: false,
            };
            let is_over = standing.observe(&round, LossShare::from_ppm(1000), (BASE, has_company));
            was_gentle |= standing.probing_percent() == GENTLE_PERCENT;
            if is_over {
                return (Some(number), was_gentle);
            }
        }
        (None, was_gentle)
    }

    #[test]
    fn a_neighbour_is_found_and_own_probing_is_not() {
        let small = QUEUE / 4;
        for queue in [small, QUEUE] {
            assert_eq!(returns(20, queue, |round, _| round % 8 < 2), (None, false), "its own probing");
            let (round, _) = returns(20, queue, |round, _| round % 8 != 0);
            assert!(round.is_some_and(|round| (31..=36).contains(&round)), "a neighbour: {round:?}");
            let short = returns(20, queue, |_, is_gentle| !is_gentle);
            assert_eq!(short, (None, true), "a short queue that its probing fills");
        }
        assert_eq!(returns(1, small, |_, _| true), (None, false), "a small queue that loses no more");
        let (round, was_gentle) = returns(1, QUEUE, |_, _| true);
        assert!(round.is_some_and(|round| (31..=36).contains(&round)), "a long one stays: {round:?}");
        assert!(was_gentle);
        let own = returns_beside(true, 1, QUEUE, |_, _| true);
        assert_eq!(own, (None, true), "a long queue that may be of its own process");
        let (round, _) = returns_beside(true, 20, QUEUE, |_, _| true);
        assert!(round.is_some(), "losses with a queue count beside connections of its process, too");
    }
}
