//! The state machine that chooses the congestion control of a connection by the cause of its losses.
//!
//! | state | congestion control | leaves |
//! |---|---|---|
//! | `Hosts` | the host's | at the first unqueued episode, or if the route's memory says random loss |
//! | `Suspect` | the host's | once the episodes decide, at a queue, or after 30 s without any |
//! | `Trial` | rate-based | by its verdict (`trial.rs`) |
//! | `RateBased` | rate-based | when losses come with a queue, or a long queue stays |
//! | `Held` | the host's | in time |
//! | `Denied` | the host's | never |

use core::time::Duration;

use event::{CongestionChoice, CongestionDecision, Instant, LossReason, MayChange, WindowKind};

use crate::bulk::cap::BULK_BYTES;
use crate::loss::episode::{Cause, Episodes};
use crate::loss::rounds::Rounds;
use crate::loss::route::Remembered;
use crate::loss::share::LossShare;
use crate::loss::trial::{Standing, Trial, Verdict};
use crate::measure::cuts::Cut;
use crate::policy::Observation;

/// Shorter paths are left alone: a loss costs little there, and a queue does not show.
const LONG_MIN_RTT: Duration = Duration::from_millis(5);
/// Looks of a sender that is watched: at least one in so many parts of a round trip, within these bounds.
const SUSPECT_LOOKS: u32 = 8;
const HOSTS_LOOKS: u32 = 4;
const LOOK_SOONEST: Duration = Duration::from_millis(1);
const LOOK_LATEST: Duration = Duration::from_millis(20);
/// A refuted change is tried again after so long, and so many times as long each time, up to a maximum.
const REFUTED_FIRST: Duration = Duration::from_secs(60);
const REFUTED_TIMES: u32 = 4;
const REFUTED_MAX: Duration = Duration::from_secs(3600);
/// After losses with a queue; doubled if that comes again soon.
const RETURNED_FIRST: Duration = Duration::from_secs(10);
const RETURNED_TIMES: u32 = 2;
const RETURNED_MAX: Duration = Duration::from_secs(600);
const RETURNED_SOON: Duration = Duration::from_secs(60);

/// Choice of a connection's congestion control by the cause of its losses.
#[derive(Clone, Debug, Default)]
pub(crate) struct LossControl {
    rounds: Rounds,
    episodes: Episodes,
    state: State,
    reason: LossReason,
    /// There is a lot to send on a long path.
    is_watching: bool,
    /// Share of packets that random loss takes, once it was found.
    share: LossShare,
    refuted: Backoff,
    returned: Backoff,
}

#[derive(Clone, Copy, Default, Debug)]
enum State {
    #[default]
    Hosts,
    Suspect,
    Trial(Trial),
    RateBased(Standing),
    Held {
        until: Instant,
    },
    Denied,
}

/// Time until a change is tried again.
#[derive(Clone, Copy, Default, Debug)]
struct Backoff {
    lasts: Duration,
    ended: Instant,
}

impl LossControl {
    /// A queue has overflowed, as the cap saw it: what is lost in the next rounds belongs to it.
    pub(crate) fn overflowed(&mut self) {
        self.rounds.overflowed();
    }

    /// Takes a look, the cut of the window since the one before, and the round trip without a queue.
    pub(crate) fn observe(&mut self, seen: &Observation, cut: Option<Cut>, base_rtt: Duration) {
        let is_device_full = cut.is_some_and(|cut| cut.kind == WindowKind::CutHere);
        let has_ended = self.rounds.observe(seen, is_device_full);
        let is_in_force = matches!(self.state, State::Trial(_) | State::RateBased(_));
        match seen.congestion.may_change {
            MayChange::Unasked | MayChange::Yes => {}
            MayChange::Denied if matches!(self.state, State::Denied) => return,
            MayChange::Denied if is_in_force => return self.deny(),
            MayChange::Denied => {}
            MayChange::Explicit | MayChange::Locked => return self.leave(),
        }
        let is_bulk = seen.backlog_bytes >= BULK_BYTES && !seen.app_limited;
        let is_long = seen.min_rtt.is_some_and(|rtt| rtt >= LONG_MIN_RTT);
        self.is_watching = is_bulk && is_long;
        if !self.is_watching {
            return self.episodes.clear();
        }
        let rounds = (&self.rounds, has_ended);
        match &mut self.state {
            State::Hosts | State::Suspect => self.detect(seen, base_rtt),
            State::Trial(trial) => match trial.observe(seen, rounds, base_rtt) {
                None => {}
                Some(Verdict::Kept) => {
                    // More packets have told of it by now.
                    let measured = self.rounds.random_loss(base_rtt);
                    self.share = if measured == LossShare::default() { self.share } else { measured };
                    self.state = State::RateBased(Standing::default());
                }
                Some(Verdict::Refuted(reason)) => self.refute(seen.now, reason),
            },
            State::RateBased(standing) => {
                let round = self.rounds.last(1).next().filter(|_| has_ended);
                if round
                    .is_some_and(|round| standing.observe(round, self.share, (base_rtt, seen.has_company)))
                {
                    self.give_back(seen.now);
                }
            }
            State::Held { until } if seen.now >= *until => {
                (self.state, self.episodes) = (State::Hosts, Episodes::default());
            }
            State::Held { .. } | State::Denied => {}
        }
    }

    /// Congestion control to use.
    pub(crate) fn decision(&self) -> CongestionDecision {
        let choice = match self.state {
            State::Trial(_) | State::RateBased(_) => CongestionChoice::RateBased,
            State::Hosts | State::Suspect | State::Held { .. } | State::Denied => CongestionChoice::Hosts,
        };
        CongestionDecision { choice, reason: self.reason, restarts: 0, share_ppm: self.share.ppm() }
    }

    /// The share of packets that random loss takes: as found, or of a rate-based sender as measured now.
    pub(crate) fn random_loss(&self, seen: &Observation, base_rtt: Option<Duration>) -> LossShare {
        match (self.state, base_rtt) {
            (State::Trial(trial), _) => trial.share(),
            (State::RateBased(_), _) => self.share,
            // A loss-based one answers each of them.
            (_, Some(base_rtt)) if seen.paces_itself => self.rounds.random_loss(base_rtt),
            _ => LossShare::default(),
        }
    }

    /// Cap of a rate-based sender in percent of the delivered rate.
    pub(crate) fn probing_percent(&self) -> u64 {
        match &self.state {
            State::RateBased(standing) => standing.probing_percent(),
            _ => Standing::default().probing_percent(),
        }
    }

    /// Time until the next look; the maximum if this does not matter.
    pub(crate) fn look_again(&self, min_rtt: Duration) -> Duration {
        let part = |parts| (min_rtt / parts).clamp(LOOK_SOONEST, LOOK_LATEST);
        match &self.state {
            State::Suspect => part(SUSPECT_LOOKS),
            State::Hosts if self.is_watching => part(HOSTS_LOOKS),
            State::Trial(trial) if trial.is_starting() => part(HOSTS_LOOKS),
            State::Trial(_) | State::RateBased(_) => LOOK_LATEST,
            State::Hosts | State::Held { .. } | State::Denied => Duration::MAX,
        }
    }

    fn detect(&mut self, seen: &Observation, base_rtt: Duration) {
        // A host's own rate-based one has nothing to be changed to.
        if seen.paces_itself || seen.congestion.remembered == Remembered::Refuted {
            return;
        }
        if let Remembered::Random { share_ppm } = seen.congestion.remembered
            && seen.congestion.may_change != MayChange::Denied
        {
            self.share = LossShare::from_ppm(share_ppm);
            self.reason = LossReason::Remembered;
            self.state = State::Trial(Trial::remembered(seen.now, &self.rounds, self.share));
            return;
        }
        match self.episodes.observe(seen, &self.rounds, base_rtt) {
            Some(Cause::Unknown) => self.state = State::Suspect,
            Some(Cause::Congestion) => self.state = State::Hosts,
            Some(Cause::Random) => {
                self.share = self.rounds.random_loss(base_rtt);
                self.episodes.clear();
                if seen.congestion.may_change == MayChange::Denied {
                    return self.deny();
                }
                self.reason = LossReason::RandomLoss;
                let upper = self.rounds.random_loss_upper(base_rtt);
                self.state = State::Trial(Trial::new(seen.now, &self.rounds, upper));
            }
            None if self.episodes.is_over(seen.now) => self.state = State::Hosts,
            None => {}
        }
    }

    /// The change was no better.
    fn refute(&mut self, now: Instant, reason: LossReason) {
        self.reason = reason;
        let until = self.refuted.next(now, (REFUTED_FIRST, REFUTED_TIMES, REFUTED_MAX), Duration::MAX);
        self.state = State::Held { until };
    }

    /// Losses come with a queue.
    fn give_back(&mut self, now: Instant) {
        self.reason = LossReason::CongestionLoss;
        let until = self.returned.next(now, (RETURNED_FIRST, RETURNED_TIMES, RETURNED_MAX), RETURNED_SOON);
        self.state = State::Held { until };
    }

    fn deny(&mut self) {
        self.reason = LossReason::NotPermitted;
        self.state = State::Denied;
    }

    /// The user has decided.
    fn leave(&mut self) {
        (self.state, self.reason) = (State::Hosts, LossReason::None);
    }
}

impl Backoff {
    /// The end of the next wait: the first one, or so many times the last if that ended less than `soon` ago.
    fn next(
        &mut self,
        now: Instant,
        (first, times, most): (Duration, u32, Duration),
        soon: Duration,
    ) -> Instant {
        let is_again = !self.lasts.is_zero() && now.since(self.ended) < soon;
        self.lasts = if is_again { (self.lasts * times).min(most) } else { first };
        self.ended = now + self.lasts;
        self.ended
    }
}

#[cfg(test)]
mod tests {
    use event::CongestionState;

    use super::*;
    use crate::testing::QUIET;

    const BASE: Duration = Duration::from_millis(100);
    const NONE: Duration = Duration::ZERO;
    const QUEUE: Duration = Duration::from_millis(20);

    /// A sender in bulk whose congestion control follows the decision a look later.
    struct Path {
        control: LossControl,
        seen: Observation,
        /// Packets per round under the host's and the rate-based one.
        packets: [u32; 2],
        startup_looks: u32,
    }

    impl Path {
        fn new(packets: [u32; 2], may_change: MayChange) -> Path {
            let mut seen = Observation {
                rtt: BASE,
                min_rtt: Some(BASE),
                backlog_bytes: 64 << 20,
                ssthresh_packets: 100,
                ..QUIET
            };
            seen.congestion.may_change = may_change;
            Path { control: LossControl::default(), seen, packets, startup_looks: 0 }
        }

        /// A round with so many losses; the first of them cuts the window of the host's.
        fn round(&mut self, lost: u64, queue: Duration) {
            for look in 0..10 {
                let is_rate_based = self.control.decision().choice == CongestionChoice::RateBased;
                self.startup_looks = if is_rate_based { self.startup_looks + 1 } else { 0 };
                self.seen.paces_itself = is_rate_based;
                self.seen.ssthresh_packets =
                    if (1..30).contains(&self.startup_looks) { u32::MAX } else { 100 };
                self.seen.rtt = BASE + queue;
                self.seen.now += self.seen.rtt / 10;
                let packets = self.packets[usize::from(is_rate_based)];
                self.seen.delivered_packets += packets / 10;
                (self.seen.unacked_packets, self.seen.cwnd_packets) = (packets, packets);
                let is_cut = lost > 0 && look == 0;
                if is_cut {
                    self.seen.retransmitted_packets += lost;
                }
                self.seen.lost_packets = lost as u32;
                self.seen.state = if lost > 0 { CongestionState::Recovery } else { CongestionState::Open };
                let cut = Cut { kind: WindowKind::CutByLoss, from_packets: 2, to_packets: 1 };
                self.control.observe(&self.seen, (is_cut && !is_rate_based).then_some(cut), BASE);
            }
            // A cut shows in what arrives a round later.
            if lost > 0 {
                self.packets[0] = (self.packets[0] * 7 / 10).max(20);
            }
        }

        fn rounds(&mut self, rounds: u32, lost: u64, queue: Duration) {
            (0..rounds).for_each(|_| self.round(lost, queue));
        }

        /// Random loss under the host's until a change, or for a hundred rounds.
        fn lose(&mut self) -> bool {
            for _ in 0..25 {
                self.rounds(3, 0, NONE);
                if self.control.decision().choice == CongestionChoice::RateBased {
                    return true;
                }
                self.round(1, NONE);
            }
            false
        }

        fn decision(&self) -> (CongestionChoice, LossReason) {
            (self.control.decision().choice, self.control.decision().reason)
        }
    }

    const HOSTS: CongestionChoice = CongestionChoice::Hosts;
    const RATE_BASED: CongestionChoice = CongestionChoice::RateBased;

    #[test]
    fn random_loss_is_answered_and_the_answer_is_kept() {
        let mut path = Path::new([1000, 8000], MayChange::Unasked);
        path.rounds(4, 0, NONE);
        assert_eq!(path.control.look_again(BASE), Duration::from_millis(20));
        path.round(1, NONE);
        assert_eq!(path.decision(), (HOSTS, LossReason::None), "one episode");
        assert_eq!(path.control.look_again(BASE), Duration::from_micros(12_500));
        assert!(path.lose());
        assert_eq!(path.decision(), (RATE_BASED, LossReason::RandomLoss));
        assert!(
            path.control.decision().share_ppm > 0
                && path.control.random_loss(&path.seen, None).expected(8000) > 0
        );
        path.rounds(60, 8, NONE);
        assert_eq!(path.decision(), (RATE_BASED, LossReason::RandomLoss));
        assert_eq!(path.control.probing_percent(), 130);
        path.rounds(60, 300, QUEUE);
        assert_eq!(path.decision(), (HOSTS, LossReason::CongestionLoss), "a neighbour");
    }

    #[test]
    fn what_carries_no_more_is_tried_again_more_and_more_rarely() {
        let mut path = Path::new([1000, 400], MayChange::Yes);
        let mut waits = Vec::new();
        for _ in 0..3 {
            path.packets[0] = 1000;
            path.rounds(4, 0, NONE);
            assert!(path.lose());
            while path.decision().0 == RATE_BASED {
                path.round(0, NONE);
            }
            assert_eq!(path.decision().1, LossReason::NoGain);
            let State::Held { until } = path.control.state else { panic!("{:?}", path.control.state) };
            waits.push(until.since(path.seen.now).as_millis().div_ceil(1000));
            path.packets[0] = 1000;
            path.rounds(1, 1, NONE);
            path.seen.now = until;
            path.rounds(1, 0, NONE);
        }
        assert!(waits.is_sorted() && waits[0] >= 59 && waits[1] >= 239 && waits[2] >= 959, "{waits:?}");
    }

    #[test]
    fn nothing_is_changed_that_the_user_or_the_kernel_forbids() {
        for (may_change, reason) in [
            (MayChange::Explicit, LossReason::None),
            (MayChange::Locked, LossReason::None),
            (MayChange::Denied, LossReason::NotPermitted),
        ] {
            let mut path = Path::new([1000, 8000], may_change);
            path.seen.congestion.remembered = match may_change {
                MayChange::Denied => Remembered::Nothing,
                _ => Remembered::Random { share_ppm: 1000 },
            };
            path.rounds(4, 0, NONE);
            assert!(!path.lose());
            assert_eq!(path.decision(), (HOSTS, reason), "{may_change:?}");
        }
    }

    #[test]
    fn a_refusal_after_the_decision_ends_it() {
        let mut path = Path::new([1000, 8000], MayChange::Unasked);
        path.rounds(4, 0, NONE);
        assert!(path.lose());
        path.seen.congestion.may_change = MayChange::Denied;
        path.round(0, NONE);
        assert_eq!(path.decision(), (HOSTS, LossReason::NotPermitted));
    }

    #[test]
    fn the_memory_of_the_route_begins_a_trial_or_forbids_one() {
        let mut path = Path::new([1000, 8000], MayChange::Unasked);
        path.seen.congestion.remembered = Remembered::Random { share_ppm: 1000 };
        path.seen.backlog_bytes = 1 << 20;
        path.rounds(2, 0, NONE);
        assert_eq!(path.decision().0, HOSTS, "not without bulk");
        path.seen.backlog_bytes = 64 << 20;
        path.round(0, NONE);
        assert_eq!(path.decision(), (RATE_BASED, LossReason::Remembered));
        let mut path = Path::new([1000, 8000], MayChange::Unasked);
        path.seen.congestion.remembered = Remembered::Refuted;
        path.rounds(4, 0, NONE);
        assert!(!path.lose());
    }

    #[test]
    fn a_short_path_is_left_alone() {
        let mut path = Path::new([1000, 8000], MayChange::Unasked);
        path.seen.min_rtt = Some(Duration::from_millis(4));
        path.rounds(4, 0, NONE);
        assert!(!path.lose());
    }
}
