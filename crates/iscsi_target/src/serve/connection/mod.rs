//! Connections: listening sockets, admission of logins, one connection and its PDUs, and the reasons of its end.

pub(crate) mod admission;
pub(crate) mod client;
pub(crate) mod end_reason;
pub(crate) mod link;
pub(crate) mod listener;
pub(crate) mod liveness;
pub(crate) mod open_sessions;
pub(crate) mod pdu_exchange;
pub(crate) mod portals;
