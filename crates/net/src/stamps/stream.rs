//! Timestamps of single bytes of a TCP stream: queued to a device, passed to the device's driver, acknowledged by the
//! peer's TCP.
//!
//! Only writes with a control message request timestamps, so that other writes cost nothing. The kernel keeps one
//! timestamp per socket buffer, for its last byte: the write's last byte is stamped, and with `ends_record` (MSG_EOR)
//! no further data are appended to the buffer. Timestamps arrive in the error queue, which makes the socket ready with
//! [`crate::Ready::has_error`] until it is empty.
#![allow(unsafe_code)]

use std::io::{self, IoSlice};
use std::mem;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use crate::syscall::check;

use super::{OPT_ID, OPT_ID_TCP, OPT_TSONLY, SOFTWARE, Said, Stamp, TX_ACK, TX_SCHED, TX_SOFTWARE};

// linux/errqueue.h: SCM_TSTAMP_SND, SCM_TSTAMP_SCHED, SCM_TSTAMP_ACK
const KIND_SND: u32 = 0;
const KIND_SCHED: u32 = 1;
const KIND_ACK: u32 = 2;
/// Error queue messages per call; enough for all timestamps of ten bytes.
const BATCH: usize = 32;
/// Length of control messages: a timestamp and an extended error with an address, with headers, are 128 bytes.
const CONTROL_BYTES: usize = 192;

/// Maximum number of attempts to enable the count without an acknowledgement in between.
const TRIES: u32 = 100;

/// Stage of a byte's transmission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mile {
    /// Entered the queue of the device.
    Queued,
    /// Passed to the device's driver.
    Wire,
    /// Acknowledged by the peer's TCP.
    Acked,
}

/// A timestamp of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Milestone {
    /// Stage of the transmission.
    pub mile: Mile,
    /// Number of the byte, modulo 2^32; [`request`] returns the number of the next byte written.
    pub byte: u32,
    /// Time on CLOCK_REALTIME.
    pub stamp: Stamp,
}

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// Enables timestamps and returns the number of the next byte written: 0, but kernels before 6.2 count from the first
/// unacknowledged byte.
pub fn request(stream: &TcpStream) -> io::Result<u32> {
    let flags = SOFTWARE | OPT_ID | OPT_TSONLY;
    match super::set(stream.as_fd(), flags | OPT_ID_TCP) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => request_from_unacked(stream, flags),
        result => result.map(|()| 0),
    }
}

fn request_from_unacked(stream: &TcpStream, flags: u32) -> io::Result<u32> {
    for _ in 0..TRIES {
        // The count restarts only if it was disabled before.
        super::set(stream.as_fd(), 0)?;
        let before = unacked_bytes(stream)?;
        super::set(stream.as_fd(), flags)?;
        if unacked_bytes(stream)? == before {
            return Ok(before);
        }
    }
    Err(io::Error::other("acknowledgements came whenever the kernel was asked to count bytes"))
}

/// Bytes written and not acknowledged.
fn unacked_bytes(stream: &TcpStream) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: SIOCOUTQ, which is TIOCOUTQ, writes one int.
    check(unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) })?;
    Ok(bytes as u32)
}

/// A vectored write that requests timestamps of the last byte that the socket accepts.
pub fn send(stream: &TcpStream, slices: &[IoSlice<'_>], ends_record: bool) -> io::Result<usize> {
    let mut control = Control([0; CONTROL_BYTES]);
    let flags = TX_SCHED | TX_SOFTWARE | TX_ACK;
    // SAFETY: an all-zero msghdr is a valid one.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = slices.as_ptr().cast::<libc::iovec>().cast_mut();
    message.msg_iovlen = slices.len() as _;
    message.msg_control = (&raw mut control).cast();
    // SAFETY: no pointers are passed.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(size_of_val(&flags) as u32) } as _;
    // SAFETY: `message` says where `control` is and that it has room for one control message of four bytes.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SO_TIMESTAMPING;
        (*header).cmsg_len = libc::CMSG_LEN(size_of_val(&flags) as u32) as _;
        libc::CMSG_DATA(header).cast::<u32>().write_unaligned(flags);
    }
    let record = if ends_record { libc::MSG_EOR } else { 0 };
    let how = record | libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: an IoSlice is laid out as an iovec, and the kernel only reads the memory to which they and `message`
    // point, all of which lives until the call returns.
    let sent = unsafe { libc::sendmsg(stream.as_raw_fd(), &raw const message, how) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
}

/// Takes all timestamps from the error queue and returns their number.
pub fn collect(stream: &TcpStream, mut take: impl FnMut(Milestone)) -> io::Result<usize> {
    let mut total = 0;
    loop {
        let (messages, milestones) = batch(stream, &mut take)?;
        total += milestones;
        if messages < BATCH {
            return Ok(total);
        }
    }
}

fn batch(stream: &TcpStream, take: &mut impl FnMut(Milestone)) -> io::Result<(usize, usize)> {
    let mut controls = [Control([0; CONTROL_BYTES]); BATCH];
    // SAFETY: an all-zero mmsghdr is a valid one.
    let mut messages: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
    for (message, control) in messages.iter_mut().zip(&mut controls) {
        message.msg_hdr.msg_control = ptr::from_mut(control).cast();
        message.msg_hdr.msg_controllen = CONTROL_BYTES as _;
    }
    let how = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: `messages` are BATCH headers, each with room for control messages that lives until the call returns.
    let got = unsafe {
        libc::recvmmsg(stream.as_raw_fd(), messages.as_mut_ptr(), BATCH as u32, how as _, ptr::null_mut())
    };
    if got < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::WouldBlock { Ok((0, 0)) } else { Err(error) };
    }
    let mut milestones = 0;
    for message in &messages[..got as usize] {
        if let Some(milestone) = milestone(&Said::of(&message.msg_hdr)) {
            take(milestone);
            milestones += 1;
        }
    }
    Ok((got as usize, milestones))
}

fn milestone(said: &Said) -> Option<Milestone> {
    let mile = match said.kind {
        KIND_SCHED => Mile::Queued,
        KIND_SND => Mile::Wire,
        KIND_ACK => Mile::Acked,
        _ => return None,
    };
    Some(Milestone { mile, byte: said.number?, stamp: said.stamp? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;
    use std::time::Duration;

    use crate::{Events, Interest, Poll};

    /// The three timestamps of the last byte sent, in order of arrival.
    fn wait_for(stream: &TcpStream, byte: u32) -> Vec<Milestone> {
        let poll = Poll::new().unwrap();
        poll.add(stream.as_fd(), 7, Interest { readable: false, writable: false }).unwrap();
        let (mut events, mut found) = (Events::new(), Vec::new());
        while found.len() < 3 {
            poll.wait(&mut events, Some(Duration::from_secs(60))).unwrap();
            let ready = events.iter().next().expect("stamps come within a minute");
            assert!(ready.has_error && ready.is_sound());
            let ready = ready.without_error();
            assert!(!ready.readable && !ready.writable);
            collect(stream, |milestone| found.push(milestone)).unwrap();
        }
        assert!(found.iter().all(|milestone| milestone.byte == byte), "{byte}: {found:?}");
        found
    }

    #[test]
    fn a_byte_is_queued_sent_and_acknowledged() {
        for loopback in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(loopback).unwrap();
            let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut peer, _) = listener.accept().unwrap();
            // Bytes written before the request are not counted.
            stream.write_all(&[1; 10]).unwrap();
            assert_eq!(request(&stream).unwrap(), 0);
            stream.write_all(&[2; 100]).unwrap();
            let slices = [IoSlice::new(&[3; 48]), IoSlice::new(&[4; 512])];
            assert_eq!(send(&stream, &slices, true).unwrap(), 560);
            stream.write_all(&[5; 7]).unwrap();
            let mut received = [0; 677];
            peer.read_exact(&mut received).unwrap();
            assert_eq!(received[669..], [4, 5, 5, 5, 5, 5, 5, 5]);
            let found = wait_for(&stream, 659);
            let miles = found.iter().map(|milestone| milestone.mile).collect::<Vec<_>>();
            assert_eq!(miles, [Mile::Queued, Mile::Wire, Mile::Acked]);
            assert!(found.is_sorted_by_key(|milestone| milestone.stamp), "{found:?}");
            assert_eq!(collect(&stream, |_| unreachable!("nothing else was asked for")).unwrap(), 0);
        }
    }

    #[test]
    fn an_older_kernel_counts_from_what_is_not_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut written = 0;
        while let Ok(bytes) = stream.write(&[1; 1 << 16]) {
            written += bytes;
        }
        let first = request_from_unacked(&stream, SOFTWARE | OPT_ID | OPT_TSONLY).unwrap();
        assert!(first > 0 && first as usize <= written, "the peer has not read: {first} of {written}");
        peer.read_exact(&mut vec![0; written]).unwrap();
        let sent = loop {
            match send(&stream, &[IoSlice::new(&[3; 48])], true) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::yield_now(),
                sent => break sent.unwrap(),
            }
        };
        wait_for(&stream, first + sent as u32 - 1);
    }

    #[test]
    fn every_small_record_has_its_own() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        request(&stream).unwrap();
        for n in 0..20 {
            assert_eq!(send(&stream, &[IoSlice::new(&[0; 48])], true).unwrap(), 48);
            peer.read_exact(&mut [0; 48]).unwrap();
            wait_for(&stream, 48 * n + 47);
        }
    }
}
