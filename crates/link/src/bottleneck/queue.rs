//! The waiting queue: first in, first out, drop-tail, limited in bytes on the wire or in packets.
//!
//! Holds only packets that *wait*. The packet being serialised and those that propagate have left it: a queue
//! that counted them would cap the throughput at its size over the delay.

use std::collections::VecDeque;

use crate::Packet;

/// Drop-tail queue: a packet that does not fit is refused.
#[derive(Debug)]
pub struct DropTail {
    waiting: VecDeque<Packet>,
    waiting_bytes: u64,
    waiting_packets: u64,
    limit: Limit,
}

/// Capacity of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// Bytes on the wire.
    Bytes(u64),
    /// Packets of MTU size or less.
    Packets(u64),
}

impl DropTail {
    /// An empty queue.
    pub const fn new(limit: Limit) -> DropTail {
        DropTail { waiting: VecDeque::new(), waiting_bytes: 0, waiting_packets: 0, limit }
    }

    /// Bytes on the wire of the packets that wait.
    pub const fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// Takes a packet, or hands it back if it does not fit whole.
    pub fn push(&mut self, packet: Packet) -> Result<(), Packet> {
        let bytes = self.waiting_bytes + u64::from(packet.wire_bytes);
        let packets = self.waiting_packets + u64::from(packet.segments);
        let fits = match self.limit {
            Limit::Bytes(limit) => bytes <= limit,
            Limit::Packets(limit) => packets <= limit,
        };
        if !fits {
            return Err(packet);
        }
        (self.waiting_bytes, self.waiting_packets) = (bytes, packets);
        self.waiting.push_back(packet);
        Ok(())
    }

    /// Takes out the packet that has waited longest.
    pub fn pop(&mut self) -> Option<Packet> {
        let packet = self.waiting.pop_front()?;
        self.waiting_bytes -= u64::from(packet.wire_bytes);
        self.waiting_packets -= u64::from(packet.segments);
        Some(packet)
    }
}
