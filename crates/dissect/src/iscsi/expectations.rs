//! Knowledge of a connection that the framer of one direction needs: sender, digests, the PDU that must follow.

use crate::iscsi::digests::Digests;
use crate::iscsi::header::PartialHeader;
use crate::iscsi::pdu::FramedPdu;
use crate::iscsi::role::Role;

/// Knowledge about one direction, and the receiver of its PDUs.
pub(crate) trait Expectations {
    /// Role of the direction's sender.
    fn sender(&self) -> Role;

    /// Digests of the connection.
    fn digests(&self) -> Digests;

    /// Learns from a PDU of `data_len` bytes that had `digests_len` bytes of digests; false if that is impossible.
    fn learn_digests(&mut self, data_len: usize, digests_len: usize) -> bool;

    /// Header that must follow `last`, if the PDUs so far leave no choice.
    fn next_header(&self, last: Option<&FramedPdu>) -> Option<PartialHeader>;

    /// Takes a complete PDU; `text` is the known part of a login's data segment.
    fn pdu(&mut self, pdu: &FramedPdu, text: &[u8]);

    /// PDU boundaries are unknown up to packet number `packet`: statuses may pass unseen.
    fn lose_sync(&mut self, packet: u64);
}
