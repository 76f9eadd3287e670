//! Local devices: files and block devices.

mod device;
mod file;
mod luck;
mod open;
mod store;
mod watched;

pub use open::{OpenAs, OpenError};
pub use store::FileStore;
pub use watched::{Finding, Watched};
