//! Packets in the order of their stamps: each waits in a bounded window for others that were stamped before it and stand
//! behind it in the file.
//!
//! Captures made by several rings or queues are like that: one thread drains ring after ring, so that blocks of packets
//! that passed at the same time follow one another. Such a file is a number of sorted runs that were interleaved, and
//! the window keeps it so: a packet is appended to the first run that ends before it, and the least of all heads is
//! released. A file in order is one run, at constant cost for each packet.
//!
//! The bounds. libpcap gives a socket a ring of 2 MiB (`pcap-linux.c`), which holds 16 384 packets of 128 bytes; the
//! window takes as many, and the rings of 16 queues in bytes. A ring is drained once a second at the latest (the read
//! timeout of tcpdump; dumpcap's is a quarter of that): a stamp [`LATE_MAX_NS`] below the highest one is no disorder of
//! rings but another clock.

use std::collections::VecDeque;

use super::store::{Place, Store};

/// Packets that wait at most.
const PACKETS_MAX: usize = 16_384;
/// Bytes of those, and of the gaps among them.
const BYTES_MAX: usize = 32 << 20;
/// Sorted runs that are kept apart; in a file of more a packet is inserted into the one that ends earliest.
const RUNS_MAX: usize = 32;
/// Disorder in ns that is repaired: twice the longest read timeout in use.
pub(crate) const LATE_MAX_NS: u64 = 2_000_000_000;
/// Consecutive packets with an impossible stamp after which the clock was set back, and is not only wrong once.
const STEP_PACKETS: usize = 64;

/// A packet that waits, without its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting<T> {
    /// Stamp in ns.
    pub(crate) t_ns: u64,
    /// Number in the order of arrival.
    pub(crate) number: u64,
    /// Facts about the packet.
    pub(crate) about: T,
    place: Place,
    /// Settings of the clock before it.
    epoch: u32,
}

impl<T> Waiting<T> {
    fn key(&self) -> (u32, u64, u64) {
        (self.epoch, self.t_ns, self.number)
    }
}

/// Position of a packet among those that wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Position {
    /// In order, or after packets that stand behind it in time; their number.
    Behind(usize),
    /// Later ones have been released, or the clock is another one.
    Beyond,
}

/// The window.
#[derive(Debug)]
pub(crate) struct SortWindow<T> {
    /// Sorted runs, the one with the latest end first.
    runs: Vec<VecDeque<Waiting<T>>>,
    waiting: usize,
    /// Packets with an impossible stamp, until the next possible one.
    stragglers: Vec<Waiting<T>>,
    store: Store,
    epoch: u32,
    /// Highest stamp of the epoch in ns.
    highest_ns: u64,
    /// Stamp of the last released packet of the epoch.
    released_ns: u64,
}

impl<T> Default for SortWindow<T> {
    fn default() -> Self {
        Self {
            runs: Vec::new(),
            waiting: 0,
            stragglers: Vec::new(),
            store: Store::default(),
            epoch: 0,
            highest_ns: 0,
            released_ns: 0,
        }
    }
}

impl<T: Copy> SortWindow<T> {
    /// True if a packet with this stamp comes too late to be sorted.
    pub(crate) fn is_beyond(&self, t_ns: u64) -> bool {
        t_ns < self.released_ns || t_ns.saturating_add(LATE_MAX_NS) < self.highest_ns
    }

    /// Takes a packet; numbers ascend.
    pub(crate) fn push(&mut self, t_ns: u64, number: u64, about: T, bytes: &[u8]) -> Position {
        let place = self.store.push(bytes);
        let packet = Waiting { t_ns, number, about, place, epoch: self.epoch };
        self.waiting += 1;
        if self.is_beyond(t_ns) {
            self.stragglers.push(packet);
            if self.stragglers.len() >= STEP_PACKETS {
                self.step();
            }
            return Position::Beyond;
        }
        if !self.stragglers.is_empty() {
            // The clock is as it was: they come first of all, since nothing is known of their time.
            std::mem::take(&mut self.stragglers).into_iter().for_each(|packet| self.sort_in(packet));
        }
        let behind = if t_ns < self.highest_ns { self.behind(&packet) } else { 0 };
        self.sort_in(packet);
        Position::Behind(behind)
    }

    /// True if a packet has to be released before the next one comes.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting > PACKETS_MAX || self.store.held_bytes() > BYTES_MAX
    }

    /// Releases the earliest packet.
    pub(crate) fn pop(&mut self) -> Option<Waiting<T>> {
        if self.waiting > 0 && self.waiting == self.stragglers.len() {
            self.step();
        }
        let heads = self.runs.iter().enumerate();
        let heads = heads.filter_map(|(run, packets)| Some((packets.front()?.key(), run)));
        let (_, run) = heads.min()?;
        let packet = self.runs[run].pop_front()?;
        if self.runs[run].is_empty() && self.runs.len() > 1 {
            self.runs.remove(run);
        }
        self.waiting -= 1;
        if packet.epoch == self.epoch {
            self.released_ns = self.released_ns.max(packet.t_ns);
        }
        Some(packet)
    }

    /// Bytes of a released packet.
    pub(crate) fn bytes(&self, packet: &Waiting<T>) -> &[u8] {
        self.store.bytes(packet.place)
    }

    /// Forgets the bytes of a released packet.
    pub(crate) fn forget(&mut self, packet: &Waiting<T>) {
        self.store.forget(packet.place);
    }

    /// Ends a file: its packets have been released, and the next one may begin at any time.
    pub(crate) fn restart(&mut self) {
        (self.highest_ns, self.released_ns) = (0, 0);
        self.epoch += 1;
    }

    /// Begins another epoch with the stragglers: the clock was set back.
    fn step(&mut self) {
        self.restart();
        for packet in std::mem::take(&mut self.stragglers) {
            self.sort_in(Waiting { epoch: self.epoch, ..packet });
        }
    }

    fn sort_in(&mut self, packet: Waiting<T>) {
        if packet.epoch == self.epoch {
            self.highest_ns = self.highest_ns.max(packet.t_ns);
        }
        let key = packet.key();
        let ends_before = |run: &VecDeque<Waiting<T>>| run.back().is_none_or(|last| last.key() < key);
        if let Some(run) = self.runs.iter_mut().find(|run| ends_before(run)) {
            run.push_back(packet);
        } else if self.runs.len() < RUNS_MAX {
            self.runs.push(VecDeque::from([packet]));
        } else if let Some(run) = self.runs.last_mut() {
            run.insert(run.partition_point(|other| other.key() < key), packet);
        }
    }

    /// Number of waiting packets that are later than this one.
    fn behind(&self, packet: &Waiting<T>) -> usize {
        let key = packet.key();
        let later = |run: &VecDeque<Waiting<T>>| run.len() - run.partition_point(|other| other.key() < key);
        self.runs.iter().map(later).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Numbers of the packets with these stamps in the order of their release, and the position of each.
    fn sorted(stamps: &[u64]) -> (Vec<u64>, Vec<Position>) {
        let (mut window, mut out, mut positions) = (SortWindow::default(), Vec::new(), Vec::new());
        let mut release = |window: &mut SortWindow<()>| {
            let packet = window.pop().expect("a packet");
            assert_eq!(window.bytes(&packet), packet.number.to_be_bytes());
            window.forget(&packet);
            out.push(packet.number);
        };
        for (number, t_ns) in (1..).zip(stamps) {
            positions.push(window.push(*t_ns, number, (), &number.to_be_bytes()));
            while window.is_full() {
                release(&mut window);
            }
        }
        while window.waiting > 0 {
            release(&mut window);
        }
        (out, positions)
    }

    fn expected(stamps: &[u64]) -> Vec<u64> {
        let mut expected: Vec<u64> = (1..=stamps.len() as u64).collect();
        expected.sort_by_key(|number| stamps[*number as usize - 1]);
        expected
    }

    #[test]
    fn packets_that_stand_late_come_at_their_time() {
        let stamps = [1, 2, 5, 3, 3, 6, 4, 7].map(|t| t * MS);
        let (order, positions) = sorted(&stamps);
        assert_eq!(order, [1, 2, 4, 5, 7, 3, 6, 8], "equal stamps stay in the order of the file");
        let behind = [0, 0, 0, 1, 1, 0, 2, 0].map(Position::Behind);
        assert_eq!(positions, behind);
    }

    #[test]
    fn rings_that_are_drained_in_turn_are_merged() {
        // Blocks of 400 packets from each of 40 rings, more than there are runs.
        let mut stamps = Vec::new();
        for block in 0..4 {
            for ring in 0..40 {
                stamps.extend((0..400).map(|n| (block * 400 + n) * MS / 10 + ring * 100));
            }
        }
        assert_eq!(sorted(&stamps).0, expected(&stamps));
    }

    #[test]
    fn disorder_beyond_the_window_is_passed_on() {
        let far = 2 * PACKETS_MAX as u64;
        let mut stamps: Vec<u64> = (1..=far).map(|n| n * 1_000).collect();
        stamps.push(1_500);
        stamps.push((far + 1) * 1_000);
        let (order, positions) = sorted(&stamps);
        assert_eq!(positions[far as usize], Position::Beyond);
        assert_eq!(order.len(), stamps.len());
        let place = order.iter().position(|number| *number == far + 1).expect("released");
        assert!(place <= PACKETS_MAX + 2, "at once, at {place}");
    }

    #[test]
    fn a_clock_that_is_set_back_keeps_the_order_of_the_file() {
        for step_s in [3, 3_600] {
            let before: Vec<u64> = (0..1_000).map(|n| (10_000 + n) * MS).collect();
            let after = before.iter().map(|t_ns| t_ns.saturating_sub(step_s * 1_000 * MS));
            let stamps: Vec<u64> = before.iter().copied().chain(after).collect();
            let (order, _) = sorted(&stamps);
            assert!(order.is_sorted(), "{step_s} s");
        }
    }

    #[test]
    fn one_stamp_of_the_future_disturbs_nothing_else() {
        let mut stamps: Vec<u64> = (0..1_000).map(|n| (10_000 + n) * MS).collect();
        stamps[500] = u64::MAX;
        let (order, positions) = sorted(&stamps);
        assert!(order.is_sorted());
        let beyond = positions.iter().filter(|position| **position == Position::Beyond).count();
        assert_eq!(beyond, STEP_PACKETS, "until the clock is known to be another one");
    }
}
