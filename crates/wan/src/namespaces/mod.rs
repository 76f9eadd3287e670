//! Hosts as network namespaces: the device and the settings of each, and the guard process that ends their processes.

mod device;
pub mod guard;
mod host;

pub use device::DeviceKind;
pub(crate) use device::{Device, READ_AHEAD_PACKETS};
pub(crate) use host::{Drops, Host};
