//! How the data of a lone request go out, and in which order where those of several meet.

pub(crate) mod crowd;
pub(crate) mod order;
pub(crate) mod space;
