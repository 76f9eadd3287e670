//! The path model: waiting queue, serialiser and propagation as stages that nest.
//!
//! Virtual time only: `now` is an argument everywhere, nothing is read, written or waited for. A packet is a
//! few numbers and an opaque handle; the bytes stay with whoever runs the model (`wan`, a simulation, a test).
//!
//! Every stage has the one face [`Stage`]. [`Path`] puts the stages of one direction behind each other.
//! Time is exact: a packet leaves a stage at the nanosecond the model says, whenever somebody asks.

mod bottleneck;
mod packet;
mod path;
mod propagation;
mod queue;
mod serialiser;
mod stage;

pub use bottleneck::Bottleneck;
pub use packet::{FRAMING_BYTES, Handle, Packet, wire_bytes};
pub use path::{Path, Shape};
pub use propagation::Propagation;
pub use queue::DropTail;
pub use serialiser::Serialiser;
pub use stage::{Stage, Then};
