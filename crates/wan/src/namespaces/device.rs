//! A host's device: a TUN if it can be opened, else one end of a veth pair. Both use the same packet format.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::str::FromStr;

use net::tun::{Offload, Tun};
use net::veth::Veth;

/// Packets that are read from a device's ring ahead of its wire, so that the thread need not wake for each; the ring
/// itself is that much shorter.
pub(crate) const READ_AHEAD_PACKETS: u32 = 16;

/// Kind of the hosts' devices.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum DeviceKind {
    /// A TUN, or a veth pair where /dev/net/tun does not open.
    #[default]
    Auto,
    /// A TUN.
    Tun,
    /// A veth pair.
    Veth,
}

/// The device of one host.
#[derive(Debug)]
pub(crate) enum Device {
    Tun(Tun),
    Veth(Veth),
}

impl Device {
    /// The name that users see.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Device::Tun(_) => "tun",
            Device::Veth(_) => "veth",
        }
    }

    /// Reads one packet with its header into `buffer`, which has [`MAX_BYTES`](net::tun::MAX_BYTES); `None` if none
    /// waits.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self {
            Device::Tun(tun) => tun.read(buffer),
            Device::Veth(veth) => veth.read(buffer),
        }
    }

    /// Checks that the device still exists. Reading a TUN reports that itself.
    pub(crate) fn check(&self) -> io::Result<()> {
        match self {
            Device::Tun(_) => Ok(()),
            Device::Veth(veth) => veth.check(),
        }
    }

    /// Delivers one packet with its header to the host.
    pub(crate) fn write(&self, packet: &[u8]) -> io::Result<()> {
        match self {
            Device::Tun(tun) => tun.write(packet),
            Device::Veth(veth) => veth.write(packet),
        }
    }

    /// Delivers one packet, whose headers and payloads lie apart, to the host.
    pub(crate) fn write_parts(
        &self,
        offload: &Offload,
        headers: &[u8],
        payloads: &[&[u8]],
    ) -> io::Result<()> {
        match self {
            Device::Tun(tun) => tun.write_parts(offload, headers, payloads),
            Device::Veth(veth) => veth.write_parts(offload, headers, payloads),
        }
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Device::Tun(tun) => tun.as_fd(),
            Device::Veth(veth) => veth.as_fd(),
        }
    }
}

impl FromStr for DeviceKind {
    type Err = String;

    fn from_str(s: &str) -> Result<DeviceKind, String> {
        match s {
            "auto" => Ok(DeviceKind::Auto),
            "tun" => Ok(DeviceKind::Tun),
            "veth" => Ok(DeviceKind::Veth),
            _ => Err(format!("'{s}' is no device; there are auto, tun and veth")),
        }
    }
}
