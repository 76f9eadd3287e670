//! The serving loop: listens, logs initiators in, runs their commands on the LUNs. One loop, one thread,
//! all sessions; stores that block are called by a pool of workers.
//!
//! `connection` holds sockets and their PDUs, `session` the commands of an initiator, `stores` the work on their data,
//! `limits` the bounds on all of them. `service` is work of the loop on all connections, `reload` a new configuration.

mod config;
mod connection;
mod limits;
mod reload;
mod service;
mod session;
mod shared;
mod stats;
mod stores;

use crate::log::{self, log_some};

pub use config::{Config, InitiatorRights, LunSet, ServeError};
pub use limits::rehearsal::rehearse;
pub use log::log;
pub use reload::prepare::{Reload, Reloaded};
pub use reload::replaced_stores::{CutOff, Grown};
pub use service::target::Target;
use shared::Shared;
pub use stats::Stats;
