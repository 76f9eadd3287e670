//! Super-packets of TCP: cut into packets of MTU size (TSO), and joined again (GRO).

mod cut;
mod join;

pub use cut::{Cutter, HEADERS_MAX, PieceHeaders, TCP_CHECKSUM};
pub use join::Joint;
