//! Login: from the name of a target to a session with all its connections.

pub(crate) mod chap;
pub(crate) mod connection_login;
pub(crate) mod establishment;
pub(crate) mod local_end;
pub(crate) mod name_resolution;
