//! TCP sockets: options, statistics, congestion control, zero-copy transmission, and the processes that own them.

pub(crate) mod bpf;
pub mod congestion;
pub mod owner;
pub mod tcp;
pub mod tcp_info;
pub mod threshold;
pub mod zero_copy;

pub use tcp_info::TcpInfo;
