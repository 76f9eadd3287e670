//! Result of a whole capture.

use serde::Serialize;

use crate::packets::interfaces::CaptureInterface;
use crate::summary::connection::ConnectionSummary;

/// Result of a dissection.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Dissection {
    /// Totals over all packets.
    #[serde(flatten)]
    pub totals: CaptureTotals,
    /// Connections in the order of their first packets; one that several interfaces show appears once.
    pub connections: Vec<ConnectionSummary>,
}

/// Totals over all packets of a capture.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CaptureTotals {
    /// Packets read.
    pub packets: u64,
    /// TCP segments among them.
    pub tcp_packets: u64,
    /// Packets of connections and interfaces beyond the limits.
    pub beyond_packets: u64,
    /// Packets that the capturing host reports as lost.
    pub dropped: u64,
    /// Time of the first packet, in seconds since 1970.
    pub begin_s: f64,
    /// The same in ns.
    pub begin_ns: u64,
    /// Time from the first packet to the last.
    pub length_s: f64,
    /// Reason of a premature end of the file.
    pub cut: Option<String>,
    /// Interfaces.
    pub interfaces: Vec<CaptureInterface>,
}
