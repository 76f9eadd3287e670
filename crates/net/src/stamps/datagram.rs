//! Datagrams with kernel timestamps of transmission by the device and of reception by the host.
//!
//! The timestamp of transmission arrives in the error queue with the number of the datagram, from 0 since the socket's
//! creation.
#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd};

use super::{OPT_ID, OPT_TSONLY, RX_SOFTWARE, SOFTWARE, Said, Stamp, TX_SOFTWARE};

const CONTROL_BYTES: usize = 512;

/// A socket whose datagrams are timestamped. No call blocks.
#[derive(Debug)]
pub struct StampedSocket {
    socket: UdpSocket,
}

/// Aligned buffer for control messages.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

impl StampedSocket {
    /// Enables timestamps of all further datagrams of `socket`.
    pub fn new(socket: UdpSocket) -> io::Result<StampedSocket> {
        socket.set_nonblocking(true)?;
        super::set(socket.as_fd(), TX_SOFTWARE | RX_SOFTWARE | SOFTWARE | OPT_ID | OPT_TSONLY)?;
        Ok(StampedSocket { socket })
    }

    /// The socket, for sending.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// The next datagram: its number of bytes in `buffer`, and the time of reception. `None` if none waits.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<(usize, Option<Stamp>)>> {
        let got = self.message(buffer, 0)?;
        Ok(got.map(|(bytes, said)| (bytes, said.stamp)))
    }

    /// The next timestamp of transmission: the number of the datagram and the time. `None` if none waits.
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
        Ok(Some((got as usize, Said::of(&message))))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::polling::wait;

    #[test]
    fn datagrams_over_loopback_have_both_stamps() {
        let socket = || StampedSocket::new(UdpSocket::bind("127.0.0.1:0").expect("a port")).expect("stamps");
        let (sender, receiver) = (socket(), socket());
        let to = receiver.socket().local_addr().expect("bound");
        assert!(receiver.receive(&mut [0; 8]).expect("nothing came").is_none());
        // The kernel enables receive timestamps in the background: the first datagrams may have none.
        for n in 0..1_000_000_u32 {
            sender.socket().send_to(&n.to_ne_bytes(), to).expect("sent");
            let mut buffer = [0; 8];
            let is_there = wait::readable([receiver.socket().as_fd()], Some(Duration::from_secs(60)));
            assert_eq!(is_there.expect("it can be waited for"), [true], "no datagram within a minute");
            let (bytes, received) = receiver.receive(&mut buffer).expect("it is there").expect("a datagram");
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
