//! Summary of the iSCSI on a TCP connection.

use serde::Serialize;

use crate::connection::TappedConnection;
use crate::figures::distribution::Durations;
use crate::figures::time_use::TimeUse;
use crate::iscsi::commands::summary::CommandSummary;
use crate::iscsi::commands::window::CommandWindowSummary;
use crate::iscsi::login::negotiation::Negotiation;
use crate::summary::confidence::Confidence;
use crate::summary::framing::FramingSummary;

/// Largest share of a direction's bytes in no PDU with which commands in flight are reported. It is below the share of
/// overlapping commands that tells one at a time from several.
const LOST_MAX: f64 = 0.02;
/// Minimum delay in ns of a separate status after its data that counts as held back.
const STATUS_HELD_MIN_NS: u64 = 500_000;

/// The iSCSI of a connection.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct IscsiSummary {
    /// Evidence that the capture holds of it.
    pub confidence: Confidence,
    /// True if the login is in the capture.
    pub login: bool,
    /// Presence of header digests, if known.
    pub header_digest: Option<bool>,
    /// Presence of data digests, if known.
    pub data_digest: Option<bool>,
    /// Result of the login's negotiation.
    #[serde(flatten)]
    pub negotiation: Negotiation,
    /// Framing of the PDUs, the initiator's first.
    pub framing: [FramingSummary; 2],
    /// Commands and their answers.
    pub commands: CommandSummary,
    /// Command window.
    pub window: Option<CommandWindowSummary>,
    /// Sum of the delays of separate statuses that follow their data by nearly a round trip or more.
    pub status_held_s: f64,
    /// Breakdown of the time.
    pub time: Option<TimeUse>,
    /// Fastest round trip from the tap to the target, by acknowledgement.
    pub network_to_target_s: Option<f64>,
    /// Fastest round trip from the tap to the initiator, by acknowledgement.
    pub network_to_initiator_s: Option<f64>,
    /// Median time to the first answer, without the round trip to the target.
    pub target_s: Option<f64>,
    /// Median time from an R2T to its data, without the round trip to the initiator.
    pub initiator_s: Option<f64>,
}

impl IscsiSummary {
    /// `order` has the initiator's direction first.
    pub(crate) fn new(connection: &TappedConnection, order: [usize; 2]) -> Self {
        let session = &connection.session;
        let framing = order.map(|direction| FramingSummary::new(connection, direction));
        let is_near_complete = framing.iter().all(|framing| framing.lost_share <= LOST_MAX);
        let open = [0, 1].map(|direction| connection.framers[direction].open());
        let has_packets = order.map(|direction| connection.directions[direction].totals.packets > 0);
        let stuck_at = connection.directions[order[1]].undelivered_from(connection.end_ns);
        let undelivered = stuck_at.map_or(0, |acked| session.commands.undelivered(acked));
        let commands = session.command_summary(is_near_complete, open).seen_of(has_packets);
        let mut commands = commands.without_undelivered(undelivered);
        // An answer may be in bytes that the capture lacks.
        let is_visible = has_packets == [true; 2]
            && connection.streams.iter().all(|stream| stream.missing_bytes == 0)
            && framing.iter().all(|framing| framing.inferred + framing.lost_bytes == 0);
        let waiting_ns = session.commands.waiting_ns(connection.end_ns);
        commands.waiting_s = waiting_ns.filter(|_| is_visible).map(seconds);
        let time = connection.time.summary();
        let [to_target, to_initiator] =
            order.map(|direction| connection.directions[direction].rtt.min_ns().map(seconds));
        let without_network =
            |durations: Option<Durations>, network: Option<f64>| Some((durations?.p50_s - network?).max(0.0));
        let digests = session.digests.known();
        let fastest = connection.directions.iter().filter_map(|direction| direction.rtt.min_ns());
        let rtt_ns = fastest.fold(0, u64::saturating_add);
        let held_ns = (rtt_ns / 5 * 4).max(STATUS_HELD_MIN_NS);
        Self {
            confidence: Confidence::new(connection, &framing, time),
            login: session.login_seen(),
            header_digest: digests.map(|(header, _)| header),
            data_digest: digests.map(|(_, data)| data),
            negotiation: session.negotiation(),
            framing,
            window: session.window.summary(),
            status_held_s: seconds(session.commands.status_later_ns(held_ns)),
            time,
            network_to_target_s: to_target,
            network_to_initiator_s: to_initiator,
            target_s: without_network(commands.first_answer, to_target),
            initiator_s: without_network(commands.initiator_turn, to_initiator),
            commands,
        }
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
