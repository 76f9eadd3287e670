//! Long operations on LUNs in memory, executed by the loop itself, one slice per turn, so that no session waits for
//! more than a slice. A chore ends like a call into a store, with a [`Done`].

use block::{Buffer, Composite, FairQueue};
use wire::scsi::Lun as Address;

use crate::backend::Backend;
use crate::lun::{Lun, Luns, Nexus};
use crate::serve::stores::jobs::Done;

/// A long operation on a LUN in memory.
#[derive(Debug)]
pub(crate) struct Chore {
    pub(crate) lun: Address,
    pub(crate) order: Composite,
    pub(crate) side: usize,
    pub(crate) nexus: Nexus,
    pub(crate) token: u64,
    pub(crate) done_bytes: u64,
    /// Buffer of the parameter data, which counts against the budget while the chore holds it.
    pub(crate) _counted: Option<Buffer>,
}

/// Cost of a slice in a session's turn: all are about as long.
const COST_BYTES: u64 = 256 << 10;

/// Chores of all sessions, which take turns, slice by slice.
#[derive(Debug, Default)]
pub(crate) struct Chores {
    queue: FairQueue<Chore>,
}

impl Chores {
    /// Queues one. The command window bounds how many.
    pub(crate) fn push(&mut self, chore: Chore) {
        self.queue.push(chore.nexus.0, COST_BYTES, chore);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Executes one slice, and returns the result of the chore after the last one. A chore that is no longer wanted, by
    /// `is_wanted` of side, nexus and token, ends at once.
    pub(crate) fn step(
        &mut self,
        luns: &mut Luns,
        is_wanted: impl Fn(usize, Nexus, u64) -> bool,
    ) -> Option<Done> {
        let mut chore = self.queue.pop()?;
        let result = match luns.lun_mut(chore.lun).map(Lun::backend_mut) {
            Some(Backend::Inline(inline)) if is_wanted(chore.side, chore.nexus, chore.token) => {
                match chore.order.inline(inline, &mut chore.done_bytes) {
                    Ok(false) => {
                        // The rest of it comes before the other chores of its session.
                        self.queue.push_front(chore.nexus.0, COST_BYTES, chore);
                        return None;
                    }
                    Ok(true) => Ok(()),
                    Err(failure) => Err(failure),
                }
            }
            _ => Ok(()),
        };
        Some(Done {
            side: chore.side,
            nexus: chore.nexus,
            token: chore.token,
            result,
            read: None,
            kept: None,
            ended: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lun::Opening;
    use block::{ByteRange, CompositeAction};

    fn fill(nexus: u64, offset_bytes: u64, len_bytes: u64) -> Chore {
        let span = ByteRange { offset_bytes, len_bytes };
        let action = CompositeAction::Fill { span, pattern: vec![nexus as u8; 512] };
        let order = Composite { action, fua: false };
        let lun = Address::from_number(0);
        Chore { lun, order, side: 0, nexus: Nexus(nexus), token: nexus, done_bytes: 0, _counted: None }
    }

    fn luns() -> Luns {
        Luns::open(&[(0, "memory:64MiB".parse().unwrap())].into(), Opening::of("iqn.t", None)).unwrap()
    }

    #[test]
    fn long_work_is_cut_and_sessions_take_turns() {
        let (mut chores, mut luns) = (Chores::default(), luns());
        for n in 0..4 {
            chores.push(fill(1, n << 23, 8 << 20));
        }
        chores.push(fill(2, 60 << 20, 1 << 20));
        let (mut steps, mut ended) = (0, Vec::new());
        while !chores.is_empty() {
            steps += 1;
            ended.extend(chores.step(&mut luns, |_, _, _| true).map(|done| done.token));
        }
        assert_eq!(ended, [2, 1, 1, 1, 1], "the short one waits for slices and not for a long one");
        assert_eq!(steps, 33 * 4, "a slice at a time");
        let Backend::Inline(memory) = luns.lun(Address::from_number(0)).unwrap().backend() else {
            unreachable!("it was made in memory");
        };
        assert!(memory.bytes(0, 32 << 20).iter().all(|byte| *byte == 1));
        assert!(memory.bytes(60 << 20, 1 << 20).iter().all(|byte| *byte == 2));
    }

    #[test]
    fn little_is_done_for_those_who_have_left() {
        let (mut chores, mut luns) = (Chores::default(), luns());
        chores.push(fill(1, 0, 1 << 20));
        assert!(chores.step(&mut luns, |_, _, _| true).is_none());
        let ended = chores.step(&mut luns, |_, _, _| false).expect("it is over, for those who count it");
        assert_eq!((ended.token, chores.is_empty()), (1, true));
    }
}
