//! How fast a load goes within given limits: a closed system of few parts.
//!
//! A caller with N requests of B bytes outstanding, each of which takes R when nothing queues, gets N × B ÷ R
//! (Little's law), and never more than the slowest part lets through. So every limiter is one of three things: places
//! for requests (N), time of a request (a part of R), or a rate. To relieve it is to take it out and to ask again.

use super::facts::Facts;
use super::limiter::Limiter;
use super::verdict::{Evidence, Performance};

/// A limiter that was found, and what it does to the load.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Finding {
    pub(super) limiter: Limiter,
    /// For what share of the time it limits.
    pub(super) share: f64,
    pub(super) effect: Effect,
    pub(super) evidence: Vec<Evidence>,
}

/// What a limiter does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Effect {
    /// So many requests of all sessions together at most.
    Places(f64),
    /// Every request takes so much longer.
    Time(f64),
    /// So many bytes per second at most; with more connections as many times more, if it is one of each of them.
    Rate { bytes_per_s: f64, of_connection: bool },
    /// So many bytes per second now, because it begins slowly, and so many later.
    Ramp { now: f64, then: f64 },
    /// Not a limit of its own: longer requests make all places worth more.
    Longer,
    /// Not a limit of its own: as many times more connections.
    More(f64),
}

/// What a load gets, and what holds it there.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Outcome {
    pub(super) bytes_per_s: f64,
    pub(super) held_by: Limiter,
}

/// The load within all that was found but the first of `without`, which is relieved, and others that it hides behind.
pub(super) fn outcome(facts: &Facts, findings: &[Finding], without: &[usize]) -> Outcome {
    let relieved = without.first().map(|index| findings[*index].effect);
    let rest = findings.iter().enumerate().filter(|(index, _)| !without.contains(index)).map(|(_, f)| f);
    let saved = if let Some(Effect::Time(saved)) = relieved { saved } else { 0.0 };
    let request_s = (unloaded_s(facts, findings) - saved).max(1e-9);
    let times = if let Some(Effect::More(times)) = relieved { times } else { 1.0 };
    let mut least = Outcome { bytes_per_s: f64::INFINITY, held_by: Limiter::RoundTrip };
    for finding in rest {
        let bytes_per_s = match finding.effect {
            // Requests become as long as is worth it, and no rate is known that would hold them before.
            Effect::Places(most) if relieved == Some(Effect::Longer) => {
                most * facts.request_bytes.max(LONG_BYTES) / request_s
            }
            Effect::Places(most) => most * facts.request_bytes / request_s,
            Effect::Rate { bytes_per_s, of_connection: true } => bytes_per_s * times,
            Effect::Rate { bytes_per_s, of_connection: false } => bytes_per_s,
            Effect::Ramp { now, .. } => now,
            Effect::Time(_) | Effect::Longer | Effect::More(_) => continue,
        };
        if bytes_per_s < least.bytes_per_s {
            least = Outcome { bytes_per_s, held_by: finding.limiter };
        }
    }
    match relieved {
        // It is as fast as it was seen to be, and no faster.
        Some(Effect::Ramp { then, .. }) if then < least.bytes_per_s => Outcome { bytes_per_s: then, ..least },
        _ => least,
    }
}

/// How the load would fare without one of the findings, and what would hold it then.
pub(super) fn relieve(facts: &Facts, findings: &[Finding], index: usize) -> (Performance, Limiter) {
    let current = facts.current;
    let now = outcome(facts, findings, &[]);
    let mut without = vec![index];
    let mut then = outcome(facts, findings, &without);
    // Whatever is seen at the present rate seems to hold it there. Of several of them, those that were seen for less of
    // the time are seen because of the others.
    while let Some(hidden) = masked(facts, findings, &without, then) {
        without.push(hidden);
        then = outcome(facts, findings, &without);
    }
    // What the model does not know of a request's time stays as it is; a rate is as it was seen.
    let is_of_places =
        |limiter| matches!(limiter, Limiter::CallerDepth | Limiter::QueueLimit | Limiter::CommandWindow);
    let unexplained =
        if is_of_places(now.held_by) { (current.bytes_per_s / now.bytes_per_s).min(1.0) } else { 1.0 };
    let is_line = then.held_by == Limiter::LinkRate;
    let mut bytes_per_s = if is_line { then.bytes_per_s } else { then.bytes_per_s * unexplained };
    let is_same = then.bytes_per_s <= now.bytes_per_s * SAME;
    let is_only_longer = findings[index].effect == Effect::Longer && is_of_places(then.held_by);
    if !bytes_per_s.is_finite() || is_only_longer {
        // Nothing is known that would hold it: twice as much of what holds it gets twice as much, at least.
        bytes_per_s = current.bytes_per_s * 2.0;
    }
    if is_same || bytes_per_s < current.bytes_per_s {
        bytes_per_s = current.bytes_per_s;
    }
    let gain = if current.bytes_per_s > 0.0 { bytes_per_s / current.bytes_per_s } else { 1.0 };
    let latency_s = match findings[index].effect {
        // The caller adds requests, each of which takes what it takes.
        Effect::Places(_) if findings[index].limiter == Limiter::CallerDepth => current.latency_s,
        Effect::Longer => current.latency_s,
        _ => current.latency_s / gain,
    };
    (Performance { bytes_per_s, latency_s }, then.held_by)
}

/// What would hold the load where it is once the first of `without` is gone, if that was seen for more of the time.
fn masked(facts: &Facts, findings: &[Finding], without: &[usize], then: Outcome) -> Option<usize> {
    let relieved = &findings[*without.first()?];
    let is_rate = |f: &Finding| matches!(f.effect, Effect::Rate { .. } | Effect::Ramp { .. });
    let is_same = (then.bytes_per_s / facts.current.bytes_per_s.max(1e-9) - 1.0).abs() <= SAME - 1.0;
    // The rate of a line whose packets were recorded is its own, whoever sends and how.
    let is_seen_by_itself = |f: &Finding| f.limiter == Limiter::LinkRate && facts.line_busy.is_some();
    let found = findings.iter().enumerate().find(|(index, f)| {
        let is_next = f.limiter == then.held_by && is_rate(f) && !is_seen_by_itself(f);
        is_next && f.share < relieved.share && !without.contains(index)
    });
    found.filter(|_| is_same && is_rate(relieved)).map(|(index, _)| index)
}

/// What a request takes from the command window's leave to its end, when it queues nowhere.
pub(super) fn unloaded_s(facts: &Facts, findings: &[Finding]) -> f64 {
    let rate = facts.rate();
    let measured = if rate > 0.0 { facts.outstanding.granted / rate } else { facts.current.latency_s };
    let is_full = findings.iter().any(|finding| match finding.effect {
        Effect::Rate { bytes_per_s, .. } => bytes_per_s <= facts.current.bytes_per_s * FULL,
        Effect::Ramp { .. } => true,
        _ => false,
    });
    // What always waits to be sent says the same of TCP or the path, whatever it is there.
    let is_backlogged = backlogged(facts) >= BACKLOGGED;
    if !is_full && !is_backlogged {
        return measured;
    }
    let times: f64 = findings.iter().map(|f| if let Effect::Time(s) = f.effect { s } else { 0.0 }).sum();
    let line = facts.line_bytes_per_s.map_or(0.0, |line| facts.request_bytes / line);
    (facts.rtt_s.unwrap_or(0.0) + times + line).min(measured)
}

/// For what share of the time, or of a request's time, data wait to be sent.
fn backlogged(facts: &Facts) -> f64 {
    let waiting = if facts.is_write { facts.stages.sending } else { facts.stages.answering };
    let of_a_request = waiting.unwrap_or(0.0) / facts.current.latency_s.max(1e-9);
    facts.sender.map_or(0.0, |sender| sender.backlogged).max(of_a_request)
}

/// Requests longer than this gain nothing from being longer still.
pub(super) const LONG_BYTES: f64 = (1 << 20) as f64;
/// A sender that has data waiting for so much of the time is not short of requests.
const BACKLOGGED: f64 = 0.5;
/// What is held as before is not relieved.
const SAME: f64 = 1.001;
/// A rate counts as exhausted from here on: requests then queue for it, and their time says nothing.
const FULL: f64 = 1.15;
