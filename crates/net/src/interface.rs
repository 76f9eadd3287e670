//! Network devices of the calling thread's namespace: up, sizes, addresses, counters.
//!
//! Speaks rtnetlink (rtnetlink(7)) because the limit of super-packets can be set no other way, and needs no
//! `ip` on the machine. One request, one answer, a socket for each: this is set-up, not data.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::syscall::check;

// linux/rtnetlink.h, linux/if_link.h, linux/if_addr.h
const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWQDISC: u16 = 36;
const IFLA_MTU: u16 = 4;
const IFLA_TXQLEN: u16 = 13;
const IFLA_GSO_MAX_SEGS: u16 = 40;
const IFLA_GSO_MAX_SIZE: u16 = 41;
const TCA_KIND: u16 = 1;
const TC_H_ROOT: u32 = 0xffff_ffff;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
const IFA_F_NODAD: u32 = 2;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_REPLACE: u16 = 0x100;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;
const NLMSG_ERROR: u16 = 2;

/// What to change of a device when it goes up; `None` leaves what is.
#[derive(Clone, Copy, Default, Debug)]
pub struct Setting {
    /// Largest packet, in bytes of IP.
    pub mtu_bytes: Option<u32>,
    /// Packets that may wait for the reader of the device; a super-packet counts as one.
    pub queue_packets: Option<u32>,
    /// Largest super-packet that TCP builds for this device.
    pub gso_max_bytes: Option<u32>,
    /// Segments of the largest super-packet; 1 for none at all.
    pub gso_max_segments: Option<u32>,
}

/// Changes the device `name` and takes it up.
pub fn set_up(name: &str, setting: Setting) -> io::Result<()> {
    let index = index_of(name)?;
    let up = libc::IFF_UP as u32;
    // struct ifinfomsg: family, padding, type, index, flags, mask of the flags meant
    let mut body = vec![libc::AF_UNSPEC as u8, 0, 0, 0];
    for word in [index, up, up] {
        body.extend(word.to_ne_bytes());
    }
    for (kind, value) in [
        (IFLA_MTU, setting.mtu_bytes),
        (IFLA_TXQLEN, setting.queue_packets),
        (IFLA_GSO_MAX_SIZE, setting.gso_max_bytes),
        (IFLA_GSO_MAX_SEGS, setting.gso_max_segments),
    ] {
        if let Some(value) = value {
            attribute(&mut body, kind, &value.to_ne_bytes());
        }
    }
    request(RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK, &body)
}

/// Takes the queue away that lies before the device `name`: a packet for which the device itself has no room is refused
/// while its sender looks, which TCP takes as congestion of this host (state CWR).
pub fn without_queue(name: &str) -> io::Result<()> {
    // struct tcmsg: family and padding, index, handle, parent, info
    let mut body = vec![libc::AF_UNSPEC as u8, 0, 0, 0];
    for word in [index_of(name)?, 0, TC_H_ROOT, 0] {
        body.extend(word.to_ne_bytes());
    }
    attribute(&mut body, TCA_KIND, b"noqueue\0");
    request(RTM_NEWQDISC, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE, &body)
}

/// Gives the device `name` an address, usable at once (no duplicate address detection).
pub fn add_address(name: &str, address: IpAddr, prefix_bits: u8) -> io::Result<()> {
    let (family, bytes) = match address {
        IpAddr::V4(v4) => (libc::AF_INET, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6, v6.octets().to_vec()),
    };
    // struct ifaddrmsg: family, prefix length, flags, scope, index
    let mut body = vec![family as u8, prefix_bits, 0, 0];
    body.extend(index_of(name)?.to_ne_bytes());
    attribute(&mut body, IFA_LOCAL, &bytes);
    attribute(&mut body, IFA_ADDRESS, &bytes);
    attribute(&mut body, IFA_FLAGS, &IFA_F_NODAD.to_ne_bytes());
    request(RTM_NEWADDR, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, &body)
}

/// Packets that the device `name` refused to send since it was made, for want of room.
pub fn transmit_drops(name: &str) -> io::Result<u64> {
    // /proc/net would show the namespace of the process, not of this thread.
    let table = fs::read_to_string("/proc/thread-self/net/dev")?;
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'));
    // Eight columns of receiving, then bytes, packets, errors and drops of sending.
    let drops = line.and_then(|line| line.split_whitespace().nth(11)?.parse().ok());
    drops.ok_or_else(|| io::Error::other(format!("no device {name} in /proc/thread-self/net/dev")))
}

fn index_of(name: &str) -> io::Result<u32> {
    let name = CString::new(name)?;
    // SAFETY: `name` is a string that ends in a zero byte.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend((4 + value.len() as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// Sends one request and waits for the kernel's yes or no.
fn request(kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
    // SAFETY: no pointers are passed.
    let raw = check(unsafe {
        libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE)
    })?;
    // SAFETY: the kernel just gave us this descriptor and nobody else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    // struct nlmsghdr: length, type, flags, sequence, port
    let mut message = Vec::with_capacity(16 + body.len());
    message.extend((16 + body.len() as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    // SAFETY: `message` holds as many bytes as we say. A socket without an address talks to the kernel.
    let sent = unsafe { libc::send(socket.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut answer = [0u8; 4096];
    // SAFETY: `answer` has room for as many bytes as we say.
    let got = unsafe { libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0) };
    if got < 20 || u16::from_ne_bytes([answer[4], answer[5]]) != NLMSG_ERROR {
        return Err(io::Error::other("the kernel did not answer an rtnetlink request"));
    }
    // struct nlmsgerr begins with the negative errno, zero for yes.
    match i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]) {
        0 => Ok(()),
        negative => Err(io::Error::from_raw_os_error(-negative)),
    }
}
