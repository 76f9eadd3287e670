//! Connections: listening sockets, one connection with its login and its PDUs, and the reasons of its end.

pub(crate) mod client;
pub(crate) mod end_reason;
pub(crate) mod listener;
pub(crate) mod liveness;
pub(crate) mod pdu_exchange;
pub(crate) mod portals;
