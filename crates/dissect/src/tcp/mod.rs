//! TCP as seen at one tap: the state of each direction, loss and retransmission, and the reassembled byte stream.

pub(crate) mod black_hole;
pub(crate) mod direction;
mod handshake;
pub(crate) mod holes;
pub(crate) mod kind;
pub(crate) mod nagle;
pub(crate) mod ranges;
mod receive_window;
mod scoreboard;
pub(crate) mod span;
pub(crate) mod stream;
mod totals;
mod unacked;
