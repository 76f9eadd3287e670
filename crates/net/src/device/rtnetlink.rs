//! Requests to the kernel's network configuration, rtnetlink(7): one request, one response, a socket for each.
//!
//! Encodes and decodes messages and attributes of netlink(7), whatever their meaning.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::syscall::check;

pub(crate) const NLM_F_REQUEST: u16 = 1;
pub(crate) const NLM_F_ACK: u16 = 4;
pub(crate) const NLM_F_REPLACE: u16 = 0x100;
pub(crate) const NLM_F_EXCL: u16 = 0x200;
pub(crate) const NLM_F_DUMP: u16 = 0x300;
pub(crate) const NLM_F_CREATE: u16 = 0x400;
pub(crate) const NLM_F_APPEND: u16 = 0x800;
pub(crate) const NLMSG_ERROR: u16 = 2;
pub(crate) const NLMSG_DONE: u16 = 3;
/// Port ID of the kernel.
pub(crate) const KERNEL: u32 = 0;
/// Receive timeout; responses come at once, or after another process has released a lock.
const PATIENCE_S: u8 = 10;
/// Maximum number of messages of other senders, and of signals, before a response.
const STRANGERS_MAX: usize = 1000;
/// struct nlmsghdr: length, type, flags, sequence, port
const HEADER_BYTES: usize = 16;
/// Maximum length of a response, 32 KiB (linux/netlink.h, NLMSG_GOODSIZE, and the limit of dumps).
const ANSWER_BYTES: usize = 32 << 10;

/// Appends an attribute.
pub(crate) fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend((4 + value.len() as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// Attributes of `bytes`, up to the first malformed one.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let kind = u16::from_ne_bytes([*bytes.get(2)?, *bytes.get(3)?]);
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// Appends a message whose body `fill` appends.
pub(crate) fn message(
    to: &mut Vec<u8>,
    kind: u16,
    flags: u16,
    sequence: u32,
    fill: impl FnOnce(&mut Vec<u8>),
) {
    let begin = to.len();
    to.extend([0; 4]);
    to.extend(kind.to_ne_bytes());
    to.extend(flags.to_ne_bytes());
    to.extend(sequence.to_ne_bytes());
    to.extend([0; 4]);
    fill(to);
    let len = (to.len() - begin) as u32;
    to[begin..begin + 4].copy_from_slice(&len.to_ne_bytes());
}

/// Sends one request and waits for the acknowledgement.
pub(crate) fn request(kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
    let socket = send(kind, NLM_F_REQUEST | NLM_F_ACK | flags, body)?;
    let mut answer = vec![0; ANSWER_BYTES];
    let got = receive(&socket, &mut answer)?;
    match messages(&answer[..got]).next() {
        Some(Message { kind: NLMSG_ERROR, body, .. }) => error_of(body),
        _ => Err(io::Error::other("the kernel did not answer an rtnetlink request")),
    }
}

/// Requests all objects of a kind; `each` gets the bodies of the messages of type `wanted`.
pub(crate) fn dump(kind: u16, body: &[u8], wanted: u16, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let socket = send(kind, NLM_F_REQUEST | NLM_F_DUMP, body)?;
    let mut answer = vec![0; ANSWER_BYTES];
    loop {
        let got = receive(&socket, &mut answer)?;
        if got == 0 {
            return Err(io::Error::other("the kernel ended an rtnetlink dump early"));
        }
        for Message { kind, body, .. } in messages(&answer[..got]) {
            match kind {
                NLMSG_DONE => return end_of(body),
                NLMSG_ERROR => return error_of(body),
                kind if kind == wanted => each(body),
                _ => {}
            }
        }
    }
}

fn send(kind: u16, flags: u16, body: &[u8]) -> io::Result<OwnedFd> {
    let socket = open(libc::NETLINK_ROUTE)?;
    let mut request = Vec::with_capacity(HEADER_BYTES + body.len());
    message(&mut request, kind, flags, 0, |room| room.extend(body));
    // SAFETY: `request` holds as many bytes as we say. A socket without an address talks to the kernel.
    let sent = unsafe { libc::send(socket.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(socket) }
}

/// Opens a netlink socket; [`receive`] has a timeout.
pub(crate) fn open(protocol: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let raw =
        check(unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol) })?;
    // SAFETY: the kernel has just returned this descriptor, which has no other owner.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    let patience = libc::timeval { tv_sec: PATIENCE_S.into(), tv_usec: 0 };
    let len = size_of_val(&patience) as libc::socklen_t;
    let place = (&raw const patience).cast();
    // SAFETY: the option reads one timeval.
    check(unsafe { libc::setsockopt(raw, libc::SOL_SOCKET, libc::SO_RCVTIMEO, place, len) })?;
    Ok(socket)
}

/// Receives the kernel's next response. Messages of other senders are ignored.
pub(crate) fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    for _ in 0..STRANGERS_MAX {
        // SAFETY: an all-zero address is a valid one.
        let mut from: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        let mut from_len = size_of_val(&from) as libc::socklen_t;
        // SAFETY: `buffer` and `from` have room for as many bytes as we say.
        let got = unsafe {
            libc::recvfrom(
                socket.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                0,
                (&raw mut from).cast(),
                &raw mut from_len,
            )
        };
        match usize::try_from(got) {
            Ok(got) if from.nl_pid == KERNEL => return Ok(got),
            Ok(_) => {}
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error if error.kind() == io::ErrorKind::WouldBlock => {
                    let text = format!("no answer of the kernel within {PATIENCE_S} s");
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
                error => return Err(error),
            },
        }
    }
    Err(io::Error::other("other programs keep sending to a socket for the kernel's answers"))
}

/// One message of a response.
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    /// Sequence number of the request.
    pub(crate) sequence: u32,
    pub(crate) body: &'a [u8],
}

/// Messages of `bytes`, up to the first malformed one.
pub(crate) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let len = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
        let kind = u16::from_ne_bytes([*bytes.get(4)?, *bytes.get(5)?]);
        let sequence = u32::from_ne_bytes(*bytes.get(8..)?.first_chunk()?);
        let body = bytes.get(HEADER_BYTES..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(Message { kind, sequence, body })
    })
}

/// struct nlmsgerr begins with the negative errno; zero is an acknowledgement.
pub(crate) fn error_of(body: &[u8]) -> io::Result<()> {
    match body.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes)) {
        Some(0) => Ok(()),
        Some(negative) => Err(io::Error::from_raw_os_error(-negative)),
        None => Err(io::Error::other("the kernel's answer to a netlink request is too short")),
    }
}

/// Result of a dump, which may fail after it has begun.
pub(crate) fn end_of(body: &[u8]) -> io::Result<()> {
    match body.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes)) {
        Some(negative @ ..0) => Err(io::Error::from_raw_os_error(-negative)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_may_end_with_an_error() {
        let end = |word: i32| end_of(&word.to_ne_bytes()).map_err(|error| error.raw_os_error());
        assert_eq!(end(-libc::ENOENT), Err(Some(libc::ENOENT)));
        assert_eq!((end(0), end_of(&[]).is_ok()), (Ok(()), true));
    }

    #[test]
    fn attributes_read_back() {
        let mut body = Vec::new();
        attribute(&mut body, 3, b"wan0\0");
        attribute(&mut body, 4, &1500u32.to_ne_bytes());
        attribute(&mut body, 5, &[]);
        let read: Vec<_> = attributes(&body).collect();
        assert_eq!(read, [(3, &b"wan0\0"[..]), (4, &1500u32.to_ne_bytes()), (5, &[])]);
        for len in 0..body.len() {
            assert!(attributes(&body[..len]).count() < 3, "cut off after {len} bytes");
        }
        assert_eq!(attributes(&[0; 8]).count(), 0, "an attribute is at least as long as its own header");
    }

    #[test]
    fn a_request_that_makes_no_sense_is_refused_with_its_reason() {
        // There is no device with this number.
        let body = [[0; 4], i32::MAX.to_ne_bytes(), [0; 4], [0; 4]].concat();
        assert!(request(16, 0, &body).is_err());
    }

    #[test]
    fn only_the_kernel_is_listened_to() {
        let socket = open(libc::NETLINK_ROUTE).expect("anybody may ask");
        let mut request = Vec::new();
        message(&mut request, 18, NLM_F_REQUEST | NLM_F_DUMP, 7, |body| body.extend([0; 16]));
        // SAFETY: an all-zero address is a valid one.
        let mut to: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        let len = size_of_val(&to) as libc::socklen_t;
        to.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        // SAFETY: `to` is a netlink address of `len` bytes.
        check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const to).cast(), len) }).expect("a port");
        let mut named = len;
        // SAFETY: `to` has room for the `named` bytes that the kernel may write.
        check(unsafe { libc::getsockname(socket.as_raw_fd(), (&raw mut to).cast(), &raw mut named) })
            .expect("its number");
        let other = open(libc::NETLINK_ROUTE).expect("anybody may ask");
        let send_to = |from: &OwnedFd, bytes: &[u8], to: &libc::sockaddr_nl| {
            let to = std::ptr::from_ref(to).cast();
            // SAFETY: `bytes` and `to` hold as many bytes as we say.
            unsafe { libc::sendto(from.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0, to, len) }
        };
        // Only root may send to other ports.
        let forged = send_to(&other, b"0123456789abcdef", &to);
        to.nl_pid = KERNEL;
        assert_eq!(send_to(&socket, &request, &to), request.len() as isize);
        let mut answer = vec![0; ANSWER_BYTES];
        let got = receive(&socket, &mut answer).expect("an answer");
        assert!(got > 16 && messages(&answer[..got]).all(|message| message.sequence == 7), "{forged}");
    }

    #[test]
    fn a_dump_ends() {
        let mut devices = 0;
        let (ask, device) = (18, 16);
        dump(ask, &[0; 16], device, |_| devices += 1).expect("anybody may ask for the devices");
        assert!(devices >= 1, "there is lo");
    }
}
