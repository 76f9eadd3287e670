//! Configuration of a path: the line of each direction, its impairments as options name them, and the memory they need.

mod both;
mod faults;
mod line;
mod memory;

pub use both::Both;
pub use faults::{Faults, Rates, Schedule, Time};
pub use line::{Line, Own, SUPER_PACKET_MAX_BYTES, Shape, super_packet_bytes, want_single_packets};
pub use memory::{EMPTY_PART, MEMORY_MAX_BYTES, WASTE_PART};
