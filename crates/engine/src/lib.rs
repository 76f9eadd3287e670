//! The engine both ends run on: connections that move PDUs, and the loop that waits for all of them.
//!
//! It knows bytes and PDUs, neither SCSI nor sessions. One loop per thread; a connection belongs to
//! one loop. Nothing here allocates, copies or makes a system call per PDU where a batch can share it.

mod connection;
mod log;
mod pacing;
mod pdu;
mod reactor;
mod tcp;
pub mod trace;

pub use connection::{Connection, Progress};
pub use log::Log;
pub use pacing::gate::Gate;
pub use pacing::steering::{Course, Pacing, Steering, Work};
pub use pdu::digest::Digests;
pub use pdu::quantum::Quantum;
pub use pdu::rx::{Landing, Receiver, Scratch, Span, Stop};
pub use pdu::stamping::{Departed, Mark, Stamped};
pub use pdu::tx::{Outgoing, Sender};
pub use reactor::{Service, Turn, run};
pub use tcp::black_hole::BlackHole;
pub use tcp::congestion::{CongestionChange, CongestionControl, RouteMemory};
pub use tcp::sample::{Moved, SAMPLE_EVERY, socket_sample, tcp_sample};
