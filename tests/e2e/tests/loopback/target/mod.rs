//! Our target on real sockets.

pub(crate) mod files;
mod hostile;
mod security;
mod sessions;
mod target_config;
mod whole_sessions;
