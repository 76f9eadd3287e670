//! From facts to verdicts: every finding is removed from the model in turn, and the most worthwhile removal comes first.

use super::model::{self, Effect, Finding, Relief};
use super::{capacity, concurrency, latency, tcp};
use crate::facts::Facts;
use crate::limiter::Limiter;
use crate::performance::Performance;
use crate::remedy::remedies;
use crate::verdict::{Certainty, Diagnosis, Evidence, Verdict};

/// Smallest gain that counts.
const LEAST_GAIN: f64 = 1.1;
/// Gain that is worth a change before a change of the caller.
const WORTH_IT: f64 = 1.25;
/// Gains that differ by less are equal; the larger share of the time decides between them.
const SAME_GAIN: f64 = 0.05;
/// Requests outstanding per session up to which a caller is serial.
const SERIAL: f64 = 1.05;
/// Ratio of a request's latency to its own share from which on it waits for something.
const UNSEEN: f64 = 2.0;
/// Share of use from which on something limits without a gain of its own.
const USED: f64 = 0.9;

/// Diagnosis of a load.
pub fn judge(facts: &Facts) -> Diagnosis {
    let mut findings = concurrency::find(facts);
    findings.extend(tcp::find(facts));
    findings.extend(latency::find(facts));
    findings.extend(capacity::find(facts));
    let mut verdicts: Vec<Verdict> = Vec::new();
    let is_unseen = waits_unseen(facts);
    for (index, finding) in findings.iter().enumerate() {
        // Requests wait where nobody looked: more or longer ones might wait longer and get nothing.
        if is_unseen && matches!(finding.limiter, Limiter::QueueDepth | Limiter::BlockSize) {
            continue;
        }
        let verdict = verdict(facts, &findings, index);
        if verdict.gain(facts.current) >= LEAST_GAIN || (verdict.share >= USED && is_limit(finding)) {
            verdicts.push(verdict);
        }
    }
    let is_left = verdicts.iter().all(|verdict| is_serial(facts) && is_callers(verdict.limiter));
    let mut last = round_trip(facts, is_left && is_serial(facts));
    if is_left && last.is_none() {
        let is_only_seen_here = is_unseen && verdicts.is_empty();
        last = widest_rate(facts, &findings).or_else(|| match is_only_seen_here {
            true => Some(unseen(facts)),
            false => round_trip(facts, true),
        });
    }
    verdicts.extend(last);
    // Steps of gain make equality transitive, which sorting needs.
    let step = |verdict: &Verdict| (verdict.gain(facts.current).max(1.0).ln() / SAME_GAIN).round() as i64;
    let part = |verdict: &Verdict| (verdict.share / SAME_GAIN).round() as i64;
    verdicts.sort_by(|a, b| {
        let by_gain = order(a, facts).cmp(&order(b, facts)).then(step(b).cmp(&step(a)));
        let by_caller = by_gain.then(is_callers(a.limiter).cmp(&is_callers(b.limiter)));
        by_caller.then(part(b).cmp(&part(a))).then(a.limiter.cmp(&b.limiter))
    });
    Diagnosis { current: facts.current, verdicts, cannot_know: facts.cannot_know.clone() }
}

/// True for a caller that waits for each request before the next: shorter latency helps it, more concurrency is not its
/// choice.
fn is_serial(facts: &Facts) -> bool {
    facts.outstanding.called <= SERIAL * facts.sessions.max(1.0)
}

/// Rank of a verdict: worthwhile changes without the caller; more requests of the same kind; any other gain, workarounds
/// included; the end of the search; limits without a gain of their own; changes that need another caller.
fn order(verdict: &Verdict, facts: &Facts) -> u8 {
    let gain = verdict.gain(facts.current);
    match () {
        () if gain >= WORTH_IT && !is_callers(verdict.limiter) => 0,
        () if is_serial(facts) && is_callers(verdict.limiter) => 5,
        () if gain >= WORTH_IT && verdict.limiter == Limiter::QueueDepth => 1,
        () if gain >= LEAST_GAIN => 2,
        () if verdict.limiter.is_final() => 3,
        () => 4,
    }
}

/// True for workarounds, and for the caller's own choices.
fn is_callers(limiter: Limiter) -> bool {
    matches!(limiter, Limiter::QueueDepth | Limiter::BlockSize | Limiter::Connections)
}

/// True for a finding that can hold a load back by itself.
fn is_limit(finding: &Finding) -> bool {
    !matches!(finding.effect, Effect::LongerRequests | Effect::MoreConnections(_))
}

/// Share of the time in which a finding limits: as measured; for concurrency the used part of the rate that it allows.
fn share(facts: &Facts, findings: &[Finding], finding: &Finding) -> f64 {
    let rate_of = |most: f64| most * facts.request_bytes / model::unloaded_s(facts, findings).max(1e-9);
    let least = || {
        let all = findings
            .iter()
            .filter_map(|f| if let Effect::Concurrency(n) = f.effect { Some(n) } else { None });
        all.fold(f64::INFINITY, f64::min)
    };
    let allowed = match finding.effect {
        Effect::Concurrency(most) => rate_of(most),
        Effect::LongerRequests => rate_of(least()),
        _ => return finding.share.clamp(0.0, 1.0),
    };
    (facts.current.bytes_per_s / allowed.max(1e-9)).clamp(0.0, 1.0)
}

/// Verdict on one finding, with the prediction for its removal.
fn verdict(facts: &Facts, findings: &[Finding], index: usize) -> Verdict {
    let Relief { mut predicted, mut certainty, next } = model::relieve(facts, findings, index);
    let share = share(facts, findings, &findings[index]);
    let Finding { limiter, evidence, .. } = findings[index].clone();
    if limiter.is_final() {
        (predicted, certainty) = (facts.current, Certainty::Figure);
    }
    Verdict { limiter, share, evidence, predicted, certainty, next, remedies: remedies(limiter, facts) }
}

/// Rate that holds for the largest share of the time: the verdict where nothing gains and the latency exceeds a round trip.
fn widest_rate(facts: &Facts, findings: &[Finding]) -> Option<Verdict> {
    let rates = (0..findings.len()).filter(|index| matches!(findings[*index].effect, Effect::Rate { .. }));
    let widest = rates.max_by(|a, b| findings[*a].share.total_cmp(&findings[*b].share))?;
    (findings[widest].share > 0.0).then(|| verdict(facts, findings, widest))
}

/// True if a request takes much longer than the round trip and its own time on the line, and neither the sender of its
/// data nor the target was looked at: a full line, a window, a loss and a store are all possible.
fn waits_unseen(facts: &Facts) -> bool {
    let is_one_sided =
        facts.sender.is_none() && facts.stages.target.is_none() && facts.path.line_busy.is_none();
    let rate = facts.path.line_bytes_per_s.unwrap_or(0.0).max(facts.current.bytes_per_s);
    let own_s = facts.path.rtt_s.unwrap_or(f64::INFINITY) + facts.request_bytes / rate.max(1.0);
    let request_s = if facts.rate() > 0.0 { facts.outstanding.granted / facts.rate() } else { 0.0 };
    is_one_sided && request_s >= UNSEEN * own_s
}

/// Verdict where one end alone leaves the cause open.
fn unseen(facts: &Facts) -> Verdict {
    let rtt_s = facts.path.rtt_s.unwrap_or(0.0);
    Verdict {
        limiter: Limiter::Path,
        share: (1.0 - rtt_s / facts.current.latency_s.max(1e-9)).clamp(0.0, 1.0),
        evidence: vec![
            Evidence::new(
                "time of a request, mean",
                facts.current.latency_s,
                "s",
                "io: issued_t_ns, completed_t_ns",
            ),
            Evidence::new("smallest round trip", rtt_s, "s", "sockets: min_rtt_ns"),
        ],
        predicted: facts.current,
        certainty: Certainty::Unknown,
        next: Limiter::Path,
        remedies: remedies(Limiter::Path, facts),
    }
}

/// The last limiter: no request is faster than a round trip.
fn round_trip(facts: &Facts, is_alone: bool) -> Option<Verdict> {
    let rtt_s = facts.path.rtt_s?;
    let Performance { latency_s, .. } = facts.current;
    let share = if latency_s > 0.0 { rtt_s / latency_s } else { 0.0 };
    (is_alone || share >= USED).then(|| Verdict {
        limiter: Limiter::RoundTrip,
        share: share.min(1.0),
        evidence: vec![Evidence::new("smallest round trip", rtt_s, "s", "sockets: min_rtt_ns")],
        predicted: facts.current,
        certainty: Certainty::Figure,
        next: Limiter::RoundTrip,
        remedies: Vec::new(),
    })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
#[cfg(test)]
#[path = "tests_one_end.rs"]
mod tests_one_end;
