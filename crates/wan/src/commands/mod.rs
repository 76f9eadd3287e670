//! Commands on the hosts of a run: their environment, their start, their output and their end.

mod environment;
mod role;
mod site;

pub(crate) use environment::environment;
pub use role::Role;
pub(crate) use site::{HostCommand, Site, rest};
