//! The path model: loss, waiting queue, serialiser, propagation and what else happens, as stages that nest.
//!
//! Virtual time only: `now` is an argument everywhere, nothing is read, written or waited for. A packet is a
//! few numbers and an opaque handle; the bytes stay with whoever runs the model (`wan`, a simulation, a test).
//!
//! Every stage has the one face [`Stage`], and what decides at the entry has the face [`Gate`]. [`Path`] puts those of
//! one direction behind each other, as a [`Line`] says. Time is exact: a packet leaves a stage at the nanosecond the
//! model says, whenever somebody asks. Chance is exact too: what happens to the n-th packet of a direction follows
//! from the seed and n alone ([`Dice`]).

mod bottleneck;
mod config;
mod dice;
mod impairments;
mod packet;
mod path;
mod propagation;
mod segmentation;
mod stage;

pub use bottleneck::{Bottleneck, Bottlenecks, DropTail, Limit, Serialiser};
pub use config::{
    Both, EMPTY_PART, Faults, Line, MEMORY_MAX_BYTES, Own, Rates, SUPER_PACKET_MAX_BYTES, Schedule, Shape,
    Time, WASTE_PART, super_packet_bytes, want_single_packets,
};
pub use dice::{Dice, Share, ShareError};
pub use impairments::{
    Coalesce, Contract, Duplicate, Gate, Jitter, JitterModel, Loss, LossModel, Merge, Outage, Outages,
    Policer, Reorder, Reordering, SMALL_BYTES, Tick,
};
pub use packet::{FRAMING_BYTES, Handle, Packet, wire_bytes};
pub use path::Path;
pub use propagation::Propagation;
pub use segmentation::{Cutter, HEADERS_MAX, Joint, PieceHeaders, TCP_CHECKSUM};
pub use stage::{Dropped, Stage, Then};
