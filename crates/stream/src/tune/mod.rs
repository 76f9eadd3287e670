//! Sizes of reads and writes, found by trials.

mod search;
pub(crate) mod trial;
pub(crate) mod tuner;
