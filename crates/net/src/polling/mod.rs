//! Waiting for sockets, for other threads and for signals.

mod poll;
mod signals;
pub mod wait;
mod wake;

pub use poll::{Events, Interest, Poll, Ready};
pub use signals::{EndSignals, Signal};
pub use wake::Wake;
