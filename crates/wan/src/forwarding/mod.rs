//! Forwarding: one thread reads packets from the hosts' devices, gives them to the model and delivers them on
//! schedule.
//!
//! Reading order: `pump` is the thread, `lane` one direction, `port` its sending devices, `due` the packets to
//! deliver.

mod due;
mod headers;
mod lane;
mod port;
mod pump;
mod relief;
mod ring;
mod share;
mod switch;
mod taps;
mod watch;

#[cfg(test)]
pub(crate) use headers::super_packet;
pub(crate) use lane::Lane;
pub use pump::Cost;
pub(crate) use pump::{Pump, Signals};
pub use taps::Taps;
