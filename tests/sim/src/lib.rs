//! The session machines in virtual time, for tests.
//!
//! [`Near`] and [`Far`] put as little as possible around the two sessions of `proto`: memory instead of a
//! disk, byte ranges instead of SCSI. [`Rules`] watches what they say to each other and panics where RFC 7143
//! is not kept. [`World`] lets them talk through a [`pipe::Pipe`], which is like TCP, over the stages of
//! `link`; [`tcp`] has a sender with all of TCP's recovery instead, and no session. There is no socket, no thread and no clock here; the same seeds give the same nanoseconds.

mod agree;
mod far;
pub mod frame;
mod load;
mod near;
mod order;
pub mod pipe;
mod rules;
mod spans;
pub mod tcp;
mod world;

pub use agree::{Agreed, agree};
pub use far::Far;
pub use load::{Load, Outcome};
pub use near::{Done, Near};
pub use order::{Kind, Order, content};
pub use rules::Rules;
pub use spans::Spans;
pub use world::World;

/// A PDU with its data segment, without padding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sent {
    /// The basic header segment.
    pub header: [u8; 48],
    /// The data segment.
    pub data: Vec<u8>,
}
