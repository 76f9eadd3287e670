//! Datagrams with the kernel's own times: when a device sent them and when the host took them in.
//!
//! Software stamps of SO_TIMESTAMPING (the kernel's Documentation/networking/timestamping.rst), on CLOCK_REALTIME:
//! good for differences between sockets of one machine. The stamp of sending comes back through the error queue with
//! the datagram's number, from 0 since the socket was made.
#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use crate::syscall::check;

// linux/net_tstamp.h, linux/errqueue.h
const TX_SOFTWARE: libc::c_uint = 1 << 1;
const RX_SOFTWARE: libc::c_uint = 1 << 3;
const SOFTWARE: libc::c_uint = 1 << 4;
const OPT_ID: libc::c_uint = 1 << 7;
const OPT_TSONLY: libc::c_uint = 1 << 11;
/// struct sock_extended_err: errno, origin, type, code, pad, info, data.
const ERROR_DATA_AT: usize = 12;
const CONTROL_BYTES: usize = 512;

/// A socket whose datagrams are stamped. Nothing here blocks.
#[derive(Debug)]
pub struct StampedSocket {
    socket: UdpSocket,
}

/// Nanoseconds on CLOCK_REALTIME.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Stamp(pub u64);

/// Room for control messages, as aligned as they need it.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// What control messages said.
#[derive(Default)]
struct Said {
    stamp: Option<Stamp>,
    number: Option<u32>,
}

impl StampedSocket {
    /// Asks for stamps of what `socket` sends and receives from now on.
    pub fn new(socket: UdpSocket) -> io::Result<StampedSocket> {
        socket.set_nonblocking(true)?;
        let flags = TX_SOFTWARE | RX_SOFTWARE | SOFTWARE | OPT_ID | OPT_TSONLY;
        // SAFETY: the value is one int, as SO_TIMESTAMPING wants it, and lives until the call returns.
        check(unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_TIMESTAMPING,
                (&raw const flags).cast(),
                size_of_val(&flags) as libc::socklen_t,
            )
        })?;
        Ok(StampedSocket { socket })
    }

    /// The socket itself, to send.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// The next datagram: how many bytes of it are in `buffer`, and when the host took it in. `None` if none waits.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<(usize, Option<Stamp>)>> {
        let got = self.message(buffer, 0)?;
        Ok(got.map(|(bytes, said)| (bytes, said.stamp)))
    }

    /// The next stamp of sending: the datagram's number and when the device took it. `None` if none waits.
    pub fn sent(&self) -> io::Result<Option<(u32, Stamp)>> {
        let got = self.message(&mut [], libc::MSG_ERRQUEUE)?;
        Ok(got.and_then(|(_, said)| Some((said.number?, said.stamp?))))
    }

    fn message(&self, buffer: &mut [u8], flags: libc::c_int) -> io::Result<Option<(usize, Said)>> {
        let mut control = Control([0; CONTROL_BYTES]);
        let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: an all-zero msghdr is a valid one.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = CONTROL_BYTES as _;
        // SAFETY: `message` points to `part` and `control`, which live until the call returns and say their lengths.
        let got =
            unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, flags | libc::MSG_DONTWAIT) };
        if got < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
        }
        let mut said = Said::default();
        // SAFETY: the kernel has filled in `control` and said in `message` how much of it.
        let mut at = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
        while !at.is_null() {
            // SAFETY: `at` is a header inside `control`, and its data follow it there.
            let (header, data) = unsafe { (at.read_unaligned(), libc::CMSG_DATA(at)) };
            let len = (header.cmsg_len as usize).saturating_sub(size_of::<libc::cmsghdr>());
            // SAFETY: the kernel wrote `len` bytes of data behind this header.
            said.take(header.cmsg_level, header.cmsg_type, unsafe { std::slice::from_raw_parts(data, len) });
            // SAFETY: both point into what the kernel has filled in.
            at = unsafe { libc::CMSG_NXTHDR(&raw const message, at) };
        }
        Ok(Some((got as usize, said)))
    }
}

impl Said {
    fn take(&mut self, level: libc::c_int, kind: libc::c_int, data: &[u8]) {
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => self.stamp = stamp(data),
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                let number =
                    data.get(ERROR_DATA_AT..ERROR_DATA_AT + 4).and_then(|bytes| bytes.try_into().ok());
                self.number = number.map(u32::from_ne_bytes);
            }
            _ => {}
        }
    }
}

/// struct scm_timestamping begins with the software stamp as a timespec; zero means there is none.
fn stamp(data: &[u8]) -> Option<Stamp> {
    let word = |at: usize| data.get(at..at + 8)?.try_into().ok().map(i64::from_ne_bytes);
    let ns = u64::try_from(word(0)?).ok()? * 1_000_000_000 + u64::try_from(word(8)?).ok()?;
    (ns > 0).then_some(Stamp(ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_over_loopback_have_both_stamps() {
        let socket = || StampedSocket::new(UdpSocket::bind("127.0.0.1:0").expect("a port")).expect("stamps");
        let (sender, receiver) = (socket(), socket());
        let to = receiver.socket().local_addr().expect("bound");
        assert!(receiver.receive(&mut [0; 8]).expect("nothing came").is_none());
        // The kernel switches stamps of receiving on in the background: the first datagrams may have none.
        for n in 0..1_000_000_u32 {
            sender.socket().send_to(&n.to_ne_bytes(), to).expect("sent");
            let mut buffer = [0; 8];
            let (bytes, received) =
                receiver.receive(&mut buffer).expect("loopback is at once").expect("a datagram");
            assert_eq!((bytes, &buffer[..4]), (4, &n.to_ne_bytes()[..]));
            let (number, sent) = sender.sent().expect("a stamp").expect("loopback stamps what it sends");
            assert_eq!(number, n);
            std::thread::yield_now();
            if let Some(received) = received {
                assert!(received >= sent, "{sent:?} {received:?}");
                return;
            }
        }
        panic!("no datagram of a million was stamped when it came");
    }
}
