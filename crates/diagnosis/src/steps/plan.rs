//! The plan of the steps: a pure function of the observations.
//!
//! It begins low, goes on to the nominal load, and beyond it only while requests stay quick. Every role has a limited
//! number of steps, so that the plan ends.

use super::ceiling;
use super::curve::{Curve, DEPTH_MAX, OUTSTANDING_MAX_BYTES, SATURATED};
use super::{StepEnd, StepLoad, StepObservation, StepRole};

/// A step ends, and none follows above it, when a request takes so many times as long as one alone.
pub const SLOW: f64 = 4.0;
/// Growth of the depth from one step to the next: quick where requests are as fast as one alone, doubling near the knee,
/// where four times as many might take four times as long.
const GROWTH: (f64, f64) = (4.0, 2.0);
/// Latency, in base latencies, from which on the knee is near.
const NEAR_KNEE: f64 = 1.5;
/// Gain of one step from which on another is worth it.
const WORTH_A_STEP: f64 = 1.1;
/// Steps of one role at most: 1 → 4 → 16 → 64 → 256 → 1024, and 1 → 4 → 16 sessions.
const MORE_MAX: usize = 5;
const SPREAD_MAX: usize = 2;
/// Factor by which sessions are multiplied, and most of them.
const SPREAD: u32 = 4;
const SESSIONS_MAX: u32 = 64;
/// Part of that factor which four times as many sessions must gain until sixteen times as many are tried.
const STILL_SPREADING: f64 = 0.6;
/// Requests up to this length are too short to show the rate of their data; longer ones of this length are tried.
const SHORT_BYTES: u64 = 64 << 10;
const LONG_BYTES: u64 = 256 << 10;
/// Part of the depth below the nominal one.
const FEWER: f64 = 0.25;

/// Steps of one load.
#[derive(Clone, PartialEq, Debug)]
pub struct StepPlan {
    asked: StepLoad,
    /// Longest request that the target takes.
    request_most_bytes: u64,
    /// Nothing beyond the nominal load.
    is_gentle: bool,
    seen: Vec<StepObservation>,
    /// Roles of which a step could not be run.
    impossible: Vec<StepRole>,
}

impl StepPlan {
    /// Plan around a load. With `is_gentle` no step has more bytes outstanding than that.
    pub fn new(asked: StepLoad, request_most_bytes: u64, is_gentle: bool) -> StepPlan {
        let asked = StepLoad { role: StepRole::Nominal, ..asked };
        StepPlan { asked, request_most_bytes, is_gentle, seen: Vec::new(), impossible: Vec::new() }
    }

    /// Observations so far.
    pub fn seen(&self) -> &[StepObservation] {
        &self.seen
    }

    /// Adds the observation of a step.
    pub fn observe(&mut self, observation: StepObservation) {
        self.seen.push(observation);
    }

    /// Notes that a step could not be run, as where a target has no room for so many sessions.
    pub fn cannot(&mut self, load: StepLoad) {
        self.impossible.push(load.role);
    }

    /// Most steps that there can be.
    pub fn steps_most(&self) -> u32 {
        match self.is_gentle {
            true => 6,
            false => 2 + MORE_MAX as u32 + SPREAD_MAX as u32,
        }
    }

    /// Latency at which a step ends, in seconds; `None` up to the nominal load, and before the base is known.
    pub fn slow_s(&self, load: StepLoad) -> Option<f64> {
        let is_beyond = matches!(load.role, StepRole::More | StepRole::Spread | StepRole::Longer);
        let longer = load.request_bytes as f64 / self.asked.request_bytes.max(1) as f64;
        let base_s = self.base_s()? * longer;
        // As many bytes outstanding as nominal are no slower than nominal.
        let least_s = match self.of(StepRole::Nominal) {
            Some(asked) if load.role != StepRole::More => {
                let requests = f64::from(load.depth.unwrap_or(1)) * f64::from(load.sessions);
                asked.latency_s() * (requests * longer / asked.outstanding()).max(1.0)
            }
            _ => 0.0,
        };
        is_beyond.then(|| SLOW * base_s.max(least_s))
    }

    /// The next load; `None` when nothing is left to ask.
    pub fn next_load(&self) -> Option<StepLoad> {
        let is_one_each = self.asked.depth == Some(1);
        if !is_one_each && self.of(StepRole::Low).is_none() && !self.is_impossible(StepRole::Low) {
            return Some(StepLoad { role: StepRole::Low, depth: Some(1), ..self.asked });
        }
        let Some(asked) = self.of(StepRole::Nominal) else {
            return Some(self.asked).filter(|_| !self.is_impossible(StepRole::Nominal));
        };
        self.more(asked)
            .or_else(|| self.fewer(asked))
            .or_else(|| self.spread(asked))
            .or_else(|| self.longer(asked))
    }

    fn of(&self, role: StepRole) -> Option<&StepObservation> {
        self.all(role).next()
    }

    fn all(&self, role: StepRole) -> impl DoubleEndedIterator<Item = &StepObservation> {
        self.seen.iter().filter(move |seen| seen.load.role == role)
    }

    fn is_impossible(&self, role: StepRole) -> bool {
        self.impossible.contains(&role)
    }

    /// Latency of one request alone.
    fn base_s(&self) -> Option<f64> {
        let least = self.of(StepRole::Low).or_else(|| self.of(StepRole::Nominal))?;
        Some(least.latency_s()).filter(|base_s| *base_s > 0.0)
    }

    /// More requests outstanding, while that gains something and requests stay quick.
    fn more(&self, asked: &StepObservation) -> Option<StepLoad> {
        let count = self.all(StepRole::More).count();
        let top = self.all(StepRole::More).next_back().unwrap_or(asked);
        let base_s = self.base_s()?;
        if self.is_gentle || asked.is_gated() || count >= MORE_MAX || self.is_impossible(StepRole::More) {
            return None;
        }
        if top.end != StepEnd::Whole {
            return None;
        }
        let before = self.all(StepRole::More).rev().nth(1).unwrap_or(asked);
        if count > 0 && top.rate() < WORTH_A_STEP * before.rate() {
            return None;
        }
        if top.latency_s() >= SLOW * base_s {
            return None;
        }
        let growth = if top.latency_s() >= NEAR_KNEE * base_s { GROWTH.1 } else { GROWTH.0 };
        let most = DEPTH_MAX.min(OUTSTANDING_MAX_BYTES / self.asked.request_bytes.max(1) as f64);
        let total = (top.outstanding() * growth).min(most);
        let sessions = f64::from(self.asked.sessions);
        let depth = (total / sessions).ceil();
        (depth * sessions >= WORTH_A_STEP * top.outstanding()).then_some(StepLoad {
            role: StepRole::More,
            depth: Some(depth as u32),
            ..self.asked
        })
    }

    /// Fewer requests outstanding, where more of them are not allowed: a load that loses nothing by it is saturated.
    fn fewer(&self, asked: &StepObservation) -> Option<StepLoad> {
        let depth = (asked.outstanding() * FEWER / f64::from(self.asked.sessions)).floor();
        let is_asked = self.of(StepRole::Fewer).is_some() || self.is_impossible(StepRole::Fewer);
        let is_open = self.is_gentle && !is_asked && depth >= 2.0;
        is_open.then_some(StepLoad { role: StepRole::Fewer, depth: Some(depth as u32), ..self.asked })
    }

    /// True if the nominal load gains nothing from more requests outstanding.
    fn is_saturated(&self, asked: &StepObservation) -> bool {
        let more = self.all(StepRole::More).map(StepObservation::rate).fold(0.0, f64::max);
        if self.of(StepRole::More).is_some() {
            return more < SATURATED * asked.rate();
        }
        // No step above was run: requests that wait for each other are slower than one alone.
        self.base_s().is_some_and(|base_s| asked.latency_s() >= NEAR_KNEE * base_s)
    }

    /// As many requests outstanding over more sessions: a limit of each connection does not hold all of them.
    fn spread(&self, asked: &StepObservation) -> Option<StepLoad> {
        let count = self.all(StepRole::Spread).count();
        let is_open = asked.is_gated() || self.is_saturated(asked);
        if count >= SPREAD_MAX || !is_open || self.is_impossible(StepRole::Spread) {
            return None;
        }
        let top = self.all(StepRole::Spread).next_back();
        if let Some(top) = top {
            let before = self.all(StepRole::Spread).rev().nth(1).unwrap_or(asked);
            let still = STILL_SPREADING * f64::from(SPREAD) * before.rate();
            if top.end != StepEnd::Whole || top.rate() < still {
                return None;
            }
        }
        let wanted = (top.unwrap_or(asked).load.sessions * SPREAD).min(SESSIONS_MAX);
        let outstanding = asked.outstanding();
        let sessions = if self.is_gentle { wanted.min(outstanding as u32) } else { wanted };
        let each = outstanding / f64::from(sessions.max(1));
        let depth = (if self.is_gentle { each.floor() } else { each.round() }).max(1.0) as u32;
        let bytes = f64::from(sessions) * f64::from(depth) * self.asked.request_bytes as f64;
        let is_allowed = bytes <= OUTSTANDING_MAX_BYTES.max(outstanding * self.asked.request_bytes as f64);
        let is_more = sessions >= 2 * top.unwrap_or(asked).load.sessions;
        (is_allowed && is_more).then_some(StepLoad {
            role: StepRole::Spread,
            sessions,
            depth: Some(depth),
            ..self.asked
        })
    }

    /// Longer requests, as many bytes outstanding: a cost of each request is not the line.
    fn longer(&self, asked: &StepObservation) -> Option<StepLoad> {
        let curve = Curve::of(&self.seen)?;
        let is_shared = self.is_saturated(asked) && curve.of_connections().is_none();
        let is_asked = self.of(StepRole::Longer).is_some() || self.is_impossible(StepRole::Longer);
        let is_open = !is_asked && !asked.is_gated();
        let outstanding_bytes = asked.outstanding() * self.asked.request_bytes as f64;
        let sessions = f64::from(self.asked.sessions);
        // One request of this length in each session is little, unless the nominal load is less and no more is allowed.
        let each = outstanding_bytes / sessions;
        let most_each = if self.is_gentle { each } else { each.max(LONG_BYTES as f64) };
        let most = LONG_BYTES.min(self.request_most_bytes).min(most_each as u64);
        // Whole requests of the nominal length, so that blocks stay whole.
        let request_bytes = most / self.asked.request_bytes.max(1) * self.asked.request_bytes;
        let is_longer = request_bytes >= 2 * SHORT_BYTES && self.asked.request_bytes <= SHORT_BYTES;
        let depth = (outstanding_bytes / request_bytes.max(1) as f64 / sessions).floor().max(1.0);
        (is_shared && is_open && is_longer && !ceiling::is_plainly_line(&curve)).then_some(StepLoad {
            role: StepRole::Longer,
            depth: Some(depth as u32),
            request_bytes,
            ..self.asked
        })
    }
}
