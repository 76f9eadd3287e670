//! Performance of a load within given limits: a closed queueing system of few parts.
//!
//! A caller with N requests of B bytes outstanding, each of latency R without queueing, gets N × B ÷ R (Little's law),
//! and never more than the slowest part carries. So every limiter bounds the concurrency (N), adds latency (a part of R),
//! or bounds the rate. A limiter is relieved by its removal from the system.

use crate::facts::Facts;
use crate::limiter::Limiter;
use crate::performance::Performance;
use crate::verdict::{Certainty, Evidence};

/// A limiter that was found, with its effect on the load.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Finding {
    pub(super) limiter: Limiter,
    /// Share of the time in which it limits.
    pub(super) share: f64,
    pub(super) effect: Effect,
    pub(super) evidence: Vec<Evidence>,
}

/// Effect of a limiter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Effect {
    /// Bound on requests outstanding, summed over all sessions.
    Concurrency(f64),
    /// Latency added to every request, in seconds.
    Latency(f64),
    /// Bound in bytes per second. With `of_connection` it grows with the number of connections.
    Rate { bytes_per_s: f64, of_connection: bool },
    /// Bytes per second `now`, during a slow start, and `then`, after it.
    Ramp { now: f64, then: f64 },
    /// No bound of its own: longer requests raise the rate of every concurrency bound.
    LongerRequests,
    /// No bound of its own: a multiple of the connections.
    MoreConnections(f64),
}

/// Predicted rate, and the limiter that bounds it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Outcome {
    pub(super) bytes_per_s: f64,
    pub(super) held_by: Limiter,
}

/// The load within all findings but those in `without`: the first of these is relieved, it hides the others.
pub(super) fn outcome(facts: &Facts, findings: &[Finding], without: &[usize]) -> Outcome {
    let relieved = without.first().map(|index| findings[*index].effect);
    let rest = findings.iter().enumerate().filter(|(index, _)| !without.contains(index)).map(|(_, f)| f);
    let saved = if let Some(Effect::Latency(saved)) = relieved { saved } else { 0.0 };
    let request_s = (unloaded_s(facts, findings) - saved).max(1e-9);
    let times = if let Some(Effect::MoreConnections(times)) = relieved { times } else { 1.0 };
    let mut least = Outcome { bytes_per_s: f64::INFINITY, held_by: Limiter::RoundTrip };
    for finding in rest {
        let bytes_per_s = match finding.effect {
            // Requests grow as far as it is worthwhile, and no known rate bounds them before.
            Effect::Concurrency(most) if relieved == Some(Effect::LongerRequests) => {
                most * facts.request_bytes.max(LONG_BYTES) / request_s
            }
            Effect::Concurrency(most) => most * facts.request_bytes / request_s,
            Effect::Rate { bytes_per_s, of_connection: true } => bytes_per_s * times,
            Effect::Rate { bytes_per_s, of_connection: false } => bytes_per_s,
            Effect::Ramp { now, .. } => now,
            Effect::Latency(_) | Effect::LongerRequests | Effect::MoreConnections(_) => continue,
        };
        if bytes_per_s < least.bytes_per_s {
            least = Outcome { bytes_per_s, held_by: finding.limiter };
        }
    }
    match relieved {
        // The rate after the ramp was measured: no more is promised.
        Some(Effect::Ramp { then, .. }) if then < least.bytes_per_s => Outcome { bytes_per_s: then, ..least },
        _ => least,
    }
}

/// Performance without one of the findings, and the limiter that bounds it then.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Relief {
    pub(super) predicted: Performance,
    pub(super) certainty: Certainty,
    pub(super) next: Limiter,
}

/// The load without one of the findings.
pub(super) fn relieve(facts: &Facts, findings: &[Finding], index: usize) -> Relief {
    let current = facts.current;
    let now = outcome(facts, findings, &[]);
    let mut without = vec![index];
    let mut then = outcome(facts, findings, &without);
    // Every rate measured under a limiter equals the present rate. Of several such rates, those with the smaller share of
    // the time are consequences of the one with the largest.
    while let Some(hidden) = masked(facts, findings, &without, then) {
        without.push(hidden);
        then = outcome(facts, findings, &without);
    }
    // Latency that the model does not explain stays; a rate is as measured.
    let is_concurrency =
        |limiter| matches!(limiter, Limiter::QueueDepth | Limiter::QueueLimit | Limiter::CommandWindow);
    let unexplained =
        if is_concurrency(now.held_by) { (current.bytes_per_s / now.bytes_per_s).min(1.0) } else { 1.0 };
    let is_line = then.held_by == Limiter::LinkRate;
    let mut bytes_per_s = if is_line { then.bytes_per_s } else { then.bytes_per_s * unexplained };
    let is_same = then.bytes_per_s <= now.bytes_per_s * SAME;
    let is_only_longer = findings[index].effect == Effect::LongerRequests && is_concurrency(then.held_by);
    let mut certainty = Certainty::Figure;
    if !bytes_per_s.is_finite() || is_only_longer {
        // No further bound is known. Twice the concurrency gets twice the rate if nothing else holds it: good enough
        // for an order among verdicts, and no figure.
        bytes_per_s = current.bytes_per_s * 2.0;
        certainty = Certainty::Unknown;
    }
    if is_same || bytes_per_s < current.bytes_per_s {
        bytes_per_s = current.bytes_per_s;
        certainty = Certainty::Figure;
    }
    // A window or a buffer divided by the round trip bounds a rate and does not reach it: the line was not seen to carry it.
    let is_beyond = bytes_per_s > current.bytes_per_s * BEYOND && !is_line_known(facts, findings);
    if is_beyond {
        bytes_per_s = bytes_per_s.min(current.bytes_per_s * 2.0);
        certainty = Certainty::Unknown;
    }
    let gain = if current.bytes_per_s > 0.0 { bytes_per_s / current.bytes_per_s } else { 1.0 };
    let latency_s = match findings[index].effect {
        // More requests of unchanged latency.
        Effect::Concurrency(_) if findings[index].limiter == Limiter::QueueDepth => current.latency_s,
        Effect::LongerRequests => current.latency_s,
        _ => current.latency_s / gain,
    };
    Relief { predicted: Performance { bytes_per_s, latency_s }, certainty, next: then.held_by }
}

/// True if some evidence bounds the rate of the path: its packets, a queue in front of the line, or its best rate.
fn is_line_known(facts: &Facts, findings: &[Finding]) -> bool {
    facts.path.line_busy.is_some() || findings.iter().any(|finding| finding.limiter == Limiter::LinkRate)
}

/// Finding that would hold the load at its present rate after the first of `without`, and was seen for a smaller share of
/// the time: a consequence of that first one.
fn masked(facts: &Facts, findings: &[Finding], without: &[usize], then: Outcome) -> Option<usize> {
    let relieved = &findings[*without.first()?];
    let is_rate = |f: &Finding| matches!(f.effect, Effect::Rate { .. } | Effect::Ramp { .. });
    let is_same = (then.bytes_per_s / facts.current.bytes_per_s.max(1e-9) - 1.0).abs() <= SAME - 1.0;
    // A line rate from recorded packets depends on no sender.
    let is_independent = |f: &Finding| f.limiter == Limiter::LinkRate && facts.path.line_busy.is_some();
    let found = findings.iter().enumerate().find(|(index, f)| {
        let is_next = f.limiter == then.held_by && is_rate(f) && !is_independent(f);
        is_next && f.share < relieved.share && !without.contains(index)
    });
    found.filter(|_| is_same && is_rate(relieved)).map(|(index, _)| index)
}

/// Latency of a request in seconds without queueing, from its admission by the command window to its end.
pub(super) fn unloaded_s(facts: &Facts, findings: &[Finding]) -> f64 {
    let rate = facts.rate();
    let measured = if rate > 0.0 { facts.outstanding.granted / rate } else { facts.current.latency_s };
    let is_full = findings.iter().any(|finding| match finding.effect {
        Effect::Rate { bytes_per_s, .. } => bytes_per_s <= facts.current.bytes_per_s * FULL,
        Effect::Ramp { .. } => true,
        _ => false,
    });
    // A standing backlog shows an exhausted rate as well, in TCP or on the path.
    let is_backlogged = backlogged(facts) >= BACKLOGGED;
    if !is_full && !is_backlogged {
        return measured;
    }
    let times: f64 = findings.iter().map(|f| if let Effect::Latency(s) = f.effect { s } else { 0.0 }).sum();
    let line = facts.path.line_bytes_per_s.map_or(0.0, |line| facts.request_bytes / line);
    (facts.path.rtt_s.unwrap_or(0.0) + times + line).min(measured)
}

/// Share of the time, or of a request's latency, in which data wait to be sent.
fn backlogged(facts: &Facts) -> f64 {
    let waiting = if facts.is_write { facts.stages.sending } else { facts.stages.answering };
    let of_a_request = waiting.unwrap_or(0.0) / facts.current.latency_s.max(1e-9);
    facts.sender.map_or(0.0, |sender| sender.time.backlogged).max(of_a_request)
}

/// Request length in bytes beyond which nothing is gained.
pub(super) const LONG_BYTES: f64 = (1 << 20) as f64;
/// Share of the time with data waiting from which on a sender is not short of requests.
const BACKLOGGED: f64 = 0.5;
/// Ratio of rates up to which they are the same.
const SAME: f64 = 1.001;
/// Ratio of a predicted rate to the present one from which on the line has to be known.
const BEYOND: f64 = 1.05;
/// A rate up to so many times the present one is exhausted: requests queue for it, and their latency says nothing.
const FULL: f64 = 1.15;
