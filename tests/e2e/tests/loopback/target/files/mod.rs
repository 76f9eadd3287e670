//! LUNs in files and block devices, with real sockets: what is answered is kept, what fails says how, and what is
//! full or broken recovers.

mod devices;
mod durable;
mod faults;
mod identity;
pub(crate) mod mounts;
mod ranges;
mod sectors;
mod session;
