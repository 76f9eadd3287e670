//! What is made of the observations, whatever the policy: rates, cuts, the product of the path, its round trip without a
//! queue, how fast a burst arrives. Nothing here decides anything.

pub(crate) mod counter;
pub(crate) mod cuts;
pub(crate) mod max_filter;
pub(crate) mod product;
pub(crate) mod train;
pub(crate) mod unqueued;
