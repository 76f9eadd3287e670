//! The path model: loss, waiting queue, serialiser, propagation and what else happens, as stages that nest.
//!
//! Virtual time only: `now` is an argument everywhere, nothing is read, written or waited for. A packet is a
//! few numbers and an opaque handle; the bytes stay with whoever runs the model (`wan`, a simulation, a test).
//!
//! Every stage has the one face [`Stage`], and what decides at the entry has the face [`Gate`]. [`Path`] puts those of
//! one direction behind each other, as a [`Line`] says. Time is exact: a packet leaves a stage at the nanosecond the
//! model says, whenever somebody asks. Chance is exact too: what happens to the n-th packet of a direction follows
//! from the seed and n alone ([`Dice`]).

mod both;
mod bottleneck;
mod bottlenecks;
mod coalesce;
mod cut;
mod departures;
mod dice;
mod duplicate;
mod faults;
mod gates;
mod jitter;
mod join;
mod line;
mod merge;
mod packet;
mod path;
mod propagation;
mod queue;
mod reorder;
mod room;
mod serialiser;
mod stage;
mod tick;

pub use both::Both;
pub use bottleneck::Bottleneck;
pub use bottlenecks::Bottlenecks;
pub use coalesce::Coalesce;
pub use cut::{Cutter, HEADERS_MAX, PieceHeaders, TCP_CHECKSUM};
pub use dice::{Dice, Share, ShareError};
pub use duplicate::Duplicate;
pub use faults::{Faults, Rates, Schedule, Time};
pub use gates::{Contract, Gate, Loss, LossModel, Outage, Outages, Policer};
pub use jitter::{Jitter, JitterModel};
pub use join::Joint;
pub use line::{Line, Own, SUPER_PACKET_MAX_BYTES, Shape, super_packet_bytes, want_single_packets};
pub use merge::{Merge, SMALL_BYTES};
pub use packet::{FRAMING_BYTES, Handle, Packet, wire_bytes};
pub use path::Path;
pub use propagation::Propagation;
pub use queue::{DropTail, Limit};
pub use reorder::{Reorder, Reordering};
pub use room::{EMPTY_PART, MEMORY_MAX_BYTES, WASTE_PART};
pub use serialiser::Serialiser;
pub use stage::{Dropped, Stage, Then};
pub use tick::Tick;
