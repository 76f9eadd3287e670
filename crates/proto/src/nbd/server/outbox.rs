//! Unsent replies, and the bytes that they and pending requests hold.

use std::collections::VecDeque;

use super::super::NbdTransmit;

#[derive(Debug)]
struct Reply {
    transmit: NbdTransmit,
    /// Bytes of the request's data that are free once the reply is sent.
    freed_bytes: u32,
}

/// Unsent replies in order.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    replies: VecDeque<Reply>,
    held_bytes: u64,
}

impl Outbox {
    /// Counts the data of a request.
    pub(super) fn hold(&mut self, bytes: u32) {
        self.held_bytes += u64::from(bytes);
    }

    /// Ends the count of a request's data before its reply is sent.
    pub(super) fn free(&mut self, bytes: u32) {
        self.held_bytes -= u64::from(bytes);
    }

    /// Queues a reply.
    pub(super) fn push(&mut self, transmit: NbdTransmit) {
        self.held_bytes += transmit.header.len() as u64;
        self.replies.push_back(Reply { transmit, freed_bytes: 0 });
    }

    /// Marks the last reply as the one after which the data of a request are free.
    pub(super) fn release(&mut self, key: u64, bytes: u32) {
        let reply = self.replies.back_mut().expect("an answer was queued");
        (reply.transmit.releases, reply.freed_bytes) = (Some(key), bytes);
    }

    /// Takes the next reply.
    pub(super) fn pop(&mut self) -> Option<NbdTransmit> {
        let Reply { transmit, freed_bytes } = self.replies.pop_front()?;
        self.held_bytes -= transmit.header.len() as u64 + u64::from(freed_bytes);
        Some(transmit)
    }

    /// Replies.
    pub(super) fn len(&self) -> usize {
        self.replies.len()
    }

    /// True without a reply.
    pub(super) fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }

    /// Bytes of headers, and of data that are not free.
    pub(super) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }
}
