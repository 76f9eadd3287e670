//! How fast a sender is let send that has a lot to send: the cap of its rate, what it
//! leaves to others, and the way back after an overflow.

pub(crate) mod beside;
pub(crate) mod cap;
pub(crate) mod wary;
