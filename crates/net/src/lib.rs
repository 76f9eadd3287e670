//! Sockets, namespaces, TUN devices, the clock: every system call farlun makes itself.
//!
//! The only crate with `unsafe` and `libc`; modules that need them allow them explicitly, and export safe types.
//! Protocols and policies are in other crates.
//!
//! `socket` holds TCP sockets and their options, `diag` the connections of any process, `stamps` the kernel's
//! timestamps. `device` holds network devices, `tap` copies of their packets. `polling` waits for descriptors.

pub mod clock;
mod device;
pub mod diag;
pub mod fs;
mod memory;
pub mod namespace;
mod polling;
mod process;
pub mod random;
mod socket;
pub mod stamps;
mod syscall;
pub mod tap;
pub mod terminal;
pub mod tracing;

pub use device::{interface, offload, qdisc, tun, veth};
pub use memory::aligned;
pub use namespace::Namespace;
pub use polling::{EndSignals, Events, Interest, Poll, Ready, Signal, Wake, wait};
pub use process::{child, cpu_time, limits, scheduling};
pub use socket::{TcpInfo, congestion, owner, tcp, tcp_info, threshold, zero_copy};
