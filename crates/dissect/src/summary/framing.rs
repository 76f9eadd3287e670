//! Summary of the PDU boundaries of one direction.

use serde::Serialize;

use crate::connection::TappedConnection;

/// Framing of the PDUs of a direction.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct FramingSummary {
    /// PDUs.
    pub pdus: u64,
    /// PDUs with an inferred header.
    pub inferred: u64,
    /// Share of those in all PDUs.
    pub inferred_share: f64,
    /// Inferred PDUs that were withdrawn: no header followed, or one was visible within. They are not in `pdus`.
    pub refuted: u64,
    /// Bytes in no PDU.
    pub lost_bytes: u64,
    /// Share of those in all bytes of the direction.
    pub lost_share: f64,
    /// Times that a PDU boundary was found in mid-stream.
    pub found: u64,
}

impl FramingSummary {
    pub(crate) fn new(connection: &TappedConnection, direction: usize) -> Self {
        let counts = connection.framers[direction].counts();
        let bytes = connection.directions[direction].totals.payload_bytes.max(1);
        Self {
            pdus: counts.pdus,
            inferred: counts.inferred,
            inferred_share: (counts.inferred as f64 / counts.pdus.max(1) as f64).min(1.0),
            refuted: counts.refuted,
            lost_bytes: counts.lost_bytes,
            lost_share: (counts.lost_bytes as f64 / bytes as f64).min(1.0),
            found: counts.found,
        }
    }
}
