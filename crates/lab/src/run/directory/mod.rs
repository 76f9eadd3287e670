//! The directory of a run: its lock, the files of its LUNs, and the cells of an earlier run that are kept.

mod lock;
pub(super) mod resume;
pub(super) mod stores;

pub(crate) use lock::Lock;
pub(super) use resume::Conditions;
pub(super) use stores::Stores;
