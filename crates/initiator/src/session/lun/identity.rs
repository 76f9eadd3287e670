//! Identity and size that a LUN reported first, compared with later reports: after a reconnect or a reconfiguration of
//! the target the same name may lead to another LUN (SPC-5 section 7.7.16, unit serial number; SAM-6 section 5.14, unit
//! attention conditions).

use wire::scsi::{Cdb, Sense, page};

/// Allocation length of INQUIRY, for standard data and VPD pages.
pub(crate) const INQUIRY_BYTES: usize = 255;
/// Length of the parameter data of READ CAPACITY.
pub(crate) const CAPACITY16_BYTES: usize = 32;
pub(crate) const CAPACITY10_BYTES: usize = 8;

/// One fact of a LUN, obtained by a command. Facts are constant, except that the size may grow.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// Name of the fact, for messages.
    pub(crate) what: &'static str,
    /// Command that reports the fact, and the maximum length of its data.
    pub(crate) cdb: Cdb,
    pub(crate) len: usize,
    /// Start and end of the parts of the data that are constant.
    parts: &'static [(usize, usize)],
    said: Vec<u8>,
    /// Length of the last block's address at the start of the data; 0 if there is none.
    last_block_len: usize,
}

/// Result of a comparison with the first report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Held {
    /// Unchanged.
    Same,
    /// The LUN has more blocks than before and is otherwise unchanged.
    Grown,
    /// Another LUN, or fewer blocks.
    No,
}

impl Known {
    /// Device type, vendor and product. The revision changes with the target's software.
    pub(crate) fn inquiry(answer: &[u8]) -> Known {
        let cdb = Cdb::Inquiry { page: None, allocation_len: INQUIRY_BYTES as u16 };
        Known::new("vendor and product", cdb, INQUIRY_BYTES, &[(0, 1), (8, 32)], answer)
    }

    /// Unit serial number.
    pub(crate) fn serial(answer: &[u8]) -> Known {
        let page = Some(page::UNIT_SERIAL_NUMBER);
        let cdb = Cdb::Inquiry { page, allocation_len: INQUIRY_BYTES as u16 };
        Known::new("serial number", cdb, INQUIRY_BYTES, &[(0, INQUIRY_BYTES)], answer)
    }

    /// Last block and block length, by READ CAPACITY (16).
    pub(crate) fn capacity16(answer: &[u8]) -> Known {
        let cdb = Cdb::ReadCapacity16 { allocation_len: CAPACITY16_BYTES as u32 };
        Known { last_block_len: 8, ..Known::new("size", cdb, CAPACITY16_BYTES, &[(0, 12)], answer) }
    }

    /// Last block and block length, by READ CAPACITY (10).
    pub(crate) fn capacity10(answer: &[u8]) -> Known {
        let parts = &[(0, CAPACITY10_BYTES)];
        let known = Known::new("size", Cdb::ReadCapacity10, CAPACITY10_BYTES, parts, answer);
        Known { last_block_len: 4, ..known }
    }

    fn new(
        what: &'static str,
        cdb: Cdb,
        len: usize,
        parts: &'static [(usize, usize)],
        answer: &[u8],
    ) -> Known {
        Known { what, cdb, len, parts, said: cut(parts, answer), last_block_len: 0 }
    }

    /// Compares a report with the last one. After a growth the new size is the reference.
    pub(crate) fn compare(&mut self, answer: &[u8]) -> Held {
        let now = cut(self.parts, answer);
        if now == self.said {
            return Held::Same;
        }
        let (before, old_rest) = self.said.split_at(self.last_block_len.min(self.said.len()));
        let (after, new_rest) = now.split_at(self.last_block_len.min(now.len()));
        // Big-endian numbers of equal length are ordered as their bytes are.
        if before.len() != after.len() || before >= after || old_rest != new_rest {
            return Held::No;
        }
        self.said = now;
        Held::Grown
    }
}

/// Constant parts of the data, as far as the data reach.
fn cut(parts: &[(usize, usize)], answer: &[u8]) -> Vec<u8> {
    let end = |at: usize| at.min(answer.len());
    parts.iter().flat_map(|&(start, stop)| &answer[end(start)..end(stop)]).copied().collect()
}

/// Effect of a unit attention on earlier commands and data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Attention {
    /// No effect: the command is issued again.
    Passing,
    /// The LUN may be another one.
    Changed,
    /// The LUN was reset and has lost its volatile cache; it may be another one as well.
    Reset,
}

impl Attention {
    /// Classifies sense data by the additional sense code (SPC-5 annex F).
    pub(crate) fn of(sense: &Sense) -> Attention {
        match (sense.asc, sense.ascq) {
            // The loss of a nexus concerns a session and not the unit.
            (0x29, 0x07) => Attention::Passing,
            // Power on, reset, or bus device reset occurred.
            (0x29, _) => Attention::Reset,
            // Target operating conditions, and capacity data, have changed.
            (0x3f, _) | (0x2a, 0x09) => Attention::Changed,
            _ => Attention::Passing,
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::scsi::SenseKey;

    use super::*;

    #[test]
    fn only_what_does_not_change_is_compared() {
        let mut answer: Vec<u8> = (0..96).collect();
        let mut known = Known::inquiry(&answer);
        answer[33] ^= 1;
        assert_eq!(known.compare(&answer), Held::Same, "another revision");
        assert_eq!(known.compare(&answer[..32]), Held::Same);
        assert_eq!(known.compare(&answer[..31]), Held::No);
        for at in [0, 8, 31] {
            let mut other = answer.clone();
            other[at] ^= 1;
            assert_eq!(known.compare(&other), Held::No, "byte {at}");
        }
        assert_eq!(Known::serial(&[0, 0x80, 0, 1, b'a']).compare(&[0, 0x80, 0, 2, b'a', b'b']), Held::No);
        assert_eq!(Known::serial(&[0, 0x80, 0, 1, b'a']).compare(&[0, 0x80, 0, 1, b'b']), Held::No);
    }

    #[test]
    fn a_lun_may_grow() {
        let sixteen = |last_block: u64, block_len: u32| {
            [&last_block.to_be_bytes()[..], &block_len.to_be_bytes(), &[0; 20]].concat()
        };
        let ten =
            |last_block: u32, block_len: u32| [last_block.to_be_bytes(), block_len.to_be_bytes()].concat();
        let mut known = Known::capacity16(&sixteen(255, 512));
        assert_eq!(known.compare(&sixteen(255, 512)), Held::Same);
        for refused in [
            sixteen(254, 512),
            sixteen(256, 4096),
            sixteen(255, 4096),
            sixteen(256, 512)[..11].to_vec(),
            vec![],
        ] {
            assert_eq!(known.compare(&refused), Held::No, "{refused:02x?}");
        }
        assert_eq!(known.compare(&sixteen(256, 512)), Held::Grown);
        assert_eq!(known.compare(&sixteen(256, 512)), Held::Same);
        assert_eq!(known.compare(&sixteen(255, 512)), Held::No, "it has shrunk since");
        let mut known = Known::capacity10(&ten(255, 512));
        assert_eq!(known.compare(&ten(u32::MAX, 512)), Held::Grown, "too many for ten bytes");
        assert_eq!(known.compare(&ten(255, 512)), Held::No);
        assert_eq!(known.compare(&ten(u32::MAX, 4096)), Held::No);
    }

    #[test]
    fn attentions() {
        for (asc, ascq, expected) in [
            (0x29, 0x00, Attention::Reset),
            (0x29, 0x03, Attention::Reset),
            (0x29, 0x07, Attention::Passing),
            (0x2a, 0x09, Attention::Changed),
            (0x2a, 0x01, Attention::Passing),
            (0x3f, 0x0e, Attention::Changed),
            (0x38, 0x07, Attention::Passing),
        ] {
            let sense = Sense {
                key: SenseKey::UnitAttention,
                asc,
                ascq,
                deferred: false,
                field: None,
                information: None,
            };
            assert_eq!(Attention::of(&sense), expected, "{asc:02X}h/{ascq:02X}h");
        }
    }
}
