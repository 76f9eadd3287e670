//! The serving loop: listeners, connections, the device that they share.

mod client;
mod config;
mod device;
mod drain;
mod end;
mod listener;
mod memory;
mod outbox;
mod service;
mod shared;
mod shutdown;
mod slots;
mod stream;
mod turn;

pub use config::{NbdServiceConfig, NbdServiceError};
pub use service::NbdService;
pub use shared::NbdServiceTotals;
