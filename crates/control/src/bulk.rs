//! How fast a sender is let send that has a lot to send: the cap of its rate, what it
//! leaves to others, how one that comes to others gets its part, and the way back after an overflow.

pub(crate) mod beside;
pub(crate) mod cap;
pub(crate) mod newcomer;
pub(crate) mod wary;
