//! Hosts as network namespaces: the device and the settings of each, and the process that ends what runs in them.

mod device;
pub mod guard;
mod host;

pub use device::DeviceKind;
pub(crate) use device::{Device, READ_AHEAD_PACKETS};
pub(crate) use host::{Drops, Host};
