//! Summary of the events of one kind on a connection.

use serde::Serialize;

use crate::connection::TappedConnection;
use crate::events::event::ConnectionEvent;
use crate::events::log::{LogEntry, OutstandingAt};

/// Events of one kind on a connection. Times are in seconds since the first packet of the capture.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct EventSummary {
    /// Kind and codes.
    #[serde(flatten)]
    pub event: ConnectionEvent,
    /// Name with the words of the standards.
    pub name: String,
    /// `initiator` or `target` if the connection is iSCSI: the sender of the PDU, of the RST, or of the packet that an ICMP
    /// message is about.
    pub side: Option<&'static str>,
    /// Address of that side.
    pub from: String,
    /// Address that a redirection names, or router that an ICMP message came from.
    pub address: Option<String>,
    /// Number of events.
    pub count: u64,
    /// Time of the first one.
    pub first_s: f64,
    /// Time of the last one.
    pub last_s: f64,
    /// Number of the first one's packet in its file.
    pub packet: u64,
    /// Initiator task tag of the first one.
    pub itt: Option<u32>,
    /// Commands outstanding at the tap when the target refused one, that one included.
    pub outstanding: Option<OutstandingSummary>,
}

/// Commands outstanding at refusals.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct OutstandingSummary {
    /// Fewest.
    pub least: u64,
    /// Mean.
    pub mean: f64,
    /// Most.
    pub most: u64,
}

impl EventSummary {
    /// Events of a connection in the order of their first ones. `sides` has the names of both directions' senders, if it
    /// is iSCSI; `is_near_complete` if nearly all headers are visible.
    pub(crate) fn all(
        connection: &TappedConnection,
        sides: Option<[&'static str; 2]>,
        is_near_complete: bool,
        begin_ns: u64,
    ) -> Vec<Self> {
        let seconds = |t_ns: u64| t_ns.saturating_sub(begin_ns) as f64 / 1e9;
        let summary = |entry: &LogEntry| Self {
            event: entry.event,
            name: entry.event.to_string(),
            side: sides.map(|sides| sides[entry.direction]),
            from: connection.addresses[entry.direction].to_string(),
            address: entry.address.as_deref().map(str::to_owned),
            count: entry.count,
            first_s: seconds(entry.first.t_ns),
            last_s: seconds(entry.last_ns),
            packet: entry.first.in_file,
            itt: entry.itt,
            outstanding: is_near_complete.then(|| outstanding(entry)).flatten(),
        };
        // Data of something else may look like a PDU.
        let entries = connection.session.events.log.entries.iter();
        let entries = entries.filter(|entry| sides.is_some() || !entry.event.is_of_iscsi());
        let mut all: Vec<Self> = entries.map(summary).collect();
        all.sort_by(|one, other| one.first_s.total_cmp(&other.first_s));
        all
    }
}

fn outstanding(entry: &LogEntry) -> Option<OutstandingSummary> {
    let OutstandingAt { least, most, sum } = entry.outstanding;
    let mean = sum as f64 / entry.count as f64;
    entry.event.is_refusal().then_some(OutstandingSummary { least, mean, most })
}
