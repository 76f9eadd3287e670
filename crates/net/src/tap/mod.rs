//! Capture of packets on a network device: a packet socket with a ring of blocks that the kernel fills (TPACKET_V3).
//!
//! One system call serves the packets of a whole block, and a filter limits the bytes copied of each packet. Packets
//! for which the ring has no room are lost to the capture, never to the traffic, and are counted. Nothing is sent, and
//! packets are not parsed. See packet(7) and the kernel's Documentation/networking/packet_mmap.rst; `packet_ring` is
//! the older ring of single packets, which also supports sending.
#![allow(unsafe_code)]

mod filter;
mod hardware;
mod ring;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::device::interface;
use crate::device::packet_ring::set;
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
/// ARPHRD types of tunnels and TUN devices: packets have no link-layer header.
const WITHOUT_HEADER: [u16; 5] = [0xfffe, 519, 768, 769, 776];

/// First header of a device's packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    /// Ethernet header.
    Ethernet,
    /// IP header.
    Ip,
}

/// A device whose packets can be captured.
#[derive(Debug)]
pub struct Device {
    socket: OwnedFd,
    name: String,
    index: u32,
    kind: u16,
    link: Link,
}

/// Parameters of a capture.
#[derive(Clone, Copy, Debug)]
pub struct Listening<'a> {
    /// Size of the packet ring.
    pub ring_bytes: usize,
    /// Time after which a block with packets is handed over even if it is not full.
    pub retire: Duration,
    /// Filter that returns the number of bytes to keep of each packet; 0 for none.
    pub filter: &'a [Instruction],
    /// Use hardware timestamps of the network card, on its own clock, instead of the kernel's.
    pub hardware_stamps: bool,
}

/// A running capture.
#[derive(Debug)]
pub struct Tap {
    device: Device,
    ring: Ring,
    /// Hardware timestamping, if enabled.
    stamping: Option<hardware::Stamping>,
    counts: Counts,
    taken: u64,
}

/// Change of a device since the last check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// No change.
    Same,
    /// The device is down, or was down meanwhile; it carries no packets until it is up again.
    Down,
    /// The device was removed, or moved to another namespace; the capture has ended.
    Gone,
}

/// Numbers of packets that passed the filter, and of losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Packets that passed the filter, including lost ones.
    pub packets: u64,
    /// Packets lost because the ring was full.
    pub drops: u64,
    /// Packets omitted because they lack the requested hardware timestamp: other timestamps are on another clock.
    pub unstamped: u64,
}

impl Device {
    /// Looks up the device `name` of the calling thread's namespace.
    ///
    /// # Errors
    /// `NotFound` if there is none, `PermissionDenied` without CAP_NET_RAW, `Unsupported` if its packets begin neither
    /// with an Ethernet nor with an IP header.
    pub fn open(name: &str) -> io::Result<Device> {
        let index = interface::index_of(name).map_err(|error| match error.raw_os_error() {
            Some(libc::ENODEV) => io::Error::from(io::ErrorKind::NotFound),
            _ => error,
        })?;
        // SAFETY: no pointers are passed.
        let raw = check(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
        // SAFETY: the kernel has just returned this descriptor, which has no other owner.
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

    /// First header of the device's packets.
    pub const fn link(&self) -> Link {
        self.link
    }

    /// Name of the device.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts to capture all packets of the device in both directions, whatever their destination. A packet on the
    /// loopback device is captured once, when it is received.
    pub fn listen(self, listening: &Listening<'_>) -> io::Result<Tap> {
        let (fd, raw) = (self.socket.as_fd(), self.socket.as_raw_fd());
        filter::attach(fd, listening.filter)?;
        if listening.hardware_stamps {
            set(raw, PACKET_TIMESTAMP, &RAW_HARDWARE)?;
        }
        if self.kind == ARPHRD_LOOPBACK {
            let on: libc::c_int = 1;
            set(raw, PACKET_IGNORE_OUTGOING, &on)?;
        }
        let mut ring = Ring::new(fd, listening.ring_bytes, listening.retire)?;
        if listening.hardware_stamps {
            ring.only_of_hardware();
        }
        let wanted = libc::packet_mreq {
            mr_ifindex: self.index as libc::c_int,
            mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        set(raw, libc::PACKET_ADD_MEMBERSHIP, &wanted)?;
        let stamping = match listening.hardware_stamps {
            true => Some(hardware::Stamping::start(fd, &self.name)?),
            false => None,
        };
        // From here on dropping the capture restores the card's settings.
        let tap = Tap { device: self, ring, stamping, counts: Counts::default(), taken: 0 };
        bind(&tap.device.socket, tap.device.index, libc::ETH_P_ALL as u16)?;
        Ok(tap)
    }
}

impl Tap {
    /// The captured device.
    pub const fn device(&self) -> &Device {
        &self.device
    }

    /// Timestamp of the next packet in the ring; `None` if there is none.
    #[inline]
    pub fn peek(&mut self) -> Option<Stamp> {
        self.ring.peek()
    }

    /// Takes the next packet from the ring.
    #[inline]
    pub fn take(&mut self) -> Option<Packet<'_>> {
        let packet = self.ring.take()?;
        self.taken += 1;
        Some(packet)
    }

    /// Calls `show` for at most `most` packets of the ring and returns their number; faster for each packet than
    /// [`Tap::take`].
    #[inline]
    pub fn take_each(&mut self, most: u64, show: impl FnMut(&Packet<'_>)) -> u64 {
        let count = self.ring.take_each(most, show);
        self.taken += count;
        count
    }

    /// Counts of packets and losses so far. Call it often: the kernel's counters have 32 bits.
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
        self.counts.unstamped = self.ring.unstamped();
        Ok(self.counts)
    }

    /// Checks the device. Call it whenever the capture is readable: until then, a device that is down keeps the capture
    /// readable without a packet.
    pub fn check(&self) -> io::Result<Condition> {
        let fd = self.device.socket.as_raw_fd();
        let mut error: libc::c_int = 0;
        let mut len = size_of_val(&error) as libc::socklen_t;
        let place = (&raw mut error).cast();
        // SAFETY: the option writes one int, for which `error` has room.
        check(unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR, place, &raw mut len) })?;
        // The kernel unbinds the socket from a removed device some time after the device went down.
        match error {
            0 | libc::ENETDOWN
                if bound_to(&self.device.socket)?.sll_ifindex != self.device.index as libc::c_int =>
            {
                Ok(Condition::Gone)
            }
            0 => Ok(Condition::Same),
            libc::ENETDOWN => Ok(Condition::Down),
            other => Err(io::Error::from_raw_os_error(other)),
        }
    }

    /// Stops the capture; packets in the ring can still be taken.
    pub fn close(&mut self) -> io::Result<()> {
        filter::attach(self.device.socket.as_fd(), &[Instruction::KEEP_NOTHING])
    }

    /// Packets in the ring, including blocks that the kernel has not handed over.
    pub fn waiting(&mut self) -> io::Result<u64> {
        let Counts { packets, drops, unstamped } = self.counts()?;
        Ok(packets.saturating_sub(drops + unstamped).saturating_sub(self.taken))
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        if let Some(stamping) = &mut self.stamping {
            stamping.end(self.device.socket.as_fd());
        }
    }
}

impl AsFd for Tap {
    /// Becomes readable when a block is handed over.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.socket.as_fd()
    }
}

/// Binds `socket` to the device `index` for packets of `protocol` (none if 0) and returns the device's ARPHRD type.
fn bind(socket: &OwnedFd, index: u32, protocol: u16) -> io::Result<u16> {
    // SAFETY: an all-zero address is a valid one.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index as libc::c_int;
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: `address` is a link-layer address of `len` bytes.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) })?;
    Ok(bound_to(socket)?.sll_hatype)
}

/// Link-layer address to which the socket is bound.
fn bound_to(socket: &OwnedFd) -> io::Result<libc::sockaddr_ll> {
    // SAFETY: an all-zero address is a valid one.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    let mut len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: `address` has room for the `len` bytes that the kernel may write.
    check(unsafe { libc::getsockname(socket.as_raw_fd(), (&raw mut address).cast(), &raw mut len) })?;
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::interface::{Setting, set_up};
    use crate::device::tun::Tun;
    use crate::namespace::Namespace;

    fn listen(name: &str) -> Tap {
        let listening = Listening {
            ring_bytes: 2 << 20,
            retire: Duration::from_millis(50),
            filter: &[Instruction::KEEP_NOTHING],
            hardware_stamps: false,
        };
        Device::open(name).and_then(|device| device.listen(&listening)).expect("a tap")
    }

    #[test]
    fn a_device_that_is_down_or_gone_is_told_once() {
        let run = || {
            let lo = listen("lo");
            assert_eq!([lo.check()?, lo.check()?], [Condition::Down, Condition::Same], "not up yet");
            set_up("lo", Setting::default())?;
            assert_eq!(lo.check()?, Condition::Same);
            let tun = Tun::create("gone0")?;
            set_up("gone0", Setting::default())?;
            let tap = listen("gone0");
            assert_eq!(tap.check()?, Condition::Same);
            drop(tun);
            assert_eq!([tap.check()?, tap.check()?], [Condition::Gone; 2]);
            Ok(())
        };
        match Namespace::create(run) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                println!("skipped: a_device_that_is_down_or_gone_is_told_once: no namespace can be made");
            }
            Err(error) => panic!("{error}"),
        }
    }
}
