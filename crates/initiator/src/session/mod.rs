//! A session: its state and its connections, the LUN behind it, and the limits and time limits of its commands.

pub(crate) mod command_limit;
pub(crate) mod command_timeout;
pub(crate) mod connection;
pub(crate) mod dead_peer;
pub(crate) mod lun_identity;
pub(crate) mod request_trace;
pub(crate) mod revalidation;
pub(crate) mod state;
