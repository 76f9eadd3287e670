//! The budget of memory for data on its way to stores and from them, and which request may have a part of it.
//!
//! Data of a read need memory before the store is called. Data of a write need memory as they arrive, so that a command
//! without data costs nothing. As long as memory and announced data fit into the budget together, writes are admitted
//! like reads. Beyond that a session may still announce [`FINISH_BYTES`]: while memory is short, data are read from the
//! sessions for which a reserve is left, the one that lacks least first, so that some write always gets to its end.

use std::time::Duration;

use block::{Buffer, Buffers};
use event::Instant;

/// Memory in use from which on a session that holds some is not read: shares are of this.
pub(crate) const BUDGET_BYTES: usize = 160 << 20;
/// The longest request.
const LONGEST_BYTES: usize = block::TRANSFER_MAX_BYTES as usize;
/// Bound of memory including one request beyond its session's share: the budget plus the longest request, so that no
/// request is refused that was read in time. Above this bound write data need a reserve.
const BEYOND_BYTES: usize = BUDGET_BYTES + LONGEST_BYTES;
/// Bound of memory for a request within its session's share.
pub(crate) const WITHIN_BYTES: usize = 224 << 20;
/// Bound of memory for a request of a session that holds at most `LITTLE_BYTES`: the rest is for such sessions alone.
pub(crate) const MOST_BYTES: usize = 256 << 20;
pub(crate) const LITTLE_BYTES: usize = 64 << 10;
/// The least share of one session.
const SHARE_MIN_BYTES: usize = 4 << 20;
/// A session does not come to hold more than so many shares by several requests.
const SHARES_MAX: usize = 4;
/// Largest ratio of a LUN's buffers to the free memory while other LUNs are in use: a LUN with a hanging store takes
/// three quarters at most.
const LUN_PARTS: usize = 3;
/// Reserve for writes that lack data while memory is short, and data that a session may announce then.
pub(crate) const FINISH_BYTES: usize = LONGEST_BYTES;
/// Data for writes may fail to come for so long, or for so many round trips if that is longer: no less than a silent
/// initiator has, since an outage stops both.
pub(crate) const DATA_PATIENCE: Duration = Duration::from_secs(20);
pub(crate) const DATA_ROUND_TRIPS: u32 = 8;
/// Data between two looks (five seconds) that count as progress of a session.
const PROGRESS_BYTES: u64 = 4 << 10;

/// Share of one session among so many.
pub(crate) fn share_bytes(sessions: usize) -> usize {
    (BUDGET_BYTES / sessions.max(1)).max(SHARE_MIN_BYTES)
}

/// Buffers of all sessions.
#[derive(Debug)]
pub(crate) struct Budget {
    all: Buffers,
    /// Buffers by LUN number.
    parts: Vec<Option<Buffers>>,
    used_parts: usize,
    /// Data that sessions have announced and not sent.
    lacking_bytes: usize,
    /// Announced data for which memory is reserved.
    reserved_bytes: usize,
}

/// Buffers of one session.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    /// Buffers of its transfers in full, with memory or without.
    pub(crate) held_bytes: usize,
    /// Transfers that lack data of the initiator, and how much all of them lack.
    pub(crate) filling: usize,
    lacking_bytes: usize,
    reserved_bytes: usize,
    /// Data received for writes, in total and up to the last look.
    brought_bytes: u64,
    seen_bytes: u64,
    /// Time of the last look at which data had arrived.
    since: Instant,
}

/// Progress of one transfer that lacks data.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Filled {
    pub(crate) arrived_bytes: u32,
    /// The session's count at which it has all its data, if data come in the order of their commands.
    due_bytes: u64,
    seen_bytes: u32,
    since: Instant,
}

/// A request for memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) len_bytes: u32,
    pub(crate) lun: Option<u16>,
    pub(crate) share_bytes: usize,
}

impl Budget {
    /// Keeps at most `keep_bytes` of free buffers.
    pub(crate) fn new(keep_bytes: usize) -> Budget {
        let all = Buffers::new(keep_bytes);
        Budget { all, parts: Vec::new(), used_parts: 0, lacking_bytes: 0, reserved_bytes: 0 }
    }

    /// Memory in use, with buffers that sessions which are gone have left with stores.
    pub(crate) fn held_bytes(&self) -> usize {
        self.all.held_bytes()
    }

    /// Data that sessions have announced and not sent.
    pub(crate) fn lacking_bytes(&self) -> usize {
        self.lacking_bytes
    }

    /// Memory that is set aside.
    pub(crate) fn reserved_bytes(&self) -> usize {
        self.reserved_bytes
    }

    /// A buffer that has memory at once.
    pub(crate) fn take(&mut self, lun: Option<u16>, len_bytes: u32) -> Buffer {
        self.part(lun).take(len_bytes as usize)
    }

    /// A buffer that has memory as data arrive.
    pub(crate) fn promise(&mut self, lun: Option<u16>, len_bytes: u32) -> Buffer {
        self.part(lun).promise(len_bytes as usize)
    }

    fn part(&mut self, lun: Option<u16>) -> &Buffers {
        let Some(place) = lun.map(usize::from) else { return &self.all };
        if self.parts.len() <= place {
            self.parts.resize(place + 1, None);
        }
        let (all, part) = (&self.all, &mut self.parts[place]);
        if part.is_none() {
            self.used_parts += 1;
        }
        part.get_or_insert_with(|| all.part())
    }

    /// Bound of memory for a request; `None` if its session holds too much. The less a session holds and requests, the
    /// higher the bound.
    fn most_bytes(own: &Holdings, wish: Wish) -> Option<usize> {
        let Wish { len_bytes, share_bytes, .. } = wish;
        match own.held_bytes + len_bytes as usize {
            ..=LITTLE_BYTES => Some(MOST_BYTES),
            all if all <= share_bytes => Some(WITHIN_BYTES),
            // A request that was read in time may have the full length.
            all if own.held_bytes <= share_bytes || all <= SHARES_MAX * share_bytes => Some(BEYOND_BYTES),
            _ => None,
        }
    }

    /// Returns true if a LUN holds no more than its share: others have not less than a part of the memory that it
    /// leaves.
    fn lun_has_room(&self, wish: Wish, used_bytes: usize) -> bool {
        let part = wish.lun.and_then(|lun| self.parts.get(usize::from(lun))?.as_ref());
        let Some(part) = part.filter(|_| self.used_parts > 1) else { return true };
        part.part_bytes() <= LUN_PARTS * WITHIN_BYTES.saturating_sub(used_bytes)
    }

    fn fits(&self, own: &Holdings, wish: Wish, used_bytes: usize) -> bool {
        let Some(most_bytes) = Budget::most_bytes(own, wish) else { return false };
        used_bytes + Buffers::counts_for(wish.len_bytes as usize) <= most_bytes
            && (most_bytes == MOST_BYTES || self.lun_has_room(wish, used_bytes))
    }

    /// Returns true if a request may have memory at once.
    pub(crate) fn has_room(&self, own: &Holdings, wish: Wish) -> bool {
        self.fits(own, wish, self.held_bytes() + self.reserved_bytes)
    }

    /// Returns true if a request may send for data, which need memory as they arrive.
    pub(crate) fn may_announce(&self, own: &Holdings, wish: Wish) -> bool {
        if self.fits(own, wish, self.held_bytes() + self.lacking_bytes) {
            return true;
        }
        // A session with a reserve receives the announced data before it announces more.
        let is_bounded =
            own.reserved_bytes == 0 && own.lacking_bytes + wish.len_bytes as usize <= FINISH_BYTES;
        is_bounded && Budget::most_bytes(own, wish).is_some() && self.lun_has_room(wish, self.held_bytes())
    }

    /// Returns true if data for writes may be read from a session.
    pub(crate) fn may_fill(&self, own: &Holdings) -> bool {
        own.reserved_bytes > 0 || self.held_bytes() < Budget::fill_bytes(own)
    }

    fn fill_bytes(own: &Holdings) -> usize {
        if own.held_bytes <= LITTLE_BYTES { MOST_BYTES } else { BEYOND_BYTES }
    }

    /// Sets memory aside for the data that a session lacks, if there is enough.
    pub(crate) fn reserve(&mut self, own: &mut Holdings) -> bool {
        let most_bytes = if own.held_bytes <= LITTLE_BYTES { MOST_BYTES } else { WITHIN_BYTES };
        let reserved_bytes = self.reserved_bytes + own.lacking_bytes;
        let may = own.filling > 0
            && own.reserved_bytes == 0
            && reserved_bytes <= FINISH_BYTES
            && self.held_bytes() + reserved_bytes <= most_bytes;
        if may {
            own.reserved_bytes = own.lacking_bytes;
            self.reserved_bytes = reserved_bytes;
        }
        may
    }

    /// A session waits for so much data from now on; the state of the transfer that they are for.
    pub(crate) fn announce(&mut self, own: &mut Holdings, len_bytes: u32) -> Filled {
        own.filling += 1;
        own.lacking_bytes += len_bytes as usize;
        self.lacking_bytes += len_bytes as usize;
        Filled { due_bytes: own.brought_bytes + own.lacking_bytes as u64, ..Filled::default() }
    }

    /// Data have arrived for a transfer of `len_bytes`.
    pub(crate) fn arrive(&mut self, own: &mut Holdings, filled: &mut Filled, len_bytes: u32, bytes: usize) {
        let bytes = bytes.min((len_bytes - filled.arrived_bytes) as usize);
        filled.arrived_bytes += bytes as u32;
        own.brought_bytes += bytes as u64;
        self.lack_less(own, bytes);
    }

    /// A transfer of `len_bytes` waits for data no more, whether they have come or not.
    pub(crate) fn settle(&mut self, own: &mut Holdings, filled: Filled, len_bytes: u32) {
        own.filling -= 1;
        self.lack_less(own, (len_bytes - filled.arrived_bytes) as usize);
    }

    fn lack_less(&mut self, own: &mut Holdings, bytes: usize) {
        own.lacking_bytes -= bytes;
        self.lacking_bytes -= bytes;
        let bytes = if own.filling == 0 { own.reserved_bytes } else { own.reserved_bytes.min(bytes) };
        own.reserved_bytes -= bytes;
        self.reserved_bytes -= bytes;
    }

    /// A session is gone.
    pub(crate) fn leave(&mut self, own: &Holdings) {
        self.lacking_bytes -= own.lacking_bytes;
        self.reserved_bytes -= own.reserved_bytes;
    }
}

impl Holdings {
    pub(crate) fn lacking_bytes(&self) -> usize {
        self.lacking_bytes
    }

    pub(crate) fn reserved_bytes(&self) -> usize {
        self.reserved_bytes
    }

    /// To be called every few seconds. While `is_read` is false nothing can come.
    pub(crate) fn look(&mut self, now: Instant, is_read: bool) {
        let brought_bytes = self.brought_bytes - std::mem::replace(&mut self.seen_bytes, self.brought_bytes);
        if brought_bytes >= PROGRESS_BYTES || self.filling == 0 || !is_read {
            self.since = now;
        }
    }

    /// Time for which the data of a transfer have failed to arrive, after [`Holdings::look`]. Data behind other data of
    /// their session are not late as long as those arrive.
    pub(crate) fn late(&self, filled: &mut Filled, now: Instant, is_read: bool) -> Duration {
        let has_come = std::mem::replace(&mut filled.seen_bytes, filled.arrived_bytes) != filled.seen_bytes;
        if filled.since == Instant::ZERO || !is_read || has_come && self.is_brisk(now) {
            filled.since = now;
        }
        let is_skipped = self.brought_bytes >= filled.due_bytes;
        let stalled = now.since(self.since);
        now.since(filled.since).min(if is_skipped { Duration::MAX } else { stalled })
    }

    fn is_brisk(&self, now: Instant) -> bool {
        self.since == now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u32 = 1 << 20;

    fn wish(len_bytes: u32, lun: u16, sessions: usize) -> Wish {
        Wish { len_bytes, lun: Some(lun), share_bytes: share_bytes(sessions) }
    }

    /// Admits a write; its buffer and state.
    fn announce(budget: &mut Budget, own: &mut Holdings, wish: Wish) -> Option<(Buffer, Filled)> {
        budget.may_announce(own, wish).then(|| {
            own.held_bytes += wish.len_bytes as usize;
            let buffer = budget.promise(wish.lun, wish.len_bytes);
            (buffer, budget.announce(own, wish.len_bytes))
        })
    }

    fn arrive(budget: &mut Budget, own: &mut Holdings, write: &mut (Buffer, Filled), bytes: usize) {
        let len = write.0.len() as u32;
        write.0[0] = 1;
        budget.arrive(own, &mut write.1, len, bytes);
        write.0.count(write.1.arrived_bytes as usize);
    }

    /// Two sessions announce the most permitted and send nothing: others read and write all the same.
    #[test]
    fn announced_data_shut_nobody_out() {
        let mut budget = Budget::new(0);
        let (mut first, mut second, honest) = (Holdings::default(), Holdings::default(), Holdings::default());
        let mut kept = Vec::new();
        for own in [&mut first, &mut second] {
            while let Some(write) = announce(&mut budget, own, wish(32 * MIB, 0, 3)) {
                kept.push(write);
            }
        }
        assert!(kept.len() >= 3 && budget.held_bytes() == 0, "{}", kept.len());
        for len in [4096, 64 << 10, MIB, 32 * MIB] {
            assert!(budget.has_room(&honest, wish(len, 0, 3)), "a read of {len} bytes");
            assert!(budget.may_announce(&honest, wish(len, 0, 3)), "a write of {len} bytes");
        }
        [first, second].iter().for_each(|own| budget.leave(own));
        assert_eq!((budget.lacking_bytes, budget.reserved_bytes), (0, 0));
    }

    #[test]
    fn the_last_part_is_for_small_requests() {
        let mut budget = Budget::new(0);
        let large = Holdings::default();
        let mut taken = Vec::new();
        while budget.has_room(&large, wish(MIB, 0, 60)) {
            taken.push(budget.take(Some(0), MIB));
        }
        assert_eq!(budget.held_bytes(), WITHIN_BYTES);
        let small = Holdings::default();
        while budget.has_room(&small, wish(64 << 10, 0, 60)) {
            taken.push(budget.take(Some(0), 64 << 10));
        }
        assert_eq!(budget.held_bytes(), MOST_BYTES);
    }

    #[test]
    fn a_lun_whose_store_hangs_leaves_a_part_to_others() {
        let mut budget = Budget::new(0);
        let own = Holdings::default();
        drop(budget.take(Some(1), 512));
        let mut taken = Vec::new();
        while budget.has_room(&own, wish(MIB, 0, 60)) {
            taken.push(budget.take(Some(0), MIB));
        }
        let hung_bytes = budget.held_bytes();
        assert!((BUDGET_BYTES..=170 << 20).contains(&hung_bytes), "{hung_bytes}");
        assert!(budget.has_room(&own, wish(16 * MIB, 1, 60)) && budget.may_announce(&own, wish(MIB, 1, 60)));
        assert!(!budget.may_announce(&own, wish(MIB, 0, 60)));
        assert!(budget.has_room(&own, wish(4096, 0, 60)), "little is always to be had");
    }

    /// More data are on their way than there is memory: some write always gets to its end.
    #[test]
    fn writes_get_to_their_end_while_memory_is_short() {
        let mut budget = Budget::new(0);
        let mut sessions: Vec<Holdings> = (0..60).map(|_| Holdings::default()).collect();
        let mut writes: Vec<_> = sessions
            .iter_mut()
            .map(|own| announce(&mut budget, own, wish(8 * MIB, 0, 60)).expect("it may announce as much"))
            .collect();
        let mut reserve = 0;
        for (own, write) in sessions.iter_mut().zip(&mut writes) {
            if budget.may_fill(own) {
                arrive(&mut budget, own, write, 7 << 20);
            }
            assert!(budget.held_bytes() < BEYOND_BYTES + (8 << 20));
        }
        assert!(sessions.iter().all(|own| !budget.may_fill(own)), "memory is short");
        for own in &mut sessions {
            reserve += usize::from(budget.reserve(own));
        }
        assert!(reserve > 0 && budget.reserved_bytes <= FINISH_BYTES, "{reserve}");
        for (own, write) in sessions.iter_mut().zip(&mut writes) {
            if budget.may_fill(own) {
                assert!(!budget.may_announce(own, wish(MIB, 0, 60)), "not before this one has come");
                let rest = own.lacking_bytes;
                arrive(&mut budget, own, write, rest);
                budget.settle(own, write.1, 8 * MIB);
            }
        }
        assert_eq!(budget.reserved_bytes, 0);
        assert!(budget.held_bytes() <= WITHIN_BYTES);
    }

    #[test]
    fn data_that_do_not_come_are_late() {
        let mut budget = Budget::new(0);
        let mut own = Holdings::default();
        let at = |s: u64| Instant::ZERO + Duration::from_secs(s);
        let mut first = announce(&mut budget, &mut own, wish(8 * MIB, 0, 1)).unwrap();
        let mut second = announce(&mut budget, &mut own, wish(8 * MIB, 0, 1)).unwrap();
        let mut look = |budget: &mut Budget, own: &mut Holdings, s, bytes, is_read| {
            arrive(budget, own, &mut first, bytes);
            own.look(at(s), is_read);
            (
                own.late(&mut first.1, at(s), is_read).as_secs(),
                own.late(&mut second.1, at(s), is_read).as_secs(),
            )
        };
        assert_eq!(look(&mut budget, &mut own, 5, 4096, true), (0, 0));
        assert_eq!(look(&mut budget, &mut own, 10, 4096, true), (0, 0), "the second is behind the first");
        assert_eq!(look(&mut budget, &mut own, 15, 1, true), (5, 5), "a byte is no progress");
        assert_eq!(look(&mut budget, &mut own, 30, 1, true), (20, 20));
        assert_eq!(look(&mut budget, &mut own, 35, 0, false), (0, 0), "it is not read");
        // All data before the second transfer's have arrived, and more.
        own.brought_bytes += 16 << 20;
        assert_eq!(look(&mut budget, &mut own, 40, 8192, true), (0, 5));
        own.brought_bytes += 16 << 20;
        assert_eq!(look(&mut budget, &mut own, 50, 8192, true), (0, 15), "it is left out");
    }
}
