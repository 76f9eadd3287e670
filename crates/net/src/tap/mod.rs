//! Hearing what crosses a network device: a packet socket with a ring of blocks that the kernel fills (TPACKET_V3).
//!
//! One system call serves the packets of a whole block, and the kernel copies no more of each than a filter says. What
//! finds no room in the ring is lost to the tap, never to the traffic, and is counted. Nothing is sent, and packets are
//! not looked into. See packet(7) and the kernel's Documentation/networking/packet_mmap.rst; `packet_ring` is the older
//! ring of single packets, which can be written to as well as heard.
#![allow(unsafe_code)]

mod filter;
mod hardware;
mod ring;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::interface;
use crate::packet_ring::set;
use crate::stamps::Stamp;
use crate::syscall::check;

pub use filter::Instruction;
pub use ring::Packet;
use ring::Ring;

// linux/if_packet.h
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
const PACKET_TIMESTAMP: libc::c_int = 17;
/// SOF_TIMESTAMPING_RAW_HARDWARE of linux/net_tstamp.h.
const RAW_HARDWARE: libc::c_int = 1 << 6;
// linux/if_arp.h
const ARPHRD_ETHER: u16 = 1;
const ARPHRD_LOOPBACK: u16 = 772;
/// Tunnels and TUN devices: nothing is in front of the IP header.
const WITHOUT_HEADER: [u16; 5] = [0xfffe, 519, 768, 769, 776];

/// How packets begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    /// With an Ethernet header.
    Ethernet,
    /// With their IP header.
    Ip,
}

/// A device that can be listened to.
#[derive(Debug)]
pub struct Device {
    socket: OwnedFd,
    name: String,
    index: u32,
    kind: u16,
    link: Link,
}

/// How to listen.
#[derive(Clone, Copy, Debug)]
pub struct Listening<'a> {
    /// Memory for packets that nobody has taken yet.
    pub ring_bytes: usize,
    /// A block that has packets is handed over after this time even if it is not full.
    pub retire: Duration,
    /// Says of each packet how many bytes are kept of it; 0 for none.
    pub filter: &'a [Instruction],
    /// Take the stamps of the network card, on its own clock, instead of the kernel's.
    pub hardware_stamps: bool,
}

/// A device that is being listened to.
#[derive(Debug)]
pub struct Tap {
    device: Device,
    ring: Ring,
    counts: Counts,
    taken: u64,
}

/// Packets that the filter let through, and how many of them were lost for want of room.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// All of them.
    pub packets: u64,
    /// Those that were lost.
    pub drops: u64,
}

impl Device {
    /// Looks up the device `name` of the calling thread's namespace.
    ///
    /// # Errors
    /// `NotFound` if there is none, `PermissionDenied` without CAP_NET_RAW, `Unsupported` if its packets begin with
    /// something else than Ethernet or IP.
    pub fn open(name: &str) -> io::Result<Device> {
        let index = interface::index_of(name).map_err(|error| match error.raw_os_error() {
            Some(libc::ENODEV) => io::Error::from(io::ErrorKind::NotFound),
            _ => error,
        })?;
        // SAFETY: no pointers are passed.
        let raw = check(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
        // SAFETY: the kernel just gave us this descriptor and nobody else owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(raw) };
        let kind = bind(&socket, index, 0)?;
        let link = match kind {
            ARPHRD_ETHER | ARPHRD_LOOPBACK => Link::Ethernet,
            _ if WITHOUT_HEADER.contains(&kind) => Link::Ip,
            _ => {
                let text = format!(
                    "is of type {kind} (ARPHRD_), expected Ethernet, loopback or a device of IP packets"
                );
                return Err(io::Error::new(io::ErrorKind::Unsupported, text));
            }
        };
        Ok(Device { socket, name: name.to_owned(), index, kind, link })
    }

    /// How its packets begin.
    pub const fn link(&self) -> Link {
        self.link
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Hears everything that crosses the device from now on, in both directions, whoever it is for. What goes out over
    /// the loopback device comes back at once and is heard then.
    pub fn listen(self, listening: &Listening<'_>) -> io::Result<Tap> {
        let (fd, raw) = (self.socket.as_fd(), self.socket.as_raw_fd());
        filter::attach(fd, listening.filter)?;
        if listening.hardware_stamps {
            hardware::switch_on(fd, &self.name)?;
            set(raw, PACKET_TIMESTAMP, &RAW_HARDWARE)?;
        }
        if self.kind == ARPHRD_LOOPBACK {
            let on: libc::c_int = 1;
            set(raw, PACKET_IGNORE_OUTGOING, &on)?;
        }
        let ring = Ring::new(fd, listening.ring_bytes, listening.retire)?;
        let wanted = libc::packet_mreq {
            mr_ifindex: self.index as libc::c_int,
            mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        set(raw, libc::PACKET_ADD_MEMBERSHIP, &wanted)?;
        bind(&self.socket, self.index, libc::ETH_P_ALL as u16)?;
        Ok(Tap { device: self, ring, counts: Counts::default(), taken: 0 })
    }
}

impl Tap {
    /// The device.
    pub const fn device(&self) -> &Device {
        &self.device
    }

    /// When the next packet that has been handed over crossed the device; `None` if there is none.
    #[inline]
    pub fn peek(&mut self) -> Option<Stamp> {
        self.ring.peek()
    }

    /// The next packet that has been handed over.
    #[inline]
    pub fn take(&mut self) -> Option<Packet<'_>> {
        let packet = self.ring.take()?;
        self.taken += 1;
        Some(packet)
    }

    /// What was let through and what was lost, up to now. To be asked often: the kernel counts in 32 bits.
    pub fn counts(&mut self) -> io::Result<Counts> {
        // struct tpacket_stats_v3, which begins anew whenever it is read: packets, drops, times the queue froze
        let mut stats = [0u32; 3];
        let mut len = size_of_val(&stats) as libc::socklen_t;
        let (fd, option) = (self.device.socket.as_raw_fd(), libc::PACKET_STATISTICS);
        // SAFETY: `stats` has room for the `len` bytes that the kernel may write.
        check(unsafe {
            libc::getsockopt(fd, libc::SOL_PACKET, option, stats.as_mut_ptr().cast(), &raw mut len)
        })?;
        self.counts.packets += u64::from(stats[0]);
        self.counts.drops += u64::from(stats[1]);
        Ok(self.counts)
    }

    /// Nothing is heard any more; what was can still be taken.
    pub fn close(&mut self) -> io::Result<()> {
        filter::attach(self.device.socket.as_fd(), &[Instruction::KEEP_NOTHING])
    }

    /// Packets that are in the ring, in blocks that the kernel has not handed over yet as well.
    pub fn waiting(&mut self) -> io::Result<u64> {
        let Counts { packets, drops } = self.counts()?;
        Ok(packets.saturating_sub(drops).saturating_sub(self.taken))
    }
}

impl AsFd for Tap {
    /// Readable when a block was handed over.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.socket.as_fd()
    }
}

/// Binds `socket` to the device number `index` for packets of `protocol` (none at all if 0); the device's type.
fn bind(socket: &OwnedFd, index: u32, protocol: u16) -> io::Result<u16> {
    // SAFETY: an all-zero address is a valid one.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index as libc::c_int;
    let mut len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: `address` is a link-layer address of `len` bytes, to be read and then to be written.
    unsafe {
        check(libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len))?;
        check(libc::getsockname(socket.as_raw_fd(), (&raw mut address).cast(), &raw mut len))?;
    }
    Ok(address.sll_hatype)
}
