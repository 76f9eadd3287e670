//! Buffers for many datagrams, received by one system call: recvmmsg(2).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::device::rtnetlink::KERNEL;

/// Buffer size; a response about one socket has some hundred bytes.
const ANSWER_BYTES: usize = 2048;

/// Maximum number of calls for the responses to one message: more are needed only if others send to the socket.
const CALLS_MAX: usize = 64;

/// Reusable buffers for a number of responses.
pub(super) struct Ring {
    bytes: Vec<[u8; ANSWER_BYTES]>,
}

impl Ring {
    pub(super) fn new(answers: usize) -> Ring {
        Ring { bytes: vec![[0; ANSWER_BYTES]; answers] }
    }

    /// Passes the kernel's responses to `each`, which returns true for an expected one; returns after the expected
    /// number of them. Responses dropped for lack of socket buffer space are no error.
    pub(super) fn receive(
        &mut self,
        socket: &OwnedFd,
        answers: usize,
        mut each: impl FnMut(&[u8]) -> bool,
    ) -> io::Result<()> {
        let mut missing = answers;
        for _ in 0..CALLS_MAX {
            if missing == 0 {
                break;
            }
            let got = match self.fetch(socket) {
                Ok(lengths) => lengths,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // Some responses were dropped; the others are still in the socket.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => continue,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            for (bytes, len) in self.bytes.iter().zip(&got) {
                let is_answer = each(&bytes[..(*len).min(ANSWER_BYTES)]);
                missing = missing.saturating_sub(usize::from(is_answer));
            }
        }
        Ok(())
    }

    /// Lengths of the responses in the buffers; 0 for a datagram that the kernel did not send.
    fn fetch(&mut self, socket: &OwnedFd) -> io::Result<Vec<usize>> {
        let mut rooms: Vec<libc::iovec> = self
            .bytes
            .iter_mut()
            .map(|bytes| libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: ANSWER_BYTES })
            .collect();
        // SAFETY: all-zero addresses are valid ones.
        let mut senders: Vec<libc::sockaddr_nl> = vec![unsafe { std::mem::zeroed() }; rooms.len()];
        let mut headers: Vec<libc::mmsghdr> = rooms
            .iter_mut()
            .zip(&mut senders)
            .map(|(room, sender)| {
                // SAFETY: an all-zero header is one without an address and without control data.
                let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
                header.msg_hdr.msg_name = std::ptr::from_mut(sender).cast();
                header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
                header.msg_hdr.msg_iov = room;
                header.msg_hdr.msg_iovlen = 1;
                header
            })
            .collect();
        // SAFETY: every header points to one room and one address, and every room to bytes that live as long as this
        // call.
        let got = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                headers.len() as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        let lengths = headers
            .iter()
            .zip(&senders)
            .take(got)
            .map(|(header, sender)| if sender.nl_pid == KERNEL { header.msg_len as usize } else { 0 });
        Ok(lengths.collect())
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("answers", &self.bytes.len()).finish()
    }
}
