//! A connection as the kernel reports it: identity, addresses, buffers, statistics.

use std::net::SocketAddr;

use crate::socket::tcp_info::TcpInfo;

/// `struct inet_diag_sockid`: ports, addresses, interface, cookie.
pub(super) const ID_BYTES: usize = 48;

/// Identity of a connection in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SocketId {
    pub(super) family: u8,
    pub(super) id: [u8; ID_BYTES],
}

/// A connection found by a search.
#[derive(Clone, Debug)]
pub struct Found {
    /// Identity for [`Diag::look`](super::Diag::look).
    pub id: SocketId,
    /// Local address.
    pub local: SocketAddr,
    /// Remote address.
    pub remote: SocketAddr,
    /// Inode of the socket, by which /proc relates it to processes; 0 if no program has ever opened it.
    pub inode: u32,
    /// User ID of the socket's creator.
    pub uid: u32,
    /// Name of the congestion control.
    pub congestion: String,
    /// Socket buffers.
    pub memory: Option<Memory>,
    /// BBR's model of the path.
    pub bbr: Option<Bbr>,
    /// TCP_INFO of the connection.
    pub info: TcpInfo,
}

/// Use and limits of a socket's buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// Bytes received and not read.
    pub received_bytes: u32,
    /// Receive buffer limit.
    pub rcvbuf_bytes: u32,
    /// Bytes written and not acknowledged, sent or not.
    pub queued_bytes: u32,
    /// Send buffer limit.
    pub sndbuf_bytes: u32,
}

/// BBR's model of the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bbr {
    /// Bottleneck bandwidth.
    pub bytes_per_s: u64,
    /// Minimum round-trip time of BBR's window.
    pub min_rtt_us: u32,
}
