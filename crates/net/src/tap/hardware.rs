//! Hardware timestamps of a network card (the kernel's Documentation/networking/timestamping.rst, section 3).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::syscall::check;

/// SIOCSHWTSTAMP and SIOCGHWTSTAMP of linux/sockios.h.
const SET_STAMPS: u32 = 0x89b0;
const READ_STAMPS: u32 = 0x89b1;
/// HWTSTAMP_TX_OFF, HWTSTAMP_FILTER_NONE and HWTSTAMP_FILTER_ALL of linux/net_tstamp.h.
const SENT_OFF: libc::c_int = 0;
const RECEIVED_NONE: libc::c_int = 0;
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
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Config {
    flags: libc::c_int,
    sent: libc::c_int,
    received: libc::c_int,
}

/// Hardware timestamping of all received packets, until drop.
#[derive(Debug)]
pub(super) struct Stamping {
    name: String,
    before: Config,
}

impl Stamping {
    /// Enables timestamps of all packets that the card `name` receives; `Unsupported` if the card cannot do so. The
    /// setting for sent packets is kept: it may belong to a PTP daemon.
    pub(super) fn start(socket: BorrowedFd<'_>, name: &str) -> io::Result<Stamping> {
        let mut before = Config { flags: 0, sent: SENT_OFF, received: RECEIVED_NONE };
        match ask(socket, name, READ_STAMPS, &mut before) {
            // Drivers that do not report their setting may accept a new one.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
            outcome => outcome?,
        }
        let mut wanted = Config { received: RECEIVED_ALL, ..before };
        ask(socket, name, SET_STAMPS, &mut wanted)?;
        Ok(Stamping { name: name.to_owned(), before })
    }

    /// Restores the previous setting of the card.
    pub(super) fn end(&mut self, socket: BorrowedFd<'_>) {
        let mut before = self.before;
        // The device may be gone.
        let _ = ask(socket, &self.name, SET_STAMPS, &mut before);
    }
}

fn ask(socket: BorrowedFd<'_>, name: &str, what: u32, config: &mut Config) -> io::Result<()> {
    let mut request = Request { name: [0; NAME_MAX + 1], config, rest: [0; 16] };
    let bytes = name.as_bytes();
    let room = request.name.get_mut(..bytes.len()).filter(|room| room.len() <= NAME_MAX);
    room.ok_or(io::ErrorKind::InvalidInput)?.copy_from_slice(bytes);
    // SAFETY: `request` is an ifreq that points to a hwtstamp_config; both outlive the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), what as _, &raw mut request) };
    check(result).map(drop).map_err(|error| match error.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ERANGE) => {
            io::Error::new(io::ErrorKind::Unsupported, "this device does not stamp what it receives")
        }
        _ => error,
    })
}
