//! Integers in the byte order of the host that wrote a file.

/// A byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Integers {
    Big,
    Little,
}

impl Integers {
    /// The 16 bits at `at`; the caller has checked that they are there.
    pub(super) fn u16_at(self, bytes: &[u8], at: usize) -> u16 {
        let two = [bytes[at], bytes[at + 1]];
        match self {
            Self::Big => u16::from_be_bytes(two),
            Self::Little => u16::from_le_bytes(two),
        }
    }

    /// The 32 bits at `at`; the caller has checked that they are there.
    pub(super) fn u32_at(self, bytes: &[u8], at: usize) -> u32 {
        let four = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        match self {
            Self::Big => u32::from_be_bytes(four),
            Self::Little => u32::from_le_bytes(four),
        }
    }

    /// The 64 bits at `at`; the caller has checked that they are there.
    pub(super) fn u64_at(self, bytes: &[u8], at: usize) -> u64 {
        let (first, second) = (u64::from(self.u32_at(bytes, at)), u64::from(self.u32_at(bytes, at + 4)));
        match self {
            Self::Big => first << 32 | second,
            Self::Little => second << 32 | first,
        }
    }
}
