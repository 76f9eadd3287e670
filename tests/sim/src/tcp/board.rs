//! The scoreboard: every packet sent and not acknowledged cumulatively.

use std::collections::{BTreeSet, VecDeque};

use core::time::Duration;

use event::Instant;

use super::ranges::Ranges;

/// A packet that was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// Time of its last transmission.
    pub(crate) sent_at: Instant,
    /// Counts of the sender then, see [`Delivery`](super::rate::Delivery).
    pub(crate) delivered: u64,
    pub(crate) delivered_at: Instant,
    pub(crate) first_sent_at: Instant,
    pub(crate) is_app_limited: bool,
    pub(crate) is_sacked: bool,
    pub(crate) is_lost: bool,
    /// Its last retransmission is in flight.
    pub(crate) is_resent: bool,
    pub(crate) was_resent: bool,
}

/// All of them, with the counts that TCP_INFO shows.
#[derive(Clone, Default, Debug)]
pub(crate) struct Board {
    slots: VecDeque<Slot>,
    /// First packet not acknowledged.
    pub(crate) una: u64,
    pub(crate) sacked: Ranges,
    pub(crate) sacked_out: u32,
    pub(crate) lost_out: u32,
    pub(crate) resent_out: u32,
    /// Marked lost in all, lost retransmissions included.
    pub(crate) lost: u64,
    /// In order of their last transmission; entries of packets that have arrived or were sent again stay behind.
    by_time: VecDeque<(Instant, u64)>,
    /// Lost and not in flight again.
    to_resend: BTreeSet<u64>,
}

impl Board {
    /// One past the last packet sent.
    pub(crate) fn nxt(&self) -> u64 {
        self.una + self.slots.len() as u64
    }

    pub(crate) fn packets_out(&self) -> u32 {
        self.slots.len() as u32
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.packets_out() + self.resent_out - self.sacked_out - self.lost_out
    }

    pub(crate) fn slot(&self, seq: u64) -> Option<&Slot> {
        self.slots.get(seq.checked_sub(self.una)? as usize)
    }

    fn slot_mut(&mut self, seq: u64) -> &mut Slot {
        let index = (seq - self.una) as usize;
        &mut self.slots[index]
    }

    /// Adds a packet that is sent for the first time.
    pub(crate) fn sent(&mut self, slot: Slot) {
        self.by_time.push_back((slot.sent_at, self.nxt()));
        self.slots.push_back(slot);
    }

    /// Next packet to be sent again.
    pub(crate) fn to_resend(&self) -> Option<u64> {
        self.to_resend.first().copied()
    }

    /// Notes that `seq` is sent again, with what the sender knows now.
    pub(crate) fn resent(&mut self, seq: u64, slot: Slot) {
        self.to_resend.remove(&seq);
        let held = self.slot_mut(seq);
        *held = Slot { is_sacked: held.is_sacked, is_lost: held.is_lost, ..slot };
        (held.is_resent, held.was_resent) = (true, true);
        self.resent_out += 1;
        self.by_time.push_back((slot.sent_at, seq));
    }

    /// Marks `seq` as arrived behind a gap; as it was.
    pub(crate) fn sack(&mut self, seq: u64) -> Slot {
        let was = *self.slot_mut(seq);
        self.leaves_flight(seq, &was);
        let slot = self.slot_mut(seq);
        (slot.is_sacked, slot.is_lost, slot.is_resent) = (true, false, false);
        self.sacked_out += 1;
        was
    }

    /// Removes the first packet: it is acknowledged; as it was.
    pub(crate) fn acknowledge(&mut self) -> Slot {
        let was = self.slots.pop_front().expect("no acknowledgement of packets that were not sent");
        self.leaves_flight(self.una, &was);
        self.sacked_out -= u32::from(was.is_sacked);
        self.una += 1;
        was
    }

    fn leaves_flight(&mut self, seq: u64, was: &Slot) {
        self.lost_out -= u32::from(was.is_lost);
        self.resent_out -= u32::from(was.is_resent);
        if was.is_lost {
            self.to_resend.remove(&seq);
        }
    }

    fn lose(&mut self, seq: u64) {
        let slot = self.slot_mut(seq);
        let (was_lost, was_resent) = (slot.is_lost, slot.is_resent);
        (slot.is_lost, slot.is_resent) = (true, false);
        self.lost_out += u32::from(!was_lost);
        self.resent_out -= u32::from(was_resent);
        self.lost += 1;
        self.to_resend.insert(seq);
    }

    /// Marks packets lost that were sent before `(at, seq)` and longer ago than `wait`; returns their number and the time until
    /// the next of them is lost.
    pub(crate) fn detect(
        &mut self,
        now: Instant,
        latest: (Instant, u64),
        wait: Duration,
    ) -> (u32, Option<Duration>) {
        let mut count = 0;
        while let Some(&(sent_at, seq)) = self.by_time.front() {
            let is_current = self.slot(seq).is_some_and(|slot| {
                !slot.is_sacked && slot.sent_at == sent_at && (slot.is_resent || !slot.is_lost)
            });
            if is_current {
                if (sent_at, seq) >= latest {
                    break;
                }
                let due = sent_at + wait;
                if due > now {
                    return (count, Some(due.since(now)));
                }
                self.lose(seq);
                count += 1;
            }
            self.by_time.pop_front();
        }
        (count, None)
    }

    /// Marks the first packet lost, and all others that were sent longer ago than `wait`: a timeout.
    pub(crate) fn give_up(&mut self, now: Instant, wait: Duration) {
        for seq in self.una..self.nxt() {
            let slot = *self.slot_mut(seq);
            let is_late = seq == self.una || slot.sent_at + wait <= now;
            if !slot.is_sacked && (slot.is_resent || !slot.is_lost) && is_late {
                self.lose(seq);
            }
        }
    }
}
