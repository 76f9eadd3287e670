//! A new configuration while the target serves: preparation on a thread of its own, application in the loop.

mod apply;
pub(crate) mod prepare;
pub(crate) mod replaced_stores;
