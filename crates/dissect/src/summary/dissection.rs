//! Result of a whole capture.

use serde::Serialize;

use crate::packets::census::PacketCount;
use crate::packets::copies::CopyCounts;
use crate::packets::interfaces::CaptureInterface;
use crate::packets::order::OrderSummary;
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
    /// TCP segments among them, copies included.
    pub tcp_packets: u64,
    /// Packets of connections and interfaces beyond the limits.
    pub beyond_packets: u64,
    /// Packets that the capturing host reports as lost.
    pub dropped: u64,
    /// Time of the earliest packet, in seconds since 1970.
    pub begin_s: f64,
    /// The same in ns.
    pub begin_ns: u64,
    /// Time from the earliest packet to the latest.
    pub length_s: f64,
    /// Reason of a premature end of the file.
    pub cut: Option<String>,
    /// Interfaces.
    pub interfaces: Vec<CaptureInterface>,
    /// Order of the packets by their stamps.
    pub order: OrderSummary,
    /// Copies of packets.
    pub copies: CopyCounts,
    /// Packets without a TCP segment that can be read, by kind, the most frequent kind first.
    pub others: Vec<PacketCount>,
    /// TCP segments inside tunnels, by kind of tunnel.
    pub tunnels: Vec<PacketCount>,
}
