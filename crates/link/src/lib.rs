//! The path model: impairments at the entry, waiting queue, serialiser, propagation and impairments of the line, as
//! stages that nest.
//!
//! Virtual time only: `now` is an argument everywhere, and no I/O takes place. A packet is a few numbers and an
//! opaque handle; the caller of the model (`wan`, a simulation, a test) keeps the bytes.
//!
//! Every stage implements [`Stage`], every decision at the entry [`Gate`]. [`Path`] chains those of one direction as
//! a [`Line`] configures them. Time is exact: a packet leaves a stage at the nanosecond of the model, independent of
//! the time of the call. Chance is exact too: the fate of the n-th packet of a direction follows from the seed and n
//! alone ([`Dice`]).

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
