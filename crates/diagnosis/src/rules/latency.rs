//! Latency that a request gains on its way: R2Ts of a write, status in a PDU of its own, Nagle's algorithm with delayed
//! acknowledgements, too little concurrency at the target, and its store.

use super::model::{Effect, Finding};
use crate::facts::Facts;
use crate::limiter::Limiter;
use crate::verdict::Evidence;

/// Part of a round trip below which a wait has nothing to do with TCP.
const OF_A_ROUND_TRIP: f64 = 0.5;
/// Part of a request's latency below which a stage is negligible.
const OF_A_REQUEST: f64 = 0.02;
/// Share of the time with a full window from which on TCP explains a late end.
const LIMITED: f64 = 0.5;
/// Ratio of mean to unqueued time from which on a store has a queue.
const QUEUED_FOR: f64 = 3.0;

/// Additions to the latency of a request.
pub(super) fn find(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(solicited(facts));
    found.extend(late_status(facts));
    found.extend(target_queue(facts));
    found.extend(store(facts));
    found
}

fn solicited(facts: &Facts) -> Option<Finding> {
    let rtt_s = facts.path.rtt_s?;
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
        Evidence::new(
            "round trips of a write that wait for an R2T",
            rounds,
            "",
            "sessions: first_burst_bytes, max_burst_bytes, max_outstanding_r2t, initial_r2t, immediate_data",
        ),
        Evidence::new(
            "from a write's departure until its last R2T, mean",
            measured,
            "s",
            "layers: socketed_t_ns, data_last_t_ns",
        ),
    ];
    evidence.extend(facts.agreed.map(|agreed| {
        Evidence::new(
            "MaxBurstLength × MaxOutstandingR2T",
            agreed.max_burst_bytes * agreed.max_outstanding_r2t,
            "bytes",
            "sessions: max_burst_bytes, max_outstanding_r2t",
        )
    }));
    Some(latency(facts, Limiter::R2t, rounds * rtt_s, evidence))
}

/// One wait with two remedies: status with the data leaves nothing to hold, and without Nagle's algorithm it is not held
/// either. The last piece is held: a separate status, or else the end of the data.
fn late_status(facts: &Facts) -> Vec<Finding> {
    let Some(rtt_s) = facts.path.rtt_s.filter(|_| !facts.is_write) else { return Vec::new() };
    let is_late = |time: &f64| *time >= OF_A_ROUND_TRIP * rtt_s;
    let gap = facts.stages.status_gap.filter(is_late);
    let held = if has_nagle(facts) == Some(true) { at_the_end(facts, rtt_s).filter(is_late) } else { gap };
    let trip = Evidence::new("round trip", rtt_s, "s", "sockets: min_rtt_ns");
    let gap_seen = |gap: f64| {
        Evidence::new(
            "from a read's last data until its status, mean",
            gap,
            "s",
            "layers: data_last_t_ns, status_t_ns",
        )
    };
    let mut found = Vec::new();
    if let Some(held) = held.filter(|_| has_nagle(facts) != Some(false)) {
        let mut seen = vec![
            Evidence::new(
                "time of a request beyond the round trip, the target's work and the line, mean",
                held,
                "s",
                "layers: granted_t_ns, received_t_ns, answered_t_ns, completed_t_ns",
            ),
            trip.clone(),
        ];
        if has_nagle(facts) == Some(true) {
            let what = "Nagle's algorithm at the sender: 1 is on";
            seen.push(Evidence::new(what, 1.0, "", "sessions: has_nagle"));
        }
        seen.extend(gap.map(gap_seen));
        found.push(latency(facts, Limiter::Nagle, held, seen));
    }
    found.extend(gap.map(|gap| latency(facts, Limiter::SeparateStatus, gap, vec![gap_seen(gap), trip])));
    found
}

fn has_nagle(facts: &Facts) -> Option<bool> {
    facts.sender.and_then(|sender| sender.socket.has_nagle)
}

/// Unexplained latency, as far as the end of a request is late: the status behind the data, or the last data behind the
/// time that the line needs for them.
fn at_the_end(facts: &Facts, rtt_s: f64) -> Option<f64> {
    let unexplained = unexplained(facts, rtt_s)?;
    let line_s = line_s(facts);
    let spread = facts.stages.data_spread.map(|spread| (spread - line_s).max(0.0));
    let late = match (facts.stages.status_gap, spread) {
        (None, None) => return Some(unexplained),
        (gap, spread) => gap.unwrap_or(0.0) + spread.unwrap_or(0.0),
    };
    Some(unexplained.min(late))
}

/// Latency beyond the round trip, the target's work and the line; `None` while TCP has data that wait for a window.
fn unexplained(facts: &Facts, rtt_s: f64) -> Option<f64> {
    let time = facts.sender?.time;
    let limited = time.congestion_window + time.receive_window + time.send_buffer;
    let rate = facts.rate();
    if limited >= LIMITED || rate <= 0.0 {
        return None;
    }
    let target_s = facts.stages.target.unwrap_or(0.0);
    Some(facts.outstanding.granted / rate - rtt_s - target_s - line_s(facts))
}

/// Serialisation time of a request on the line, in seconds.
fn line_s(facts: &Facts) -> f64 {
    facts.path.line_bytes_per_s.map_or(0.0, |line| facts.request_bytes / line)
}

fn target_queue(facts: &Facts) -> Option<Finding> {
    let wait = facts.stages.target_wait?;
    if wait < OF_A_REQUEST * facts.current.latency_s {
        return None;
    }
    let mut evidence = vec![Evidence::new(
        "from a command's arrival until the target's work on it begins, mean",
        wait,
        "s",
        "layers: received_t_ns, executed_t_ns, store_begin_t_ns",
    )];
    evidence.extend(facts.stages.store_inside.map(|inside| {
        let seen = "layers: store_begin_t_ns, store_end_t_ns";
        Evidence::new("requests in the store at a time, mean", inside, "", seen)
    }));
    Some(latency(facts, Limiter::TargetQueue, wait, evidence))
}

fn store(facts: &Facts) -> Vec<Finding> {
    let stages = &facts.stages;
    let (Some(mean), Some(least)) = (stages.store, stages.store_least) else { return Vec::new() };
    let inside = stages.store_inside.unwrap_or(1.0);
    let seen = "layers: store_begin_t_ns, store_end_t_ns";
    let mut shown = vec![
        Evidence::new("time of a request in the store, mean", mean, "s", seen),
        Evidence::new("the same where it is soonest: a tenth of all, or one of the first", least, "s", seen),
        Evidence::new("requests in the store at a time, mean", inside, "", seen),
    ];
    let serves = stages.store_bytes_per_s;
    shown.extend(serves.map(|rate| {
        Evidence::new("rate while the first requests waited for each other", rate, "bytes/s", seen)
    }));
    let is_slow = mean >= OF_A_REQUEST * facts.current.latency_s;
    // A store that is faster under less load is short of bandwidth, not slow.
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
    // A bound above the present rate: it limits from there on.
    let mut found: Vec<Finding> =
        serves.map(|rate| bandwidth((current / rate).min(1.0), rate.max(current))).into_iter().collect();
    if is_slow {
        found.push(latency(facts, Limiter::StoreLatency, mean, shown));
    }
    found
}

fn latency(facts: &Facts, limiter: Limiter, time_s: f64, evidence: Vec<Evidence>) -> Finding {
    Finding { limiter, share: share(facts, time_s), effect: Effect::Latency(time_s), evidence }
}

/// Share of a request's latency.
fn share(facts: &Facts, time_s: f64) -> f64 {
    if facts.current.latency_s > 0.0 { (time_s / facts.current.latency_s).min(1.0) } else { 0.0 }
}
