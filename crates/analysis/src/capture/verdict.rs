//! What limits a connection, as far as one tap can tell.
//!
//! [`dissect::TimeUse`] says where the time went; here each part gets the name of what holds it, and what there would be
//! without it. A tap sees neither the caller nor the store, so some parts have a name that stands for several: what
//! cannot be told is said with the verdict.

use diagnosis::{Certainty, Diagnosis, Evidence, Limiter, Performance, Verdict};
use dissect::{
    ConnectionSummary as Connection, DirectionSummary as Direction, Durations, IscsiSummary as Iscsi, TimeUse,
};

use super::{black_hole, refusals, remedies};

/// Less than this share of the time is not worth a verdict.
const SHARE_LEAST: f64 = 0.02;
/// Who sends again for less than this share of the time that it sends is not kept by losses.
const RECOVERY_LEAST: f64 = 0.01;
/// How much of the time in which its ring overflows a line is taken to be full.
const RING_AT_THE_LINE: f64 = 0.4;
/// Waiting longer than that for a reason the protocol has no need of comes before the depth.
const WEIGHT_OF_DEPTH: f64 = 0.7;
/// The same where nothing is to be gained.
const WEIGHT_OF_ROUND_TRIP: f64 = 0.5;
/// Who sends no more than this share of its commands before the last answer has come asks for one at a time.
const SERIAL: f64 = 0.05;
/// A tap that is farther from the initiator than this share of the round trip is not beside it.
const AWAY: f64 = 0.125;

/// The diagnosis of a connection that has completed commands.
pub(super) fn of(connection: &Connection) -> Option<Diagnosis> {
    let iscsi = connection.iscsi.as_ref()?;
    let has_black_hole = connection.directions.iter().any(|direction| direction.black_hole.is_some());
    let is_loaded = has_black_hole || iscsi.commands.completed.estimate() != Some(0);
    let time = iscsi.time.filter(|time| time.length_s > 0.0 && is_loaded)?;
    let case = Case { connection, iscsi, time, data: data_direction(connection) };
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
    let facts = remedies::facts(connection, iscsi, time, case.data, current);
    let verdicts = found.into_iter().enumerate().map(|(n, part)| {
        let share = part.seconds / time.length_s;
        let predicted = case.predicted(current, part.limiter, share);
        Verdict {
            limiter: part.limiter,
            share,
            evidence: part.evidence,
            predicted,
            certainty: match part.limiter {
                // Nothing bounds the rate of data that never arrived, nor that of the store behind a full queue.
                Limiter::PathMtu | Limiter::TargetQueue => Certainty::Unknown,
                _ => Certainty::Figure,
            },
            next: next(n),
            remedies: remedies::of(part.limiter, &facts),
        }
    });
    let verdicts = verdicts.collect();
    Some(Diagnosis { current, verdicts, cannot_know: case.cannot_know(&limiters) })
}

/// The direction that carries the data.
fn data_direction(connection: &Connection) -> &Direction {
    let [initiator, target] = &connection.directions;
    if initiator.payload_bytes > target.payload_bytes { initiator } else { target }
}

struct Case<'a> {
    connection: &'a Connection,
    iscsi: &'a Iscsi,
    time: TimeUse,
    data: &'a Direction,
}

/// A part of the time.
struct Part {
    limiter: Limiter,
    seconds: f64,
    evidence: Vec<Evidence>,
}

impl Part {
    fn weight(&self) -> f64 {
        match self.limiter {
            Limiter::QueueDepth => self.seconds * WEIGHT_OF_DEPTH,
            Limiter::RoundTrip => self.seconds * WEIGHT_OF_ROUND_TRIP,
            _ => self.seconds,
        }
    }
}

impl Case<'_> {
    fn current(&self) -> Performance {
        let told = &self.iscsi.commands;
        let services = [told.read_service, told.write_service, told.other_service];
        let (count, sum_s) = services.iter().flatten().fold((0.0, 0.0), |(count, sum), service| {
            (count + service.count as f64, sum + service.count as f64 * service.mean_s)
        });
        let way_s = self.iscsi.network_to_initiator_s.unwrap_or(0.0);
        // Without a command of which both headers are visible: Little's law.
        let little = || {
            let completed = told.completed.estimate().filter(|completed| *completed > 0)?;
            Some(told.in_flight?.mean * self.time.length_s / completed as f64 + way_s)
        };
        Performance {
            bytes_per_s: (told.read_bytes + told.written_bytes) as f64 / self.time.length_s,
            latency_s: if count > 0.0 { sum_s / count + way_s } else { little().unwrap_or(0.0) },
        }
    }

    /// Whether its initiator waits for each answer before it sends the next command.
    fn is_serial(&self) -> bool {
        let told = &self.iscsi.commands;
        let sent = told.sent.estimate().unwrap_or(0) as f64;
        told.overlapping.is_some_and(|overlapping| overlapping as f64 <= SERIAL * sent)
    }

    /// Whether the way from the tap to the initiator is a part of every round trip that counts.
    fn is_away(&self) -> bool {
        self.iscsi.network_to_initiator_s.is_some_and(|way_s| way_s > AWAY * self.rtt_s())
    }

    /// From the initiator to the target and back.
    fn rtt_s(&self) -> f64 {
        [self.iscsi.network_to_target_s, self.iscsi.network_to_initiator_s].into_iter().flatten().sum()
    }

    fn parts(&self) -> Vec<Part> {
        let (time, told) = (&self.time, &self.iscsi.commands);
        // What Nagle's algorithm and a held status took lies in what seemed to be the target's time, then in the rest.
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
            part(Limiter::ReceiveWindow, time.receive_window_s, self.window_evidence()),
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
        parts.extend(self.tcp_parts());
        parts.extend(self.depth_parts(time.way_s * left));
        parts
    }

    /// Data was at hand and TCP took no more of it, or something was sent again.
    fn tcp_parts(&self) -> [Part; 3] {
        let (stalled_s, stall_evidence) = black_hole::of(self.connection, self.time).unwrap_or_default();
        let recovery_s = self.time.recovery_s - stalled_s;
        let seconds = self.time.sending_s + recovery_s;
        let full = self.data.delivered.map_or(0.0, |delivered| delivered.full_share);
        // A line that is full is so nearly all the time, and what its queue drops is soon repaired; half of the time
        // is no more than a sawtooth.
        let again_share = recovery_s / seconds.max(f64::MIN_POSITIVE);
        let line = ((full - 0.5) / 0.4).clamp(0.0, 1.0) * (1.0 - 2.0 * again_share).max(0.0);
        let kinds = &self.data.kinds;
        let limiter = if kinds.local * 2 > self.data.retransmissions && kinds.local * 2_000 > kinds.new {
            Limiter::DeviceQueue
        } else if again_share > RECOVERY_LEAST {
            Limiter::Loss
        } else if self.data.flight_mean_bytes * 2.0 < self.data.flight_max_bytes as f64 {
            Limiter::CongestionWindow
        } else {
            Limiter::SendBuffer
        };
        // A ring that overflows drops at less than the line's rate or just at it: which of the two is not seen.
        let line = if limiter == Limiter::DeviceQueue { line * RING_AT_THE_LINE } else { line };
        let rate = self.data.delivered.map_or(0.0, |delivered| delivered.peak_bytes_per_s);
        let again = self.data.retransmissions as f64 / self.data.data_packets.max(1) as f64;
        let line_evidence = vec![
            evidence(
                "share of stretches of time at the full rate",
                full,
                "",
                "directions.delivered.full_share",
            ),
            evidence("that rate", rate, "bytes/s", "directions.delivered.peak_bytes_per_s"),
        ];
        let again_evidence = vec![
            evidence("share of segments that were sent again", again, "", "directions.retransmissions"),
            evidence(
                "of them by the sender's own device",
                kinds.local as f64,
                "packets",
                "directions.kinds.local",
            ),
            evidence(
                "bytes in flight, mean",
                self.data.flight_mean_bytes,
                "bytes",
                "directions.flight_mean_bytes",
            ),
        ];
        [
            part(Limiter::PathMtu, stalled_s, stall_evidence),
            part(Limiter::LinkRate, seconds * line, line_evidence),
            part(limiter, seconds * (1.0 - line), again_evidence),
        ]
    }

    /// Everything was on its way, or nothing was asked for.
    fn depth_parts(&self, way_s: f64) -> [Part; 2] {
        let depth = self.iscsi.commands.in_flight;
        let both = "iscsi.network_to_target_s, iscsi.network_to_initiator_s";
        let mut shown = vec![evidence("round trip", self.rtt_s(), "s", both)];
        if let Some(depth) = depth {
            let seen = "iscsi.commands.in_flight";
            shown.push(evidence("commands in flight, mean", depth.mean, "", seen));
            shown.push(evidence("commands in flight, at most", depth.max as f64, "", seen));
        }
        if let Some(outstanding) = remedies::outstanding(self.iscsi, self.time).filter(|_| self.is_away()) {
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
        if !self.is_serial() {
            shown.push(idle);
            let none = part(Limiter::RoundTrip, 0.0, Vec::new());
            return [part(Limiter::QueueDepth, way_s + idle_s, shown), none];
        }
        [part(Limiter::QueueDepth, idle_s, vec![idle]), part(Limiter::RoundTrip, way_s, shown)]
    }

    fn nagle_s(&self) -> f64 {
        self.connection.directions.iter().map(|direction| direction.nagle_stall_s).sum()
    }

    /// How long statuses were held back behind their data, if they were by a round trip.
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

    fn window_evidence(&self) -> Vec<Evidence> {
        vec![
            evidence(
                "segments behind which the window had no room",
                self.data.window_full as f64,
                "packets",
                "directions.window_full",
            ),
            evidence(
                "bytes in flight, at most",
                self.data.flight_max_bytes as f64,
                "bytes",
                "directions.flight_max_bytes",
            ),
            evidence(
                "times the window was closed",
                self.data.zero_windows as f64,
                "",
                "directions.zero_windows",
            ),
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

    /// Without a limiter the time it took is gone; more than the path has shown that it can carry is not promised.
    fn predicted(&self, current: Performance, limiter: Limiter, share: f64) -> Performance {
        if limiter.is_final() {
            return current;
        }
        let left = (1.0 - share).max(0.01);
        let peak = self.data.delivered.map_or(f64::MAX, |delivered| delivered.peak_bytes_per_s);
        let bytes_per_s = (current.bytes_per_s / left).min(peak.max(current.bytes_per_s));
        let shortens = !matches!(limiter, Limiter::QueueDepth | Limiter::CommandWindow);
        Performance {
            bytes_per_s,
            latency_s: if shortens { current.latency_s * left } else { current.latency_s },
        }
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
            "above iSCSI nothing is seen: a caller that asks for little, a queue limit and a busy CPU of the initiator look alike",
        );
        say(
            self.is_away() && (has(Limiter::QueueDepth) || has(Limiter::RoundTrip)),
            "the initiator is a way off: what it takes itself before it asks again is told from that way only beyond the \
             fastest round trip to it",
        );
        say(
            !self.connection.handshake && has(Limiter::RoundTrip),
            "how long the way to the initiator is, if nothing but the next command ever acknowledged an answer: then its own \
             time is taken for a part of the way",
        );
        say(
            has(Limiter::CommandWindow),
            "whether the caller had more requests than the command window allowed",
        );
        say(
            has(Limiter::StoreLatency),
            "inside the target nothing is seen: its store, its queue and its CPU look alike",
        );
        say(
            has(Limiter::TargetQueue),
            "what the store behind a target that refuses commands would do with more of them",
        );
        say(
            has(Limiter::LinkRate),
            "a sender that paces itself, a socket's buffer that is too small, and other traffic on the line look like a full line",
        );
        say(
            has(Limiter::SendBuffer) || has(Limiter::CongestionWindow),
            "neither the congestion window nor the socket's buffer is in any packet",
        );
        say(
            !self.connection.handshake,
            "windows are scaled by what the connection's beginning says, which is missing: whether one was full",
        );
        let lost = self.iscsi.framing.iter().any(|framing| framing.lost_bytes > 0);
        say(lost, "some bytes are in no PDU that could be told: what was in them");
        said
    }
}

fn part(limiter: Limiter, seconds: f64, evidence: Vec<Evidence>) -> Part {
    Part { limiter, seconds, evidence }
}

fn evidence(what: &str, value: f64, unit: &'static str, seen: &'static str) -> Evidence {
    Evidence::new(what, value, unit, seen)
}

fn durations(what: &str, durations: Option<Durations>, seen: &'static str) -> Vec<Evidence> {
    durations.map(|durations| evidence(what, durations.p50_s, "s", seen)).into_iter().collect()
}
