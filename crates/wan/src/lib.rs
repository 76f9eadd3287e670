//! Emulates a path between the hosts of two ends and judges the validity of a run.
//!
//! Each host is a network namespace with a device; usually there are two, `near` and `far`. A thread reads
//! super-packets from the devices of one end, takes their schedule from [`link`], and writes them to the devices of
//! the other end at that time. The conditions of a valid run are in `docs/reference/wan.md`. This crate decides nothing about
//! the path: `link` does.
//!
//! Reading order: [`run()`] is a whole run; `namespaces` makes the hosts, `commands` runs programs on them,
//! `forwarding` moves the packets, `recording` writes their tables and [`validity`] judges them.

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
