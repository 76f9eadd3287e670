//! Share of the evidence that a capture holds of a connection: the head of every result.

use serde::Serialize;

use crate::connection::TappedConnection;
use crate::figures::time_use::TimeUse;
use crate::summary::framing::FramingSummary;

/// Evidence that a capture holds of an iSCSI connection. All shares are 0 and nothing is cut in a complete capture.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Confidence {
    /// Bytes that the capture has kept of packets that it has cut; `None` if all are whole.
    pub snap_bytes: Option<u64>,
    /// Share of the bytes in no PDU, of the direction that has more of them.
    pub lost_share: f64,
    /// Share of the PDUs with an inferred header.
    pub inferred_share: f64,
    /// Share of the PDUs that were inferred and refuted.
    pub refuted_share: f64,
    /// Bytes that were acknowledged and are in no packet of the capture.
    pub missing_bytes: u64,
    /// Share of those in all bytes.
    pub missing_share: f64,
    /// Share of the time in which the place in the PDUs was lost.
    pub unseen_share: f64,
}

impl Confidence {
    pub(crate) fn new(
        connection: &TappedConnection,
        framing: &[FramingSummary; 2],
        time: Option<TimeUse>,
    ) -> Self {
        let pdus: u64 = framing.iter().map(|framing| framing.pdus).sum();
        let inferred: u64 = framing.iter().map(|framing| framing.inferred).sum();
        let refuted: u64 = framing.iter().map(|framing| framing.refuted).sum();
        let missing: u64 = connection.streams.iter().map(|stream| stream.missing_bytes).sum();
        let seen: u64 = connection.directions.iter().map(|direction| direction.totals.payload_bytes).sum();
        let unseen =
            time.filter(|time| time.length_s > 0.0).map_or(0.0, |time| time.unseen_s / time.length_s);
        Self {
            snap_bytes: connection.cut_len.map(u64::from),
            lost_share: framing.iter().map(|framing| framing.lost_share).fold(0.0, f64::max),
            inferred_share: share(inferred, pdus),
            refuted_share: share(refuted, pdus + refuted),
            missing_bytes: missing,
            missing_share: share(missing, missing + seen),
            unseen_share: unseen,
        }
    }

    /// Share of the evidence that is missing or doubtful: an upper bound of the share of the time that may have another
    /// cause than it seems.
    pub fn doubt(&self) -> f64 {
        (self.unseen_share.max(self.lost_share) + self.refuted_share + self.missing_share).min(1.0)
    }
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubt_is_the_sum_of_independent_gaps_in_the_evidence() {
        let complete = Confidence {
            snap_bytes: None,
            lost_share: 0.0,
            inferred_share: 0.0,
            refuted_share: 0.0,
            missing_bytes: 0,
            missing_share: 0.0,
            unseen_share: 0.0,
        };
        for (confidence, doubt) in [
            (complete, 0.0),
            // Headers that were inferred and confirmed are evidence.
            (Confidence { inferred_share: 0.9, snap_bytes: Some(96), ..complete }, 0.0),
            // Lost bytes and the time in which they passed are one gap.
            (Confidence { lost_share: 0.25, unseen_share: 0.125, ..complete }, 0.25),
            (Confidence { lost_share: 0.125, unseen_share: 0.25, ..complete }, 0.25),
            (Confidence { lost_share: 0.25, refuted_share: 0.125, missing_share: 0.5, ..complete }, 0.875),
            (Confidence { lost_share: 0.75, missing_share: 0.5, ..complete }, 1.0),
        ] {
            assert_eq!(confidence.doubt(), doubt, "{confidence:?}");
        }
    }
}
