//! State of LUNs that outlives the target: reservations, identities of stores, and the register of nexuses.

pub(crate) mod atomic_file;
pub(crate) mod file_names;
pub(crate) mod nexus_register;
pub(crate) mod reservation_file;
pub(crate) mod store_identity;
