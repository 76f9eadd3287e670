//! Substitute for a TUN device if TUN is not accessible: a veth pair with a packet socket at its other end.
//!
//! The host's end has neither ARP nor neighbours, so that it behaves like a TUN device; the other end is in a network
//! namespace of its own, which lives as long as the socket. Packets have the format of [`Tun`](super::tun::Tun): behind
//! a virtio header, super-packets whole, with partial checksums. See packet(7) and the kernel's
//! Documentation/networking/packet_mmap.rst.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::device::interface::{self, PairedDevices, Setting};
use crate::device::offload;
use crate::device::packet_ring::PacketRing;
use crate::device::tun::{HEADER_BYTES, Offload, PAYLOADS_MAX};
use crate::namespace;
use crate::syscall::check;

/// Length of the Ethernet header, which the path does not see.
const ETHERNET_BYTES: usize = 14;
/// Ethernet address of the host's end: without neighbours, frames are sent to the device's own address. Locally
/// administered.
const ADDRESS: [u8; 6] = [2, 0x66, 0x61, 0x72, 0x6c, 1];
/// Name of the other end, in its own namespace.
const BACK: &str = "back";
const BACK_MTU_BYTES: u32 = 65_535;
/// Offset of the field `csum_start` in the virtio header.
const CHECKSUM_START: usize = 6;
const NEEDS_CSUM: u8 = 1;
/// linux/if_packet.h
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

/// A veth pair of which one end belongs to a host; removed on drop.
#[derive(Debug)]
pub struct Veth {
    socket: OwnedFd,
    ring: PacketRing,
    dropped: AtomicU64,
}

impl Veth {
    /// Makes the device `name` in the namespace of the calling thread. Packets up to `packet_max_bytes` of IP wait
    /// for [`read`](Veth::read) in `memory_bytes`.
    pub fn create(name: &str, packet_max_bytes: usize, memory_bytes: usize) -> io::Result<Veth> {
        let here = File::open("/proc/thread-self/ns/net")?;
        let make = || {
            interface::make_pair(&PairedDevices {
                near: BACK,
                near_mtu_bytes: BACK_MTU_BYTES,
                far: name,
                far_address: ADDRESS,
                far_namespace: here.as_fd(),
            })?;
            let socket = open()?;
            let ring = PacketRing::new(&socket, ETHERNET_BYTES + packet_max_bytes, memory_bytes)?;
            interface::set_up(BACK, Setting::default())?;
            listen(&socket, interface::index_of(BACK)?)?;
            Ok(Veth { socket, ring, dropped: AtomicU64::new(0) })
        };
        // The socket keeps the new namespace when the descriptor is gone.
        let (_, veth) = namespace::Namespace::create(make)?;
        // A TUN device gets single datagrams too.
        offload::without(name, "tx-udp-segmentation")?;
        Ok(veth)
    }

    /// Reads one packet with its header into `buffer` of [`MAX_BYTES`](super::tun::MAX_BYTES); `None` if none waits.
    /// Only one thread reads.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            let Some(frame) = self.ring.next() else { return Ok(None) };
            let Some((header, packet)) = frame.parts(HEADER_BYTES, ETHERNET_BYTES) else {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            // Other programs of a host may send other protocols than IP to every device (LLDP); a TUN device never
            // delivers those.
            if !matches!(packet.first().map(|byte| byte >> 4), Some(4 | 6)) {
                continue;
            }
            let len = HEADER_BYTES + packet.len();
            if len > buffer.len() {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            buffer[..HEADER_BYTES].copy_from_slice(header);
            move_checksum(&mut buffer[..HEADER_BYTES], |start| start.wrapping_sub(ETHERNET_BYTES as u16));
            buffer[HEADER_BYTES..len].copy_from_slice(packet);
            return Ok(Some(len));
        }
    }

    /// Checks that the device exists and is up. Otherwise the socket is always readable, and no packet arrives.
    pub fn check(&self) -> io::Result<()> {
        let mut error: libc::c_int = 0;
        let mut len = size_of_val(&error) as libc::socklen_t;
        let place = (&raw mut error).cast();
        // SAFETY: the option writes one int, for which `error` has room.
        check(unsafe {
            libc::getsockopt(self.socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ERROR, place, &raw mut len)
        })?;
        if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
    }

    /// Passes one packet to the device's host, with headers and at most [`PAYLOADS_MAX`] payload slices.
    pub fn write_parts(&self, offload: &Offload, headers: &[u8], payloads: &[&[u8]]) -> io::Result<()> {
        self.send(offload.header(), headers, payloads)
    }

    /// Passes one packet with its header to the device's host.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        let (header, ip) = packet.split_first_chunk().ok_or(io::ErrorKind::InvalidInput)?;
        self.send(*header, ip, &[])
    }

    /// Packets dropped because the ring was full.
    pub fn drops(&self) -> io::Result<u64> {
        // struct tpacket_stats, which begins anew whenever it is read: packets, drops
        let mut stats = [0u32; 2];
        let mut len = size_of_val(&stats) as libc::socklen_t;
        let (fd, option) = (self.socket.as_raw_fd(), libc::PACKET_STATISTICS);
        // SAFETY: `stats` has room for the `len` bytes that the kernel may write.
        check(unsafe {
            libc::getsockopt(fd, libc::SOL_PACKET, option, stats.as_mut_ptr().cast(), &raw mut len)
        })?;
        Ok(self.dropped.fetch_add(stats[1].into(), Ordering::Relaxed) + u64::from(stats[1]))
    }

    /// Sends a packet and waits for room in the socket: a packet is delayed rather than lost here.
    fn send(&self, mut header: [u8; HEADER_BYTES], ip: &[u8], payloads: &[&[u8]]) -> io::Result<()> {
        move_checksum(&mut header, |start| start.wrapping_add(ETHERNET_BYTES as u16));
        let version = ip.first().map(|byte| byte >> 4);
        let protocol = if version == Some(6) { libc::ETH_P_IPV6 } else { libc::ETH_P_IP };
        let mut ethernet = [0; ETHERNET_BYTES];
        ethernet[..6].copy_from_slice(&ADDRESS);
        ethernet[12..].copy_from_slice(&(protocol as u16).to_be_bytes());
        let vector =
            |part: &[u8]| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() };
        let mut parts = [vector(&[]); 3 + PAYLOADS_MAX];
        let all = [&header[..], &ethernet, ip].into_iter().chain(payloads.iter().copied());
        parts.iter_mut().zip(all).for_each(|(part, bytes)| *part = vector(bytes));
        let parts = &parts[..3 + payloads.len()];
        // SAFETY: the parts are slices that outlive the call, and writev only reads them.
        let sent =
            unsafe { libc::writev(self.socket.as_raw_fd(), parts.as_ptr(), parts.len() as libc::c_int) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl AsFd for Veth {
    /// Becomes readable when a packet waits.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Adjusts the start of a partial checksum, which is relative to the first byte of the packet.
fn move_checksum(header: &mut [u8], to: impl Fn(u16) -> u16) {
    if header[0] & NEEDS_CSUM != 0 {
        let start = u16::from_ne_bytes([header[CHECKSUM_START], header[CHECKSUM_START + 1]]);
        header[CHECKSUM_START..CHECKSUM_START + 2].copy_from_slice(&to(start).to_ne_bytes());
    }
}

/// Opens a packet socket that receives nothing yet.
fn open() -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let raw = check(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the kernel has just returned this descriptor, which has no other owner.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    for option in [libc::PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING] {
        let on: libc::c_int = 1;
        let len = size_of_val(&on) as libc::socklen_t;
        // SAFETY: both options read one int.
        check(unsafe { libc::setsockopt(raw, libc::SOL_PACKET, option, (&raw const on).cast(), len) })?;
    }
    Ok(socket)
}

/// Receives all packets of the device `index`.
fn listen(socket: &OwnedFd, index: u32) -> io::Result<()> {
    // SAFETY: an all-zero address is a valid one.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as libc::c_int;
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: `address` is a link-layer address of `len` bytes.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) }).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_checksum_that_is_left_to_others_moves() {
        let mut header = [1, 1, 52, 0, 0, 0, 34, 0, 16, 0];
        move_checksum(&mut header, |start| start.wrapping_sub(14));
        assert_eq!(header, [1, 1, 52, 0, 0, 0, 20, 0, 16, 0]);
        header[0] = 2;
        move_checksum(&mut header, |start| start.wrapping_sub(14));
        assert_eq!(header[6], 20);
    }
}
