//! TCP sockets as farlun uses them: non-blocking, TCP_NODELAY, buffers left to autotuning.
//!
//! Socket buffers are never pinned here: a pinned receive window is the limit of most iSCSI over long lines. Adjustable
//! are the congestion control, the pacing rate and the unsent data in the kernel, so that an urgent PDU does not wait
//! behind megabytes.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::socket::congestion::set_congestion;
use crate::syscall::check;

/// Length of the accept queue; the usual limit of the system (net.core.somaxconn) is 4096.
const BACKLOG: i32 = 4096;

/// Listens on `address`, non-blocking, with a backlog for many initiators: a SYN that finds it full is retransmitted
/// after one second, and then after two. Accepted connections use `congestion`, or the system's default.
pub fn listen(address: SocketAddr, congestion: Option<&str>) -> io::Result<TcpListener> {
    listen_on(bind(address, false)?, congestion)
}

/// Creates a bound socket that does not listen yet. `[::]` accepts IPv4 as well, unless `is_v6_only`.
pub fn bind(address: SocketAddr, is_v6_only: bool) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: no pointers are passed.
    let raw = check(unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the kernel has just returned this descriptor, which has no other owner.
    let listener = TcpListener::from(unsafe { OwnedFd::from_raw_fd(raw) });
    // Closed connections of an earlier process block the port for a minute (TIME-WAIT).
    set(&listener, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1_i32)?;
    if address.is_ipv6() {
        set(&listener, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, i32::from(is_v6_only))?;
    }
    let (storage, len) = to_sockaddr(address);
    // SAFETY: `storage` holds a socket address of `len` bytes.
    check(unsafe { libc::bind(listener.as_raw_fd(), (&raw const storage).cast(), len) })?;
    Ok(listener)
}

/// Like [`listen`], with a socket from [`bind`].
pub fn listen_on(listener: TcpListener, congestion: Option<&str>) -> io::Result<TcpListener> {
    if let Some(name) = congestion {
        set_congestion(&listener, name)?;
    }
    // SAFETY: no pointers are passed.
    check(unsafe { libc::listen(listener.as_raw_fd(), BACKLOG) })?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Sets the congestion control of connections that `listener` accepts from now on; `None` for the system's default.
///
/// It must be set before the connection is established: a connection that begins with BBR is paced by the kernel for
/// its whole life, even after a change of the congestion control.
pub fn accept_with(listener: &TcpListener, congestion: Option<&str>) -> io::Result<()> {
    match congestion {
        Some(name) => set_congestion(listener, name),
        None => {
            let usual = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control")?;
            set_congestion(listener, usual.trim())
        }
    }
}

/// Local end of an outgoing connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// Address of this host.
    Address(IpAddr),
    /// Device, regardless of the routes.
    Device(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Address(address) => address.fmt(f),
            Source::Device(name) => f.write_str(name),
        }
    }
}

/// Values of TCP_MAXSEG on Linux (`TCP_MIN_MSS` and `MAX_TCP_WINDOW`), in bytes.
pub const MAX_SEGMENT_BYTES: RangeInclusive<u16> = 88..=32_767;

/// Starts to connect. The stream becomes writable when the connection is established or has failed; the error is then
/// returned by [`TcpStream::take_error`].
pub fn start_connect(address: SocketAddr, congestion: Option<&str>) -> io::Result<TcpStream> {
    start_connect_from(None, address, congestion, None)
}

/// Like [`start_connect`], from a given local end, and with a maximum segment size in both directions (TCP_MAXSEG).
pub fn start_connect_from(
    source: Option<&Source>,
    address: SocketAddr,
    congestion: Option<&str>,
    max_segment_bytes: Option<u16>,
) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no pointers are passed.
    let raw = check(unsafe { libc::socket(family, kind, 0) })?;
    // SAFETY: the kernel has just returned this descriptor, which has no other owner.
    let stream = TcpStream::from(unsafe { OwnedFd::from_raw_fd(raw) });
    prepare(&stream, congestion)?;
    if let Some(bytes) = max_segment_bytes {
        set(&stream, libc::IPPROTO_TCP, libc::TCP_MAXSEG, i32::from(bytes))?;
    }
    if let Some(source) = source {
        let failed = |error: io::Error| io::Error::new(error.kind(), format!("from {source}: {error}"));
        leave_by(&stream, source, address).map_err(failed)?;
    }
    let (storage, len) = to_sockaddr(address);
    // SAFETY: `storage` holds a socket address of `len` bytes.
    let result = unsafe { libc::connect(stream.as_raw_fd(), (&raw const storage).cast(), len) };
    match check(result) {
        Ok(_) => {}
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(error) => return Err(error),
    }
    // A route may name a congestion control (`congctl`), with which connect() replaces the configured one.
    if let Some(name) = congestion
        && crate::socket::congestion::congestion(&stream)? != name
    {
        crate::socket::congestion::change(&stream, name)
            .map_err(|refusal| io::Error::new(refusal.kind(), refusal.explain(name, Some(address.ip()))))?;
    }
    Ok(stream)
}

/// Binds a stream, before it connects to `address`, to its local end.
fn leave_by(stream: &TcpStream, source: &Source, address: SocketAddr) -> io::Result<()> {
    match source {
        Source::Address(own) if own.is_ipv4() != address.is_ipv4() => {
            let text = format!("{} is an address of the other family", address.ip());
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
        Source::Address(own) => {
            // The port is chosen together with the peer, so that one port serves connections to several peers.
            set(stream, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1_i32)?;
            let (storage, len) = to_sockaddr(SocketAddr::new(*own, 0));
            // SAFETY: `storage` holds a socket address of `len` bytes.
            check(unsafe { libc::bind(stream.as_raw_fd(), (&raw const storage).cast(), len) }).map(drop)
        }
        Source::Device(name) => {
            let mut device = [0_u8; libc::IFNAMSIZ];
            if name.len() >= device.len() {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "no device has so long a name"));
            }
            device[..name.len()].copy_from_slice(name.as_bytes());
            set(stream, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, device)
        }
    }
}

/// A dead peer is detected by probes while the connection is idle …
const KEEPALIVE_IDLE_S: i32 = 30;
const KEEPALIVE_INTERVAL_S: i32 = 10;
const KEEPALIVE_PROBES: i32 = 3;
/// … and otherwise by missing acknowledgements or a window that stays closed. Longer than any round trip with its
/// retransmissions.
const DEAD_AFTER_MS: u32 = 60_000;

/// Prepares a connected or accepted socket: non-blocking, TCP_NODELAY, detection of a dead peer within a minute, and
/// the congestion control `congestion` (such as `cubic`), if any.
pub fn prepare(stream: &TcpStream, congestion: Option<&str>) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    set(stream, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1_i32)?;
    set(stream, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, KEEPALIVE_IDLE_S)?;
    set(stream, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S)?;
    set(stream, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, KEEPALIVE_PROBES)?;
    set(stream, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, DEAD_AFTER_MS)?;
    match congestion {
        Some(name) => set_congestion(stream, name),
        None => Ok(()),
    }
}

/// Caps the pacing rate in bytes per second. From the first call on the kernel paces this
/// connection, whatever the queueing discipline; `u64::MAX - 1` paces without a cap of its own.
pub fn set_max_pacing_rate(stream: &TcpStream, bytes_per_s: u64) -> io::Result<()> {
    set(stream, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, bytes_per_s)
}

/// Limits the unsent data in the kernel at which the socket is writable (TCP_NOTSENT_LOWAT).
pub fn set_notsent_lowat(stream: &TcpStream, bytes: u32) -> io::Result<()> {
    set(stream, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// Sets whether closing the socket discards unsent data with a reset. Otherwise the kernel delivers them, possibly long
/// after the sender has given them up.
pub fn abandon_on_close(stream: &TcpStream, is_on: bool) -> io::Result<()> {
    let linger = libc::linger { l_onoff: is_on.into(), l_linger: 0 };
    set(stream, libc::SOL_SOCKET, libc::SO_LINGER, linger)
}

/// Maximum receive and send buffer of autotuning (`tcp_rmem`, `tcp_wmem`), in bytes.
fn autotuning_limits() -> Option<(u64, u64)> {
    Some((limits("tcp_rmem")?[2], limits("tcp_wmem")?[2]))
}

/// Value of `net.ipv4.NAME` for a variable with three numbers: `tcp_rmem` and `tcp_wmem` in bytes, `tcp_mem` in pages.
/// `None` if it cannot be read, as `tcp_mem` in a network namespace.
pub fn limits(name: &str) -> Option<[u64; 3]> {
    let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()?;
    let mut values = text.split_whitespace().map(|value| value.parse().ok());
    Some([values.next()??, values.next()??, values.next()??])
}

/// Page size in bytes, the unit of `tcp_mem`.
pub fn page_bytes() -> Option<u64> {
    // SAFETY: no pointers are passed.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()
}

/// Bits of SO_BUF_LOCK (`linux/net.h`).
const SEND_LOCKED: i32 = 1;
const RECEIVE_LOCKED: i32 = 2;

/// Maximum receive and send buffer of a socket, in bytes: the fixed size if one is set, and otherwise the limit of
/// autotuning.
pub fn buffer_limits(stream: &TcpStream) -> io::Result<(u64, u64)> {
    // Kernels before 5.16 lack the option; this crate never fixes the sizes.
    let locked = get(stream, libc::SO_BUF_LOCK).unwrap_or(0);
    let (receive_max, send_max) = autotuning_limits().unwrap_or((u64::MAX, u64::MAX));
    let limit = |lock: i32, name, autotuned| match locked & lock {
        0 => Ok(autotuned),
        _ => get(stream, name).map(|bytes| u64::try_from(bytes).unwrap_or(0)),
    };
    Ok((limit(RECEIVE_LOCKED, libc::SO_RCVBUF, receive_max)?, limit(SEND_LOCKED, libc::SO_SNDBUF, send_max)?))
}

/// Reads an option of SOL_SOCKET.
pub(crate) fn get(stream: &TcpStream, name: libc::c_int) -> io::Result<i32> {
    let (mut value, mut len) = (0_i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: the pointer and length describe `value`, and both outlive the call.
    let result = unsafe {
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, name, (&raw mut value).cast(), &raw mut len)
    };
    check(result).map(|_| value)
}

/// Memory of all TCP sockets of this machine, and the threshold of memory pressure (`tcp_mem`, which is no limit of a
/// network namespace), in bytes.
pub fn memory() -> Option<(u64, u64)> {
    let page_bytes = page_bytes()?;
    let sockets = std::fs::read_to_string("/proc/net/sockstat").ok()?;
    let used = sockets
        .lines()
        .find_map(|line| line.strip_prefix("TCP:")?.rsplit_once("mem ")?.1.trim().parse().ok());
    let [_, pressure, _] = limits("tcp_mem")?;
    let used: u64 = used?;
    Some((used * page_bytes, pressure * page_bytes))
}

pub(crate) fn set<T: Copy>(
    socket: &impl AsRawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: T,
) -> io::Result<()> {
    // SAFETY: the pointer and length describe `value`, which holds nothing but integers.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    check(result).map(drop)
}

fn to_sockaddr(address: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: all zeroes is a valid sockaddr_storage.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    match address {
        SocketAddr::V4(v4) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(*v4.ip()).to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: sockaddr_storage is large enough and aligned for every socket address.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(raw) };
            (storage, size_of::<libc::sockaddr_in>() as libc::socklen_t)
        }
        SocketAddr::V6(v6) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: as above.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in6>().write(raw) };
            (storage, size_of::<libc::sockaddr_in6>() as libc::socklen_t)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::tcp_info;

    #[test]
    fn all_addresses_of_both_families_share_a_port() {
        let v6 = bind("[::]:0".parse().unwrap(), true).unwrap();
        let port = v6.local_addr().unwrap().port();
        let v6 = listen_on(v6, None).unwrap();
        let v4 = listen(format!("0.0.0.0:{port}").parse().unwrap(), None).unwrap();
        for (listener, own) in [(&v6, "::1"), (&v4, "127.0.0.1")] {
            listener.set_nonblocking(false).unwrap();
            let _near = TcpStream::connect((own, port)).unwrap();
            assert_eq!(listener.accept().unwrap().0.local_addr().unwrap().ip().to_string(), own);
        }
        let both = listen("[::]:0".parse().unwrap(), None).unwrap();
        let taken = SocketAddr::from(([0, 0, 0, 0], both.local_addr().unwrap().port()));
        assert_eq!(listen(taken, None).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn connects_and_reports() {
        for loopback in ["127.0.0.1:0", "[::1]:0"] {
            let listener = listen(loopback.parse().unwrap(), None).unwrap();
            let stream = start_connect(listener.local_addr().unwrap(), Some("cubic")).unwrap();
            set_max_pacing_rate(&stream, 1_000_000).unwrap();
            set_notsent_lowat(&stream, 131_072).unwrap();
            let info = tcp_info::read(&stream).unwrap();
            assert!(info.mss_bytes > 500, "{info:?}");
        }
    }

    /// Pacing that BBR has started stays with a connection, so it must never have used BBR.
    #[test]
    fn what_is_accepted_begins_as_it_goes_on() {
        let any = "127.0.0.1:0".parse().unwrap();
        let accepted = |listener: &TcpListener| {
            listener.set_nonblocking(false).unwrap();
            let _near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (far, _) = listener.accept().unwrap();
            crate::socket::congestion::congestion(&far).unwrap()
        };
        let usual = accepted(&listen(any, None).unwrap());
        let listener = listen(any, Some("reno")).unwrap();
        assert_eq!(accepted(&listener), "reno");
        accept_with(&listener, Some("cubic")).unwrap();
        assert_eq!(accepted(&listener), "cubic");
        accept_with(&listener, None).unwrap();
        assert_eq!(accepted(&listener), usual);
    }

    #[test]
    fn what_is_abandoned_ends_with_a_reset() {
        use std::io::Read;
        for is_on in [true, false] {
            let listener = listen("127.0.0.1:0".parse().unwrap(), None).unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            listener.set_nonblocking(false).unwrap();
            let (mut peer, _) = listener.accept().unwrap();
            abandon_on_close(&stream, true).unwrap();
            abandon_on_close(&stream, is_on).unwrap();
            drop(stream);
            let end = peer.read(&mut [0]).map_err(|error| error.kind());
            assert_eq!(end, if is_on { Err(io::ErrorKind::ConnectionReset) } else { Ok(0) });
        }
    }

    #[test]
    fn an_unknown_congestion_control_names_the_known_ones() {
        let listener = listen("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let error = start_connect(listener.local_addr().unwrap(), Some("warp")).unwrap_err().to_string();
        assert!(error.contains("'warp'") && error.contains("cubic"), "{error}");
    }

    #[test]
    fn segments_of_both_ends_are_as_short_as_is_given() {
        let listener = listen("127.0.0.1:0".parse().unwrap(), None).unwrap();
        listener.set_nonblocking(false).unwrap();
        let near = start_connect_from(None, listener.local_addr().unwrap(), None, Some(536)).unwrap();
        let (far, _) = listener.accept().unwrap();
        for end in [near, far] {
            assert!(tcp_info::read(&end).unwrap().mss_bytes <= 536);
        }
    }

    #[test]
    fn a_connection_leaves_by_the_address_or_device_that_is_given() {
        let listener = listen("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let address = listener.local_addr().unwrap();
        let own = IpAddr::from([127, 0, 0, 7]);
        let stream = start_connect_from(Some(&Source::Address(own)), address, None, None).unwrap();
        assert_eq!(stream.local_addr().unwrap().ip(), own);
        start_connect_from(Some(&Source::Device("lo".to_owned())), address, None, None).unwrap();
        for (source, said) in [
            (Source::Address(IpAddr::from([203, 0, 113, 1])), "from 203.0.113.1: "),
            (Source::Address("::1".parse().unwrap()), "other family"),
            (Source::Device("farlun-none".to_owned()), "from farlun-none: "),
            (Source::Device("a-name-of-a-device-that-is-long".to_owned()), "so long a name"),
        ] {
            let error = start_connect_from(Some(&source), address, None, None).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
