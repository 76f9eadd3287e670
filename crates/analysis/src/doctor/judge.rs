//! From facts to verdicts: everything that was found, each taken out of the model in turn, the one with most to gain
//! first.

use super::facts::Facts;
use super::limiter::Limiter;
use super::model::{self, Effect, Finding};
use super::remedy::remedies;
use super::verdict::{Diagnosis, Evidence, LEAST_GAIN, Verdict};
use super::{answers, ends, places, tcp};

/// What gains so much is worth doing before the caller is asked to change.
const WORTH_IT: f64 = 1.25;
/// Gains that differ by less are equal; then what limits for more of the time comes first.
const SAME_GAIN: f64 = 0.05;
/// A session with no more requests than this outstanding has one at a time.
const SERIAL: f64 = 1.05;
/// What is used up to here limits.
const USED: f64 = 0.9;

/// What limits a load.
pub fn judge(facts: &Facts) -> Diagnosis {
    let mut findings = places::find(facts);
    findings.extend(tcp::find(facts));
    findings.extend(answers::find(facts));
    findings.extend(ends::find(facts));
    let mut verdicts: Vec<Verdict> = Vec::new();
    for (index, finding) in findings.iter().enumerate() {
        let verdict = verdict(facts, &findings, index);
        if verdict.gain(facts.current) >= LEAST_GAIN || (verdict.share >= USED && is_limit(finding)) {
            verdicts.push(verdict);
        }
    }
    let is_left = verdicts.iter().all(|verdict| is_serial(facts) && is_callers(verdict.limiter));
    let mut last = round_trip(facts, is_left && is_serial(facts));
    if is_left && last.is_none() {
        last = widest_rate(facts, &findings).or_else(|| round_trip(facts, true));
    }
    verdicts.extend(last);
    // Steps of gain, so that equal ones are equal whatever they are compared with.
    let step = |verdict: &Verdict| (verdict.gain(facts.current).max(1.0).ln() / SAME_GAIN).round() as i64;
    let part = |verdict: &Verdict| (verdict.share / SAME_GAIN).round() as i64;
    verdicts.sort_by(|a, b| {
        let by_gain = order(a, facts).cmp(&order(b, facts)).then(step(b).cmp(&step(a)));
        let by_caller = by_gain.then(is_callers(a.limiter).cmp(&is_callers(b.limiter)));
        by_caller.then(part(b).cmp(&part(a))).then(a.limiter.cmp(&b.limiter))
    });
    Diagnosis { current: facts.current, verdicts, cannot_know: facts.cannot_know.clone() }
}

/// Whether the caller waits for each request before it asks for the next: what helps it is a shorter request, and more
/// of them at a time are not its to ask for.
fn is_serial(facts: &Facts) -> bool {
    facts.outstanding.called <= SERIAL * facts.sessions.max(1.0)
}

/// What is worth doing and can be done without the caller comes first, then more of the same requests, then whatever
/// gains anything, also by going around what limits, then what ends the search, then what limits and gains nothing by
/// itself; last what a caller would have to be another one for.
fn order(verdict: &Verdict, facts: &Facts) -> u8 {
    let gain = verdict.gain(facts.current);
    match () {
        () if gain >= WORTH_IT && !is_callers(verdict.limiter) => 0,
        () if is_serial(facts) && is_callers(verdict.limiter) => 5,
        () if gain >= WORTH_IT && verdict.limiter == Limiter::CallerDepth => 1,
        () if gain >= LEAST_GAIN => 2,
        () if verdict.limiter.is_final() => 3,
        () => 4,
    }
}

/// Whether it is a way around something else, or the caller's own business.
fn is_callers(limiter: Limiter) -> bool {
    matches!(limiter, Limiter::CallerDepth | Limiter::BlockSize | Limiter::Connections)
}

/// Whether it can hold a load back by itself.
fn is_limit(finding: &Finding) -> bool {
    !matches!(finding.effect, Effect::Longer | Effect::More(_))
}

/// For what share of the time it limits: as measured, or for places how much of what they allow is used.
fn share(facts: &Facts, findings: &[Finding], finding: &Finding) -> f64 {
    let places = |most: f64| most * facts.request_bytes / model::unloaded_s(facts, findings).max(1e-9);
    let least = || {
        let all =
            findings.iter().filter_map(|f| if let Effect::Places(n) = f.effect { Some(n) } else { None });
        all.fold(f64::INFINITY, f64::min)
    };
    let allowed = match finding.effect {
        Effect::Places(most) => places(most),
        Effect::Longer => places(least()),
        _ => return finding.share.clamp(0.0, 1.0),
    };
    (facts.current.bytes_per_s / allowed.max(1e-9)).clamp(0.0, 1.0)
}

/// What a finding does, and what would come of relieving it.
fn verdict(facts: &Facts, findings: &[Finding], index: usize) -> Verdict {
    let (mut predicted, next) = model::relieve(facts, findings, index);
    let share = share(facts, findings, &findings[index]);
    let Finding { limiter, evidence, .. } = findings[index].clone();
    if limiter.is_final() {
        predicted = facts.current;
    }
    Verdict { limiter, share, evidence, predicted, next, remedies: remedies(limiter, facts) }
}

/// Where nothing gains and requests take longer than the distance, the rate that was seen to hold for most of the time.
fn widest_rate(facts: &Facts, findings: &[Finding]) -> Option<Verdict> {
    let rates = (0..findings.len()).filter(|index| matches!(findings[*index].effect, Effect::Rate { .. }));
    let widest = rates.max_by(|a, b| findings[*a].share.total_cmp(&findings[*b].share))?;
    (findings[widest].share > 0.0).then(|| verdict(facts, findings, widest))
}

/// What remains when everything else is gone: no request is faster than a round trip.
fn round_trip(facts: &Facts, is_alone: bool) -> Option<Verdict> {
    let rtt_s = facts.rtt_s?;
    let share = if facts.current.latency_s > 0.0 { rtt_s / facts.current.latency_s } else { 0.0 };
    (is_alone || share >= USED).then(|| Verdict {
        limiter: Limiter::RoundTrip,
        share: share.min(1.0),
        evidence: vec![Evidence {
            what: "smallest round trip".to_owned(),
            value: rtt_s,
            unit: "s",
            seen: "sockets: min_rtt_ns",
        }],
        predicted: facts.current,
        next: Limiter::RoundTrip,
        remedies: Vec::new(),
    })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
