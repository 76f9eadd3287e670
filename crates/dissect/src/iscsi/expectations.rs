//! Knowledge of a connection that the framer of one direction needs: sender, digests, the PDU that must follow.

use crate::iscsi::digests::Digests;
use crate::iscsi::header::PartialHeader;
use crate::iscsi::pdu::FramedPdu;
use crate::iscsi::role::Role;

/// Relation of a header to the session so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fit {
    /// Its task or its number continues the session so far.
    Continues,
    /// Nothing speaks for or against it.
    Neutral,
    /// Its number is far from those before.
    Contradicts,
}

/// Knowledge about one direction, and the receiver of its PDUs.
pub(crate) trait Expectations {
    /// Role of the direction's sender.
    fn sender(&self) -> Role;

    /// Digests of the connection.
    fn digests(&self) -> Digests;

    /// Learns that a PDU of `data_len` bytes seems to have had `digests_len` bytes of digests.
    fn learn_digests(&mut self, data_len: usize, digests_len: usize);

    /// Learns that no header was where the digests of the PDU before put it.
    fn doubt_digests(&mut self);

    /// Relation of a header to the session.
    fn fit(&self, header: &PartialHeader) -> Fit;

    /// Header that must follow `last`, if the PDUs so far leave no choice; `rest` is the length of the packet from that
    /// header on.
    fn next_header(&self, last: Option<&FramedPdu>, rest: u64) -> Option<PartialHeader>;

    /// Takes a complete PDU; `text` is the known part of a login's data segment. False without memory for a
    /// provisional one.
    fn pdu(&mut self, pdu: &FramedPdu, text: &[u8]) -> bool;

    /// Confirms the provisional PDUs.
    fn confirm(&mut self);

    /// Withdraws the provisional PDUs: they were none. `t_ns` is the present time.
    fn withdraw(&mut self, t_ns: u64);

    /// PDU boundaries are unknown up to packet number `packet`: statuses may pass unseen.
    fn lose_sync(&mut self, packet: u64);
}
