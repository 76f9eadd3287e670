//! Bounds on the peers of a target: memory for data, memory for unread PDUs, connections, and time of turns.

pub(crate) mod budget;
pub(crate) mod rehearsal;
mod session_memory;
pub(crate) mod slots;
pub(crate) mod turns;
pub(crate) mod unread;
