//! Remedies for a limiter that a tap has observed: the doctor's commands, with the numbers of the connection.
//!
//! Nothing is judged here. Where a tap cannot separate limiters, the settings of all of them are named.

use diagnosis::facts::{
    Concurrency, Negotiated, PathFacts, SenderTime, SenderTraffic, StageTimes, TcpReceiver, TcpSender,
};
use diagnosis::remedy::{self, Remedy};
use diagnosis::{Facts, Limiter, Performance};
use dissect::{
    ConnectionSummary as Connection, DirectionSummary as Direction, IscsiSummary as Iscsi, TimeUse,
};

use super::load::Load;
use super::refusals;

/// The settings that relieve a limiter, those of one stack in one block.
pub(super) fn of(limiter: Limiter, facts: &Facts) -> Vec<Remedy> {
    let mut found: Vec<Remedy> = Vec::new();
    // Fewer requests help against refusals alone.
    let refused_at = facts.outstanding.refused_at.filter(|_| limiter == Limiter::TargetQueue);
    let facts = &Facts { outstanding: Concurrency { refused_at, ..facts.outstanding }, ..facts.clone() };
    let alike = [Some(limiter), looks_like(limiter)].into_iter().flatten();
    for remedy in alike.flat_map(|limiter| remedy::remedies(limiter, facts)) {
        match found.iter_mut().find(|known| known.stack == remedy.stack) {
            Some(known) => known.commands = format!("{}\n{}", known.commands, remedy.commands),
            None => found.push(remedy),
        }
    }
    found
}

/// The limiter that looks the same at a tap: above iSCSI, or inside the target.
fn looks_like(limiter: Limiter) -> Option<Limiter> {
    match limiter {
        Limiter::QueueDepth => Some(Limiter::QueueLimit),
        Limiter::StoreLatency => Some(Limiter::TargetQueue),
        // A caller that waits for each answer because it needs it, and one that only keeps few.
        Limiter::RoundTrip => Some(Limiter::QueueDepth),
        _ => None,
    }
}

/// Facts of a tap about the load on a connection.
pub(super) fn facts(
    connection: &Connection,
    iscsi: &Iscsi,
    time: TimeUse,
    load: &Load<'_>,
    current: Performance,
) -> Facts {
    let Load { data, is_write, requests, request_bytes, outstanding: depth, turn, rtt_s, .. } = *load;
    let target_s = turn.zip(iscsi.network_to_target_s).map(|(turn, way_s)| (turn.p50_s - way_s).max(0.0));
    Facts {
        is_write,
        requests,
        request_bytes,
        current,
        path: PathFacts { rtt_s, line_bytes_per_s: line_bytes_per_s(data), ..PathFacts::default() },
        sessions: 1.0,
        connections: 1.0,
        outstanding: Concurrency {
            called: depth,
            queued: depth,
            granted: depth,
            window_most: iscsi.window.map(|window| window.largest as f64),
            refused_at: refusals::refused_at(connection),
            ..Concurrency::default()
        },
        stages: StageTimes { target: target_s, ..StageTimes::default() },
        sender: Some(sender(data, time)),
        receiver: TcpReceiver::default(),
        agreed: Some(agreed(iscsi)),
        ..Facts::default()
    }
}

/// Rate of the line, or the largest that was seen.
fn line_bytes_per_s(data: &Direction) -> Option<f64> {
    let peak = data.delivered.map(|delivered| delivered.peak_bytes_per_s);
    let trains = data.trains.map(|trains| trains.bytes_per_s);
    peak.into_iter().chain(trains).reduce(f64::max)
}

/// TCP of the sender of the data; fields that packets do not carry stay 0.
fn sender(data: &Direction, time: TimeUse) -> TcpSender {
    let share = |seconds: f64| seconds / time.length_s.max(f64::MIN_POSITIVE);
    TcpSender {
        time: SenderTime {
            backlogged: share(time.sending_s + time.recovery_s + time.receive_window_s),
            receive_window: share(time.receive_window_s),
            congestion_window: share(time.recovery_s),
            ..SenderTime::default()
        },
        traffic: SenderTraffic {
            flight_bytes: data.flight_mean_bytes,
            rtt_s: data.ack_rtt.map_or(0.0, |rtt| rtt.p50_s),
            mss_bytes: data.mss_bytes.map_or(0.0, |bytes| bytes as f64),
            retransmitted: data.retransmissions as f64,
            packets: data.data_packets as f64,
            ..SenderTraffic::default()
        },
        ..TcpSender::default()
    }
}

/// Parameters of the login, or at least the part in use where they are not in the capture.
fn agreed(iscsi: &Iscsi) -> Negotiated {
    let told = &iscsi.commands;
    let known = iscsi.negotiation.in_force();
    let receiver = usize::from(told.written_bytes > told.read_bytes);
    let number = |value: Option<u64>, used: u64| value.unwrap_or(used) as f64;
    Negotiated {
        immediate_data: known.immediate_data.unwrap_or(told.unasked_bytes_max > 0),
        initial_r2t: known.initial_r2t.unwrap_or(told.unasked_bytes_max == 0),
        first_burst_bytes: number(known.first_burst_bytes, told.unasked_bytes_max),
        max_burst_bytes: number(known.max_burst_bytes, told.r2t_bytes_max),
        max_outstanding_r2t: number(known.max_outstanding_r2t, 0),
        segment_bytes: number(iscsi.negotiation.segment_bytes[receiver], 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_one_stack_are_one_block() {
        let path = PathFacts { rtt_s: Some(0.1), ..PathFacts::default() };
        let facts = Facts { path, request_bytes: 4096.0, ..Facts::default() };
        let found = of(Limiter::QueueDepth, &facts);
        let mut stacks: Vec<&str> = found.iter().map(|remedy| remedy.stack).collect();
        let all = stacks.len();
        stacks.sort_unstable();
        stacks.dedup();
        assert_eq!(all, stacks.len());
        let of_stack = |stack| found.iter().find(|remedy| remedy.stack == stack).map(|r| r.commands.as_str());
        assert!(
            of_stack("farlun").is_some_and(|text| text.contains("--depth") && text.contains("--queue-limit"))
        );
        assert!(of_stack("open-iscsi").is_some_and(|text| text.contains("node.session.queue_depth")));
        assert!(of(Limiter::LinkRate, &facts).is_empty());
    }
}
