//! Packets that are due, in groups for one write each: segments of one super-packet, and consecutive packets of one
//! stream (`link::Joint`), as GRO would join them.
//!
//! A path that is on time finds one packet due and writes it. A late one finds several, and a group costs the
//! receiving host's TCP little more than one packet: so a late path catches up instead of falling further behind.
//! Groups of one host are in the order in which its packets are due.

use event::Instant;
use link::{Joint, Packet, Stage};
use net::tun::{self, HEADER_BYTES};

use crate::buffers::Arena;

/// Most packets in one batch.
const TOGETHER: usize = tun::PAYLOADS_MAX;

/// Batch of due packets. It allocates nothing for a packet.
pub(crate) struct Due {
    /// Packets by group.
    members: Vec<Member>,
    groups: Vec<Group>,
    /// Number of groups and of members that were returned.
    gone: (usize, usize),
    /// The last group of each host, if packets may be added to it.
    open: Vec<Option<usize>>,
}

/// A packet that is due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub(crate) scheduled: Instant,
    pub(crate) packet: Packet,
    /// Index of its group, and its index in the batch.
    place: (usize, usize),
}

/// Packets of one write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) first: Packet,
    last: Packet,
    pub(crate) count: usize,
    /// State of the join; `None` for a single packet and for segments of a super-packet.
    pub(crate) joint: Option<Joint>,
}

impl Due {
    /// An empty batch for `hosts` receiving hosts.
    pub(crate) fn new(hosts: usize) -> Due {
        Due {
            members: Vec::with_capacity(TOGETHER),
            groups: Vec::with_capacity(TOGETHER),
            gone: (0, 0),
            open: vec![None; hosts],
        }
    }

    /// The next group and the index of its first member, from this batch or the next.
    pub(crate) fn next(
        &mut self,
        path: &mut impl Stage,
        arena: &Arena,
        now: Instant,
    ) -> Option<(Group, usize)> {
        if self.gone.0 == self.groups.len() {
            self.find(path, arena, now);
        }
        let group = *self.groups.get(self.gone.0)?;
        let at = self.gone.1;
        self.gone = (self.gone.0 + 1, at + group.count);
        Some((group, at))
    }

    /// A packet of the last group, by its place.
    pub(crate) fn member(&self, at: usize) -> &Member {
        &self.members[at]
    }

    fn find(&mut self, path: &mut impl Stage, arena: &Arena, now: Instant) {
        self.members.clear();
        self.groups.clear();
        self.gone = (0, 0);
        self.open.fill(None);
        while self.members.len() < TOGETHER
            && let Some((scheduled, packet)) = path.pop(now)
        {
            let place = (self.group_of(packet, arena), self.members.len());
            self.members.push(Member { scheduled, packet, place });
        }
        if !self.members.is_sorted_by_key(|member| member.place) {
            self.members.sort_unstable_by_key(|member| member.place);
        }
    }

    /// Number of the group that `packet` is put into.
    fn group_of(&mut self, packet: Packet, arena: &Arena) -> usize {
        let open = &mut self.open[usize::from(packet.to)];
        if let Some(at) = *open
            && self.groups[at].add(packet, arena)
        {
            return at;
        }
        self.groups.push(Group { first: packet, last: packet, count: 1, joint: None });
        let at = self.groups.len() - 1;
        *open = (!packet.again).then_some(at);
        at
    }
}

impl Group {
    /// Adds `next` if it follows the last of them.
    fn add(&mut self, next: Packet, arena: &Arena) -> bool {
        let follows = !next.again
            && match (self.last.piece, next.piece) {
                (Some(last), Some(piece)) => {
                    next.handle == self.last.handle && last.checked_add(1) == Some(piece)
                }
                (None, None) => self.join(next, arena),
                _ => false,
            };
        if follows {
            self.last = next;
            self.count += 1;
        }
        follows
    }

    fn join(&mut self, next: Packet, arena: &Arena) -> bool {
        let (first, next) = (arena.bytes(self.first.handle), arena.bytes(next.handle));
        // A checksum that is there would have to be made anew.
        if !tun::is_unfinished(first) || !tun::is_unfinished(next) {
            return false;
        }
        let (first, next) = (&first[HEADER_BYTES..], &next[HEADER_BYTES..]);
        let Some(mut joint) = self.joint.or_else(|| Joint::new(first)) else { return false };
        let is_joined = joint.add(first, next);
        if is_joined {
            self.joint = Some(joint);
        }
        is_joined
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use link::{Dropped, Handle};

    use super::*;
    use crate::forwarding::super_packet;

    const MSS: usize = 1448;

    /// A path whose packets are all due.
    #[derive(Default)]
    struct Heap(std::collections::VecDeque<Packet>);

    impl Stage for Heap {
        fn push(&mut self, _now: Instant, packet: Packet) -> Result<(), Dropped> {
            self.0.push_back(packet);
            Ok(())
        }

        fn next_at(&self) -> Option<Instant> {
            None
        }

        fn pop(&mut self, now: Instant) -> Option<(Instant, Packet)> {
            self.0.pop_front().map(|packet| (now, packet))
        }

        fn shortest(&self) -> Duration {
            Duration::ZERO
        }
    }

    struct Scene {
        arena: Arena,
        heap: Heap,
        due: Due,
    }

    impl Scene {
        fn new() -> Scene {
            Scene { arena: Arena::new(16 << 20), heap: Heap::default(), due: Due::new(3) }
        }

        fn keep(&mut self, packet: &[u8]) -> Handle {
            self.arena.room().expect("room")[..packet.len()].copy_from_slice(packet);
            self.arena.keep(packet.len())
        }

        fn push(&mut self, to: u8, packet: &[u8], piece: Option<u16>) {
            let handle = self.keep(packet);
            let of = Packet::new(handle, Instant::ZERO, packet.len() as u32, packet.len() as u32, 1);
            self.heap.0.push_back(Packet { to, piece, number: self.heap.0.len() as u64, ..of });
        }

        /// Packet `n` of a stream to host `to`, with checksum offload.
        fn push_data(&mut self, to: u8, n: u32) {
            let mut packet = super_packet(MSS);
            packet[HEADER_BYTES + 33] = 0x10;
            let seq = (7 + n * MSS as u32).to_be_bytes();
            packet[HEADER_BYTES + 24..][..4].copy_from_slice(&seq);
            packet[1] = 0;
            self.push(to, &packet, None);
        }

        /// Numbers of the packets of each group, in the order in which they were pushed.
        fn groups(&mut self) -> Vec<Vec<u64>> {
            let mut groups = Vec::new();
            while let Some((group, at)) = self.due.next(&mut self.heap, &self.arena, Instant::ZERO) {
                let numbers = (at..at + group.count).map(|at| self.due.member(at).packet.number);
                groups.push(numbers.collect());
                assert_eq!(group.joint.is_some(), group.count > 1 && group.first.piece.is_none());
            }
            groups
        }
    }

    #[test]
    fn streams_of_several_hosts_are_joined_each_for_itself() {
        let mut scene = Scene::new();
        for n in 0..4 {
            scene.push_data(0, n);
            scene.push_data(2, n);
        }
        assert_eq!(scene.groups(), [[0, 2, 4, 6], [1, 3, 5, 7]]);
    }

    #[test]
    fn what_is_between_them_parts_them() {
        let mut scene = Scene::new();
        scene.push_data(0, 0);
        scene.push_data(0, 2);
        scene.push_data(0, 3);
        let mut acknowledgement = super_packet(0);
        acknowledgement[1] = 0;
        scene.push(0, &acknowledgement, None);
        scene.push_data(0, 4);
        assert_eq!(scene.groups(), [vec![0], vec![1, 2], vec![3], vec![4]]);
    }

    #[test]
    fn one_whose_checksum_is_made_stays_alone() {
        let mut scene = Scene::new();
        scene.push_data(0, 0);
        let handle = scene.heap.0[0].handle;
        let mut made = scene.arena.bytes(handle).to_vec();
        made[0] = 0;
        scene.push(0, &made, None);
        scene.push_data(0, 1);
        assert_eq!(scene.groups(), [[0], [1], [2]]);
    }

    #[test]
    fn pieces_are_together_and_a_packet_that_comes_again_is_not() {
        let mut scene = Scene::new();
        let whole = super_packet(5 * MSS);
        for piece in [0, 1, 3, 4] {
            scene.push(1, &whole, Some(piece));
        }
        let handle = scene.heap.0[0].handle;
        scene.heap.0.iter_mut().for_each(|packet| packet.handle = handle);
        let again = Packet { again: true, number: 4, ..scene.heap.0[3] };
        scene.heap.0.push_back(again);
        scene.heap.0.push_back(Packet { number: 5, again: false, ..again });
        assert_eq!(scene.groups(), [vec![0, 1], vec![2, 3], vec![4], vec![5]]);
    }

    #[test]
    fn no_more_is_looked_at_than_can_be_written() {
        let mut scene = Scene::new();
        (0..TOGETHER as u32 + 9).for_each(|n| scene.push_data(0, n));
        let counts: Vec<usize> = scene.groups().iter().map(Vec::len).collect();
        // A packet of IP holds 45 of them.
        assert_eq!(counts, [45, TOGETHER - 45, 9]);
    }
}
