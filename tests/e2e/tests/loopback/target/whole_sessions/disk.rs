//! What a LUN should hold, block by block, and which blocks a round of commands may still use: commands that are
//! under way together have no order, so they do not touch what one of them writes.

use super::dice::Dice;

pub(crate) const BLOCK: usize = 512;
/// Small, so that commands meet.
pub(crate) const BLOCKS: usize = 256;
const LONGEST: usize = 24;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Free,
    Read,
    Written,
}

pub(crate) struct Disk {
    bytes: Vec<u8>,
    /// A write ended without an answer: the block holds the old or the new or some of both.
    is_known: Vec<bool>,
    uses: Vec<Use>,
}

impl Disk {
    pub(crate) fn zeroed() -> Disk {
        Disk { bytes: vec![0; BLOCKS * BLOCK], is_known: vec![true; BLOCKS], uses: vec![Use::Free; BLOCKS] }
    }

    pub(crate) fn begin_round(&mut self) {
        self.uses.fill(Use::Free);
    }

    /// Blocks to read or to write in this round: first and how many, if some were found.
    pub(crate) fn choose(&mut self, dice: &mut Dice, writes: bool) -> Option<(usize, usize)> {
        for _ in 0..8 {
            let blocks = 1 + dice.below(LONGEST);
            let lba = dice.below(BLOCKS - blocks + 1);
            let uses = &mut self.uses[lba..lba + blocks];
            if uses.iter().all(|found| *found == Use::Free || !writes && *found == Use::Read) {
                uses.fill(if writes { Use::Written } else { Use::Read });
                return Some((lba, blocks));
            }
        }
        None
    }

    pub(crate) fn write(&mut self, lba: usize, data: &[u8]) {
        self.bytes[lba * BLOCK..][..data.len()].copy_from_slice(data);
        self.is_known[lba..lba + data.len() / BLOCK].fill(true);
    }

    pub(crate) fn forget(&mut self, lba: usize, blocks: usize) {
        self.is_known[lba..lba + blocks].fill(false);
    }

    /// The bytes, if all of them are known.
    pub(crate) fn known(&self, lba: usize, blocks: usize) -> Option<&[u8]> {
        let is_known = self.is_known[lba..lba + blocks].iter().all(|known| *known);
        is_known.then(|| &self.bytes[lba * BLOCK..][..blocks * BLOCK])
    }

    /// Panics unless a read that began at `lba` brought what is there, as far as that is known.
    #[track_caller]
    pub(crate) fn expect(&self, lba: usize, data: &[u8]) {
        for (block, found) in (lba..).zip(data.chunks(BLOCK)) {
            let expected = &self.bytes[block * BLOCK..][..found.len()];
            assert!(!self.is_known[block] || found == expected, "block {block} holds something else");
        }
    }
}
