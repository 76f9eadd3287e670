//! Runs a path model between two namespaces and judges whether the run is valid.
//!
//! Two network namespaces, `near` and `far`, with a TUN device each. A thread reads super-packets from one
//! device, asks [`link`] when they are due, and writes them to the other device at that time. See design.md,
//! "Measuring in the lab". This crate decides nothing about the path: `link` does.
//!
//! Reading order: [`run`] is a whole run; `host` makes a namespace, `emulator`, `pump` and `lane` move the
//! packets, `collect` and [`validity`] look at them afterwards.

mod arena;
mod collect;
mod emulator;
mod error;
pub mod guard;
mod headers;
mod host;
mod lane;
mod pump;
pub mod registry;
mod roles;
mod run;
pub mod selftest;
mod shown;
mod spec;
pub mod validity;
mod watch;

pub use error::WanError;
pub use pump::Cost;
pub use run::{Outcome, Role, Settings, run};
pub use shown::{LineShown, PathShown};
pub use spec::{Environment, Side, Spec};
