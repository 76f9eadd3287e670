//! Storage of a LUN, and the two ways in which its bytes are reached.
//!
//! The serving loop matches on a [`Backend`] once per command. [`Lent`] is memory that the loop of the LUN owns:
//! Data-In is written to the socket from the slice, Data-Out is read from the socket into it, without a copy, a lock or
//! a thread. A [`BlockingStore`] is called by a pool of workers, several at once, with buffers of their own.
//!
//! Offsets are bytes from the start of the LUN; [`crate::scsi`] has checked them against its size. Sense data of a
//! failure are in `scsi/failure.rs`.

use std::sync::Arc;

use block::{BlockingStore, Lent, RANGE_MAX_BYTES, WRITTEN_RANGE_MAX_BYTES};

/// The bytes of one LUN.
#[derive(Debug)]
pub enum Backend {
    /// Served inline by the reactor that owns it.
    Inline(Lent),
    /// Served by a pool of workers.
    Blocking(Arc<dyn BlockingStore>),
}

impl Backend {
    /// Size in bytes.
    pub fn len_bytes(&self) -> u64 {
        match self {
            Backend::Inline(inline) => inline.len_bytes(),
            Backend::Blocking(store) => store.len_bytes(),
        }
    }

    /// The longest stretch that one command unmaps or fills. The command must end before initiators give up, which most
    /// do after half a minute.
    pub fn range_max_bytes(&self) -> u64 {
        match self {
            Backend::Blocking(store) if !store.makes_zeros() => WRITTEN_RANGE_MAX_BYTES,
            Backend::Blocking(_) | Backend::Inline(_) => RANGE_MAX_BYTES,
        }
    }

    /// Optimal unmap granularity in bytes. RAM has no preference.
    pub fn granularity_bytes(&self) -> u32 {
        match self {
            Backend::Inline(_) => 1,
            Backend::Blocking(store) => store.granularity_bytes(),
        }
    }

    /// Returns true if a power loss can lose an acknowledged write on an otherwise non-volatile medium (a volatile
    /// write cache, WCE). A memory LUN returns false: a flush would have no medium to reach.
    pub fn has_write_cache(&self) -> bool {
        match self {
            Backend::Inline(_) => false,
            Backend::Blocking(store) => store.has_write_cache(),
        }
    }
}
