//! The policy of a connection in force: samples to the policy, and token buckets for the data that it paces.

pub(crate) mod gate;
pub(crate) mod steering;
pub(crate) mod token_bucket;
