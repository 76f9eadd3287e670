//! A session: its state and its connections, its outstanding requests, and the LUN behind it.

pub(crate) mod command_timeout;
mod completion;
pub(crate) mod connection;
pub(crate) mod dead_peer;
pub(crate) mod lun;
pub(crate) mod payload;
pub(crate) mod pdu_exchange;
pub(crate) mod request_trace;
pub(crate) mod requests;
pub(crate) mod state;
