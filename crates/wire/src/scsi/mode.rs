//! MODE SENSE data: header, block descriptor, pages: SPC-5 section 7.5, SBC-4 section 6.5.

use super::data::need;
use super::{DataError, ModeForm, ModePage, PageControl};
use crate::be;

const WHAT: &str = "MODE SENSE data";
const WRITE_PROTECTED: u8 = 0x80;
const DPO_FUA: u8 = 0x10;
const LONG_LBA: u8 = 0x01;

/// What MODE SENSE returns of a direct access block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModeParameters {
    /// WP: writes are refused.
    pub write_protected: bool,
    /// DPOFUA: DPO and FUA in CDBs are heeded.
    pub dpo_fua: bool,
    /// The first block descriptor, if there is one.
    pub block_descriptor: Option<BlockDescriptor>,
    /// In the order of the data.
    pub pages: Vec<ModePage>,
}

/// The size of a logical unit as mode parameters tell it.
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

    /// Writes all the data; a caller cuts it off at the allocation length. Of [`PageControl::Changeable`] the pages
    /// say that nothing can be changed.
    ///
    /// # Panics
    /// If a value does not fit, such as a long block descriptor or 256 bytes in the form of six.
    pub fn emit(&self, form: ModeForm, page_control: PageControl) -> Vec<u8> {
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
            page.emit(page_control, &mut bytes);
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

    /// Reads what came back. Pages behind the end of `bytes` are left out.
    ///
    /// # Errors
    /// [`DataError::Truncated`] if the header or the block descriptor is cut off.
    pub fn parse(form: ModeForm, bytes: &[u8]) -> Result<Self, DataError> {
        let header_len = match form {
            ModeForm::Six => 4,
            ModeForm::Ten => 8,
        };
        need(WHAT, bytes, header_len)?;
        let (len, flags, long, descriptors_len) = match form {
            ModeForm::Six => (1 + usize::from(bytes[0]), bytes[2], false, usize::from(bytes[3])),
            ModeForm::Ten => {
                let len = 2 + usize::from(be::u16_at(bytes, 0));
                (len, bytes[3], bytes[4] & LONG_LBA != 0, usize::from(be::u16_at(bytes, 6)))
            }
        };
        let pages_at = header_len + descriptors_len;
        let bytes = &bytes[..bytes.len().min(len)];
        need(WHAT, bytes, pages_at)?;
        Ok(Self {
            write_protected: flags & WRITE_PROTECTED != 0,
            dpo_fua: flags & DPO_FUA != 0,
            block_descriptor: BlockDescriptor::parse(&bytes[header_len..pages_at], long)?,
            pages: ModePage::parse_all(&bytes[pages_at..]),
        })
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
            |parameters| parameters.emit(ModeForm::Six, PageControl::Current),
        );
    }

    #[test]
    fn ten_with_a_long_block_descriptor() {
        let descriptor = BlockDescriptor { blocks: 1 << 32, block_len: 4096, long: true };
        check(
            &["0053 00 90 01 00 0010 0000000100000000 00000000 00001000", PAGES].concat(),
            &parameters(Some(descriptor)),
            |bytes| ModeParameters::parse(ModeForm::Ten, bytes),
            |parameters| parameters.emit(ModeForm::Ten, PageControl::Current),
        );
    }

    #[test]
    fn nothing_is_changeable() {
        let bytes = parameters(None).emit(ModeForm::Six, PageControl::Changeable);
        let (ten, eighteen) = ("00".repeat(10), "00".repeat(18));
        let hex = format!("40009000 010a{ten} 0812{eighteen} 0a0a{ten} 1c0a{ten} 4a010001 00");
        assert_eq!(bytes, check::bytes(&hex));
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
        let bytes = parameters.emit(ModeForm::Six, PageControl::Current);
        assert_eq!(bytes, check::bytes("0b009008 ffffffff 00000200"));
    }
}
