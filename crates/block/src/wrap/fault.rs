//! A store with injected faults, for tests of its callers, here and at the initiator.
//!
//! A rule is `KIND[:WHEN]…`. KIND names the failing operation and its error: `read` and `write` (the medium fails), `sync` (it
//! cannot be made durable), `full` (no space is left for a write), `notready` (anything, for the moment).
//! Every WHEN has to hold: `0.1%` (that share of them, by the seed), `lba=8-15` (those that touch these
//! blocks), `nth=3` or `nth=1-3` (these, counted from 1 among the accesses of that kind to these blocks).
//! Without a WHEN all fail. A command that works in several pieces makes several accesses.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use super::chance;
use crate::composite::ByteRange;
use crate::device::Extent;
use crate::error::{BlockError, ErrorKind};
use crate::local::Watched;
use crate::spec::{OptionError, nearest_of, not};
use crate::store::BlockingStore;

/// Kind, condition and frequency of a fault.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FaultRule {
    kind: FaultKind,
    share_percent: Option<f64>,
    blocks: Option<(u64, u64)>,
    nth: Option<(u64, u64)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FaultKind {
    Read,
    Write,
    Sync,
    Full,
    NotReady,
}

/// Access to a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Access {
    Read { offset_bytes: u64, len_bytes: u64 },
    Write { offset_bytes: u64, len_bytes: u64 },
    Zero { offset_bytes: u64, len_bytes: u64 },
    Sync,
}

const KINDS: [(&str, FaultKind); 5] = [
    ("read", FaultKind::Read),
    ("write", FaultKind::Write),
    ("sync", FaultKind::Sync),
    ("full", FaultKind::Full),
    ("notready", FaultKind::NotReady),
];

/// A store behind rules.
#[derive(Debug)]
pub struct FaultStore {
    inner: Arc<dyn BlockingStore>,
    rules: Vec<(FaultRule, AtomicU64)>,
    block_len_bytes: u32,
    seed: u64,
}

impl FaultStore {
    /// Puts `rules` in front of `inner`.
    pub fn new(
        inner: Arc<dyn BlockingStore>,
        rules: &[FaultRule],
        block_len_bytes: u32,
        seed: u64,
    ) -> FaultStore {
        let rules = rules.iter().map(|rule| (*rule, AtomicU64::new(0))).collect();
        FaultStore { inner, rules, block_len_bytes, seed }
    }

    /// Every rule counts the access; the first that says so makes it fail.
    fn pass(&self, access: Access) -> Result<(), BlockError> {
        let mut result = Ok(());
        for ((rule, count), place) in self.rules.iter().zip(0u64..) {
            if !rule.concerns(access, self.block_len_bytes.into()) {
                continue;
            }
            let nth = count.fetch_add(1, Ordering::Relaxed) + 1;
            if rule.strikes(self.seed ^ place << 32, nth) {
                result = result.and(Err(rule.error(nth)));
            }
        }
        result
    }
}

impl BlockingStore for FaultStore {
    fn len_bytes(&self) -> u64 {
        self.inner.len_bytes()
    }

    fn measure(&self) -> Result<u64, BlockError> {
        self.inner.measure()
    }

    fn set_len(&self, len_bytes: u64) {
        self.inner.set_len(len_bytes);
    }

    fn watched(&self) -> Option<Arc<Watched>> {
        self.inner.watched()
    }

    fn read_at(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), BlockError> {
        self.pass(Access::Read { offset_bytes, len_bytes: into.len() as u64 })?;
        self.inner.read_at(offset_bytes, into)
    }

    fn write_at(&self, offset_bytes: u64, from: &[u8]) -> Result<(), BlockError> {
        self.pass(Access::Write { offset_bytes, len_bytes: from.len() as u64 })?;
        self.inner.write_at(offset_bytes, from)
    }

    fn sync(&self) -> Result<(), BlockError> {
        self.pass(Access::Sync)?;
        self.inner.sync()
    }

    fn zero_at(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), BlockError> {
        self.pass(Access::Zero { offset_bytes, len_bytes })?;
        self.inner.zero_at(offset_bytes, len_bytes)
    }

    fn write_zeros_at(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), BlockError> {
        self.pass(Access::Write { offset_bytes, len_bytes })?;
        self.inner.write_zeros_at(offset_bytes, len_bytes)
    }

    fn extents(&self, range: ByteRange, extents_max: usize) -> Result<Vec<Extent>, BlockError> {
        self.inner.extents(range, extents_max)
    }

    fn makes_zeros(&self) -> bool {
        self.inner.makes_zeros()
    }

    fn gate(&self) -> &RwLock<()> {
        self.inner.gate()
    }

    fn has_write_cache(&self) -> bool {
        self.inner.has_write_cache()
    }

    fn physical_block_bytes(&self) -> u32 {
        self.inner.physical_block_bytes()
    }

    fn granularity_bytes(&self) -> u32 {
        self.inner.granularity_bytes()
    }
}

impl FaultRule {
    /// Returns true if it concerns flushes alone.
    pub fn is_of_sync(self) -> bool {
        self.kind == FaultKind::Sync
    }

    /// The last block that it names, if it names any.
    pub fn last_block(self) -> Option<u64> {
        self.blocks.map(|(_, last)| last)
    }

    fn concerns(self, access: Access, block_len_bytes: u64) -> bool {
        let span = match (access, self.kind) {
            (Access::Read { offset_bytes, len_bytes }, FaultKind::Read | FaultKind::NotReady) => {
                Some((offset_bytes, len_bytes))
            }
            (
                Access::Write { offset_bytes, len_bytes },
                FaultKind::Write | FaultKind::Full | FaultKind::NotReady,
            ) => Some((offset_bytes, len_bytes)),
            // A hole takes no space.
            (Access::Zero { offset_bytes, len_bytes }, FaultKind::Write | FaultKind::NotReady) => {
                Some((offset_bytes, len_bytes))
            }
            (Access::Sync, FaultKind::Sync | FaultKind::NotReady) => return self.blocks.is_none(),
            _ => None,
        };
        span.is_some_and(|(offset_bytes, len_bytes)| {
            self.blocks.is_none_or(|(first, last)| {
                let end_bytes = last.saturating_add(1).saturating_mul(block_len_bytes);
                offset_bytes < end_bytes && offset_bytes + len_bytes > first.saturating_mul(block_len_bytes)
            })
        })
    }

    fn strikes(self, seed: u64, nth: u64) -> bool {
        let by_share = self
            .share_percent
            .is_none_or(|percent| (chance::draw(seed, nth) as f64) < percent / 100.0 * u64::MAX as f64);
        by_share && self.nth.is_none_or(|(first, last)| (first..=last).contains(&nth))
    }

    fn error(self, nth: u64) -> BlockError {
        let text = format!("fault={self} struck at access {nth}");
        let kind = match self.kind {
            FaultKind::Read | FaultKind::Write | FaultKind::Sync => ErrorKind::Medium,
            FaultKind::Full => ErrorKind::NoSpace,
            FaultKind::NotReady => ErrorKind::NotReady,
        };
        BlockError::new(kind, text)
    }
}

impl FromStr for FaultRule {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<FaultRule, OptionError> {
        let unknown = |found: &str, what, valid: &[&'static str]| OptionError::Unknown {
            found: found.to_owned(),
            what,
            nearest: nearest_of(found, valid),
            hint: "",
        };
        let mut words = text.split(':');
        let word = words.next().unwrap_or_default();
        let kind = KINDS.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind);
        let kind = kind.ok_or_else(|| unknown(word, "kind of fault", &KINDS.map(|(name, _)| name)))?;
        let mut rule = FaultRule { kind, share_percent: None, blocks: None, nth: None };
        for word in words {
            match word.split_once('=') {
                None if word.ends_with('%') => {
                    let share = word.trim_end_matches('%').parse().ok();
                    let share = share.filter(|percent| (0.0..=100.0).contains(percent));
                    rule.share_percent =
                        Some(share.ok_or_else(|| not(word, "share", "0% to 100%, such as 0.1%"))?);
                }
                Some(("lba", range)) => rule.blocks = Some(numbers(range, 0)?),
                Some(("nth", range)) => rule.nth = Some(numbers(range, 1)?),
                other => {
                    let name = other.map_or(word, |(name, _)| name);
                    return Err(unknown(name, "condition of a fault", &["lba", "nth", "0.1%"]));
                }
            }
        }
        Ok(rule)
    }
}

/// `A` or `A-B`, both of them included, from `least` on.
fn numbers(text: &str, least: u64) -> Result<(u64, u64), OptionError> {
    let number = |text: &str| {
        let number = text.parse().ok().filter(|&number| number >= least);
        let what = if least == 0 { "number" } else { "number from 1 on" };
        number.ok_or_else(|| not(text, what, "a number such as 8, or a range such as 8-15"))
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    if last < first { Err(OptionError::Reversed { found: text.to_owned() }) } else { Ok((first, last)) }
}

impl fmt::Display for FaultRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = KINDS.iter().find(|(_, kind)| *kind == self.kind).map_or("", |(name, _)| name);
        f.write_str(name)?;
        if let Some(percent) = self.share_percent {
            write!(f, ":{percent}%")?;
        }
        for (name, range) in [("lba", self.blocks), ("nth", self.nth)] {
            match range {
                Some((first, last)) if first == last => write!(f, ":{name}={first}")?,
                Some((first, last)) => write!(f, ":{name}={first}-{last}")?,
                None => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lent::{Lent, Locked, Null};

    fn store(rules: &[&str], seed: u64) -> FaultStore {
        let rules: Vec<FaultRule> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        let null = Locked::new(Lent::Null(Null::new(1 << 20)));
        FaultStore::new(Arc::new(null), &rules, 512, seed)
    }

    #[test]
    fn the_nth_of_a_kind_in_a_range() {
        let store = store(&["read:lba=8-15:nth=2-3", "full:nth=1", "sync:nth=2"], 0);
        let read = |lba: u64| store.read_at(lba * 512, &mut [1; 512]).is_ok();
        let seen = [8, 7, 16, 9, 15, 14, 0].map(read);
        assert_eq!(seen, [true, true, true, false, false, true, true]);
        assert!(store.read_at(0, &mut [0; 8 * 512]).is_ok(), "ends before the range");
        let full = store.write_at(0, &[1; 512]).unwrap_err();
        assert_eq!(full, BlockError::new(ErrorKind::NoSpace, "fault=full:nth=1 struck at access 1"));
        assert_eq!(store.write_at(0, &[1; 512]), Ok(()), "it has passed");
        assert_eq!(store.zero_at(0, 512), Ok(()));
        assert_eq!([store.sync().is_ok(), store.sync().is_ok(), store.sync().is_ok()], [true, false, true]);
    }

    #[test]
    fn a_share_by_the_seed() {
        let struck = |seed| {
            let store = store(&["write:5%"], seed);
            (0..2000).map(|_| store.write_at(0, &[0; 512]).is_err()).collect::<Vec<_>>()
        };
        let count = struck(1).iter().filter(|&&struck| struck).count();
        assert!((70..130).contains(&count), "{count} of 2000 are 5 %");
        assert_eq!(struck(1), struck(1));
        assert_ne!(struck(1), struck(2));
    }

    #[test]
    fn not_ready_is_everything() {
        let store = store(&["notready:nth=1-4"], 0);
        let not_ready = |result| matches!(result, Err(BlockError { kind: ErrorKind::NotReady, .. }));
        assert!(not_ready(store.read_at(0, &mut [0; 512])) && not_ready(store.write_at(0, &[0; 512])));
        assert!(not_ready(store.zero_at(0, 512)) && not_ready(store.sync()));
        assert_eq!(store.sync(), Ok(()));
    }
}
