//! State of one connection of the initiator's session (RFC 7143 section 4.2.2): its status numbers, the longest
//! segments of either side, and the queued PDUs.

use std::collections::VecDeque;

use crate::outbox::Outbox;
use crate::params::Params;

use super::task::Burst;

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) exp_stat_sn: u32,
    pub(super) our_max_recv_data_segment_len: u32,
    pub(super) peer_max_recv_data_segment_len: u32,
    /// Queued commands without data to the target.
    pub(super) reads: VecDeque<usize>,
    /// Queued commands with data to the target.
    pub(super) writes: VecDeque<usize>,
    /// Bursts being sent, in the required order (RFC 7143 sections 4.2.4.2 to 4.2.5.2).
    pub(super) bursts: VecDeque<(usize, Burst)>,
    pub(super) urgent: Outbox,
    /// Payload of writes that has not been polled.
    pub(super) unsent_bytes: u64,
    /// Weight of the commands that have not been answered.
    pub(super) outstanding_bytes: u64,
}

impl Connection {
    pub(super) fn new(params: &Params, exp_stat_sn: u32) -> Connection {
        Connection {
            exp_stat_sn,
            our_max_recv_data_segment_len: params.our_max_recv_data_segment_len,
            peer_max_recv_data_segment_len: params.peer_max_recv_data_segment_len,
            reads: VecDeque::new(),
            writes: VecDeque::new(),
            bursts: VecDeque::new(),
            urgent: Outbox::default(),
            unsent_bytes: 0,
            outstanding_bytes: 0,
        }
    }
}
