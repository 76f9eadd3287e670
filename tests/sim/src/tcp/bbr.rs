//! BBRv1 as `net/ipv4/tcp_bbr.c` has it: model of the path, gains, window and pacing rate.

mod aggregation;
mod long_term;
mod max_filter;

use core::time::Duration;

use event::{CongestionState, Instant};
use link::Dice;

use super::rate::Sample;
use super::recovery::{View, Window};
use super::{FIRST_CWND, NO_THRESHOLD};
use aggregation::Aggregation;
use long_term::LongTerm;
use max_filter::MaxFilter;

/// 2/ln 2 + 1/256.
const HIGH_GAIN: f64 = 739.0 / 256.0;
const DRAIN_GAIN: f64 = 88.0 / 256.0;
const CWND_GAIN: f64 = 2.0;
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// The cycle begins at one of so many phases.
const CYCLE_STARTS: u64 = 7;
/// Rounds of the bandwidth filter.
const BANDWIDTH_ROUNDS: u64 = 10;
/// Growth that keeps STARTUP on, and rounds without it that end it.
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
const MIN_RTT_TIME: Duration = Duration::from_secs(10);
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
const CWND_LEAST: u32 = 4;
/// Of the rate that it computes, so much is used.
const PACING_MARGIN: f64 = 0.99;

/// State machine of BBR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Doubles the rate every round.
    Startup,
    /// Drains the queue of STARTUP.
    Drain,
    /// Cycles through gains around the bandwidth.
    ProbeBw,
    /// Empties the pipe to measure the least round trip.
    ProbeRtt,
}

/// State of BBR.
#[derive(Clone, Debug)]
pub(crate) struct Bbr {
    mode: Mode,
    bandwidth: MaxFilter,
    long_term: LongTerm,
    aggregation: Aggregation,
    round: Round,
    full: Full,
    cycle: Cycle,
    min_rtt: MinRtt,
    prior_cwnd: u32,
    prior_state: CongestionState,
    is_conserving: bool,
    is_restarting: bool,
    has_rtt: bool,
    paced: f64,
}

#[derive(Clone, Copy, Default, Debug)]
struct Round {
    count: u64,
    ends_at: u64,
    starts: bool,
}

/// The estimate that the pipe is full.
#[derive(Clone, Copy, Default, Debug)]
struct Full {
    bandwidth: f64,
    rounds: u32,
    is_reached: bool,
}

#[derive(Clone, Copy, Debug)]
struct Cycle {
    phase: usize,
    since: Instant,
    dice: Dice,
    rolls: u64,
}

#[derive(Clone, Copy, Debug)]
struct MinRtt {
    least: Option<Duration>,
    since: Instant,
    probe_until: Option<Instant>,
    has_probed_round: bool,
}

impl Bbr {
    pub(crate) fn new(view: &View, window: &mut Window, seed: u64) -> Bbr {
        window.ssthresh = NO_THRESHOLD;
        let mut bbr = Bbr {
            mode: Mode::Startup,
            bandwidth: MaxFilter::default(),
            long_term: LongTerm::new(view),
            aggregation: Aggregation::new(view.now),
            round: Round::default(),
            full: Full::default(),
            cycle: Cycle { phase: 0, since: Instant::ZERO, dice: Dice::new(seed, 9), rolls: 0 },
            min_rtt: MinRtt {
                least: view.min_rtt,
                since: view.now,
                probe_until: None,
                has_probed_round: false,
            },
            prior_cwnd: 0,
            prior_state: CongestionState::Open,
            is_conserving: false,
            is_restarting: false,
            has_rtt: false,
            paced: 0.0,
        };
        bbr.begin_pacing(view, window);
        bbr
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// Gain of the pacing rate.
    pub(crate) fn pacing_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup => HIGH_GAIN,
            Mode::Drain => DRAIN_GAIN,
            Mode::ProbeBw if self.long_term.is_used() => 1.0,
            Mode::ProbeBw => CYCLE[self.cycle.phase],
            Mode::ProbeRtt => 1.0,
        }
    }

    fn cwnd_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup | Mode::Drain => HIGH_GAIN,
            Mode::ProbeBw => CWND_GAIN,
            Mode::ProbeRtt => 1.0,
        }
    }

    /// Bandwidth in packets per second.
    fn used_bandwidth(&self) -> f64 {
        self.long_term.bandwidth().unwrap_or(self.bandwidth.max())
    }

    fn begin_pacing(&mut self, view: &View, window: &Window) {
        self.has_rtt |= view.srtt.is_some();
        let rtt = view.srtt.unwrap_or(Duration::from_millis(1)).as_secs_f64();
        self.paced = (f64::from(window.cwnd) / rtt * HIGH_GAIN * PACING_MARGIN).min(view.paced_most);
    }

    /// Packets in flight at which a path of that bandwidth is used `gain` times.
    fn inflight(&self, view: &View, bandwidth: f64, gain: f64) -> u32 {
        let Some(least) = self.min_rtt.least else { return FIRST_CWND };
        let product = (bandwidth * gain * least.as_secs_f64()).ceil() as u32;
        self.with_quanta(view, product)
    }

    fn with_quanta(&self, view: &View, packets: u32) -> u32 {
        let packets = (packets + 3 * view.burst + 1) & !1;
        packets + 2 * u32::from(self.mode == Mode::ProbeBw && self.cycle.phase == 0)
    }

    /// Takes an acknowledgement; returns the pacing rate.
    pub(crate) fn acknowledged(&mut self, view: &View, window: &mut Window, sample: &Sample) -> f64 {
        self.learn_bandwidth(view, sample);
        self.aggregation.observe(view, window.cwnd, self.used_bandwidth(), sample.acked, self.round.starts);
        self.advance_cycle(view, sample);
        self.check_full(sample);
        self.check_drain(view, window);
        self.learn_min_rtt(view, window, sample);
        let rate = self.used_bandwidth() * self.pacing_gain() * PACING_MARGIN;
        if !self.has_rtt && view.srtt.is_some() {
            self.begin_pacing(view, window);
        }
        if self.full.is_reached || rate > self.paced {
            self.paced = rate;
        }
        self.paced = self.paced.min(view.paced_most);
        self.set_cwnd(view, window, sample);
        self.paced
    }

    fn learn_bandwidth(&mut self, view: &View, sample: &Sample) {
        self.round.starts = false;
        let Some((prior, ..)) = sample.prior.filter(|_| !sample.interval.is_zero()) else { return };
        if prior >= self.round.ends_at {
            self.round.ends_at = view.delivered;
            self.round.count += 1;
            self.round.starts = true;
            self.is_conserving = false;
        }
        let is_probing_bandwidth = self.mode == Mode::ProbeBw;
        let left = self.long_term.observe(view, sample, self.round.starts, is_probing_bandwidth);
        if left {
            self.begin_cycle(view);
        }
        let bandwidth = sample.packets_per_s();
        if !sample.is_app_limited || bandwidth >= self.bandwidth.max() {
            self.bandwidth.add(self.round.count, BANDWIDTH_ROUNDS, bandwidth);
        }
    }

    fn begin_cycle(&mut self, view: &View) {
        self.mode = Mode::ProbeBw;
        self.cycle.rolls += 1;
        let roll = self.cycle.dice.roll(self.cycle.rolls) % CYCLE_STARTS;
        self.cycle.phase = CYCLE.len() - 1 - roll as usize;
        self.next_phase(view);
    }

    fn next_phase(&mut self, view: &View) {
        self.cycle.phase = (self.cycle.phase + 1) % CYCLE.len();
        self.cycle.since = view.now;
    }

    fn advance_cycle(&mut self, view: &View, sample: &Sample) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let is_whole = view.now.since(self.cycle.since) > self.min_rtt.least.unwrap_or_default();
        let gain = self.pacing_gain();
        let inflight = sample.prior_in_flight;
        let bandwidth = self.bandwidth.max();
        let is_over = match gain {
            gain if gain > 1.0 => {
                is_whole && (sample.losses > 0 || inflight >= self.inflight(view, bandwidth, gain))
            }
            gain if gain < 1.0 => is_whole || inflight <= self.inflight(view, bandwidth, 1.0),
            _ => is_whole,
        };
        if is_over {
            self.next_phase(view);
        }
    }

    fn check_full(&mut self, sample: &Sample) {
        if self.full.is_reached || !self.round.starts || sample.is_app_limited {
            return;
        }
        if self.bandwidth.max() >= self.full.bandwidth * FULL_GROWTH {
            (self.full.bandwidth, self.full.rounds) = (self.bandwidth.max(), 0);
            return;
        }
        self.full.rounds += 1;
        self.full.is_reached = self.full.rounds >= FULL_ROUNDS;
    }

    fn check_drain(&mut self, view: &View, window: &mut Window) {
        if self.mode == Mode::Startup && self.full.is_reached {
            self.mode = Mode::Drain;
            window.ssthresh = self.inflight(view, self.bandwidth.max(), 1.0);
        }
        if self.mode == Mode::Drain && view.in_flight <= self.inflight(view, self.bandwidth.max(), 1.0) {
            self.begin_cycle(view);
        }
    }

    fn learn_min_rtt(&mut self, view: &View, window: &mut Window, sample: &Sample) {
        let has_expired = view.now > self.min_rtt.since + MIN_RTT_TIME;
        if let Some(rtt) = sample.rtt
            && (has_expired || self.min_rtt.least.is_none_or(|least| rtt < least))
        {
            (self.min_rtt.least, self.min_rtt.since) = (Some(rtt), view.now);
        }
        if has_expired && !self.is_restarting && self.mode != Mode::ProbeRtt {
            self.save_cwnd(window);
            self.mode = Mode::ProbeRtt;
            self.min_rtt.probe_until = None;
        }
        if self.mode == Mode::ProbeRtt {
            match self.min_rtt.probe_until {
                None if view.in_flight <= CWND_LEAST => {
                    self.min_rtt.probe_until = Some(view.now + PROBE_RTT_TIME);
                    self.min_rtt.has_probed_round = false;
                    self.round.ends_at = view.delivered;
                }
                None => {}
                Some(_) => {
                    self.min_rtt.has_probed_round |= self.round.starts;
                    if self.min_rtt.has_probed_round {
                        self.check_probe_rtt(view, window);
                    }
                }
            }
        }
        if sample.delivered > 0 {
            self.is_restarting = false;
        }
    }

    fn check_probe_rtt(&mut self, view: &View, window: &mut Window) {
        if self.min_rtt.probe_until.is_some_and(|until| view.now > until) {
            self.min_rtt.since = view.now;
            window.cwnd = window.cwnd.max(self.prior_cwnd);
            if self.full.is_reached {
                self.begin_cycle(view);
            } else {
                self.mode = Mode::Startup;
            }
        }
    }

    fn set_cwnd(&mut self, view: &View, window: &mut Window, sample: &Sample) {
        if sample.acked > 0 && !self.recovers(view, window, sample) {
            let bandwidth = self.used_bandwidth();
            let product = match self.min_rtt.least {
                Some(least) => (bandwidth * self.cwnd_gain() * least.as_secs_f64()).ceil() as u32,
                None => FIRST_CWND,
            };
            let extra = if self.full.is_reached { self.aggregation.extra(bandwidth) } else { 0 };
            let target = self.with_quanta(view, product + extra);
            if self.full.is_reached {
                window.cwnd = (window.cwnd + sample.acked).min(target);
            } else if window.cwnd < target || view.delivered < u64::from(FIRST_CWND) {
                window.cwnd += sample.acked;
            }
            window.cwnd = window.cwnd.max(CWND_LEAST);
        }
        if self.mode == Mode::ProbeRtt {
            window.cwnd = window.cwnd.min(CWND_LEAST);
        }
    }

    /// Packet conservation in the first round of a recovery, and the window back when it is over. Returns true while packets are
    /// conserved.
    fn recovers(&mut self, view: &View, window: &mut Window, sample: &Sample) -> bool {
        let mut cwnd = window.cwnd.saturating_sub(sample.losses).max(1);
        let (before, state) = (is_repairing(self.prior_state), is_repairing(window.state));
        if window.state == CongestionState::Recovery && self.prior_state != CongestionState::Recovery {
            self.is_conserving = true;
            self.round.ends_at = view.delivered;
            cwnd = view.in_flight + sample.acked;
        } else if before && !state {
            cwnd = cwnd.max(self.prior_cwnd);
            self.is_conserving = false;
        }
        self.prior_state = window.state;
        window.cwnd = if self.is_conserving { cwnd.max(view.in_flight + sample.acked) } else { cwnd };
        self.is_conserving
    }

    /// Remembers the window before a recovery; the threshold is not changed by one.
    pub(crate) fn save_cwnd(&mut self, window: &Window) -> u32 {
        let is_first = !is_repairing(self.prior_state) && self.mode != Mode::ProbeRtt;
        self.prior_cwnd = if is_first { window.cwnd } else { self.prior_cwnd.max(window.cwnd) };
        window.ssthresh
    }

    /// A recovery was not needed: the pipe is not known to be full.
    pub(crate) fn undo(&mut self, window: &Window) -> u32 {
        (self.full.bandwidth, self.full.rounds) = (0.0, 0);
        self.long_term.restart();
        window.cwnd
    }

    pub(crate) fn enters(&mut self, view: &View, state: CongestionState) {
        if state == CongestionState::Loss {
            self.prior_state = state;
            self.full.bandwidth = 0.0;
            self.round.starts = true;
            let sample = Sample { losses: 1, ..Sample::default() };
            self.long_term.observe(view, &sample, true, self.mode == Mode::ProbeBw);
        }
    }

    /// Begins to send after it had nothing to send; returns the pacing rate if it changes.
    pub(crate) fn restarts(&mut self, view: &View, window: &mut Window) -> Option<f64> {
        view.app_limited_until?;
        self.is_restarting = true;
        self.aggregation.begin(view.now);
        match self.mode {
            Mode::ProbeBw => self.paced = (self.used_bandwidth() * PACING_MARGIN).min(view.paced_most),
            Mode::ProbeRtt => self.check_probe_rtt(view, window),
            _ => {}
        }
        Some(self.paced)
    }
}

fn is_repairing(state: CongestionState) -> bool {
    matches!(state, CongestionState::Recovery | CongestionState::Loss)
}
