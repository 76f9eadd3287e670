//! Events of a connection: refusals, errors, aborts, ends of sessions. Each kind is counted, with the first and the last one.

pub(crate) mod event;
pub(crate) mod log;
pub(crate) mod pings;
pub(crate) mod reports;
pub(crate) mod response;
pub(crate) mod waiting;
pub(crate) mod watch;
