//! What is told of a capture as a whole: plain values, ready for a table or JSON.

use serde::Serialize;

use crate::doctor::Diagnosis;

use super::commands::CommandsTold;
use super::delivery::Delivered;
use super::distribution::Durations;
use super::flow::Flow;
use super::interfaces::Interface;
use super::kind::Kinds;
use super::login::Agreed;
use super::plausible::Side;
use super::taps::Span;
use super::verdict;
use super::waits::TimeUse;
use super::window::CommandWindowUse;

/// Everything found in a file.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Capture {
    /// Packets read.
    pub packets: u64,
    /// Those that were TCP.
    pub tcp_packets: u64,
    /// Packets of connections beyond those that are followed at once.
    pub beyond_packets: u64,
    /// Packets that the capturing host says it lost.
    pub dropped: u64,
    /// Time of the first packet, seconds since 1970.
    pub begin_s: f64,
    /// The same in ns.
    pub begin_ns: u64,
    /// From the first packet to the last.
    pub length_s: f64,
    /// Why the file was not read to its end, if it was not.
    pub cut: Option<String>,
    /// The interfaces that its packets came from.
    pub interfaces: Vec<Interface>,
    /// The connections, in the order of their first packets; one that several interfaces show is told once.
    pub connections: Vec<Connection>,
}

/// One TCP connection.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Connection {
    /// Its beginning was in the capture: what both ends have said of windows and segments.
    pub handshake: bool,
    /// Time of its first packet, since that of the capture.
    pub begin_s: f64,
    /// From its first packet to its last.
    pub length_s: f64,
    /// Times that nothing passed for more than 200 ms.
    pub idle_gaps: u64,
    /// Their sum.
    pub idle_s: f64,
    /// The two directions; of an iSCSI connection the initiator's first.
    pub directions: [Direction; 2],
    /// Interfaces that show it too, whose packets are not counted here.
    pub also_at: Vec<u32>,
    /// What it carried, if that was iSCSI.
    pub iscsi: Option<Iscsi>,
    /// What limits it, as far as one tap can tell; `None` without commands.
    pub diagnosis: Option<Diagnosis>,
}

/// One direction of a connection.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Direction {
    /// Who sent it.
    pub from: String,
    /// Who got it.
    pub to: String,
    /// The interface that its packets came from.
    pub interface: u32,
    /// Which bytes were seen.
    #[serde(skip)]
    pub(super) span: Span,
    /// Segments.
    pub packets: u64,
    /// Segments with data.
    pub data_packets: u64,
    /// Bytes of payload, repeated ones counted again.
    pub payload_bytes: u64,
    /// Share of those that the capture kept.
    pub kept_share: Option<f64>,
    /// Bytes that its peer acknowledged and the capture never had.
    pub missing_bytes: u64,
    /// In how many pieces.
    pub gaps: u64,
    /// What the segments with data were.
    pub kinds: Kinds,
    /// [`Kinds::retransmissions`].
    pub retransmissions: u64,
    /// From a segment to what acknowledges it: the way from the tap to the receiver and back, and its delay.
    pub ack_rtt: Option<Durations>,
    /// How evenly what was sent arrived.
    pub delivered: Option<Delivered>,
    /// The most bytes that were in flight.
    pub flight_max_bytes: u64,
    /// How many were in flight on average, but for pauses of more than a second with none.
    pub flight_mean_bytes: f64,
    /// Acknowledgements that said the same again.
    pub duplicate_acks: u64,
    /// Whether its receiver acknowledged selectively.
    pub sack: bool,
    /// Times that its receiver closed its window.
    pub zero_windows: u64,
    /// How long it was closed.
    pub zero_window_s: f64,
    /// Segments behind which the receiver's window, as it stood when they were sent, had no room for two more; 0 if
    /// its scale is not known.
    pub window_full: u64,
    /// Segments with less than 128 bytes.
    pub tinygrams: u64,
    /// Segments larger than a packet on the wire may be.
    pub super_packets: u64,
    /// Payload of the largest segment.
    pub largest_bytes: u64,
    /// Payload of a packet as both ends have agreed, if the connection's beginning was seen.
    pub mss_bytes: Option<u64>,
    /// Times that it waited for a delayed acknowledgement (Nagle's algorithm).
    pub nagle_stalls: u64,
    /// By how much those acknowledgements were late, together.
    pub nagle_stall_s: f64,
}

/// The iSCSI of a connection.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Iscsi {
    /// Its login was in the capture.
    pub login: bool,
    /// Whether headers have digests, if that is known.
    pub header_digest: Option<bool>,
    /// Whether data has digests, if that is known.
    pub data_digest: Option<bool>,
    /// What else the login agreed on, if all of it is in the capture.
    pub agreed: Option<Agreed>,
    /// How well PDUs could be told, the initiator's first.
    pub framing: [Framing; 2],
    /// Commands and their answers.
    pub commands: CommandsTold,
    /// The command window.
    pub window: Option<CommandWindowUse>,
    /// By which statuses with PDUs of their own came later than nearly a round trip behind their data, together.
    pub status_held_s: f64,
    /// Where the time went.
    pub time: Option<TimeUse>,
    /// From the tap to the target and back: the fastest acknowledgement.
    pub network_to_target_s: Option<f64>,
    /// From the tap to the initiator and back.
    pub network_to_initiator_s: Option<f64>,
    /// The target's own part of the time to the first answer: its median without the network.
    pub target_s: Option<f64>,
    /// The initiator's own part of the time from an R2T to its data: its median without the network.
    pub initiator_s: Option<f64>,
}

/// How well the PDUs of a direction could be told.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Framing {
    /// PDUs.
    pub pdus: u64,
    /// Those whose header was hidden and whose length follows from the task's data.
    pub inferred: u64,
    /// Share of all PDUs.
    pub inferred_share: f64,
    /// Inferred ones behind which no header was where it should have been.
    pub refuted: u64,
    /// Bytes that belong to no PDU that was told.
    pub lost_bytes: u64,
    /// Share of the direction's bytes.
    pub lost_share: f64,
    /// Times that the place was found in mid-stream.
    pub found: u64,
}

impl Connection {
    /// `begin_ns` is the time of the capture's first packet.
    pub(super) fn of(flow: &mut Flow, begin_ns: u64) -> Self {
        for half in &mut flow.halves {
            half.finish(flow.last_ns);
        }
        let pdus = flow.framers.iter().map(|framer| framer.counts.pdus).sum::<u64>();
        let is_iscsi = flow.session.login_seen && pdus > 0 || pdus > 2;
        let initiator = usize::from(is_iscsi && flow.session.side(0) == Side::Target);
        let order = [initiator, 1 - initiator];
        let mut connection = Self {
            handshake: flow.halves.iter().all(|half| half.scale_known),
            begin_s: seconds(flow.first_ns.saturating_sub(begin_ns)),
            length_s: seconds(flow.last_ns.saturating_sub(flow.first_ns)),
            idle_gaps: flow.idle_gaps,
            idle_s: seconds(flow.idle_ns),
            directions: order.map(|direction| Direction::of(flow, direction)),
            also_at: Vec::new(),
            iscsi: is_iscsi.then(|| Iscsi::of(flow, order)),
            diagnosis: None,
        };
        connection.diagnosis = verdict::of(&connection);
        connection
    }
}

impl Direction {
    fn of(flow: &Flow, direction: usize) -> Self {
        let (half, receiver) = (&flow.halves[direction], &flow.halves[1 - direction]);
        let kept = half.kept_bytes as f64 / half.payload_bytes as f64;
        Self {
            from: flow.addresses[direction].to_string(),
            to: flow.addresses[1 - direction].to_string(),
            interface: flow.interfaces()[direction],
            span: half.span(),
            packets: half.packets,
            data_packets: half.data_packets,
            payload_bytes: half.payload_bytes,
            kept_share: (half.payload_bytes > 0).then_some(kept),
            missing_bytes: flow.streams[direction].missing_bytes,
            gaps: flow.streams[direction].gaps,
            kinds: half.kinds,
            retransmissions: half.kinds.retransmissions(),
            ack_rtt: half.rtt.durations(),
            delivered: half.delivery.told(),
            flight_max_bytes: half.flight_max,
            flight_mean_bytes: half.flight_level.mean_over(half.delivery.busy_ns(flow.last_ns)),
            duplicate_acks: half.dup_acks_total,
            sack: half.sack_seen,
            zero_windows: receiver.zero_windows,
            zero_window_s: seconds(receiver.zero_window_ns),
            window_full: half.window_full,
            tinygrams: half.tinygrams,
            super_packets: half.super_packets,
            largest_bytes: half.largest as u64,
            mss_bytes: half.mss_agreed(receiver).map(u64::from),
            nagle_stalls: flow.stalls[direction].count,
            nagle_stall_s: seconds(flow.stalls[direction].total_ns),
        }
    }
}

impl Iscsi {
    fn of(flow: &Flow, order: [usize; 2]) -> Self {
        let framing = order.map(|direction| {
            let counts = flow.framers[direction].counts;
            let all = flow.halves[direction].payload_bytes.max(1);
            Framing {
                pdus: counts.pdus,
                inferred: counts.inferred,
                inferred_share: (counts.inferred as f64 / counts.pdus.max(1) as f64).min(1.0),
                refuted: counts.refuted,
                lost_bytes: counts.lost_bytes,
                lost_share: (counts.lost_bytes as f64 / all as f64).min(1.0),
                found: counts.found,
            }
        });
        let nothing_hidden = framing.iter().all(|framing| framing.lost_bytes == 0);
        let commands = flow.session.commands.told(nothing_hidden);
        let [to_target, to_initiator] =
            order.map(|direction| flow.halves[direction].rtt.min_ns().map(seconds));
        let without =
            |durations: Option<Durations>, network: Option<f64>| Some((durations?.p50_s - network?).max(0.0));
        let digests = flow.session.digests.known();
        let fastest = flow.halves.iter().filter_map(|half| half.rtt.min_ns());
        let rtt_ns = fastest.fold(0, u64::saturating_add);
        let held_ns = (rtt_ns / 5 * 4).max(HELD_LEAST_NS);
        Self {
            login: flow.session.login_seen,
            header_digest: digests.map(|(header, _)| header),
            data_digest: digests.map(|(_, data)| data),
            agreed: flow.session.agreed(),
            framing,
            window: flow.session.window.told_of(),
            status_held_s: seconds(flow.session.commands.status_later_ns(held_ns)),
            time: flow.spent.told(),
            network_to_target_s: to_target,
            network_to_initiator_s: to_initiator,
            target_s: without(commands.first_answer, to_target),
            initiator_s: without(commands.initiator_turn, to_initiator),
            commands,
        }
    }
}

/// A status that comes so little behind its data was not held back, in ns.
const HELD_LEAST_NS: u64 = 500_000;

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
