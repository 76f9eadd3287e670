//! The sans-I/O iSCSI state machines of both sides (RFC 7143): login and its keys, then the full feature phase. `nbd`
//! has the state machines of an NBD connection.
//!
//! Machines take PDUs and commands and hand out PDUs and events; they own no socket, read no clock and
//! have no opinion on how much should be outstanding.

pub mod discovery;
mod fault;
mod header;
pub mod initiator;
pub mod keys;
pub mod login;
pub mod name;
pub mod nbd;
pub mod notification;
mod outbox;
pub mod params;
pub mod peer_cpu;
mod serial;
pub mod target;
mod window;

pub use fault::{Data, Fault, Segment, Transmit};
