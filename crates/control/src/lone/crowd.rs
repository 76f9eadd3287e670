//! Lone senders that one process serves, and whose bursts meet on one line: one burst goes after the other.
//!
//! Bursts that go out at the same time share the line and end at the same time, so the next ones meet as well, and each
//! takes as long as all of them together. One after the other the first is there in its own time, the last is no later
//! than before if they are alike, and a short queue has to take one of them only. On lines of their own each would wait for
//! nothing. Nobody says which it is, so it is tried: a line is shared if each of them, in its turn, is as fast as all of
//! them were together, and no faster. It is not tried where all together fill the line as they are: turns bring nothing
//! then, and a trial costs a part of it, as a burst that its window does not let out at once leaves a gap in its turn.
//!
//! Behind a device that takes packets one by one, once it has refused something, all go through one bucket and wait there
//! (`order.rs`); here it is only said how fast a burst is to be at least, and whether others are to wait for one that is slower.

use core::time::Duration;
use std::collections::BTreeMap;

use event::Instant;

use crate::lone::space::{GROW_PERCENT, LINE_PERCENT};
use crate::measure::counter::Counter;

/// Data of a lone request that are about to be handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Burst {
    /// How much waits.
    pub bytes: u64,
    /// How fast it is to be handed over.
    pub bytes_per_s: u64,
}

/// What a burst is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BurstStart {
    /// When it is to begin.
    pub at: Instant,
    /// How fast it is to be handed over at least, whatever its policy says.
    pub least_bytes_per_s: u64,
    /// Others wait also while it is handed over slower than the device takes it: alone it shows how fast its line is.
    pub keeps_others: bool,
}

impl BurstStart {
    /// As its policy says.
    fn at(at: Instant) -> BurstStart {
        BurstStart { at, least_bytes_per_s: 0, keeps_others: false }
    }
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
/// Of what all had together so much has to arrive in turns, and no more than the inverse of it.
const ALL_PERCENT: u64 = 77;
/// Whoever has not been that fast after so many trains has a line of its own.
const TRIAL_TRAINS: u32 = 40;
/// The time that a burst has, of what it takes as fast as it is handed over, which is a little faster than the line: with
/// all of that the line would be idle between many.
const TIME_PERCENT: u32 = 102;
/// Nobody is held back for longer. Where the bursts of all take more than that, all go as they come.
const HOLD_MAX: Duration = Duration::from_millis(200);
/// A burst of less than such a part of another's does not wait.
const SHORT_PART: u64 = 4;
/// Whoever has had so many turns without a train cannot be measured, and is not held back.
const BLIND_TURNS: u32 = 8;
/// Where all together have so much of the line, in percent, turns would bring nobody anything; over so long a time.
const FULL_PERCENT: u64 = 90;
const HANDED_TIME: Duration = Duration::from_millis(500);
/// Who has sent nothing for so long does not count, and without trains for so long nothing is known.
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
    /// What goes through the bucket that all share, if there is one.
    device_bytes_per_s: Option<u64>,
    phase: Phase,
    members: BTreeMap<usize, Member>,
    /// What arrived of all of them when they sent together.
    together_bytes_per_s: u64,
    /// What all have begun to hand over, and how fast that was of late in the present phase.
    handed_bytes: u64,
    counter: Counter,
    handed_bytes_per_s: Option<u64>,
    booked_until: Instant,
    trained_at: Instant,
    try_at: Instant,
    pause: Duration,
    prune_at: Instant,
}

#[derive(Clone, Debug, Default)]
struct Member {
    begins: Instant,
    ends: Instant,
    bytes: u64,
    /// For how long others had bursts as well, in percent of its own: of this burst and of the one before.
    met_percent: u64,
    had_met_percent: u64,
    /// Turns and trains since the phase began, and the trains that were seen in all.
    turns: u32,
    trains: u32,
    seen_trains: u32,
    last: Arrived,
    /// Of the last trains, in turns their own rates, together the line's as they show it.
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
            device_bytes_per_s: None,
            phase: Phase::Together,
            members: BTreeMap::new(),
            together_bytes_per_s: 0,
            handed_bytes: 0,
            counter: Counter::default(),
            handed_bytes_per_s: None,
            booked_until: Instant::ZERO,
            trained_at: Instant::ZERO,
            try_at: Instant::ZERO,
            pause: PAUSE_MIN,
            prune_at: Instant::ZERO,
        }
    }

    /// What the device takes of all of them, if they hand over to it one after the other anyway: then nobody waits here.
    pub fn go_through(&mut self, device_bytes_per_s: Option<u64>) {
        if self.device_bytes_per_s.is_none() && device_bytes_per_s.is_some() {
            self.begin_phase(Phase::Together);
        }
        self.device_bytes_per_s = device_bytes_per_s;
    }

    /// When a burst that could begin `now` is to begin, and how fast it is to be handed over at least.
    pub fn begin(&mut self, number: usize, now: Instant, burst: Burst) -> BurstStart {
        if self.phase != Phase::Together && now >= self.trained_at + PRESENT_LASTS {
            self.begin_phase(Phase::Together);
        }
        if now >= self.prune_at {
            self.members.retain(|_, member| member.is_present(now));
            self.prune_at = now + PRESENT_LASTS;
        }
        let mut member = self.members.remove(&number).unwrap_or_default();
        let rate = self.counter.rate(now, self.handed_bytes, HANDED_TIME);
        self.handed_bytes_per_s = rate.or(self.handed_bytes_per_s);
        self.handed_bytes = self.handed_bytes.saturating_add(burst.bytes);
        let start = match (self.device_bytes_per_s, self.phase) {
            (Some(device), _) => {
                member.ends = now;
                member.go_through(now, device)
            }
            (None, Phase::Together) => {
                let ends = now + time_of(burst.bytes, burst.bytes_per_s);
                self.meet(&mut member, now, ends);
                BurstStart::at(now)
            }
            (None, Phase::Trial | Phase::InTurns) => self.book(&mut member, now, burst),
        };
        member.bytes = burst.bytes;
        member.turns = member.turns.saturating_add(1);
        self.members.insert(number, member);
        start
    }

    /// A burst from `begins` to `ends`, and how much of that time others have too.
    fn meet(&mut self, member: &mut Member, begins: Instant, ends: Instant) {
        member.had_met_percent = member.met_percent;
        (member.begins, member.ends, member.met_percent) = (begins, ends, 0);
        for other in self.members.values_mut() {
            let both = ends.min(other.ends).since(begins.max(other.begins));
            member.met_percent += percent(both, ends.since(begins));
            other.met_percent += percent(both, other.ends.since(other.begins));
        }
    }

    /// A burst behind those that are booked.
    fn book(&mut self, member: &mut Member, now: Instant, burst: Burst) -> BurstStart {
        // In a trial it is slow at first, and the line has room for the next meanwhile.
        let enough = self.together_bytes_per_s / 100 * ALL_PERCENT;
        let time = time_of(burst.bytes, burst.bytes_per_s.max(enough)) * TIME_PERCENT / 100;
        let free_at = self.booked_until.clamp(now, now + HOLD_MAX);
        let is_blind = member.trains == 0 && member.turns >= BLIND_TURNS;
        let longest = self.members.values().map(|other| other.bytes).max().unwrap_or(0);
        let is_short = burst.bytes < longest / SHORT_PART;
        let at = if is_blind || is_short { now } else { free_at };
        if !is_blind {
            self.booked_until = free_at + time;
        }
        (member.begins, member.ends) = (at, at + time);
        let least_bytes_per_s = if is_blind { 0 } else { member.grown().min(enough) };
        BurstStart { least_bytes_per_s, ..BurstStart::at(at) }
    }

    /// Takes the last train that a sender's policy knows of.
    pub fn arrived(&mut self, number: usize, now: Instant, train: Arrived) {
        let Some(member) = self.members.get_mut(&number) else { return };
        let seen_trains = std::mem::replace(&mut member.seen_trains, train.trains);
        // Who comes back brings its old one.
        if seen_trains == train.trains || seen_trains == 0 && train.trains > 1 {
            return;
        }
        member.last = train;
        self.trained_at = now;
        if self.device_bytes_per_s.is_some() {
            member.turns = 0;
            return;
        }
        if self.phase != Phase::Together {
            member.take(train.bytes_per_s);
            return self.judge(now);
        }
        // Acknowledgements of a burst may come when the next has begun.
        let met_percent = member.met_percent.max(member.had_met_percent);
        if train.is_line && met_percent >= 50 {
            member.take((train.bytes_per_s / 100).saturating_mul(100 + met_percent));
            if now >= self.try_at {
                self.consider(now);
            }
        }
    }

    /// A sender has gone.
    pub fn leave(&mut self, number: usize) {
        self.members.remove(&number);
        if self.members.len() < 2 {
            self.begin_phase(Phase::Together);
        }
    }

    /// Whether to try, with at least two whose bursts have met often enough; who has met less often is waited for.
    fn consider(&mut self, now: Instant) {
        // Of the first half second nothing is known.
        let Some(handed) = self.handed_bytes_per_s else { return };
        let present = || self.members.values().filter(|member| member.is_present(now));
        let lines: Option<Vec<u64>> =
            present().filter(|member| member.trains > 0).map(Member::typical).collect();
        let Some(mut lines) = lines.filter(|lines| lines.len() >= 2) else { return };
        lines.sort_unstable();
        let line = lines[(lines.len() - 1) / 2];
        if handed >= line / 100 * FULL_PERCENT {
            return;
        }
        let all_bytes: u64 = present().map(|member| member.bytes).sum();
        // Where that is too much it says nothing about the time after.
        if all_bytes < (line / 1000).saturating_mul(HOLD_MAX.as_millis() as u64) {
            self.together_bytes_per_s = line;
            self.begin_phase(Phase::Trial);
        }
    }

    fn judge(&mut self, now: Instant) {
        let all = self.together_bytes_per_s;
        let (enough, most) = (all / 100 * ALL_PERCENT, all / ALL_PERCENT * 100);
        let (mut proven, mut open, mut is_refuted) = (0, 0, false);
        for member in self.members.values_mut().filter(|member| member.is_present(now)) {
            let typical = member.typical();
            member.is_proven |= typical.is_some_and(|rate| rate >= enough);
            match member.is_proven {
                true => proven += 1,
                false if member.trains > 0 || member.turns < BLIND_TURNS => open += 1,
                false => {}
            }
            is_refuted |= !member.is_proven && member.trains >= TRIAL_TRAINS;
            // Faster than all of them were, or as fast as they once and no more: it is another line, or it has changed.
            is_refuted |= typical.is_some_and(|rate| rate > most || member.is_proven && rate < enough / 2);
        }
        if is_refuted {
            self.begin_phase(Phase::Together);
            self.try_at = now + self.pause;
            self.pause = (2 * self.pause).min(PAUSE_MAX);
        } else if proven + open < 2 {
            self.begin_phase(Phase::Together);
        } else if self.phase == Phase::Trial && open == 0 {
            self.phase = Phase::InTurns;
            self.pause = PAUSE_MIN;
        }
    }

    fn begin_phase(&mut self, phase: Phase) {
        self.phase = phase;
        (self.counter, self.handed_bytes_per_s) = (Counter::default(), None);
        for member in self.members.values_mut() {
            (member.turns, member.trains, member.rates, member.is_proven) = (0, 0, [0; TRAINS], false);
            (member.met_percent, member.had_met_percent) = (0, 0);
        }
    }
}

impl Member {
    fn take(&mut self, bytes_per_s: u64) {
        self.trains = self.trains.saturating_add(1);
        self.rates.rotate_right(1);
        self.rates[0] = bytes_per_s;
    }

    /// One whose last burst was as fast as it was handed over, or is not known, is alone with its next: it may be as fast as the
    /// device. One that was slower has a slower line of its own, and leaves the rest to others; so does who cannot be measured.
    fn go_through(&self, now: Instant, device_bytes_per_s: u64) -> BurstStart {
        let is_measured = self.turns == 0;
        let keeps_others = if is_measured { !self.last.is_line } else { self.turns < BLIND_TURNS };
        BurstStart { at: now, least_bytes_per_s: self.grown().min(device_bytes_per_s), keeps_others }
    }

    /// What it may be handed over at in a turn of its own: who was slow among the others is not to be slow alone.
    fn grown(&self) -> u64 {
        let percent = if self.last.is_line { LINE_PERCENT } else { GROW_PERCENT };
        (self.last.bytes_per_s / 100).saturating_mul(percent)
    }

    /// The median of its last trains, if there are enough of them.
    fn typical(&self) -> Option<u64> {
        let mut rates = self.rates;
        rates.sort_unstable();
        (rates[0] > 0).then_some(rates[TRAINS / 2])
    }

    fn is_present(&self, now: Instant) -> bool {
        now < self.ends + PRESENT_LASTS
    }
}

fn percent(part: Duration, all: Duration) -> u64 {
    u64::try_from(part.as_nanos() * 100 / all.as_nanos().max(1)).unwrap_or(u64::MAX)
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
                    self.bytes_per_s[n] = self.bytes_per_s[n].max(turn.least_bytes_per_s);
                    turn.at
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
            let first = scene.crowd.begin(0, now, burst).at;
            let second = scene.crowd.begin(1, now, burst).at;
            assert_eq!(first, now);
            assert_eq!(second.since(first), time_of(MIB, LINE) * TIME_PERCENT / 100);
        }
    }

    #[test]
    fn where_the_line_is_full_as_it_is_nobody_waits_for_a_turn() {
        // Sixteen take 168 ms of each 184.
        for (count, phase) in [(8, Phase::InTurns), (16, Phase::Together)] {
            let mut scene = Scene::new(count, true);
            scene.rounds(100);
            assert_eq!((scene.crowd.phase, scene.crowd.pause), (phase, PAUSE_MIN), "{count}");
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
    fn who_comes_back_brings_no_new_train() {
        let mut scene = Scene::new(2, true);
        scene.rounds(100);
        let (trained_at, trains) = (scene.crowd.trained_at, scene.trains);
        let arrived = |crowd: &mut Crowd, trains, now| {
            crowd.arrived(0, now, Arrived { trains, bytes_per_s: LINE, is_line: true });
        };
        scene.crowd.leave(0);
        let later = scene.now + RTT;
        scene.crowd.begin(0, later, Burst { bytes: MIB, bytes_per_s: LINE });
        arrived(&mut scene.crowd, trains, later);
        assert_eq!(scene.crowd.trained_at, trained_at);
        arrived(&mut scene.crowd, trains + 1, later + RTT);
        assert_eq!(scene.crowd.trained_at, later + RTT);
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
    fn a_newcomer_with_a_faster_line_ends_the_turns_of_all() {
        let mut scene = Scene::new(2, true);
        scene.rounds(100);
        let burst = Burst { bytes: MIB, bytes_per_s: 10 * LINE };
        for trains in 1..=TRAINS as u32 {
            assert_eq!(scene.crowd.phase, Phase::InTurns);
            let now = scene.now + RTT * trains;
            scene.crowd.begin(7, now, burst);
            scene.crowd.arrived(7, now, Arrived { trains, bytes_per_s: 10 * LINE, is_line: true });
        }
        assert_eq!(scene.crowd.phase, Phase::Together);
    }

    #[test]
    fn who_cannot_be_measured_and_who_asks_for_little_is_not_held_back() {
        let mut scene = Scene::new(2, true);
        scene.rounds(100);
        let now = scene.now + RTT;
        let waits = |crowd: &mut Crowd, number, bytes| {
            crowd.begin(0, now, Burst { bytes: MIB, bytes_per_s: LINE });
            crowd.begin(number, now, Burst { bytes, bytes_per_s: LINE }).at > now
        };
        assert!(!waits(&mut scene.crowd, 7, MIB / 5), "little");
        let blind: Vec<bool> = (0..10).map(|_| waits(&mut scene.crowd, 8, MIB / 2)).collect();
        assert_eq!(blind, [[true; 8].as_slice(), &[false; 2]].concat());
    }

    #[test]
    fn turns_end_when_nobody_is_left_and_when_no_train_comes() {
        for is_gone in [true, false] {
            let mut scene = Scene::new(2, true);
            scene.rounds(100);
            if is_gone {
                scene.crowd.leave(0);
            } else {
                let late = scene.now + RTT + PRESENT_LASTS;
                scene.crowd.begin(0, late, Burst { bytes: MIB, bytes_per_s: LINE });
            }
            assert_eq!(scene.crowd.phase, Phase::Together, "{is_gone}");
        }
    }

    #[test]
    fn behind_a_device_nobody_waits_here_and_who_was_slow_is_soon_as_fast_as_it() {
        let mut scene = Scene::new(2, true);
        scene.rounds(100);
        let Scene { crowd, now, .. } = &mut scene;
        crowd.go_through(Some(LINE));
        let mut trains = 100;
        let mut burst = |crowd: &mut Crowd, last: Option<(u64, bool)>| {
            trains += 1;
            if let Some((bytes_per_s, is_line)) = last {
                crowd.arrived(0, *now, Arrived { trains, bytes_per_s, is_line });
            }
            crowd.begin(1, *now, Burst { bytes: MIB, bytes_per_s: LINE });
            let start = crowd.begin(0, *now, Burst { bytes: MIB, bytes_per_s: LINE / 4 });
            assert_eq!(start.at, *now);
            (start.least_bytes_per_s, start.keeps_others)
        };
        assert_eq!(burst(crowd, Some((LINE / 4, false))), (LINE / 400 * GROW_PERCENT, true));
        assert_eq!(burst(crowd, Some((LINE, false))), (LINE, true), "as fast as the device and no faster");
        assert_eq!(burst(crowd, Some((LINE / 4, true))), (LINE / 400 * LINE_PERCENT, false), "its own line");
        for turn in 1..=BLIND_TURNS {
            let (_, keeps_others) = burst(crowd, None);
            assert_eq!(keeps_others, turn < BLIND_TURNS, "{turn}: what is not measured is not known");
        }
        crowd.go_through(None);
        assert_eq!(burst(crowd, None), (0, false));
    }

    #[test]
    fn nobody_is_held_back_for_long_and_who_has_gone_is_forgotten() {
        let mut crowd = Crowd { phase: Phase::InTurns, ..Crowd::new() };
        let slow = Burst { bytes: u64::MAX, bytes_per_s: 0 };
        for number in 0..100 {
            let begins = crowd.begin(number, Instant::ZERO, slow).at;
            assert!(begins <= Instant::ZERO + HOLD_MAX, "{begins:?}");
        }
        (0..100).for_each(|number| crowd.leave(number));
        assert!(crowd.members.is_empty());
        crowd.arrived(3, Instant::ZERO, Arrived { trains: 1, bytes_per_s: 1, is_line: true });
        assert!(crowd.members.is_empty());
    }
}
