//! Stamps that a network card makes itself (the kernel's Documentation/networking/timestamping.rst, section 3).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::syscall::check;

/// SIOCSHWTSTAMP of linux/sockios.h.
const SET_STAMPS: u32 = 0x89b0;
/// HWTSTAMP_TX_OFF and HWTSTAMP_FILTER_ALL of linux/net_tstamp.h.
const SENT_OFF: libc::c_int = 0;
const RECEIVED_ALL: libc::c_int = 1;
const NAME_MAX: usize = 15;

/// struct ifreq with a pointer, the longest member that is used here.
#[repr(C)]
struct Request {
    name: [u8; NAME_MAX + 1],
    config: *mut Config,
    rest: [u8; 16],
}

/// struct hwtstamp_config
#[repr(C)]
struct Config {
    flags: libc::c_int,
    sent: libc::c_int,
    received: libc::c_int,
}

/// Has the card `name` stamp all it receives; `Unsupported` if it cannot.
pub(super) fn switch_on(socket: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    let mut config = Config { flags: 0, sent: SENT_OFF, received: RECEIVED_ALL };
    let mut request = Request { name: [0; NAME_MAX + 1], config: &raw mut config, rest: [0; 16] };
    let bytes = name.as_bytes();
    request.name.get_mut(..bytes.len()).ok_or(io::ErrorKind::InvalidInput)?.copy_from_slice(bytes);
    // SAFETY: `request` is an ifreq that points to a hwtstamp_config; both outlive the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SET_STAMPS as _, &raw mut request) };
    check(result).map(drop).map_err(|error| match error.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ERANGE) => {
            io::Error::new(io::ErrorKind::Unsupported, "this device does not stamp what it receives")
        }
        _ => error,
    })
}
