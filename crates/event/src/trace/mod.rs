//! Traced events, one struct each, and the sink that takes them.

pub(crate) mod congestion;
pub(crate) mod cut;
pub(crate) mod io;
pub(crate) mod kernel;
pub(crate) mod login;
pub(crate) mod packet;
pub(crate) mod request;
pub(crate) mod sink;
pub(crate) mod socket;
pub(crate) mod steered;
pub(crate) mod tapped;
pub(crate) mod window;
