//! The cause of a rate that more requests outstanding do not raise.

use super::curve::{BEHIND_GAP, Curve, QUEUE};
use super::{StepObservation, StepRole};
use crate::facts::Facts;
use crate::limiter::Limiter;
use crate::verdict::Evidence;

/// Idle share of an event loop below which its CPU is the limit; as `rules/capacity.rs` has it.
const BUSY_IDLE: f64 = 0.4;
/// Share of one CPU that a target of our own kind uses, from which on it has none left.
const BUSY_CPU: f64 = 0.85;
/// Part of the receiver's window that is under way in a round trip, from which on it is full: with half of it (the rule of
/// Linux' autotuning, tcp_rcv_space_adjust) a window still has its room to grow.
const FULL_WINDOW: f64 = 0.7;
/// Requests whose data arrive at a time: about one, if the line carries one after the other without a pause; few, if the
/// store is waited for and its answers go out at the rate of the line. Between the two it is open.
const ARRIVING: (f64, f64) = (0.4, 0.65);
/// Requests shorter than this arrive at once under any limiter: a device or TCP joins packets up to 64 KiB (GRO).
const SPREADS_BYTES: f64 = 131_072.0;
/// Part of the time that requests wait which shows in round trips, from which on they wait in front of the line. A
/// peer that delays acknowledgements, up to 40 ms, makes round trips longer as well.
const IN_LINE: f64 = 0.3;
/// The same that leaves no doubt.
const ALL_IN_LINE: f64 = 0.6;
/// Gain of longer requests from which on the limiter is a cost of each request.
const PER_REQUEST: f64 = 1.25;
/// Share of the time with data waiting in a sender's socket, or with a full window, that counts as most of it.
const MOSTLY: f64 = 0.5;
/// The least share of the time that shows a limit of TCP; as `rules/tcp.rs` has it.
const LEAST_SHARE: f64 = 0.2;

/// A limiter with the numbers that show it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Cause {
    pub(super) limiter: Limiter,
    pub(super) evidence: Vec<Evidence>,
    /// Named because others were ruled out, not because it was seen.
    pub(super) is_by_elimination: bool,
}

impl Cause {
    fn seen(limiter: Limiter, evidence: Vec<Evidence>) -> Cause {
        Cause { limiter, evidence, is_by_elimination: false }
    }
}

/// Cause of a limit that each connection has, or each session.
pub(super) fn of_connection(curve: &Curve<'_>) -> Cause {
    let facts = &curve.asked.facts;
    let out = &facts.outstanding;
    if curve.asked.is_gated() {
        let in_queue = out.called - out.queued;
        let in_window = out.queued - out.granted;
        let (limiter, waiting) = match in_queue > in_window {
            true => (Limiter::QueueLimit, in_queue),
            false => (Limiter::CommandWindow, in_window),
        };
        let seen = "layers: called_t_ns, queued_t_ns, granted_t_ns";
        return Cause::seen(
            limiter,
            vec![Evidence::new("requests that wait in front of it", waiting, "", seen)],
        );
    }
    match facts.is_write {
        true => of_sender(facts),
        false => of_receiver(curve, facts),
    }
}

/// Writes: this end sends, and its TCP counts the waits.
fn of_sender(facts: &Facts) -> Cause {
    let Some(sender) = &facts.sender else { return unseen_sender() };
    let time = &sender.time;
    let lost = sender.traffic.retransmitted + sender.cuts.earlier_losses;
    let local = sender.cuts.local + sender.cuts.earlier_local;
    let cut = if local > lost { Limiter::DeviceQueue } else { Limiter::Loss };
    let cut_share = if lost + local > 0.0 { time.congestion_window.max(LEAST_SHARE) } else { 0.0 };
    let shares = [
        (Limiter::ReceiveWindow, time.receive_window, "sockets: rwnd_limited_ns"),
        (Limiter::SendBuffer, time.send_buffer.max(time.starved), "sockets: sndbuf_limited_ns, unsent_bytes"),
        (cut, cut_share, "sockets: cwnd_packets, retransmitted_packets, state"),
        (Limiter::Pacing, time.pacing, "sockets: pacing_rate_bytes_per_s"),
        (Limiter::CongestionWindow, time.congestion_window, "sockets: cwnd_packets"),
    ];
    let most = shares.into_iter().rev().max_by(|a, b| a.1.total_cmp(&b.1));
    match most.filter(|most| most.1 >= LEAST_SHARE) {
        Some((limiter, share, seen)) => {
            let what = "share of the time in which this held data back";
            Cause::seen(limiter, vec![Evidence::new(what, share, "", seen)])
        }
        None => unseen_sender(),
    }
}

/// Reads: the other end sends, and this one knows its own window and the gaps in the data.
fn of_receiver(curve: &Curve<'_>, facts: &Facts) -> Cause {
    let receiver = &facts.receiver;
    let behind_gap = receiver.behind_gap_packets.unwrap_or(0.0);
    if is_window_full(curve) {
        let window = receiver.window_bytes.unwrap_or(0.0);
        let under_way = under_way_bytes(curve);
        let mut evidence = vec![
            Evidence::new("window that this end offers", window, "bytes", "TCP_INFO: rcv_wnd"),
            Evidence::new("rate × round trip", under_way, "bytes", "sockets: app_rx_bytes, rtt_ns"),
        ];
        evidence.extend(receiver.buffer_most_bytes.map(|most| {
            Evidence::new("limit of its buffer", most, "bytes", "sessions: receive_buffer_max_bytes")
        }));
        return Cause::seen(Limiter::ReceiveWindow, evidence);
    }
    if behind_gap >= BEHIND_GAP {
        let what = "packets that arrived behind a gap";
        let gaps = Evidence::new(what, behind_gap, "packets", "TCP_INFO: rcv_ooopack");
        return Cause::seen(Limiter::Loss, vec![gaps]);
    }
    unseen_sender()
}

/// Bytes that arrive in a round trip.
fn under_way_bytes(curve: &Curve<'_>) -> f64 {
    let facts = &curve.asked.facts;
    facts.current.bytes_per_s * facts.path.loaded_rtt_s.unwrap_or(0.0).max(curve.rtt_s())
}

/// True if this end reads and the window that it offers is full.
pub(super) fn is_window_full(curve: &Curve<'_>) -> bool {
    let facts = &curve.asked.facts;
    let window = facts.receiver.window_bytes.filter(|_| !facts.is_write);
    window.is_some_and(|window| under_way_bytes(curve) >= FULL_WINDOW * window)
}

/// The sender's buffer, because neither the window nor losses are it.
fn unseen_sender() -> Cause {
    Cause { limiter: Limiter::SendBuffer, evidence: Vec::new(), is_by_elimination: true }
}

/// Cause of a limit that all connections share: a CPU, the line, or the store.
pub(super) fn shared(curve: &Curve<'_>) -> Cause {
    let facts = &curve.asked.facts;
    cpu(facts).unwrap_or_else(|| match line(curve) {
        Some(evidence) => Cause::seen(Limiter::LinkRate, evidence),
        None => store(curve),
    })
}

/// The line, if it is full there, or else the round trip: for requests that do not wait for each other.
pub(super) fn full(there: &Curve<'_>) -> Cause {
    cpu(&there.asked.facts).unwrap_or_else(|| match line(there) {
        Some(evidence) => Cause::seen(Limiter::LinkRate, evidence),
        None => distance(there),
    })
}

/// The round trip, below which no request gets.
pub(super) fn distance(curve: &Curve<'_>) -> Cause {
    let rtt = Evidence::new("smallest round trip", curve.rtt_s(), "s", "sockets: min_rtt_ns");
    Cause::seen(Limiter::RoundTrip, vec![rtt])
}

/// The machine itself, or a target of our own kind.
fn cpu(facts: &Facts) -> Option<Cause> {
    let (near, far) = match facts.is_write {
        true => (Limiter::SenderCpu, Limiter::ReceiverCpu),
        false => (Limiter::ReceiverCpu, Limiter::SenderCpu),
    };
    let idle = facts.loops.idle.near.filter(|idle| *idle < BUSY_IDLE);
    if let Some(idle) = idle {
        let what = "share of the time in which this end's loop had nothing to do";
        return Some(Cause::seen(near, vec![Evidence::new(what, idle, "", "sockets: loop_idle_ns")]));
    }
    let cpu = facts.loops.cpu.far.filter(|cpu| *cpu >= BUSY_CPU)?;
    let what = "share of a CPU that the target used";
    Some(Cause::seen(far, vec![Evidence::new(what, cpu, "", "the target's own count")]))
}

/// True if the wait of requests shows in round trips: a queue stands in front of the line.
pub(super) fn has_queue(curve: &Curve<'_>) -> bool {
    is_in_line(curve, IN_LINE)
}

/// True if nearly all of it does: nothing else is left to ask.
pub(super) fn is_plainly_line(curve: &Curve<'_>) -> bool {
    is_in_line(curve, ALL_IN_LINE)
}

fn is_in_line(curve: &Curve<'_>, part: f64) -> bool {
    let (asked, quiet_s) = (curve.asked, curve.rtt_s());
    let low = curve.low().filter(|low| !std::ptr::eq(*low, asked));
    let own_s = low.map_or(quiet_s, StepObservation::latency_s);
    let waits_s = (asked.latency_s() - own_s).max(0.0);
    curve.queue_s() >= QUEUE.1.max(QUEUE.0 * quiet_s).max(part * waits_s)
}

/// Evidence that requests wait for the line; `None` if they wait elsewhere.
pub(super) fn line(curve: &Curve<'_>) -> Option<Vec<Evidence>> {
    let (asked, facts) = (curve.asked, &curve.asked.facts);
    let longer = curve.all(StepRole::Longer).next();
    if longer.is_some_and(|longer| longer.rate() >= PER_REQUEST * facts.current.bytes_per_s) {
        return None;
    }
    let quiet_s = curve.rtt_s();
    let queue_s = curve.queue_s();
    let mut evidence = vec![
        Evidence::new("round trip without a load", quiet_s, "s", "sockets: min_rtt_ns"),
        Evidence::new("round trip under it", quiet_s + queue_s, "s", "sockets: rtt_ns"),
    ];
    if facts.is_write {
        if has_queue(curve) {
            return Some(evidence);
        }
        let time = facts.sender.as_ref()?.time;
        let is_sender_held = time.backlogged >= MOSTLY && time.receive_window < MOSTLY;
        evidence.push(Evidence::new(
            "share of the time in which data waited in this end's socket",
            time.backlogged,
            "",
            "sockets: notsent_bytes",
        ));
        return Some(evidence).filter(|_| is_sender_held);
    }
    let Some(arriving) = [Some(asked), longer].into_iter().flatten().find_map(arriving) else {
        return Some(evidence).filter(|_| has_queue(curve));
    };
    evidence.push(Evidence::new(
        "requests whose data arrive at a time, mean",
        arriving,
        "",
        "layers: data_first_t_ns, data_last_t_ns",
    ));
    let is_line = arriving >= ARRIVING.1 || (arriving > ARRIVING.0 && has_queue(curve));
    Some(evidence).filter(|_| is_line)
}

/// Requests whose data arrive at a time, between the first and the last of each; `None` where they are too short to tell.
pub(super) fn arriving(step: &StepObservation) -> Option<f64> {
    let facts = &step.facts;
    let spread_s = facts.stages.data_spread?;
    (facts.request_bytes >= SPREADS_BYTES).then(|| facts.rate() * spread_s)
}

/// The store, or the target that works on too few commands: the cause by elimination.
fn store(curve: &Curve<'_>) -> Cause {
    let facts = &curve.asked.facts;
    let mut evidence = vec![Evidence::new(
        "round trip under the load",
        facts.path.loaded_rtt_s.unwrap_or(curve.rtt_s()),
        "s",
        "sockets: rtt_ns",
    )];
    evidence.extend(facts.stages.first_data.map(|first_s| {
        let seen = "layers: socketed_t_ns, data_first_t_ns";
        Evidence::new("from a command's departure to its first data, mean", first_s, "s", seen)
    }));
    let longer = curve.all(StepRole::Longer).next();
    let is_per_request = longer.is_some_and(|longer| longer.rate() >= PER_REQUEST * curve.asked.rate());
    if let Some(longer) = longer {
        evidence.push(Evidence::new("rate of longer requests", longer.rate(), "bytes/s", "step longer"));
    }
    let limiter = if is_per_request { Limiter::TargetQueue } else { Limiter::StoreBandwidth };
    Cause { limiter, evidence, is_by_elimination: true }
}
