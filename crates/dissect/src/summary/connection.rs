//! Summary of a TCP connection.

use serde::Serialize;

use crate::connection::TappedConnection;
use crate::iscsi::role::Role;
use crate::summary::direction::DirectionSummary;
use crate::summary::events::EventSummary;
use crate::summary::iscsi::IscsiSummary;

/// Names of the sides of an iSCSI connection.
const SIDES: [&str; 2] = ["initiator", "target"];

/// A TCP connection.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ConnectionSummary {
    /// True if both SYNs are in the capture with their window scales.
    pub handshake: bool,
    /// Time of the first packet, in seconds since that of the capture.
    pub begin_s: f64,
    /// Time from the first packet to the last.
    pub length_s: f64,
    /// Gaps of more than 200 ms without a packet.
    pub idle_gaps: u64,
    /// Sum of those gaps.
    pub idle_s: f64,
    /// True if one direction carries data and the other one is not in the capture.
    pub one_direction: bool,
    /// Both directions; the initiator's first if the connection is iSCSI.
    pub directions: [DirectionSummary; 2],
    /// Further interfaces that show the connection; their packets are not counted here.
    pub also_at: Vec<u32>,
    /// Events by kind: refusals, errors, aborts, resets, reports of packets that did not arrive.
    pub events: Vec<EventSummary>,
    /// The iSCSI of the connection, if any.
    pub iscsi: Option<IscsiSummary>,
}

impl ConnectionSummary {
    /// Summary of a connection that has ended; `begin_ns` is the time of the capture's first packet.
    pub(crate) fn new(connection: &TappedConnection, begin_ns: u64) -> Self {
        let is_iscsi = connection.session.is_recognised();
        let initiator = usize::from(is_iscsi && connection.session.sender(0) == Role::Target);
        let order = [initiator, 1 - initiator];
        let totals = connection.directions.each_ref().map(|direction| direction.totals);
        let is_alone = |own: usize| totals[own].data_packets > 0 && totals[1 - own].packets == 0;
        let iscsi = is_iscsi.then(|| IscsiSummary::new(connection, order));
        let sides = is_iscsi.then_some(if initiator == 0 { SIDES } else { [SIDES[1], SIDES[0]] });
        let is_near_complete = iscsi.as_ref().is_some_and(|iscsi| iscsi.commands.in_flight.is_some());
        Self {
            handshake: connection.directions.iter().all(|one| one.handshake.scale_known),
            begin_s: seconds(connection.first_ns.saturating_sub(begin_ns)),
            length_s: seconds(connection.last_ns.saturating_sub(connection.first_ns)),
            idle_gaps: connection.idle_gaps,
            idle_s: seconds(connection.idle_ns),
            one_direction: is_alone(0) || is_alone(1),
            directions: order.map(|direction| DirectionSummary::new(connection, direction)),
            also_at: Vec::new(),
            events: EventSummary::all(connection, sides, is_near_complete, begin_ns),
            iscsi,
        }
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
