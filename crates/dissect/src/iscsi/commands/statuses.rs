//! Latest statuses of the target: their places in its stream, and refusals.
//!
//! A status that TCP never got acknowledged has not arrived at the initiator. A target that refuses a command has no room
//! until another one ends.

use crate::events::event::ConnectionEvent;
use crate::iscsi::pdu::FramedPdu;

/// Limit of places that are kept, the latest ones. More commands than that are hardly ever outstanding at once: the largest
/// command windows in use have 512.
const PLACES_MAX: usize = 1_024;
/// Memory of the places in bytes; a vector may be half empty.
pub(crate) const PLACES_HELD: usize = 2 * PLACES_MAX * size_of::<u64>();

/// Latest statuses.
#[derive(Clone, Debug, Default)]
pub(super) struct LatestStatuses {
    /// Ends of statuses in the target's stream.
    ends: Vec<u64>,
    /// Place of the next one once all are in use.
    next: usize,
    /// The last one is of a command that the target had no room for.
    pub(super) is_refused: bool,
}

impl LatestStatuses {
    /// Takes a PDU with a status, an inferred one when it is confirmed.
    pub(super) fn take(&mut self, pdu: &FramedPdu) {
        self.is_refused = is_refusal(pdu);
        self.place(pdu.end);
    }

    /// Number of statuses that end behind `acked`.
    pub(super) fn behind(&self, acked: u64) -> u64 {
        self.ends.iter().filter(|end| **end > acked).count() as u64
    }

    fn place(&mut self, end: u64) {
        if self.ends.len() < PLACES_MAX {
            return self.ends.push(end);
        }
        self.ends[self.next] = end;
        self.next = (self.next + 1) % PLACES_MAX;
    }
}

/// True for the status of a command that the target had no room for.
pub(super) fn is_refusal(pdu: &FramedPdu) -> bool {
    let event = pdu.scsi_status().and_then(ConnectionEvent::from_status);
    pdu.response() == Some(0) && event.is_some_and(ConnectionEvent::is_refusal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_places_are_kept() {
        let mut statuses = LatestStatuses::default();
        (1..=3_000).for_each(|end| statuses.place(end));
        assert_eq!((statuses.behind(2_990), statuses.behind(3_000)), (10, 0));
        assert_eq!((statuses.behind(0), statuses.ends.len()), (PLACES_MAX as u64, PLACES_MAX));
    }
}
