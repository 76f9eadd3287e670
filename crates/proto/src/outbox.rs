//! Small PDUs queued ahead of any payload, with a bound at which their owner stops reading: a peer that sends requests
//! and never reads must not exhaust the memory with answers.

use std::collections::VecDeque;

use wire::iscsi::Pdu;

/// Queued PDUs, and bytes of their data, at which no more should be read.
const PDUS_MAX: usize = 1024;
const BYTES_MAX: usize = 1 << 20;

/// Queue of one connection.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    queue: VecDeque<(Pdu, Vec<u8>)>,
    bytes: usize,
}

impl Outbox {
    pub(crate) fn push(&mut self, pdu: impl Into<Pdu>, data: Vec<u8>) {
        self.bytes += data.len();
        self.queue.push_back((pdu.into(), data));
    }

    pub(crate) fn pop(&mut self) -> Option<(Pdu, Vec<u8>)> {
        let (pdu, data) = self.queue.pop_front()?;
        self.bytes -= data.len();
        Some((pdu, data))
    }

    /// Gives back the memory that is not in use.
    pub(crate) fn shrink(&mut self) {
        self.queue.shrink_to_fit();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Memory of the queue.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes + self.queue.len() * size_of::<(Pdu, Vec<u8>)>()
    }

    pub(crate) fn is_backed_up(&self) -> bool {
        self.queue.len() >= PDUS_MAX || self.bytes >= BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::iscsi::{Lun, NopOut, RESERVED_TAG};

    #[test]
    fn backs_up_by_number_and_by_bytes() {
        let nop = NopOut {
            immediate: true,
            data_segment_len: 0,
            lun: Lun(0),
            itt: 1,
            ttt: RESERVED_TAG,
            cmd_sn: 0,
            exp_stat_sn: 0,
        };
        let mut outbox = Outbox::default();
        outbox.push(nop, vec![0; BYTES_MAX]);
        assert!(outbox.is_backed_up());
        outbox.pop();
        assert!(outbox.is_empty() && !outbox.is_backed_up());
        (0..PDUS_MAX).for_each(|_| outbox.push(nop, Vec::new()));
        assert!(outbox.is_backed_up());
    }
}
