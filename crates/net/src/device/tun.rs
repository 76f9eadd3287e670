//! TUN devices that transfer whole super-packets (GSO).
//!
//! With IFF_VNET_HDR and segmentation offload a TUN device transfers up to 64 KiB of TCP at once, behind a small header
//! with the segmentation parameters; only this allows 10 Gb/s through two devices and one process. See the kernel's
//! Documentation/networking/tuntap.rst and virtio 1.2, section 5.1.6.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::syscall::check;

/// Bytes of the header in front of every packet.
pub const HEADER_BYTES: usize = 10;
/// Maximum length of a packet with its header.
pub const MAX_BYTES: usize = HEADER_BYTES + 65_535;
/// Maximum number of payload slices of a packet.
pub const PAYLOADS_MAX: usize = 64;

const DEVICES: &str = "/dev/net/tun";
const NEEDS_CSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_ECN: u8 = 0x80;

/// A TUN device; removed on drop.
#[derive(Debug)]
pub struct Tun {
    file: File,
}

/// Segmentation of a packet read from a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// Number of MTU-sized packets.
    pub segments: u16,
    /// Length of the IP and TCP headers of each packet; 0 if there is only one.
    pub header_bytes: u32,
    /// Payload of each packet but the last; 0 if there is only one.
    pub payload_bytes: u32,
}

/// Work that a packet leaves to the receiving device: the TCP checksum, and segmentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offload {
    /// Offset of the TCP header from the IP header.
    pub transport_at: u16,
    /// Offset of the checksum in the TCP header.
    pub checksum_at: u16,
    /// Length of the IP and TCP headers.
    pub header_bytes: u16,
    /// Payload of each segment; `None` if the packet is not segmented.
    pub cut: Option<u16>,
    /// IP version, 4 or 6.
    pub version: u8,
}

impl Tun {
    /// Returns true if TUN devices are accessible; the kernel may still refuse to create one.
    pub fn opens() -> bool {
        OpenOptions::new().read(true).write(true).open(DEVICES).is_ok()
    }

    /// Creates the device `name` in the namespace of the calling thread, with checksum and TCP segmentation offload.
    /// Reads and writes never block.
    pub fn create(name: &str) -> io::Result<Tun> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(DEVICES)?;
        // SAFETY: an all-zero ifreq is a valid one.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        assert!(name.len() < libc::IFNAMSIZ, "a device name has at most 15 bytes");
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
        let fd = file.as_raw_fd();
        // SAFETY: `request` is an ifreq, as TUNSETIFF reads and writes it.
        check(unsafe { libc::ioctl(fd, libc::TUNSETIFF, &raw mut request) })?;
        let header_bytes = HEADER_BYTES as libc::c_int;
        // SAFETY: TUNSETVNETHDRSZ reads one int.
        check(unsafe { libc::ioctl(fd, libc::TUNSETVNETHDRSZ, &raw const header_bytes) })?;
        let offload = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
        // SAFETY: TUNSETOFFLOAD takes its flags by value.
        check(unsafe { libc::ioctl(fd, libc::TUNSETOFFLOAD, libc::c_ulong::from(offload)) })?;
        Ok(Tun { file })
    }

    /// Reads one packet with its header into `buffer` of [`MAX_BYTES`]; `None` if none waits.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.file).read(buffer) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Passes one packet to the device's host, with headers and at most [`PAYLOADS_MAX`] payload slices.
    pub fn write_parts(&self, offload: &Offload, headers: &[u8], payloads: &[&[u8]]) -> io::Result<()> {
        let own = offload.header();
        let mut parts = [IoSlice::new(&[]); 2 + PAYLOADS_MAX];
        let all = [&own[..], headers].into_iter().chain(payloads.iter().copied());
        parts.iter_mut().zip(all).for_each(|(part, bytes)| *part = IoSlice::new(bytes));
        (&self.file).write_vectored(&parts[..2 + payloads.len()]).map(|_| ())
    }

    /// Passes one packet with its header to the device's host.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        (&self.file).write(packet).map(|_| ())
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Offload {
    /// struct virtio_net_hdr, in the byte order of this machine.
    pub(crate) fn header(&self) -> [u8; HEADER_BYTES] {
        let kind = match (self.cut, self.version) {
            (None, _) => GSO_NONE,
            (Some(_), 4) => GSO_TCPV4,
            (Some(_), _) => GSO_TCPV6,
        };
        let mut header = [0; HEADER_BYTES];
        header[..2].copy_from_slice(&[NEEDS_CSUM, kind]);
        let words = [self.header_bytes, self.cut.unwrap_or(0), self.transport_at, self.checksum_at];
        for (at, word) in (2..).step_by(2).zip(words) {
            header[at..at + 2].copy_from_slice(&word.to_ne_bytes());
        }
        header
    }
}

/// Returns true if `packet`, as read by [`Tun::read`], is a single packet with a partial checksum.
pub fn is_unfinished(packet: &[u8]) -> bool {
    packet.len() >= HEADER_BYTES && packet[0] & NEEDS_CSUM != 0 && packet[1] == GSO_NONE
}

impl Cut {
    /// Segmentation of `packet`, as read by [`Tun::read`]. Anything but a TCP super-packet is one packet.
    pub fn of(packet: &[u8]) -> Cut {
        super_packet(packet).unwrap_or(Cut { segments: 1, header_bytes: 0, payload_bytes: 0 })
    }
}

fn super_packet(packet: &[u8]) -> Option<Cut> {
    let (header, ip) = packet.split_first_chunk::<HEADER_BYTES>()?;
    let kind = header[1] & !GSO_ECN;
    if kind == GSO_NONE || (kind != GSO_TCPV4 && kind != GSO_TCPV6) || header[0] & NEEDS_CSUM == 0 {
        return None;
    }
    let mss_bytes = u32::from(u16::from_ne_bytes([header[4], header[5]]));
    // The field hdr_len is only a hint; the checksum starts at the TCP header.
    let tcp = u32::from(u16::from_ne_bytes([header[6], header[7]]));
    let data_offset = ip.get(tcp as usize + 12)?;
    let header_bytes = tcp + u32::from(data_offset >> 4) * 4;
    let payload_bytes = (ip.len() as u32).checked_sub(header_bytes)?;
    if mss_bytes == 0 || payload_bytes == 0 {
        return None;
    }
    // At most 65 535 bytes of payload, at least one byte each.
    let segments = payload_bytes.div_ceil(mss_bytes) as u16;
    Some(Cut { segments, header_bytes, payload_bytes: mss_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(kind: u8, mss: u16, payload: usize) -> Vec<u8> {
        let mut packet = vec![0xa5; HEADER_BYTES + 52 + payload];
        packet[..2].copy_from_slice(&[NEEDS_CSUM, kind]);
        packet[4..6].copy_from_slice(&mss.to_ne_bytes());
        packet[6..8].copy_from_slice(&20u16.to_ne_bytes());
        packet[HEADER_BYTES + 32] = 8 << 4;
        packet
    }

    #[test]
    fn super_packets_are_counted_in_segments() {
        for (kind, payload, segments) in [
            (GSO_TCPV4, 14_480, 10),
            (GSO_TCPV6 | GSO_ECN, 14_481, 11),
            (GSO_TCPV4, 65_000, 45),
            (GSO_TCPV4, 9, 1),
        ] {
            assert_eq!(
                Cut::of(&packet(kind, 1448, payload)),
                Cut { segments, header_bytes: 52, payload_bytes: 1448 },
                "{payload}"
            );
        }
    }

    #[test]
    fn what_is_left_to_the_device_reads_back() {
        let offload =
            Offload { transport_at: 20, checksum_at: 16, header_bytes: 52, cut: Some(1448), version: 4 };
        let mut made = packet(GSO_TCPV4, 1448, 14_480);
        made[..HEADER_BYTES].copy_from_slice(&offload.header());
        assert_eq!(Cut::of(&made), Cut { segments: 10, header_bytes: 52, payload_bytes: 1448 });
        made[..HEADER_BYTES].copy_from_slice(&Offload { cut: None, ..offload }.header());
        assert_eq!(Cut::of(&made).segments, 1);
    }

    #[test]
    fn anything_else_is_one_packet() {
        let one = Cut { segments: 1, header_bytes: 0, payload_bytes: 0 };
        assert_eq!(Cut::of(&packet(GSO_NONE, 0, 100)), one);
        assert_eq!(Cut::of(&packet(GSO_TCPV4, 0, 100)), one, "a size of nothing cuts nothing");
        let whole = packet(GSO_TCPV4, 1448, 3000);
        for len in 0..whole.len().min(HEADER_BYTES + 52) {
            assert_eq!(Cut::of(&whole[..len]), one, "cut off after {len} bytes");
        }
    }
}
