//! Runs a path model between the hosts of two ends and judges whether the run is valid.
//!
//! Each host is a network namespace with a device (see `device`); usually there are two, `near` and `far`. A thread
//! reads super-packets from the devices of one end, asks [`link`] when they are due, and writes them to those of the
//! other end at that time. What makes a run valid is in `docs/internals/emulator.md`. This crate decides nothing about the path: `link`
//! does.
//!
//! Reading order: [`run`] is a whole run; `host` makes a namespace, `emulator`, `pump` and `lane` move the
//! packets, `collect` and [`validity`] look at them afterwards; `kernel` records what the kernel says meanwhile.

mod arena;
mod collect;
mod connections;
mod device;
mod due;
mod emulator;
mod environment;
mod error;
pub mod guard;
mod headers;
mod host;
mod kernel;
mod lane;
mod machine;
mod memory;
mod name;
mod pieces;
mod port;
mod processors;
mod pump;
pub mod registry;
mod relief;
mod roles;
mod run;
pub mod selftest;
mod share;
mod shown;
mod site;
mod spec;
mod switch;
mod taps;
pub mod validity;
mod watch;

pub use device::DeviceKind;
pub use error::WanError;
pub use kernel::KernelTraced;
pub use name::{HOSTS_MAX, HostName};
pub use pump::Cost;
pub use roles::Role;
pub use run::{Outcome, Settings, run};
pub use shown::{HostsShown, LineShown, PathShown};
pub use spec::{Buffers, Side, Spec};
pub use taps::Taps;
