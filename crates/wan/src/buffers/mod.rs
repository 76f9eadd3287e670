//! Bytes of packets while the model has them: memory in chunks, and the layout of super-packets that were cut.

mod arena;
mod pieces;

pub(crate) use arena::Arena;
pub(crate) use pieces::payload_of;
