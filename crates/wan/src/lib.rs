//! Runs a path model between the hosts of two ends and judges whether the run is valid.
//!
//! Each host is a network namespace with a device (see `device`); usually there are two, `near` and `far`. A thread
//! reads super-packets from the devices of one end, asks [`link`] when they are due, and writes them to those of the
//! other end at that time. What makes a run valid is in `docs/wan.md`. This crate decides nothing about the path: `link`
//! does.
//!
//! Reading order: [`run`] is a whole run; `host` makes a namespace, `emulator`, `pump` and `lane` move the
//! packets, `collect` and [`validity`] look at them afterwards; `kernel` records what the kernel says meanwhile.

mod buffers;
mod commands;
mod emulator;
mod error;
mod forwarding;
mod machine;
mod namespaces;
mod recording;
pub mod registry;
mod run;
pub mod selftest;
mod spec;
pub mod validity;

pub use commands::Role;
pub use error::WanError;
pub use forwarding::{Cost, Taps};
pub use namespaces::{DeviceKind, guard};
pub use recording::KernelTraced;
pub use run::{Outcome, Settings, run};
pub use spec::{Buffers, HOSTS_MAX, HostName, HostsShown, LineShown, PathShown, Side, Spec};
