//! The engine both ends run on: connections that move PDUs, and the loop that waits for all of them.
//!
//! It knows bytes and PDUs, neither SCSI nor sessions. One loop per thread; a connection belongs to
//! one loop. Nothing here allocates, copies or makes a system call per PDU where a batch can share it.

mod advice;
mod connection;
mod digest;
mod gate;
mod reactor;
mod rx;
mod sample;
mod spacing;
mod stamping;
mod steering;
pub mod trace;
mod tuning;
mod tx;

pub use connection::{Connection, Progress, Quantum};
pub use digest::Digests;
pub use gate::Gate;
pub use reactor::{Service, Turn, run};
pub use rx::{Landing, Receiver, Scratch, Span, Stop};
pub use sample::{BlackHole, Moved, SAMPLE_EVERY, socket_sample, tcp_sample};
pub use stamping::{Departed, Mark, Stamped};
pub use steering::{Course, Pacing, Steering, Work};
pub use tx::{Outgoing, Sender};
