//! Allocation of a device: extents of one state.

/// A part of a device with one state of allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Length in bytes, not 0.
    pub len_bytes: u64,
    /// Space is allocated for it.
    pub is_allocated: bool,
    /// It reads as zeros for certain.
    pub is_zero: bool,
}

impl Extent {
    /// Data: allocated, of unknown contents.
    pub fn data(len_bytes: u64) -> Extent {
        Extent { len_bytes, is_allocated: true, is_zero: false }
    }

    /// A hole: not allocated, reads as zeros.
    pub fn hole(len_bytes: u64) -> Extent {
        Extent { len_bytes, is_allocated: false, is_zero: true }
    }

    /// Appends the extent to a list; joins it with the last one of the same state.
    pub fn append_to(self, extents: &mut Vec<Extent>) {
        match extents.last_mut() {
            Some(last) if (last.is_allocated, last.is_zero) == (self.is_allocated, self.is_zero) => {
                last.len_bytes += self.len_bytes;
            }
            _ => extents.push(self),
        }
    }
}
