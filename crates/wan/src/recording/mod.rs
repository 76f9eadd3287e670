//! Tables of a run: fates of packets (`collect`), and tracepoints of the kernel (`kernel`) on the path's connections.

mod collect;
mod connections;
mod kernel;

pub(crate) use collect::{Collector, Feed, Traffic, Window};
pub(crate) use connections::Connections;
pub(crate) use kernel::KernelTrace;
pub use kernel::KernelTraced;
