//! Limiters of a connection, as far as one tap can tell.
//!
//! [`dissect::TimeUse`] has the breakdown of the time; here each part gets its limiter and a prediction without it. A
//! tap sees neither the caller nor the store, so some names stand for several limiters; the verdict lists the unknowns.

use diagnosis::{Diagnosis, Evidence, Limiter, Performance, Verdict};
use dissect::{
    ConnectionSummary as Connection, DirectionSummary as Direction, IscsiSummary as Iscsi, TimeUse,
};

use super::gain::{Bounds, Prediction};
use super::load::Load;
use super::part::{Part, durations, evidence, part};
use super::{load, refusals, remedies, tcp_parts};

/// Less than this share of the time is not worth a verdict.
const SHARE_LEAST: f64 = 0.02;
/// A tap that is farther from the initiator than this share of the round trip is not beside it.
const AWAY: f64 = 0.125;

/// The diagnosis of a connection that has completed commands.
pub(super) fn of(connection: &Connection) -> Option<Diagnosis> {
    let iscsi = connection.iscsi.as_ref()?;
    let has_black_hole = connection.directions.iter().any(|direction| direction.black_hole.is_some());
    let is_loaded = has_black_hole || iscsi.commands.completed.estimate() != Some(0);
    let time = iscsi.time.filter(|time| time.length_s > 0.0 && is_loaded)?;
    let case = Case { connection, iscsi, time, data: load::data_direction(connection) };
    let current = case.current();
    let mut found = case.parts();
    found.retain(|part| part.seconds > SHARE_LEAST * time.length_s);
    found.sort_by(|a, b| b.weight().total_cmp(&a.weight()));
    if found.is_empty() {
        found.push(Part { limiter: Limiter::RoundTrip, seconds: 0.0, evidence: Vec::new() });
    }
    let limiters: Vec<Limiter> = found.iter().map(|part| part.limiter).collect();
    let next = |n: usize| {
        let other = limiters.iter().enumerate().find(|(m, _)| *m != n);
        other.map_or(Limiter::RoundTrip, |(_, limiter)| *limiter)
    };
    let load = Load::new(connection, iscsi, time, current);
    let facts = remedies::facts(connection, iscsi, time, &load, current);
    let waits = [Limiter::Nagle, Limiter::SeparateStatus, Limiter::R2t];
    let waits_s = found.iter().filter(|part| waits.contains(&part.limiter)).map(|part| part.seconds).sum();
    let bounds = Bounds::new(iscsi, time, &load, current, waits_s);
    let verdicts = found.into_iter().enumerate().map(|(n, part)| {
        let share = part.seconds / time.length_s;
        let Prediction { predicted, certainty, next: bound } = bounds.without(part.limiter, part.seconds);
        Verdict {
            limiter: part.limiter,
            share,
            evidence: part.evidence,
            predicted,
            certainty,
            next: bound.unwrap_or_else(|| next(n)),
            remedies: remedies::of(part.limiter, &facts),
        }
    });
    let verdicts = verdicts.collect();
    Some(Diagnosis { current, verdicts, cannot_know: case.cannot_know(&limiters) })
}

struct Case<'a> {
    connection: &'a Connection,
    iscsi: &'a Iscsi,
    time: TimeUse,
    data: &'a Direction,
}

impl Case<'_> {
    fn current(&self) -> Performance {
        let told = &self.iscsi.commands;
        let way_s = self.iscsi.network_to_initiator_s.unwrap_or(0.0);
        // Without a command of which both headers are visible: Little's law.
        let little = || {
            let completed = told.completed.estimate().filter(|completed| *completed > 0)?;
            Some(told.in_flight?.mean * self.time.length_s / completed as f64 + way_s)
        };
        Performance {
            bytes_per_s: (told.read_bytes + told.written_bytes) as f64 / self.time.length_s,
            latency_s: load::service_s(self.iscsi).map(|s| s + way_s).or_else(little).unwrap_or(0.0),
        }
    }

    /// True if the way from the tap to the initiator is a part of every round trip that counts.
    fn is_away(&self) -> bool {
        self.iscsi.network_to_initiator_s.is_some_and(|way_s| way_s > AWAY * self.rtt_s())
    }

    /// From the initiator to the target and back.
    fn rtt_s(&self) -> f64 {
        [self.iscsi.network_to_target_s, self.iscsi.network_to_initiator_s].into_iter().flatten().sum()
    }

    fn parts(&self) -> Vec<Part> {
        let (time, told) = (&self.time, &self.iscsi.commands);
        // Delays by Nagle's algorithm and by a held status lie in the apparent time of the target, then in the rest.
        let mut target_s = time.target_s;
        let mut way_s = time.way_s + time.closed_s;
        let mut take = |wanted: f64| {
            let from_target = wanted.min(target_s);
            let from_way = (wanted - from_target).min(way_s);
            (target_s, way_s) = (target_s - from_target, way_s - from_way);
            from_target + from_way
        };
        let nagle_s = take(self.nagle_s());
        let held_s = take((self.held_s() - nagle_s).max(0.0));
        let more_s = (target_s * self.margin_of_turn()).min(way_s);
        (target_s, way_s) = (target_s + more_s, way_s - more_s);
        let left = way_s / (time.way_s + time.closed_s).max(f64::MIN_POSITIVE);
        let mut parts = vec![
            part(Limiter::Nagle, nagle_s, self.nagle_evidence()),
            part(
                Limiter::SeparateStatus,
                held_s,
                durations(
                    "from the last data of a read to its status, median",
                    told.status_alone,
                    "iscsi.commands.status_alone",
                ),
            ),
            part(Limiter::R2t, time.r2t_s, self.r2t_evidence()),
            part(Limiter::CommandWindow, time.closed_s * left, self.command_window_evidence()),
            part(Limiter::TargetQueue, time.refused_s, refusals::evidence(self.connection, self.iscsi)),
            part(Limiter::StoreLatency, target_s, self.target_evidence()),
            part(
                Limiter::SenderCpu,
                time.initiator_s,
                durations(
                    "from an R2T to its data, median",
                    told.initiator_turn,
                    "iscsi.commands.initiator_turn",
                ),
            ),
        ];
        let (tcp, on_the_line_s) = tcp_parts::of(self.connection, self.time, self.data);
        parts.extend(tcp);
        parts.extend(self.depth_parts(time.way_s * left + on_the_line_s));
        parts
    }

    /// All requests were in flight, or there were no requests.
    fn depth_parts(&self, way_s: f64) -> [Part; 2] {
        let depth = self.iscsi.commands.in_flight;
        let both = "iscsi.network_to_target_s, iscsi.network_to_initiator_s";
        let mut shown = vec![evidence("round trip", self.rtt_s(), "s", both)];
        if let Some(depth) = depth {
            let seen = "iscsi.commands.in_flight";
            shown.push(evidence("commands in flight, mean", depth.mean, "", seen));
            shown.push(evidence("commands in flight, at most", depth.max as f64, "", seen));
        }
        if let Some(outstanding) = load::outstanding(self.iscsi, self.time).filter(|_| self.is_away()) {
            let seen = "iscsi.commands.in_flight, iscsi.network_to_initiator_s";
            shown.push(evidence("commands that the initiator has outstanding, mean", outstanding, "", seen));
        }
        let overlapping = self.iscsi.commands.overlapping;
        shown.extend(overlapping.map(|count| {
            let what = "commands that did not wait for the answer to the one before";
            evidence(what, count as f64, "", "iscsi.commands.overlapping")
        }));
        let idle_s = self.time.idle_s;
        let idle = evidence("time without a command", idle_s, "s", "iscsi.time.idle_s");
        if load::is_serial(self.iscsi) != Some(true) {
            shown.push(idle);
            let none = part(Limiter::RoundTrip, 0.0, Vec::new());
            return [part(Limiter::QueueDepth, way_s + idle_s, shown), none];
        }
        [part(Limiter::QueueDepth, idle_s, vec![idle]), part(Limiter::RoundTrip, way_s, shown)]
    }

    /// Factor by which the target's turn exceeds [`TimeUse::target_s`]: a turn counts as the target's only if it
    /// exceeds the round trip by a quarter and 0.1 ms, and then from the end of the round trip on.
    fn margin_of_turn(&self) -> f64 {
        const MARGIN_MAX: f64 = 0.5;
        let to_target_s = self.iscsi.network_to_target_s.unwrap_or(0.0);
        let told = &self.iscsi.commands;
        let turn = if told.written_bytes > told.read_bytes { told.status_turn } else { told.first_answer };
        let turn_s = turn.map_or(0.0, |turn| turn.p50_s - to_target_s);
        let margin_s = to_target_s / 4.0 + 1e-4;
        if turn_s > margin_s { (margin_s / (turn_s - margin_s)).min(MARGIN_MAX) } else { 0.0 }
    }

    fn nagle_s(&self) -> f64 {
        self.connection.directions.iter().map(|direction| direction.nagle_stall_s).sum()
    }

    /// Time for which statuses were held back behind their data, if by a round trip.
    fn held_s(&self) -> f64 {
        self.iscsi.status_held_s / self.iscsi.commands.in_flight.map_or(1.0, |depth| depth.mean.max(1.0))
    }

    fn target_evidence(&self) -> Vec<Evidence> {
        let mut said = durations(
            "from a command to its first answer, median",
            self.iscsi.commands.first_answer,
            "iscsi.commands.first_answer",
        );
        said.extend(durations(
            "from the last data of a write to its status, median",
            self.iscsi.commands.status_turn,
            "iscsi.commands.status_turn",
        ));
        let waiting_s = self.iscsi.commands.waiting_s.filter(|s| *s > SHARE_LEAST * self.time.length_s);
        said.extend(waiting_s.map(|s| {
            let what = "wait of the oldest command without an answer at the end";
            evidence(what, s, "s", "iscsi.commands.waiting_s")
        }));
        said.push(evidence(
            "round trip to the target",
            self.iscsi.network_to_target_s.unwrap_or(0.0),
            "s",
            "iscsi.network_to_target_s",
        ));
        said
    }

    fn nagle_evidence(&self) -> Vec<Evidence> {
        let stalls = self.connection.directions.iter().map(|direction| direction.nagle_stalls).sum::<u64>();
        vec![
            evidence("waits for a delayed acknowledgement", stalls as f64, "", "directions.nagle_stalls"),
            evidence("by which those were late", self.nagle_s(), "s", "directions.nagle_stall_s"),
        ]
    }

    fn r2t_evidence(&self) -> Vec<Evidence> {
        let told = &self.iscsi.commands;
        let r2ts = told.r2ts_per_write.map_or(0.0, |r2ts| r2ts.mean);
        let mut said = vec![evidence("R2Ts per write, mean", r2ts, "", "iscsi.commands.r2ts_per_write")];
        let used = [("the most that an R2T asked for", told.r2t_bytes_max, "iscsi.commands.r2t_bytes_max")];
        let known = self.iscsi.negotiation.in_force();
        let agreed = [
            ("FirstBurstLength", known.first_burst_bytes, "iscsi.agreed, iscsi.defaults: first_burst_bytes"),
            ("MaxBurstLength", known.max_burst_bytes, "iscsi.agreed, iscsi.defaults: max_burst_bytes"),
        ];
        let agreed = agreed.into_iter().filter_map(|(what, bytes, seen)| Some((what, bytes?, seen)));
        let bursts = used.into_iter().chain(agreed);
        said.extend(bursts.map(|(what, bytes, seen)| evidence(what, bytes as f64, "bytes", seen)));
        said.extend(known.max_outstanding_r2t.map(|r2ts| {
            let seen = "iscsi.agreed, iscsi.defaults: max_outstanding_r2t";
            evidence("MaxOutstandingR2T", r2ts as f64, "", seen)
        }));
        said
    }

    fn command_window_evidence(&self) -> Vec<Evidence> {
        let Some(window) = self.iscsi.window else { return Vec::new() };
        vec![
            evidence("commands that the window allows", window.largest as f64, "", "iscsi.window.largest"),
            evidence(
                "time in which its initiator knew of no room for another one",
                self.time.closed_s,
                "s",
                "iscsi.time.closed_s",
            ),
            evidence(
                "share of time in which it was closed at the tap",
                window.closed_share,
                "",
                "iscsi.window.closed_share",
            ),
        ]
    }

    fn cannot_know(&self, limiters: &[Limiter]) -> Vec<String> {
        let mut said = Vec::new();
        let mut say = |holds: bool, text: &str| {
            if holds {
                said.push(text.to_owned());
            }
        };
        let has = |limiter: Limiter| limiters.contains(&limiter);
        say(
            has(Limiter::QueueDepth),
            "a caller that submits few requests, a queue limit of the initiator and a busy CPU of its host look alike in a capture",
        );
        say(
            self.is_away() && (has(Limiter::QueueDepth) || has(Limiter::RoundTrip)),
            "the capture was not made at the initiator: the initiator's own processing time is known only as far as it exceeds \
             the fastest round trip to it",
        );
        say(
            !self.connection.handshake && has(Limiter::RoundTrip),
            "the handshake is not in the capture: if the initiator acknowledges answers only with its next command, its \
             processing time counts as round trip",
        );
        say(
            has(Limiter::CommandWindow),
            "a capture does not show whether the caller had more requests than the command window admits",
        );
        say(
            has(Limiter::StoreLatency),
            "the store, the queue and the CPU of the target look alike in a capture",
        );
        say(
            has(Limiter::TargetQueue),
            "a capture does not show how many commands the store would execute if the target refused none",
        );
        say(
            has(Limiter::LinkRate),
            "a paced sender, a small socket buffer and other traffic on the line look like a full line",
        );
        say(
            has(Limiter::DeviceQueue),
            "a capture does not show whether the sender's device drops packets at the full rate of the line or below it",
        );
        say(
            has(Limiter::SendBuffer) || has(Limiter::CongestionWindow),
            "no packet carries the congestion window or the size of the socket buffer",
        );
        say(
            !self.connection.handshake,
            "the handshake, which negotiates the window scale, is not in the capture: the smallest scale that permits all data \
             is assumed",
        );
        let lost = self.iscsi.framing.iter().any(|framing| framing.lost_bytes > 0);
        say(lost, "some bytes belong to no PDU that was recognised: their commands are not known");
        said
    }
}
