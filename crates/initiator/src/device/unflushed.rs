//! Acknowledged writes that no flush has covered, and the flushes that report their loss.
//!
//! A target that restarts loses its volatile cache. The loss of acknowledged writes is reported once: by the next flush
//! of any owner, since a flush covers the writes of all, and by the next flush of each owner that lost writes.

use std::collections::BTreeMap;

use block::Owner;

/// Acknowledged writes, numbered in the order of their completion.
#[derive(Debug, Default)]
pub(super) struct Unflushed {
    /// Number of the last acknowledged write.
    last: u64,
    /// Last write of each owner that no flush has covered.
    pending: BTreeMap<Owner, u64>,
    /// Last lost write of each owner to which no flush has reported it.
    lost: BTreeMap<Owner, u64>,
    /// Last lost write of which no flush has reported anything.
    unreported: Option<u64>,
}

impl Unflushed {
    /// Notes an acknowledged write that is in the target's cache alone.
    pub(super) fn wrote(&mut self, owner: Owner) {
        self.last += 1;
        self.pending.insert(owner, self.last);
    }

    /// Number of the last write that a flush issued now covers.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Notes a successful flush that covers the writes up to `covered`.
    pub(super) fn flushed(&mut self, covered: u64) {
        self.pending.retain(|_, number| *number > covered);
    }

    /// Notes the loss of the cache. Returns true if an acknowledged write is lost.
    pub(super) fn lose(&mut self) -> bool {
        let Some(last) = self.pending.values().max() else { return false };
        self.unreported = Some(*last);
        self.lost.append(&mut self.pending);
        true
    }

    /// Notes that a failed flush of an owner reports the loss of the writes up to `covered`.
    pub(super) fn reported(&mut self, owner: Owner, covered: u64) {
        if self.lost.get(&owner).is_some_and(|number| *number <= covered) {
            self.lost.remove(&owner);
        }
        self.unreported = self.unreported.filter(|number| *number > covered);
    }

    /// Returns true if the flush that an owner submits now has to report a loss, which counts as reported then.
    pub(super) fn take_loss(&mut self, owner: Owner) -> bool {
        let is_of_owner = self.lost.remove(&owner).is_some();
        self.unreported.take().is_some() || is_of_owner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Owner = Owner(1);
    const TWO: Owner = Owner(2);

    #[test]
    fn a_loss_is_reported_once_to_each_owner_that_wrote() {
        let mut unflushed = Unflushed::default();
        unflushed.wrote(ONE);
        unflushed.wrote(TWO);
        assert!(unflushed.lose() && !unflushed.lose());
        assert_eq!([ONE, ONE, TWO, TWO].map(|owner| unflushed.take_loss(owner)), [true, false, true, false]);
        assert!(!unflushed.take_loss(Owner(3)));
    }

    #[test]
    fn the_next_flush_of_an_owner_without_writes_reports_the_loss_too() {
        let mut unflushed = Unflushed::default();
        unflushed.wrote(ONE);
        assert!(unflushed.lose());
        assert_eq!([TWO, TWO, ONE].map(|owner| unflushed.take_loss(owner)), [true, false, true]);
    }

    #[test]
    fn a_flush_covers_the_writes_before_it_alone() {
        let mut unflushed = Unflushed::default();
        unflushed.wrote(ONE);
        let covered = unflushed.last();
        unflushed.wrote(TWO);
        unflushed.flushed(covered);
        assert!(unflushed.lose());
        assert!(unflushed.take_loss(TWO) && !unflushed.take_loss(ONE));
        unflushed.wrote(ONE);
        unflushed.flushed(unflushed.last());
        assert!(!unflushed.lose(), "all of it is durable");
    }

    #[test]
    fn an_open_flush_reports_the_loss_of_the_writes_before_it_alone() {
        let mut unflushed = Unflushed::default();
        unflushed.wrote(ONE);
        let covered = unflushed.last();
        assert!(unflushed.lose());
        unflushed.reported(ONE, covered);
        assert!(!unflushed.take_loss(ONE), "once");
        unflushed.wrote(ONE);
        assert!(unflushed.lose());
        unflushed.reported(ONE, covered);
        assert!(unflushed.take_loss(ONE), "it was written after that flush began");
    }
}
