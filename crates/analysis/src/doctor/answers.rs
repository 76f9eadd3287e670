//! Time that a request loses to the way it is asked and answered: R2Ts of a write, a status that comes alone, Nagle's
//! algorithm with delayed acknowledgements, a target that works on too little at a time, and its store.

use super::facts::Facts;
use super::limiter::Limiter;
use super::model::{Effect, Finding};
use super::verdict::Evidence;

/// A wait shorter than this part of a round trip is none of TCP's.
const OF_A_ROUND_TRIP: f64 = 0.5;
/// A time that is less of a request's is not worth a word.
const OF_A_REQUEST: f64 = 0.02;
/// TCP that waits for a window for so much of the time explains what is late.
const LIMITED: f64 = 0.5;
/// A store whose mean is so many times its least is queued for.
const QUEUED_FOR: f64 = 3.0;

/// What makes requests take longer.
pub(super) fn find(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(solicited(facts));
    found.extend(late_status(facts));
    found.extend(target_queue(facts));
    found.extend(store(facts));
    found
}

fn solicited(facts: &Facts) -> Option<Finding> {
    let rtt_s = facts.rtt_s?;
    if !facts.is_write {
        return None;
    }
    let measured = facts.stages.soliciting.unwrap_or(0.0);
    let rounds = match &facts.agreed {
        Some(agreed) => agreed.solicited_rounds(facts.request_bytes),
        None => (measured / rtt_s).round(),
    };
    if rounds < 1.0 {
        return None;
    }
    let mut evidence = vec![
        evidence(
            "round trips of a write that wait for an R2T",
            rounds,
            "",
            "sessions: first_burst_bytes, max_burst_bytes, max_outstanding_r2t, initial_r2t, immediate_data",
        ),
        evidence(
            "from a write's departure until its last R2T, mean",
            measured,
            "s",
            "layers: socketed_t_ns, data_last_t_ns",
        ),
    ];
    evidence.extend(facts.agreed.map(|agreed| {
        self::evidence(
            "MaxBurstLength × MaxOutstandingR2T",
            agreed.max_burst_bytes * agreed.max_outstanding_r2t,
            "bytes",
            "sessions: max_burst_bytes, max_outstanding_r2t",
        )
    }));
    let saved = rounds * rtt_s;
    Some(Finding { limiter: Limiter::R2t, share: share(facts, saved), effect: Effect::Time(saved), evidence })
}

/// One wait with two ways out: if status went with the data nothing would be held, and without Nagle's algorithm it
/// would not be held either. What is held is the end of whatever comes last: a status that comes alone, or else the end
/// of the data.
fn late_status(facts: &Facts) -> Vec<Finding> {
    let Some(rtt_s) = facts.rtt_s.filter(|_| !facts.is_write) else { return Vec::new() };
    let is_late = |time: &f64| *time >= OF_A_ROUND_TRIP * rtt_s;
    let gap = facts.stages.status_gap.filter(is_late);
    let held = if has_nagle(facts) == Some(true) { at_the_end(facts, rtt_s).filter(is_late) } else { gap };
    let trip = evidence("round trip", rtt_s, "s", "sockets: min_rtt_ns");
    let gap_seen = |gap: f64| {
        evidence(
            "from a read's last data until its status, mean",
            gap,
            "s",
            "layers: data_last_t_ns, status_t_ns",
        )
    };
    let mut found = Vec::new();
    if let Some(held) = held.filter(|_| has_nagle(facts) != Some(false)) {
        let mut seen = vec![
            evidence(
                "time of a request beyond the round trip, the target's work and the line, mean",
                held,
                "s",
                "layers: granted_t_ns, received_t_ns, answered_t_ns, completed_t_ns",
            ),
            trip.clone(),
        ];
        if has_nagle(facts) == Some(true) {
            seen.push(evidence("Nagle's algorithm at the sender: 1 is on", 1.0, "", "sessions: has_nagle"));
        }
        seen.extend(gap.map(gap_seen));
        let (share, effect) = (share(facts, held), Effect::Time(held));
        found.push(Finding { limiter: Limiter::Nagle, share, effect, evidence: seen });
    }
    if let Some(gap) = gap {
        found.push(Finding {
            limiter: Limiter::SeparateStatus,
            share: share(facts, gap),
            effect: Effect::Time(gap),
            evidence: vec![gap_seen(gap), trip],
        });
    }
    found
}

fn has_nagle(facts: &Facts) -> Option<bool> {
    facts.sender.and_then(|sender| sender.has_nagle)
}

/// What a request takes beyond what is explained, as far as its end is late: the status behind the data, or the last
/// data behind what the line needs for them.
fn at_the_end(facts: &Facts, rtt_s: f64) -> Option<f64> {
    let unexplained = unexplained(facts, rtt_s)?;
    let line_s = facts.line_bytes_per_s.map_or(0.0, |line| facts.request_bytes / line);
    let spread = facts.stages.data_spread.map(|spread| (spread - line_s).max(0.0));
    let late = match (facts.stages.status_gap, spread) {
        (None, None) => return Some(unexplained),
        (gap, spread) => gap.unwrap_or(0.0) + spread.unwrap_or(0.0),
    };
    Some(unexplained.min(late))
}

/// What a request takes beyond what distance, target and line explain; nothing while TCP has data to send that waits
/// for a window.
fn unexplained(facts: &Facts, rtt_s: f64) -> Option<f64> {
    let sender = facts.sender?;
    let limited = sender.congestion_window + sender.receive_window + sender.send_buffer;
    let rate = facts.rate();
    if limited >= LIMITED || rate <= 0.0 {
        return None;
    }
    let line_s = facts.line_bytes_per_s.map_or(0.0, |line| facts.request_bytes / line);
    Some(facts.outstanding.granted / rate - rtt_s - facts.stages.target.unwrap_or(0.0) - line_s)
}

fn target_queue(facts: &Facts) -> Option<Finding> {
    let wait = facts.stages.target_wait?;
    if wait < OF_A_REQUEST * facts.current.latency_s {
        return None;
    }
    let mut evidence = vec![evidence(
        "from a command's arrival until the target's work on it begins, mean",
        wait,
        "s",
        "layers: received_t_ns, executed_t_ns, store_begin_t_ns",
    )];
    evidence.extend(facts.stages.store_inside.map(|inside| {
        self::evidence(
            "requests in the store at a time, mean",
            inside,
            "",
            "layers: store_begin_t_ns, store_end_t_ns",
        )
    }));
    Some(Finding {
        limiter: Limiter::TargetQueue,
        share: share(facts, wait),
        effect: Effect::Time(wait),
        evidence,
    })
}

fn store(facts: &Facts) -> Vec<Finding> {
    let stages = &facts.stages;
    let (Some(mean), Some(least)) = (stages.store, stages.store_least) else { return Vec::new() };
    let inside = stages.store_inside.unwrap_or(1.0);
    let seen = "layers: store_begin_t_ns, store_end_t_ns";
    let mut shown = vec![
        evidence("time of a request in the store, mean", mean, "s", seen),
        evidence("the same where it is soonest: a tenth of all, or one of the first", least, "s", seen),
        evidence("requests in the store at a time, mean", inside, "", seen),
    ];
    let serves = stages.store_bytes_per_s;
    shown.extend(serves.map(|rate| {
        evidence("what it moved while the first requests waited for each other", rate, "bytes/s", seen)
    }));
    let is_slow = mean >= OF_A_REQUEST * facts.current.latency_s;
    // A store that is faster when there is less to do is short of bandwidth, not slow.
    let is_queued_for = is_slow && mean >= QUEUED_FOR * least && inside >= QUEUED_FOR;
    let current = facts.current.bytes_per_s;
    let bandwidth = |share: f64, bytes_per_s: f64| Finding {
        limiter: Limiter::StoreBandwidth,
        share,
        effect: Effect::Rate { bytes_per_s, of_connection: false },
        evidence: shown.clone(),
    };
    if is_queued_for {
        return vec![bandwidth(share(facts, mean), current)];
    }
    // It does not limit yet; it would from here on.
    let mut found: Vec<Finding> =
        serves.map(|rate| bandwidth((current / rate).min(1.0), rate.max(current))).into_iter().collect();
    if is_slow {
        let (share, effect) = (share(facts, mean), Effect::Time(mean));
        found.push(Finding { limiter: Limiter::StoreLatency, share, effect, evidence: shown });
    }
    found
}

/// Of a request's time.
fn share(facts: &Facts, time_s: f64) -> f64 {
    if facts.current.latency_s > 0.0 { (time_s / facts.current.latency_s).min(1.0) } else { 0.0 }
}

fn evidence(what: &str, value: f64, unit: &'static str, seen: &'static str) -> Evidence {
    Evidence { what: what.to_owned(), value, unit, seen }
}
