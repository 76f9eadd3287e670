//! Congestion control of a socket: available and allowed algorithms, and the selection of one (TCP_CONGESTION).
//!
//! `tcp_set_congestion_control` in net/ipv4/tcp_cong.c refuses in this order: a route that locks another algorithm
//! (EPERM), an algorithm that is not loaded (ENOENT; a module is loaded only for CAP_NET_ADMIN in the initial user
//! namespace), one that is not allowed (EPERM, unless the caller has CAP_NET_ADMIN in the user namespace of the network
//! namespace), a module that is being removed (EBUSY).
#![allow(unsafe_code)]

use std::fmt;
use std::fs::read_to_string;
use std::io;
use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::syscall::check;

/// Rate-based, with its own model of the path; it has no slow-start threshold.
pub const BBR: &str = "bbr";
/// Bytes of the name of a congestion control, with the zero that ends it (TCP_CA_NAME_MAX).
const NAME_MAX_BYTES: usize = 16;
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

/// Presence of a congestion control in this kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Availability {
    /// Built in, or its module is loaded.
    Loaded,
    /// The module is installed and not loaded.
    Module,
    /// Neither.
    Missing,
}

/// Reason why the kernel refuses a congestion control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Use requires CAP_NET_ADMIN or an entry in `net.ipv4.tcp_allowed_congestion_control`.
    NotAllowed,
    /// The route to the peer locks another one (`congctl lock`).
    RouteLocked,
    /// The algorithm is not loaded.
    NotLoaded,
    /// The module is being removed.
    Busy,
    /// Another error of the socket.
    Other(io::ErrorKind),
}

/// Returns whether this kernel has the congestion control `name`.
pub fn availability(name: &str) -> Availability {
    if lists(&available(), name) {
        return Availability::Loaded;
    }
    let release = read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let modules = read_to_string(format!("/lib/modules/{}/modules.dep", release.trim()));
    if has_module(&modules.unwrap_or_default(), name) { Availability::Module } else { Availability::Missing }
}

/// Congestion controls that are built in or loaded, separated by spaces.
pub fn available() -> String {
    read_to_string(AVAILABLE).unwrap_or_default().trim().to_owned()
}

/// Congestion controls that need no privilege, separated by spaces.
pub fn allowed() -> String {
    read_to_string(ALLOWED).unwrap_or_default().trim().to_owned()
}

/// Changes the congestion control of a connection.
pub fn change(stream: &TcpStream, name: &str) -> Result<(), Refusal> {
    choose(stream, name).map_err(|error| refusal(&error, name))
}

/// Checks that sockets without a route can have this congestion control. The error includes advice.
pub fn check_congestion(name: &str) -> io::Result<()> {
    set_congestion(&unconnected()?, name)
}

/// Sets the congestion control of one socket. The error includes advice.
pub(crate) fn set_congestion(socket: &impl AsRawFd, name: &str) -> io::Result<()> {
    choose(socket, name).map_err(|error| {
        let refusal = refusal(&error, name);
        io::Error::new(refusal.kind(), refusal.explain(name, None))
    })
}

/// Returns whether the congestion control of a connection is rate-based.
pub fn paces_itself(stream: &TcpStream) -> io::Result<bool> {
    Ok(is_paced_by_itself(&congestion(stream)?))
}

/// Returns whether the congestion control of this name is rate-based. BBR is, in all its versions.
pub fn is_paced_by_itself(congestion: &str) -> bool {
    congestion.starts_with(BBR)
}

/// The congestion control of one socket.
pub fn congestion(socket: &impl AsRawFd) -> io::Result<String> {
    let (mut name, mut len) = ([0u8; NAME_MAX_BYTES], NAME_MAX_BYTES as libc::socklen_t);
    // SAFETY: `name` has room for `len` bytes, and both outlive the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            (&raw mut name).cast(),
            &raw mut len,
        )
    };
    check(result)?;
    Ok(String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned())
}

impl Refusal {
    /// Kind of the error of the socket.
    pub fn kind(self) -> io::ErrorKind {
        match self {
            Refusal::NotAllowed | Refusal::RouteLocked => io::ErrorKind::PermissionDenied,
            Refusal::NotLoaded => io::ErrorKind::NotFound,
            Refusal::Busy => io::ErrorKind::ResourceBusy,
            Refusal::Other(kind) => kind,
        }
    }

    /// One sentence with the refused algorithm, the reason, and the command that allows it.
    pub fn explain(self, name: &str, peer: Option<IpAddr>) -> String {
        self.explain_with(name, peer, [&available(), &allowed()], availability(name))
    }

    fn explain_with(
        self,
        name: &str,
        peer: Option<IpAddr>,
        [available, allowed]: [&str; 2],
        availability: Availability,
    ) -> String {
        match self {
            Refusal::NotAllowed => format!(
                "congestion control '{name}' may be chosen only with CAP_NET_ADMIN, or if \
                 net.ipv4.tcp_allowed_congestion_control names it: sysctl -w \
                 net.ipv4.tcp_allowed_congestion_control=\"{allowed} {name}\""
            ),
            Refusal::RouteLocked => {
                let peer = peer.map_or_else(|| "the peer".to_owned(), |peer| peer.to_string());
                format!(
                    "the route to {peer} locks another congestion control than '{name}' (`congctl lock` of ip-route(8)); \
                     choose none, or change the route"
                )
            }
            Refusal::NotLoaded if availability == Availability::Module => {
                format!("congestion control '{name}' is not available: modprobe tcp_{name} loads it")
            }
            Refusal::NotLoaded => {
                format!("congestion control '{name}' is not available: this kernel has {available}")
            }
            Refusal::Busy => {
                format!("congestion control '{name}' is being unloaded: modprobe tcp_{name} loads it again")
            }
            Refusal::Other(kind) => format!("congestion control '{name}' cannot be set: {kind}"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::NotAllowed => "not allowed",
            Refusal::RouteLocked => "locked by the route",
            Refusal::NotLoaded => "not loaded",
            Refusal::Busy => "being unloaded",
            Refusal::Other(kind) => return kind.fmt(f),
        })
    }
}

impl std::error::Error for Refusal {}

fn choose(socket: &impl AsRawFd, name: &str) -> io::Result<()> {
    let name = name.as_bytes();
    // SAFETY: the pointer and length describe `name`.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        )
    };
    check(result).map(drop)
}

/// Classifies an error of the kernel. A socket without a route distinguishes a locked route from a name that is not
/// allowed.
fn refusal(error: &io::Error, name: &str) -> Refusal {
    let is_allowed = || unconnected().and_then(|socket| choose(&socket, name)).is_ok();
    match error.raw_os_error() {
        Some(libc::EPERM) if is_allowed() => Refusal::RouteLocked,
        Some(libc::EPERM) => Refusal::NotAllowed,
        Some(libc::ENOENT) => Refusal::NotLoaded,
        Some(libc::EBUSY) => Refusal::Busy,
        _ => Refusal::Other(error.kind()),
    }
}

fn unconnected() -> io::Result<TcpStream> {
    // SAFETY: no pointers are passed.
    let raw = check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the kernel has just returned this descriptor, which has no other owner.
    Ok(TcpStream::from(unsafe { OwnedFd::from_raw_fd(raw) }))
}

fn lists(names: &str, name: &str) -> bool {
    names.split_whitespace().any(|listed| listed == name)
}

/// Looks for the module of a congestion control in the text of `modules.dep`, compressed ones included.
fn has_module(modules_dep: &str, name: &str) -> bool {
    let file = format!("tcp_{name}.ko");
    let paths = modules_dep.lines().filter_map(|line| line.split_once(':'));
    paths
        .filter_map(|(path, _)| path.rsplit('/').next())
        .any(|last| last.strip_prefix(&file).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_missing_and_its_refusal_names_the_known_ones() {
        assert_eq!(availability("warp"), Availability::Missing);
        let socket = unconnected().unwrap();
        assert_eq!(change(&socket, "warp"), Err(Refusal::NotLoaded));
        let error = check_congestion("warp").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("'warp'") && error.to_string().contains("reno"), "{error}");
    }

    #[test]
    fn what_is_loaded_and_allowed_is_changed_and_read_back() {
        let socket = unconnected().unwrap();
        assert_eq!(availability("reno"), Availability::Loaded);
        assert!(lists(&allowed(), "reno"), "the kernel allows reno always: {}", allowed());
        assert_eq!(change(&socket, "reno"), Ok(()));
        assert_eq!(congestion(&socket).unwrap(), "reno");
    }

    #[test]
    fn a_module_is_found_by_its_whole_name_compressed_or_not() {
        let dep = "kernel/net/ipv4/tcp_bbr.ko.xz:\nkernel/net/ipv4/tcp_cubic.ko: kernel/a.ko\nkernel/tcp_bbr2.ko:\n";
        let found = ["bbr", "cubic", "bbr2", "bb", "dctcp", "a"].map(|name| has_module(dep, name));
        assert_eq!(found, [true, true, true, false, false, false]);
    }

    #[test]
    fn each_refusal_ends_with_the_next_step() {
        let peer = Some(IpAddr::from([203, 0, 113, 1]));
        let said = |refusal: Refusal, availability| {
            refusal.explain_with("bbr", peer, ["reno cubic", "reno cubic"], availability)
        };
        for (refusal, availability, expected) in [
            (
                Refusal::NotAllowed,
                Availability::Loaded,
                "sysctl -w net.ipv4.tcp_allowed_congestion_control=\"reno cubic bbr\"",
            ),
            (Refusal::RouteLocked, Availability::Loaded, "the route to 203.0.113.1 locks"),
            (Refusal::NotLoaded, Availability::Module, "modprobe tcp_bbr loads it"),
            (Refusal::NotLoaded, Availability::Missing, "this kernel has reno cubic"),
            (Refusal::Busy, Availability::Module, "modprobe tcp_bbr loads it again"),
        ] {
            let text = said(refusal, availability);
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn errors_of_the_kernel_are_named() {
        // Reno is always allowed, so that it can be only the route; an unknown name is not.
        for (errno, name, expected) in [
            (libc::EPERM, "reno", Refusal::RouteLocked),
            (libc::EPERM, "warp", Refusal::NotAllowed),
            (libc::ENOENT, "warp", Refusal::NotLoaded),
            (libc::EBUSY, "bbr", Refusal::Busy),
            (libc::ENOTCONN, "bbr", Refusal::Other(io::ErrorKind::NotConnected)),
        ] {
            assert_eq!(refusal(&io::Error::from_raw_os_error(errno), name), expected, "{errno}");
        }
    }
}
