//! Lone senders that one process serves, and whose bursts meet on one line: one burst goes after the other.
//!
//! Bursts that go out at the same time share the line and end at the same time, so the next ones meet as well, and each
//! takes as long as all of them together. One after the other the first is there in its own time, nobody is later than
//! before, and a short queue has to take one of them only. On lines of their own each would wait for nothing. Nobody says
//! which it is, so it is tried: a line is shared if each of them, in its turn, is as fast as all of them were together.

use core::time::Duration;
use std::collections::BTreeMap;

use event::Instant;

/// Data of a lone request that are about to be handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Burst {
    /// How much waits.
    pub bytes: u64,
    /// How fast it is to be handed over.
    pub bytes_per_s: u64,
}

/// What a burst gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// When it is to begin.
    pub begins: Instant,
    /// How fast it is to be handed over: as its policy says or faster.
    pub bytes_per_s: u64,
}

/// The last train that a policy has measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Arrived {
    /// How many there have been; wraps.
    pub trains: u32,
    /// How fast its packets arrived.
    pub bytes_per_s: u64,
    /// That is slower than they were handed over: it is the line.
    pub is_line: bool,
}

/// Trains from which a rate is taken.
const TRAINS: usize = 8;
/// Of what all had together so much has to arrive in turns.
const ALL_PERCENT: u64 = 77;
/// Whoever has not been that fast after so many trains has a line of its own.
const TRIAL_TRAINS: u32 = 40;
/// How much faster a burst may be than the train before, in percent, while it is tried.
const GROW_PERCENT: u64 = 140;
/// The time that a burst has, of what it takes as fast as it is handed over, which is a little faster than the line.
const TIME_PERCENT: u32 = 105;
/// Nobody is held back for longer.
const HOLD_MAX: Duration = Duration::from_millis(500);
/// Who has sent nothing for so long does not count.
const PRESENT_LASTS: Duration = Duration::from_secs(4);
/// After a trial that says no, the time to the next; doubled each time, to so much.
const PAUSE_MIN: Duration = Duration::from_secs(2);
const PAUSE_MAX: Duration = Duration::from_secs(64);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Everybody sends when it has something.
    Together,
    /// One after the other, to see what that gives.
    Trial,
    /// One after the other.
    InTurns,
}

/// See the file's beginning. Senders go by the numbers that their owner gives them.
#[derive(Clone, Debug)]
pub struct Crowd {
    phase: Phase,
    members: BTreeMap<usize, Member>,
    /// What arrived of all of them when they sent together.
    together_bytes_per_s: u64,
    booked_until: Instant,
    try_at: Instant,
    pause: Duration,
}

#[derive(Clone, Debug)]
struct Member {
    begins: Instant,
    ends: Instant,
    /// For how long others had bursts as well, and whether that was so for half of the one before.
    met: Duration,
    had_met: bool,
    /// Trains that were seen, and those since the phase began.
    seen_trains: u32,
    trains: u32,
    rates: [u64; TRAINS],
    /// It was as fast as all together.
    is_proven: bool,
}

impl Default for Crowd {
    fn default() -> Crowd {
        Crowd::new()
    }
}

impl Crowd {
    /// Nothing is known.
    pub fn new() -> Crowd {
        Crowd {
            phase: Phase::Together,
            members: BTreeMap::new(),
            together_bytes_per_s: 0,
            booked_until: Instant::ZERO,
            try_at: Instant::ZERO,
            pause: PAUSE_MIN,
        }
    }

    /// When a burst that could begin `now` is to begin, and how fast it is to be handed over.
    pub fn begin(&mut self, number: usize, now: Instant, burst: Burst) -> Turn {
        let Burst { bytes, bytes_per_s } = burst;
        let member = self.members.entry(number).or_insert_with(Member::new);
        let (begins, ends, bytes_per_s) = match self.phase {
            Phase::Together => (now, now + time_of(bytes, bytes_per_s), bytes_per_s),
            Phase::Trial | Phase::InTurns => {
                // Who was slow among the others is not to be slow alone. In a trial it is at first, and the line has room
                // for the next meanwhile.
                let least = bytes_per_s.max(self.together_bytes_per_s / 100 * ALL_PERCENT);
                let begins = self.booked_until.clamp(now, now + HOLD_MAX);
                self.booked_until = begins + time_of(bytes, least) * TIME_PERCENT / 100;
                let grown = (member.rates[0] / 100).saturating_mul(GROW_PERCENT);
                (begins, self.booked_until, bytes_per_s.max(grown.min(least)))
            }
        };
        let mut met = Duration::ZERO;
        if self.phase == Phase::Together {
            for (_, other) in self.members.iter_mut().filter(|(other, _)| **other != number) {
                let both = ends.min(other.ends).since(begins.max(other.begins));
                other.met += both;
                met += both;
            }
        }
        let member = self.members.entry(number).or_insert_with(Member::new);
        member.had_met = member.has_met();
        (member.begins, member.ends, member.met) = (begins, ends, met);
        Turn { begins, bytes_per_s }
    }

    /// Takes the last train that a sender's policy knows of.
    pub fn arrived(&mut self, number: usize, now: Instant, train: Arrived) {
        let is_together = self.phase == Phase::Together;
        let Some(member) = self.members.get_mut(&number) else { return };
        if std::mem::replace(&mut member.seen_trains, train.trains) == train.trains {
            return;
        }
        // Acknowledgements of a burst may come when the next has begun.
        if is_together && !(train.is_line && (member.has_met() || member.had_met)) {
            return;
        }
        member.take(train.bytes_per_s);
        match self.phase {
            Phase::Together if now >= self.try_at => self.consider(now),
            Phase::Together => {}
            Phase::Trial | Phase::InTurns => self.judge(now),
        }
    }

    /// A sender has gone.
    pub fn leave(&mut self, number: usize) {
        self.members.remove(&number);
    }

    /// Whether to try, with at least two whose bursts have met often enough.
    fn consider(&mut self, now: Instant) {
        let present = self.members.values().filter(|member| member.is_present(now));
        let rates: Option<Vec<u64>> = present.map(Member::typical).collect();
        if let Some(rates) = rates.filter(|rates| rates.len() >= 2) {
            self.together_bytes_per_s = rates.iter().sum();
            self.begin_phase(Phase::Trial);
        }
    }

    fn judge(&mut self, now: Instant) {
        let enough = self.together_bytes_per_s / 100 * ALL_PERCENT;
        let mut is_proven = true;
        let mut is_refuted = false;
        for member in self.members.values_mut().filter(|member| member.is_present(now)) {
            let typical = member.typical();
            member.is_proven |= typical.is_some_and(|rate| rate >= enough);
            is_proven &= member.is_proven;
            is_refuted |= !member.is_proven && member.trains >= TRIAL_TRAINS;
            // It was that fast; the line has changed.
            is_refuted |= member.is_proven && typical.is_some_and(|rate| rate < enough / 2);
        }
        if is_refuted {
            self.begin_phase(Phase::Together);
            self.try_at = now + self.pause;
            self.pause = (2 * self.pause).min(PAUSE_MAX);
        } else if is_proven {
            self.phase = Phase::InTurns;
        }
    }

    fn begin_phase(&mut self, phase: Phase) {
        self.phase = phase;
        for member in self.members.values_mut() {
            // The last rate is where the next begin.
            member.rates[1..].fill(0);
            (member.trains, member.is_proven) = (0, false);
        }
    }
}

impl Member {
    fn new() -> Member {
        Member {
            begins: Instant::ZERO,
            ends: Instant::ZERO,
            met: Duration::ZERO,
            had_met: false,
            seen_trains: 0,
            trains: 0,
            rates: [0; TRAINS],
            is_proven: false,
        }
    }

    fn take(&mut self, bytes_per_s: u64) {
        self.trains = self.trains.saturating_add(1);
        self.rates.rotate_right(1);
        self.rates[0] = bytes_per_s;
    }

    /// The median of its last trains, if there are enough of them.
    fn typical(&self) -> Option<u64> {
        let mut rates = self.rates;
        rates.sort_unstable();
        (rates[0] > 0).then_some(rates[TRAINS / 2])
    }

    fn has_met(&self) -> bool {
        2 * self.met >= self.ends.since(self.begins) && self.met > Duration::ZERO
    }

    fn is_present(&self, now: Instant) -> bool {
        now < self.ends + PRESENT_LASTS
    }
}

fn time_of(bytes: u64, bytes_per_s: u64) -> Duration {
    let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_s.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).min(HOLD_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: u64 = 100_000_000;
    const MIB: u64 = 1 << 20;
    const RTT: Duration = Duration::from_millis(16);

    /// Senders of a mebibyte each that begin at the same time: on one line, or each on one of its own.
    struct Scene {
        crowd: Crowd,
        now: Instant,
        is_shared: bool,
        count: usize,
        /// How fast each hands over.
        bytes_per_s: Vec<u64>,
        trains: u32,
    }

    impl Scene {
        fn new(count: usize, is_shared: bool) -> Scene {
            let crowd = Crowd::new();
            let bytes_per_s = vec![LINE; count];
            Scene { crowd, now: Instant::ZERO, is_shared, count, bytes_per_s, trains: 0 }
        }

        /// One burst of each; when the last of them has gone out.
        fn round(&mut self) -> Duration {
            self.now += RTT;
            let begins: Vec<Instant> = (0..self.count)
                .map(|n| {
                    let burst = Burst { bytes: MIB, bytes_per_s: self.bytes_per_s[n] };
                    let turn = self.crowd.begin(n, self.now, burst);
                    self.bytes_per_s[n] = turn.bytes_per_s;
                    turn.begins
                })
                .collect();
            let has_met = begins.windows(2).all(|two| two[1].since(two[0]) < time_of(MIB, LINE) / 2);
            let fastest = if self.is_shared && has_met { LINE / self.count as u64 } else { LINE };
            self.trains += 1;
            for n in 0..self.count {
                let bytes_per_s = fastest.min(self.bytes_per_s[n]);
                let is_line = bytes_per_s < self.bytes_per_s[n];
                self.bytes_per_s[n] = if is_line { fastest } else { bytes_per_s } / 100 * 112;
                let train = Arrived { trains: self.trains, bytes_per_s, is_line };
                self.crowd.arrived(n, self.now + RTT, train);
            }
            let last = begins[self.count - 1].since(self.now) + time_of(MIB, fastest);
            self.now += last;
            last
        }

        fn rounds(&mut self, count: usize) -> Vec<Duration> {
            (0..count).map(|_| self.round()).collect()
        }
    }

    #[test]
    fn on_one_line_they_take_turns() {
        for count in [2, 3, 8] {
            let mut scene = Scene::new(count, true);
            scene.rounds(100);
            assert_eq!(scene.crowd.phase, Phase::InTurns, "{count}");
            let burst = Burst { bytes: MIB, bytes_per_s: LINE };
            let now = scene.now + RTT;
            let first = scene.crowd.begin(0, now, burst).begins;
            let second = scene.crowd.begin(1, now, burst).begins;
            assert_eq!(first, now);
            assert_eq!(second.since(first), time_of(MIB, LINE) * TIME_PERCENT / 100);
        }
    }

    #[test]
    fn on_lines_of_their_own_they_do_not_and_are_asked_less_and_less() {
        let mut scene = Scene::new(2, false);
        let took = scene.rounds(4000);
        assert_eq!(scene.crowd.pause, PAUSE_MAX);
        let own = time_of(MIB, LINE / 100 * 112);
        let slower = took.iter().filter(|last| **last > own * 3 / 2).count();
        assert!(slower < 700, "{slower} of 4000 were held back");
    }

    #[test]
    fn one_alone_never_waits() {
        let mut scene = Scene::new(1, true);
        assert!(scene.rounds(100).iter().all(|last| *last <= time_of(MIB, LINE)));
        assert_eq!(scene.crowd.phase, Phase::Together);
    }

    #[test]
    fn a_newcomer_with_a_line_of_its_own_ends_the_turns_of_all() {
        let mut scene = Scene::new(2, true);
        scene.rounds(100);
        for trains in 1..=TRIAL_TRAINS {
            let now = scene.now + RTT * trains;
            scene.crowd.begin(7, now, Burst { bytes: MIB, bytes_per_s: LINE / 10 });
            scene.crowd.arrived(7, now, Arrived { trains, bytes_per_s: LINE / 10, is_line: true });
        }
        assert_eq!(scene.crowd.phase, Phase::Together);
    }

    #[test]
    fn nobody_is_held_back_for_long_and_who_has_gone_is_forgotten() {
        let mut crowd = Crowd { phase: Phase::InTurns, ..Crowd::new() };
        let slow = Burst { bytes: u64::MAX, bytes_per_s: 0 };
        for number in 0..100 {
            let begins = crowd.begin(number, Instant::ZERO, slow).begins;
            assert!(begins <= Instant::ZERO + HOLD_MAX, "{begins:?}");
        }
        (0..100).for_each(|number| crowd.leave(number));
        assert!(crowd.members.is_empty());
        crowd.arrived(3, Instant::ZERO, Arrived { trains: 1, bytes_per_s: 1, is_line: true });
        assert!(crowd.members.is_empty());
    }
}
