//! From the steps of a load to its diagnosis. Where a step took a limiter away, its rate is the prediction: it was
//! measured. Where none did, the rules predict, and no prediction exceeds the bounds that the steps found.

use super::ceiling::{self, Cause};
use super::curve::{Curve, Peak, SATURATED};
use super::{StepObservation, StepRole};
use crate::facts::Facts;
use crate::limiter::Limiter;
use crate::performance::Performance;
use crate::remedy::remedies;
use crate::rules;
use crate::verdict::{Certainty, Diagnosis, Evidence, Verdict};

/// Smallest gain that counts.
const LEAST_GAIN: f64 = 1.1;
/// Gain that is worth a change before a change of the caller.
const WORTH_IT: f64 = 1.25;
/// Time that a target takes for a request alone, until it counts: in seconds, and in round trips. Below, wake-ups of both
/// hosts and of the devices between them are as long.
const TARGET_TIME: (f64, f64) = (0.0005, 0.25);
/// Longest request that a prediction assumes, in bytes; as `rules/model.rs` has it.
const LONG_BYTES: f64 = (1 << 20) as f64;

/// Verdicts on the nominal load. Without it, nothing is known.
pub fn diagnose(seen: &[StepObservation]) -> Option<Diagnosis> {
    let curve = Curve::of(seen)?;
    let facts = informed(&curve);
    let mut found = Vec::new();
    found.extend(depth(&curve, &facts));
    found.extend(connection(&curve, &facts));
    found.extend(target_time(&curve, &facts));
    found.extend(seen_here(&curve, &facts, &found));
    found.extend(longer_requests(&facts, &found));
    let is_held = found
        .iter()
        .any(|verdict| verdict.gain(facts.current) >= LEAST_GAIN || verdict.certainty == Certainty::Unknown);
    if !is_held {
        found.push(last(&curve, &facts));
    }
    found.sort_by(|a, b| {
        let order = |verdict: &Verdict| order(verdict, &facts);
        let by_gain = |verdict: &Verdict| verdict.gain(facts.current);
        order(a).cmp(&order(b)).then(by_gain(b).total_cmp(&by_gain(a))).then(a.limiter.cmp(&b.limiter))
    });
    let cannot_know = open_questions(&curve, &facts, &found);
    Some(Diagnosis { current: facts.current, verdicts: found, cannot_know })
}

/// Facts of the nominal load with those of the other steps: the base round trip and the best rate.
fn informed(curve: &Curve<'_>) -> Facts {
    let mut facts = curve.asked.facts.clone();
    facts.path.rtt_s = Some(curve.rtt_s()).filter(|rtt_s| *rtt_s > 0.0);
    let (best, _) = curve.best();
    facts.path.line_bytes_per_s = Some(best);
    facts
}

/// Rank of a verdict: worthwhile changes without the caller; more requests; other gains; the end.
fn order(verdict: &Verdict, facts: &Facts) -> u8 {
    let gain = verdict.gain(facts.current);
    match verdict.limiter {
        Limiter::BlockSize | Limiter::Connections => 3,
        Limiter::QueueDepth if gain >= WORTH_IT || verdict.certainty == Certainty::Unknown => 1,
        limiter if limiter.is_final() => 4,
        _ if gain >= WORTH_IT => 0,
        _ => 2,
    }
}

/// Standing of a rate that was measured: no bound is known as long as it rises.
fn certainty(peak: Peak<'_>) -> Certainty {
    if peak.is_rising { Certainty::AtLeast } else { Certainty::Figure }
}

/// The caller: more requests outstanding carry more.
fn depth(curve: &Curve<'_>, facts: &Facts) -> Option<Verdict> {
    let asked = curve.asked;
    if asked.is_gated() {
        return None;
    }
    let outstanding = Evidence::new(
        "requests that the caller keeps outstanding",
        facts.outstanding.called,
        "",
        "io: issued_t_ns, completed_t_ns",
    );
    let of = |predicted: Performance, certainty, evidence, next| Verdict {
        limiter: Limiter::QueueDepth,
        share: (facts.current.bytes_per_s / predicted.bytes_per_s.max(1e-9)).clamp(0.0, 1.0),
        evidence,
        predicted,
        certainty,
        next,
        remedies: remedies(Limiter::QueueDepth, facts),
    };
    if let Some(peak) = curve.more() {
        // A tenth more from a queue that grows is that of the line, which a single flow does not fill to the last.
        let least = if ceiling::has_queue(curve) { WORTH_IT } else { LEAST_GAIN };
        if curve.gain(peak) < least {
            return None;
        }
        let at = &peak.at.facts;
        let evidence = vec![
            outstanding,
            Evidence::new("requests outstanding in the best step", peak.at.outstanding(), "", "step more"),
            Evidence::new("rate of that step", peak.at.rate(), "bytes/s", "step more"),
        ];
        let next = if peak.is_rising { Limiter::QueueDepth } else { beyond(curve, peak.at) };
        return Some(of(at.current, certainty(peak), evidence, next));
    }
    // No step above was run: fewer requests that were as quick, and carried less in proportion, show the same.
    let fewer = curve.all(StepRole::Fewer).next().or_else(|| curve.low())?;
    let in_proportion = fewer.rate() * asked.outstanding() / fewer.outstanding();
    let is_alone = std::ptr::eq(fewer, asked);
    let is_proportional = is_alone || asked.rate() * SATURATED >= in_proportion;
    let is_proportional = is_proportional && !curve.is_at_most();
    let twice =
        Performance { bytes_per_s: 2.0 * facts.current.bytes_per_s, latency_s: facts.current.latency_s };
    is_proportional.then(|| {
        let evidence = vec![
            outstanding,
            Evidence::new("rate with fewer outstanding", fewer.rate(), "bytes/s", "step fewer"),
        ];
        of(twice, Certainty::Unknown, evidence, Limiter::Path)
    })
}

/// Limiter at the best rate of more requests, as far as one load shows it.
fn beyond<'a>(curve: &Curve<'a>, at: &'a StepObservation) -> Limiter {
    let there = curve.seen_from(at);
    match ceiling::line(&there) {
        Some(_) => Limiter::LinkRate,
        None if ceiling::is_window_full(&there) => Limiter::ReceiveWindow,
        None => Limiter::Path,
    }
}

/// A limit of each connection, or of each session: as many requests over more of them carry more.
fn connection(curve: &Curve<'_>, facts: &Facts) -> Option<Verdict> {
    let peak = curve.of_connections()?;
    let Cause { limiter, mut evidence, .. } = ceiling::of_connection(curve);
    evidence.push(Evidence::new(
        "sessions of the best step",
        peak.at.load.sessions.into(),
        "",
        "step spread",
    ));
    evidence.push(Evidence::new("rate of that step", peak.at.rate(), "bytes/s", "step spread"));
    let predicted = within(curve, facts, peak.at.rate());
    Some(Verdict {
        limiter,
        share: (facts.current.bytes_per_s / peak.at.rate()).clamp(0.0, 1.0).max(0.0),
        evidence,
        predicted,
        certainty: certainty(peak),
        next: if peak.is_rising { limiter } else { Limiter::LinkRate },
        remedies: remedies(limiter, facts),
    })
}

/// Performance of the nominal requests at a rate that something else allows: no more than these requests carry
/// in a base latency, and with the latency that Little's law leaves them.
fn within(curve: &Curve<'_>, facts: &Facts, rate: f64) -> Performance {
    let outstanding_bytes = facts.current.bytes_per_s * facts.current.latency_s;
    let target_s = curve.low().and_then(|low| target_s(curve, low)).unwrap_or(0.0);
    let own_s = curve.rtt_s() + target_s + facts.request_bytes / rate.max(1.0);
    let bytes_per_s = rate.min(outstanding_bytes / own_s.max(1e-9)).max(facts.current.bytes_per_s);
    Performance { bytes_per_s, latency_s: outstanding_bytes / bytes_per_s.max(1e-9) }
}

/// Time that the target takes for a request alone: its latency beyond the round trip and its data. `None` if that
/// is no more than wake-ups of the hosts.
fn target_s(curve: &Curve<'_>, low: &StepObservation) -> Option<f64> {
    let facts = &low.facts;
    let beyond_s = match facts.stages.first_data.filter(|_| !facts.is_write) {
        Some(first_s) => first_s,
        // A write's data are on the line meanwhile, at the best rate that was seen or sooner.
        None => {
            facts.current.latency_s
                - facts.request_bytes / curve.best().0.max(1.0)
                - solicited_s(curve, facts)
        }
    };
    let time_s = beyond_s - curve.rtt_s();
    Some(time_s).filter(|time_s| *time_s >= TARGET_TIME.0.max(TARGET_TIME.1 * curve.rtt_s()))
}

/// Round trips of a write that wait for R2Ts.
fn solicited_s(curve: &Curve<'_>, facts: &Facts) -> f64 {
    let rounds = facts
        .agreed
        .filter(|_| facts.is_write)
        .map_or(0.0, |agreed| agreed.solicited_rounds(facts.request_bytes));
    rounds * curve.rtt_s()
}

/// The store: a request alone waits for it.
fn target_time(curve: &Curve<'_>, facts: &Facts) -> Option<Verdict> {
    let low = curve.low()?;
    let target_s = target_s(curve, low)?;
    let outstanding_bytes = facts.current.bytes_per_s * facts.current.latency_s;
    let left_s = (facts.current.latency_s - target_s).max(curve.rtt_s());
    let (best, is_flat) = curve.best();
    let wanted = outstanding_bytes / left_s.max(1e-9);
    // A rate that the store itself holds bounds nothing without it.
    let is_lines =
        is_flat && curve.more().is_none_or(|peak| ceiling::line(&curve.seen_from(peak.at)).is_some());
    let now = facts.current.bytes_per_s;
    let (bytes_per_s, certainty) = match () {
        () if wanted <= best || is_lines => (wanted.min(best).max(now), Certainty::Figure),
        () if best >= LEAST_GAIN * now => (best, Certainty::AtLeast),
        () => (wanted.max(now), Certainty::Unknown),
    };
    let evidence = vec![
        Evidence::new(
            "time of one request alone beyond the round trip and its data",
            target_s,
            "s",
            "step low",
        ),
        Evidence::new("round trip", curve.rtt_s(), "s", "sockets: min_rtt_ns"),
    ];
    let verdict = Verdict {
        limiter: Limiter::StoreLatency,
        share: (target_s / facts.current.latency_s.max(1e-9)).clamp(0.0, 1.0),
        evidence,
        predicted: Performance { bytes_per_s, latency_s: outstanding_bytes / bytes_per_s.max(1e-9) },
        certainty,
        next: if wanted > best { Limiter::LinkRate } else { Limiter::QueueDepth },
        remedies: remedies(Limiter::StoreLatency, facts),
    };
    (verdict.gain(facts.current) >= LEAST_GAIN).then_some(verdict)
}

/// Limiters that this end sees by itself, with predictions that the steps bound.
fn seen_here(curve: &Curve<'_>, facts: &Facts, found: &[Verdict]) -> Vec<Verdict> {
    let (best, is_flat) = curve.best();
    let own = |limiter: Limiter| match limiter {
        Limiter::QueueLimit | Limiter::CommandWindow => curve.asked.is_gated(),
        Limiter::R2t | Limiter::Nagle | Limiter::SeparateStatus => true,
        _ => false,
    };
    let mut verdicts = rules::judge(facts).verdicts;
    verdicts
        .retain(|verdict| own(verdict.limiter) && found.iter().all(|known| known.limiter != verdict.limiter));
    for verdict in &mut verdicts {
        let outstanding_bytes = verdict.predicted.bytes_per_s * verdict.predicted.latency_s;
        if verdict.predicted.bytes_per_s > best || verdict.certainty != Certainty::Figure {
            let bytes_per_s = verdict.predicted.bytes_per_s.min(best).max(facts.current.bytes_per_s);
            verdict.predicted =
                Performance { bytes_per_s, latency_s: outstanding_bytes / bytes_per_s.max(1e-9) };
            let is_seen = verdict.gain(facts.current) >= LEAST_GAIN;
            verdict.certainty = match (is_flat, is_seen) {
                (true, _) => Certainty::Figure,
                (false, true) => Certainty::AtLeast,
                (false, false) => Certainty::Unknown,
            };
        }
    }
    verdicts.retain(|verdict| {
        verdict.certainty == Certainty::Unknown || verdict.gain(facts.current) >= LEAST_GAIN
    });
    verdicts
}

/// Longer requests, where more of them would help: as many outstanding carry more, up to the rate of more of them.
fn longer_requests(facts: &Facts, found: &[Verdict]) -> Option<Verdict> {
    let more = found.iter().find(|verdict| verdict.limiter == Limiter::QueueDepth)?;
    if facts.request_bytes >= LONG_BYTES || more.certainty == Certainty::Unknown {
        return None;
    }
    let best = more.predicted.bytes_per_s;
    let own_s = facts.current.latency_s + (LONG_BYTES - facts.request_bytes) / best.max(1.0);
    let requests = facts.current.bytes_per_s * facts.current.latency_s / facts.request_bytes.max(1.0);
    let bytes_per_s = (requests * LONG_BYTES / own_s).min(best).max(facts.current.bytes_per_s);
    let what = "mean length of a request";
    let verdict = Verdict {
        limiter: Limiter::BlockSize,
        share: more.share,
        evidence: vec![Evidence::new(what, facts.request_bytes, "bytes", "io: len_bytes")],
        predicted: Performance { bytes_per_s, latency_s: requests * LONG_BYTES / bytes_per_s },
        certainty: more.certainty,
        next: more.next,
        remedies: remedies(Limiter::BlockSize, facts),
    };
    (verdict.gain(facts.current) >= LEAST_GAIN).then_some(verdict)
}

/// The limit that neither more requests nor more sessions raise.
fn last(curve: &Curve<'_>, facts: &Facts) -> Verdict {
    let Cause { limiter, mut evidence, .. } = match (curve.is_waiting(), curve.more()) {
        (true, _) => ceiling::shared(curve),
        // Just as many requests as the path takes: the limit shows where there are more.
        (false, Some(peak)) => ceiling::full(&curve.seen_from(peak.at)),
        (false, None) => ceiling::distance(curve),
    };
    let step = |role: StepRole, what: &str, seen: &'static str| {
        let best = curve.all(role).map(StepObservation::rate).reduce(f64::max);
        best.map(|rate| Evidence::new(what, rate, "bytes/s", seen))
    };
    evidence.extend(step(StepRole::Fewer, "rate with fewer requests outstanding", "step fewer"));
    evidence.extend(step(StepRole::More, "rate with more requests outstanding", "step more"));
    evidence.extend(step(StepRole::Spread, "rate of as many over more sessions", "step spread"));
    let (predicted, certainty) = match limiter {
        limiter if limiter.is_final() => (facts.current, Certainty::Figure),
        Limiter::StoreBandwidth | Limiter::TargetQueue => without_store(curve, facts),
        _ => (twice(facts), Certainty::Unknown),
    };
    Verdict {
        limiter,
        share: 1.0,
        evidence,
        predicted,
        certainty,
        next: if limiter.is_final() { limiter } else { Limiter::Path },
        remedies: remedies(limiter, facts),
    }
}

/// Performance without the store: data of one request arrive at the rate of the line.
fn without_store(curve: &Curve<'_>, facts: &Facts) -> (Performance, Certainty) {
    let longer = curve.all(StepRole::Longer).next();
    let steps = [Some(curve.asked), longer].into_iter().flatten();
    let line =
        steps.filter_map(|step| Some(step.rate() / ceiling::arriving(step)?.max(1e-3))).reduce(f64::max);
    match line.filter(|line| *line > facts.current.bytes_per_s) {
        Some(line) => (within(curve, facts, line), Certainty::AtLeast),
        None => (twice(facts), Certainty::Unknown),
    }
}

/// Twice the rate, for an order among verdicts where no evidence gives a figure.
fn twice(facts: &Facts) -> Performance {
    let Performance { bytes_per_s, latency_s } = facts.current;
    Performance { bytes_per_s: 2.0 * bytes_per_s, latency_s: latency_s / 2.0 }
}

/// Questions that the steps leave open.
fn open_questions(curve: &Curve<'_>, facts: &Facts, found: &[Verdict]) -> Vec<String> {
    let first = found.first().map(|verdict| verdict.limiter);
    let mut open = Vec::new();
    let mut say = |is_open: bool, text: &str| {
        if is_open {
            open.push(text.to_owned());
        }
    };
    let by_elimination = curve.of_connections().is_some() && ceiling::of_connection(curve).is_by_elimination;
    say(
        first == Some(Limiter::SendBuffer) && by_elimination,
        "the sender is at the other end: neither this end's window nor a loss holds its connection, so that its buffer does, \
         or its congestion window or pacing, which only show there",
    );
    say(
        matches!(first, Some(Limiter::StoreBandwidth | Limiter::TargetQueue)),
        "the target is seen from outside: its store, its queue and its CPU look alike; run its own monitor, such as iostat -x 1, there",
    );
    say(
        facts.is_write && first == Some(Limiter::StoreLatency),
        "a write alone cannot tell the time of its data on the line from the time in the store, where the line's rate was not reached",
    );
    let is_unasked = curve.more().is_none() && curve.spread().is_none();
    say(is_unasked, "nothing above the load that was asked for was tried: more would show its bound");
    open
}
