//! The waiting queue: first in, first out, drop-tail, limited in bytes on the wire.
//!
//! Holds only packets that *wait*. The packet being serialised and those that propagate have left it: a queue
//! that counted them would cap the throughput at its size over the delay.

use std::collections::VecDeque;

use crate::Packet;

/// A queue that refuses what does not fit.
#[derive(Debug)]
pub struct DropTail {
    waiting: VecDeque<Packet>,
    waiting_bytes: u64,
    limit_bytes: u64,
}

impl DropTail {
    /// An empty queue for `limit_bytes` on the wire.
    pub const fn new(limit_bytes: u64) -> DropTail {
        DropTail { waiting: VecDeque::new(), waiting_bytes: 0, limit_bytes }
    }

    /// Bytes on the wire of the packets that wait.
    pub const fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// Takes a packet, or hands it back if it does not fit whole.
    pub fn push(&mut self, packet: Packet) -> Result<(), Packet> {
        let with_it = self.waiting_bytes + u64::from(packet.wire_bytes);
        if with_it > self.limit_bytes {
            return Err(packet);
        }
        self.waiting_bytes = with_it;
        self.waiting.push_back(packet);
        Ok(())
    }

    /// Takes out the packet that has waited longest.
    pub fn pop(&mut self) -> Option<Packet> {
        let packet = self.waiting.pop_front()?;
        self.waiting_bytes -= u64::from(packet.wire_bytes);
        Some(packet)
    }
}
