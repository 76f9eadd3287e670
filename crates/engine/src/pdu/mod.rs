//! PDUs on a socket: parsing of received bytes, send queue, digests, timestamps of single PDUs.

pub(crate) mod digest;
pub(crate) mod quantum;
pub(crate) mod rx;
pub(crate) mod stamping;
pub(crate) mod tx;
