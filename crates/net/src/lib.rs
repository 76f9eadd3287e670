//! Sockets, namespaces, TUN devices, the clock: every system call farlun makes itself.
//!
//! The only crate with `unsafe` and `libc`; modules that need them allow them explicitly, and export safe types.
//! Protocols and policies are in other crates.

pub mod aligned;
mod bpf;
pub mod child;
pub mod clock;
pub mod congestion;
pub mod diag;
pub mod fs;
pub mod interface;
pub mod limits;
mod mapping;
pub mod namespace;
pub mod nursery;
pub mod offload;
pub mod owner;
mod packet_ring;
mod poll;
pub mod processes;
pub mod qdisc;
pub mod random;
mod rtnetlink;
pub mod scheduling;
mod signals;
pub mod stamps;
mod syscall;
pub mod tap;
pub mod tcp;
pub mod tcp_info;
pub mod terminal;
pub mod threshold;
pub mod tracing;
pub mod tun;
pub mod user;
pub mod veth;
pub mod wait;
mod wake;
pub mod zero_copy;

pub use namespace::Namespace;
pub use poll::{Events, Interest, Poll, Ready};
pub use signals::{EndSignals, Signal};
pub use tcp_info::TcpInfo;
pub use wake::Wake;
