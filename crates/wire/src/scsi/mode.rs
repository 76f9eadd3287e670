//! MODE SENSE data: header, block descriptor, pages: SPC-5 section 7.5, SBC-4 section 6.5.

use super::data::need;
use super::{DataError, ModeForm, ModePage};
use crate::be;

const WHAT: &str = "MODE SENSE data";
const WRITE_PROTECTED: u8 = 0x80;
const DPO_FUA: u8 = 0x10;
const LONG_LBA: u8 = 0x01;

/// MODE SENSE data of a direct access block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModeParameters {
    /// WP: writes are refused.
    pub write_protected: bool,
    /// DPOFUA: DPO and FUA in CDBs are heeded.
    pub dpo_fua: bool,
    /// First block descriptor; `None` without one.
    pub block_descriptor: Option<BlockDescriptor>,
    /// In the order of the data.
    pub pages: Vec<ModePage>,
}

/// Size of a logical unit in mode parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockDescriptor {
    /// Logical blocks; 2^32 − 1 in a short descriptor means that many or more.
    pub blocks: u64,
    /// Bytes of a logical block; 24 bits in a short descriptor.
    pub block_len: u32,
    /// Long LBA mode parameter block descriptor (16 bytes), only with a header of ten-byte commands.
    pub long: bool,
}

impl ModeParameters {
    /// WCE of the caching page, None if the page is not there: whether data is acknowledged before it is stored.
    pub fn write_cache(&self) -> Option<bool> {
        self.pages.iter().find_map(|page| match *page {
            ModePage::Caching { write_cache, .. } => Some(write_cache),
            _ => None,
        })
    }

    /// Writes all the data; a caller cuts it off at the allocation length.
    ///
    /// # Panics
    /// If a value does not fit, such as a long block descriptor or 256 bytes in the form of six.
    pub fn emit(&self, form: ModeForm) -> Vec<u8> {
        let mut descriptor = Vec::new();
        if let Some(block_descriptor) = self.block_descriptor {
            block_descriptor.emit(&mut descriptor);
        }
        let flags =
            if self.write_protected { WRITE_PROTECTED } else { 0 } | if self.dpo_fua { DPO_FUA } else { 0 };
        let long = self.block_descriptor.is_some_and(|descriptor| descriptor.long);
        let mut bytes = match form {
            ModeForm::Six => {
                assert!(!long, "a long block descriptor in MODE SENSE (6)");
                vec![0, 0, flags, descriptor.len() as u8]
            }
            ModeForm::Ten => vec![0, 0, 0, flags, u8::from(long) * LONG_LBA, 0, 0, descriptor.len() as u8],
        };
        bytes.append(&mut descriptor);
        for page in &self.pages {
            page.emit(&mut bytes);
        }
        match form {
            ModeForm::Six => {
                bytes[0] = u8::try_from(bytes.len() - 1).expect("MODE SENSE (6) returns at most 256 bytes");
            }
            ModeForm::Ten => {
                let len =
                    u16::try_from(bytes.len() - 2).expect("MODE SENSE (10) returns at most 65537 bytes");
                be::put_u16(&mut bytes, 0, len);
            }
        }
        bytes
    }

    /// Reads the returned data. Pages behind the end of `bytes` are left out.
    ///
    /// # Errors
    /// [`DataError::Truncated`] if the header or the block descriptor is truncated.
    pub fn parse(form: ModeForm, bytes: &[u8]) -> Result<Self, DataError> {
        need(WHAT, bytes, header_len(form))?;
        let len = match form {
            ModeForm::Six => 1 + usize::from(bytes[0]),
            ModeForm::Ten => 2 + usize::from(be::u16_at(bytes, 0)),
        };
        Self::parse_whole(form, &bytes[..bytes.len().min(len)])
    }

    /// Reads a parameter list of MODE SELECT, in which the length field does not count.
    ///
    /// # Errors
    /// [`DataError::Truncated`] if it is cut off; [`DataError::Value`] if a page has something set that
    /// [`ModePage`] does not know.
    pub fn parse_list(form: ModeForm, bytes: &[u8]) -> Result<Self, DataError> {
        let list = Self::parse_whole(form, bytes)?;
        let mut pages = Vec::new();
        for page in &list.pages {
            page.emit(&mut pages);
        }
        let pages_at = header_len(form) + descriptors_len(form, bytes);
        let found = &bytes[pages_at..];
        if found.len() > pages.len() {
            return Err(DataError::Truncated { what: WHAT, expected: bytes.len() + 1, found: bytes.len() });
        }
        match found.iter().zip(&pages).position(|(found, known)| found != known) {
            None => Ok(list),
            Some(at) => Err(DataError::Value {
                what: WHAT,
                at: pages_at + at,
                expected: "only what is known of a page",
                found: found[at].into(),
            }),
        }
    }

    /// The WP bit of a mode parameter header, whatever follows it; `None` if the header is not all there.
    pub fn is_write_protected(form: ModeForm, bytes: &[u8]) -> Option<bool> {
        let at = match form {
            ModeForm::Six => 2,
            ModeForm::Ten => 3,
        };
        (bytes.len() >= header_len(form)).then(|| bytes[at] & WRITE_PROTECTED != 0)
    }

    fn parse_whole(form: ModeForm, bytes: &[u8]) -> Result<Self, DataError> {
        let header_len = header_len(form);
        need(WHAT, bytes, header_len)?;
        let (flags, long) = match form {
            ModeForm::Six => (bytes[2], false),
            ModeForm::Ten => (bytes[3], bytes[4] & LONG_LBA != 0),
        };
        let pages_at = header_len + descriptors_len(form, bytes);
        need(WHAT, bytes, pages_at)?;
        Ok(Self {
            write_protected: flags & WRITE_PROTECTED != 0,
            dpo_fua: flags & DPO_FUA != 0,
            block_descriptor: BlockDescriptor::parse(&bytes[header_len..pages_at], long)?,
            pages: ModePage::parse_all(&bytes[pages_at..]),
        })
    }
}

const fn header_len(form: ModeForm) -> usize {
    match form {
        ModeForm::Six => 4,
        ModeForm::Ten => 8,
    }
}

/// Bytes of block descriptors, according to a whole header.
fn descriptors_len(form: ModeForm, bytes: &[u8]) -> usize {
    match form {
        ModeForm::Six => bytes[3].into(),
        ModeForm::Ten => be::u16_at(bytes, 6).into(),
    }
}

impl BlockDescriptor {
    fn emit(self, bytes: &mut Vec<u8>) {
        if self.long {
            bytes.extend_from_slice(&self.blocks.to_be_bytes());
            bytes.extend_from_slice(&[0; 4]);
            bytes.extend_from_slice(&self.block_len.to_be_bytes());
        } else {
            assert!(self.block_len < 1 << 24, "a block of {} bytes", self.block_len);
            let blocks = u32::try_from(self.blocks).unwrap_or(u32::MAX);
            bytes.extend_from_slice(&blocks.to_be_bytes());
            bytes.extend_from_slice(&self.block_len.to_be_bytes());
        }
    }

    fn parse(bytes: &[u8], long: bool) -> Result<Option<Self>, DataError> {
        if bytes.is_empty() {
            return Ok(None);
        }
        need("mode parameter block descriptor", bytes, if long { 16 } else { 8 })?;
        Ok(Some(if long {
            Self { blocks: be::u64_at(bytes, 0), block_len: be::u32_at(bytes, 12), long }
        } else {
            Self { blocks: u64::from(be::u32_at(bytes, 0)), block_len: be::u24_at(bytes, 5), long }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scsi::check::{self, check};

    fn parameters(block_descriptor: Option<BlockDescriptor>) -> ModeParameters {
        ModeParameters {
            write_protected: true,
            dpo_fua: true,
            block_descriptor,
            pages: vec![
                ModePage::ErrorRecovery { reallocate_writes: true, reallocate_reads: false },
                ModePage::Caching { write_cache: true, read_cache_off: false },
                ModePage::Control {
                    descriptor_sense: true,
                    queue_algorithm: 1,
                    write_protect: true,
                    task_aborted_status: true,
                },
                ModePage::InformationalExceptions { disabled: true, method: 3 },
                ModePage::Other { page: 0x0a, subpage: Some(1), body: vec![7] },
            ],
        }
    }

    const PAGES: &str = "010a 80000000000000000000 0812 040000000000000000000000000000000000 \
                         0a0a 04100840000000000000 1c0a 08030000000000000000 4a010001 07";

    #[test]
    fn six() {
        let descriptor = BlockDescriptor { blocks: 0x8000, block_len: 512, long: false };
        check(
            &["48009008 00008000 00000200", PAGES].concat(),
            &parameters(Some(descriptor)),
            |bytes| ModeParameters::parse(ModeForm::Six, bytes),
            |parameters| parameters.emit(ModeForm::Six),
        );
    }

    #[test]
    fn ten_with_a_long_block_descriptor() {
        let descriptor = BlockDescriptor { blocks: 1 << 32, block_len: 4096, long: true };
        check(
            &["0053 00 90 01 00 0010 0000000100000000 00000000 00001000", PAGES].concat(),
            &parameters(Some(descriptor)),
            |bytes| ModeParameters::parse(ModeForm::Ten, bytes),
            |parameters| parameters.emit(ModeForm::Ten),
        );
    }

    #[test]
    fn a_list_of_mode_select_has_no_length() {
        let hex = ["00000008 00000000 00000200", "0812 040000000000000000000000000000000000"].concat();
        let list = ModeParameters::parse_list(ModeForm::Six, &check::bytes(&hex)).expect("whole list");
        assert_eq!(list.write_cache(), Some(true));
        assert_eq!(list.block_descriptor.map(|found| (found.blocks, found.block_len)), Some((0, 512)));
        let cut = check::bytes("00000000 0812 0400");
        assert!(ModeParameters::parse_list(ModeForm::Six, &cut).is_err());
        assert!(ModeParameters::parse_list(ModeForm::Ten, &[0; 7]).is_err());
        let ten = ModeParameters::parse_list(ModeForm::Ten, &[0; 8]).expect("whole list");
        assert!(ten.pages.is_empty());
    }

    #[test]
    fn reads_the_pages_of_tgt() {
        // It sends two zero bytes too many, which read as an empty page 0.
        let hex = "61001000 020e8080000a00000000000000000000 08121400ffff0000ffffffff8014000000000000 \
                   0a0a02100000000000000200 4a01001c04000000000000000000000000000000000000000000000000000000 \
                   1c0a08000000000000000000 0000";
        let parameters = ModeParameters::parse(ModeForm::Six, &check::bytes(hex)).expect("whole data");
        assert!(!parameters.write_protected && parameters.dpo_fua);
        assert_eq!(parameters.write_cache(), Some(true));
        assert_eq!(
            parameters.pages.iter().map(ModePage::page).collect::<Vec<_>>(),
            [0x02, 0x08, 0x0a, 0x0a, 0x1c, 0]
        );
    }

    #[test]
    fn a_size_that_a_short_descriptor_cannot_tell_is_capped() {
        let descriptor = BlockDescriptor { blocks: 1 << 32, block_len: 512, long: false };
        let parameters = ModeParameters { pages: Vec::new(), ..parameters(Some(descriptor)) };
        let bytes = parameters.emit(ModeForm::Six);
        assert_eq!(bytes, check::bytes("0b009008 ffffffff 00000200"));
    }

    #[test]
    fn write_protection_is_told_by_the_header_alone() {
        // A header whose pages are odd, or cut off.
        for (form, bytes, expected) in [
            (ModeForm::Six, "1f008000 3f", Some(true)),
            (ModeForm::Six, "1f001000", Some(false)),
            (ModeForm::Six, "1f0080", None),
            (ModeForm::Ten, "001e0080 00000000", Some(true)),
            (ModeForm::Ten, "001e0080 000000", None),
        ] {
            assert_eq!(ModeParameters::is_write_protected(form, &check::bytes(bytes)), expected, "{bytes}");
        }
    }
}
