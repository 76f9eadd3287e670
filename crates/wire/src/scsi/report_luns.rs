//! REPORT LUNS data: SPC-5 section 6.33.

use super::data::need;
use super::{DataError, Lun};
use crate::be;

const HEADER_LEN: usize = 8;

/// The LUNs of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportLuns {
    /// In the order of the list.
    pub luns: Vec<Lun>,
}

impl ReportLuns {
    /// Writes the whole list; a caller cuts it off at the allocation length.
    ///
    /// # Panics
    /// If there are more than 2^29 − 1 LUNs.
    pub fn emit(&self) -> Vec<u8> {
        let len = u32::try_from(self.luns.len() * 8).expect("the list length has 32 bits");
        let mut bytes = Vec::with_capacity(HEADER_LEN + self.luns.len() * 8);
        bytes.extend_from_slice(&len.to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        for lun in &self.luns {
            bytes.extend_from_slice(&lun.0.to_be_bytes());
        }
        bytes
    }

    /// Reads the whole list.
    ///
    /// # Errors
    /// [`DataError::Truncated`] if the list is longer than `bytes`: ask again with the length it expects.
    pub fn parse(bytes: &[u8]) -> Result<Self, DataError> {
        const WHAT: &str = "REPORT LUNS data";
        need(WHAT, bytes, HEADER_LEN)?;
        let end = HEADER_LEN.saturating_add(be::u32_at(bytes, 0) as usize);
        need(WHAT, bytes, end)?;
        let luns = bytes[HEADER_LEN..end].chunks_exact(8).map(|lun| Lun(be::u64_at(lun, 0))).collect();
        Ok(Self { luns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scsi::check::{bytes, check};

    #[test]
    fn writes_what_it_reads() {
        let list = ReportLuns { luns: vec![Lun::from_number(0), Lun::from_number(300)] };
        let hex = "00000010 00000000 0000000000000000 412c000000000000";
        check(hex, &list, ReportLuns::parse, ReportLuns::emit);
    }

    #[test]
    fn a_cut_off_list_says_how_much_to_ask_for() {
        let error = ReportLuns::parse(&bytes("00000010 00000000 0000000000000000")).expect_err("cut off");
        assert_eq!(error.to_string(), "REPORT LUNS data has 16 bytes, expected at least 24");
    }
}
