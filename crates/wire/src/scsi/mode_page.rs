//! Mode pages: SPC-5 section 7.5.7 and following, SBC-4 section 6.5.
//!
//! Each page has only the fields that this project sets or reads; the rest is zero.

use crate::be;

/// A mode page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModePage {
    /// Page 01h: read-write error recovery.
    ErrorRecovery {
        /// AWRE: bad blocks are replaced on writes.
        reallocate_writes: bool,
        /// ARRE: bad blocks are replaced on reads.
        reallocate_reads: bool,
    },
    /// Page 08h: caching.
    Caching {
        /// WCE: writes are acknowledged before they are stored.
        write_cache: bool,
        /// RCD: reads never come from a cache.
        read_cache_off: bool,
    },
    /// Page 0Ah: control.
    Control {
        /// D_SENSE: sense data comes in descriptor format.
        descriptor_sense: bool,
        /// QUEUE ALGORITHM MODIFIER, 4 bits: 0 keeps the order of writes and reads, 1 does not.
        queue_algorithm: u8,
        /// SWP: writes are refused.
        write_protect: bool,
        /// TAS: tasks that another initiator aborts end with TASK ABORTED.
        task_aborted_status: bool,
    },
    /// Page 1Ch: informational exceptions control.
    InformationalExceptions {
        /// DEXCPT: nothing is reported.
        disabled: bool,
        /// MRIE, 4 bits: how it is reported.
        method: u8,
    },
    /// Any other page, and subpages.
    Other {
        /// Page code, 6 bits.
        page: u8,
        /// Subpage code of a page in subpage format.
        subpage: Option<u8>,
        /// Bytes behind the page's header.
        body: Vec<u8>,
    },
}

/// PS and SPF in the first byte; PS is never set, since pages cannot be saved.
const SUBPAGE_FORMAT: u8 = 0x40;

impl ModePage {
    /// Page code of read-write error recovery.
    pub const ERROR_RECOVERY: u8 = 0x01;
    /// Page code of caching.
    pub const CACHING: u8 = 0x08;
    /// Page code of control.
    pub const CONTROL: u8 = 0x0a;
    /// Page code of informational exceptions control.
    pub const INFORMATIONAL_EXCEPTIONS: u8 = 0x1c;
    /// The page code that asks for all pages.
    pub const ALL: u8 = 0x3f;

    /// Page code, 6 bits.
    pub const fn page(&self) -> u8 {
        match self {
            Self::ErrorRecovery { .. } => Self::ERROR_RECOVERY,
            Self::Caching { .. } => Self::CACHING,
            Self::Control { .. } => Self::CONTROL,
            Self::InformationalExceptions { .. } => Self::INFORMATIONAL_EXCEPTIONS,
            Self::Other { page, .. } => *page,
        }
    }

    /// Appends the page.
    ///
    /// # Panics
    /// If a value does not fit into its field.
    pub(super) fn emit(&self, bytes: &mut Vec<u8>) {
        let mut body = match *self {
            Self::ErrorRecovery { reallocate_writes, reallocate_reads } => {
                let mut body = vec![0; 10];
                body[0] = u8::from(reallocate_writes) << 7 | u8::from(reallocate_reads) << 6;
                body
            }
            Self::Caching { write_cache, read_cache_off } => {
                let mut body = vec![0; 18];
                body[0] = u8::from(write_cache) << 2 | u8::from(read_cache_off);
                body
            }
            Self::Control { descriptor_sense, queue_algorithm, write_protect, task_aborted_status } => {
                assert!(queue_algorithm < 16, "queue algorithm modifier {queue_algorithm}");
                let mut body = vec![0; 10];
                body[0] = u8::from(descriptor_sense) << 2;
                body[1] = queue_algorithm << 4;
                body[2] = u8::from(write_protect) << 3;
                body[3] = u8::from(task_aborted_status) << 6;
                body
            }
            Self::InformationalExceptions { disabled, method } => {
                assert!(method < 16, "method of reporting {method}");
                let mut body = vec![0; 10];
                body[0] = u8::from(disabled) << 3;
                body[1] = method;
                body
            }
            Self::Other { ref body, .. } => body.clone(),
        };
        let page = self.page();
        assert!(page <= Self::ALL, "mode page {page:#04x}");
        match *self {
            Self::Other { subpage: Some(subpage), .. } => {
                let len = u16::try_from(body.len()).expect("a subpage has at most 65535 bytes");
                bytes.extend_from_slice(&[SUBPAGE_FORMAT | page, subpage]);
                bytes.extend_from_slice(&len.to_be_bytes());
            }
            _ => {
                let len = u8::try_from(body.len()).expect("a page has at most 255 bytes");
                bytes.extend_from_slice(&[page, len]);
            }
        }
        bytes.append(&mut body);
    }

    /// Reads pages up to the first that is cut off.
    pub(super) fn parse_all(mut bytes: &[u8]) -> Vec<Self> {
        let mut pages = Vec::new();
        while let Some((page, rest)) = Self::split(bytes) {
            pages.push(page);
            bytes = rest;
        }
        pages
    }

    /// The first page, and the bytes behind it.
    fn split(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (&first, &second) = (bytes.first()?, bytes.get(1)?);
        let page = first & 0x3f;
        if first & SUBPAGE_FORMAT != 0 {
            let len = be::u16_at(bytes.get(2..4)?, 0);
            let (body, rest) = bytes[4..].split_at_checked(usize::from(len))?;
            return Some((Self::Other { page, subpage: Some(second), body: body.to_vec() }, rest));
        }
        let (body, rest) = bytes[2..].split_at_checked(usize::from(second))?;
        Some((Self::from_body(page, body), rest))
    }

    fn from_body(page: u8, body: &[u8]) -> Self {
        match (page, body.len()) {
            (Self::ERROR_RECOVERY, 1..) => Self::ErrorRecovery {
                reallocate_writes: body[0] & 0x80 != 0,
                reallocate_reads: body[0] & 0x40 != 0,
            },
            (Self::CACHING, 1..) => {
                Self::Caching { write_cache: body[0] & 0x04 != 0, read_cache_off: body[0] & 0x01 != 0 }
            }
            (Self::CONTROL, 4..) => Self::Control {
                descriptor_sense: body[0] & 0x04 != 0,
                queue_algorithm: body[1] >> 4,
                write_protect: body[2] & 0x08 != 0,
                task_aborted_status: body[3] & 0x40 != 0,
            },
            (Self::INFORMATIONAL_EXCEPTIONS, 2..) => {
                Self::InformationalExceptions { disabled: body[0] & 0x08 != 0, method: body[1] & 0x0f }
            }
            _ => Self::Other { page, subpage: None, body: body.to_vec() },
        }
    }
}
