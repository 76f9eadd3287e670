//! Network devices of the calling thread's namespace: up, sizes, addresses, counters, super-packets.
//!
//! Uses rtnetlink(7), the only interface for the limit of super-packets, and needs no `ip` command.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::device::offload;
use crate::device::rtnetlink::{
    NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL, attribute, attributes, dump, request,
};

// linux/rtnetlink.h, linux/if_link.h, linux/if_addr.h
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
/// struct ifaddrmsg: family, prefix, flags, scope, index
const IFADDRMSG_BYTES: usize = 8;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_TXQLEN: u16 = 13;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_GSO_MAX_SEGS: u16 = 40;
const IFLA_GSO_MAX_SIZE: u16 = 41;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
/// struct ifinfomsg: family, padding, type, index, flags, mask of the flags meant
const IFINFOMSG_BYTES: usize = 16;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
const IFA_F_NODAD: u32 = 2;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTAX_CC_ALGO: u16 = 16;
const RT_TABLE_MAIN: u8 = 254;
const RTPROT_KERNEL: u8 = 2;
const RTN_UNICAST: u8 = 1;
/// Metric of the routes that IPv6 makes for an address (IP6_RT_PRIO_ADDRCONF).
const IPV6_PRIORITY: u32 = 256;

/// Settings of a device that goes up; `None` leaves a setting unchanged.
#[derive(Clone, Copy, Default, Debug)]
pub struct Setting {
    /// Largest packet, in bytes of IP.
    pub mtu_bytes: Option<u32>,
    /// Length of the device's queue in packets; a super-packet counts as one.
    pub queue_packets: Option<u32>,
    /// Largest super-packet that TCP builds for this device.
    pub gso_max_bytes: Option<u32>,
    /// Maximum number of segments of a super-packet; 1 disables super-packets.
    pub gso_max_segments: Option<u32>,
    /// All frames go to the device's own address, without neighbour discovery or ARP.
    pub no_neighbours: bool,
}

/// A pair of Ethernet devices, each of which delivers its packets to the other (veth(4)).
#[derive(Clone, Copy, Debug)]
pub struct PairedDevices<'a> {
    /// Device in the namespace of the calling thread.
    pub near: &'a str,
    /// MTU of that device, in bytes of IP.
    pub near_mtu_bytes: u32,
    /// Device in another namespace.
    pub far: &'a str,
    /// Ethernet address of that device.
    pub far_address: [u8; 6],
    /// The other namespace.
    pub far_namespace: BorrowedFd<'a>,
}

/// Makes a pair of devices, both down.
pub fn make_pair(pair: &PairedDevices<'_>) -> io::Result<()> {
    let mut peer = vec![0; IFINFOMSG_BYTES];
    attribute(&mut peer, IFLA_IFNAME, CString::new(pair.far)?.as_bytes_with_nul());
    attribute(&mut peer, IFLA_ADDRESS, &pair.far_address);
    attribute(&mut peer, IFLA_NET_NS_FD, &pair.far_namespace.as_raw_fd().to_ne_bytes());
    let mut data = Vec::new();
    attribute(&mut data, VETH_INFO_PEER, &peer);
    let mut info = Vec::new();
    attribute(&mut info, IFLA_INFO_KIND, b"veth");
    attribute(&mut info, IFLA_INFO_DATA, &data);
    let mut body = vec![0; IFINFOMSG_BYTES];
    attribute(&mut body, IFLA_IFNAME, CString::new(pair.near)?.as_bytes_with_nul());
    attribute(&mut body, IFLA_MTU, &pair.near_mtu_bytes.to_ne_bytes());
    attribute(&mut body, IFLA_LINKINFO, &info);
    request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &body)
}

/// Changes the device `name` and takes it up.
pub fn set_up(name: &str, setting: Setting) -> io::Result<()> {
    let index = index_of(name)?;
    let up = libc::IFF_UP as u32;
    let alone = if setting.no_neighbours { libc::IFF_NOARP as u32 } else { 0 };
    let mut body = vec![libc::AF_UNSPEC as u8, 0, 0, 0];
    for word in [index, up | alone, up | alone] {
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
    request(RTM_NEWLINK, 0, &body)
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
    request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &body)
}

/// Sets the congestion control of connections to the network of an address of the device `name`, as `congctl` of
/// ip-route(8). The route replaces the kernel's own route of this device to the network; routes of other devices are
/// kept. Sockets use it unless they select another congestion control after they have started to connect.
pub fn set_congestion(name: &str, address: IpAddr, prefix_bits: u8, congestion: &str) -> io::Result<()> {
    let (family, scope, network) = match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32u32.saturating_sub(prefix_bits.into())).unwrap_or(0);
            let network = (u32::from(v4) & mask).to_be_bytes().to_vec();
            (libc::AF_INET, libc::RT_SCOPE_LINK, network)
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128u32.saturating_sub(prefix_bits.into())).unwrap_or(0);
            let network = (u128::from(v6) & mask).to_be_bytes().to_vec();
            (libc::AF_INET6, libc::RT_SCOPE_UNIVERSE, network)
        }
    };
    // struct rtmsg: family, bits of destination and source, TOS, table, protocol, scope, type, flags
    let mut body =
        vec![family as u8, prefix_bits, 0, 0, RT_TABLE_MAIN, RTPROT_KERNEL, scope, RTN_UNICAST, 0, 0, 0, 0];
    attribute(&mut body, RTA_DST, &network);
    attribute(&mut body, RTA_OIF, &index_of(name)?.to_ne_bytes());
    match address {
        IpAddr::V4(v4) => attribute(&mut body, RTA_PREFSRC, &v4.octets()),
        IpAddr::V6(_) => attribute(&mut body, RTA_PRIORITY, &IPV6_PRIORITY.to_ne_bytes()),
    }
    // NLM_F_REPLACE would take the first route with this network and metric, of any device.
    match request(RTM_DELROUTE, 0, &body) {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
        result => result?,
    }
    let mut metrics = Vec::new();
    attribute(&mut metrics, RTAX_CC_ALGO, CString::new(congestion)?.as_bytes_with_nul());
    attribute(&mut body, RTA_METRICS, &metrics);
    request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_APPEND, &body)
}

/// Returns true if the device with the address `local` accepts super-packets of TCP, and also for an address of no
/// device.
pub fn takes_super_packets(local: IpAddr) -> io::Result<bool> {
    let local = local.to_canonical();
    let bytes = match local {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let mut index = None;
    dump(RTM_GETADDR, &[0; IFADDRMSG_BYTES], RTM_NEWADDR, |body| {
        let Some((head, rest)) = body.split_first_chunk::<IFADDRMSG_BYTES>() else { return };
        let is_it =
            attributes(rest).any(|(kind, value)| matches!(kind, IFA_LOCAL | IFA_ADDRESS) && value == bytes);
        if is_it {
            index = head[4..].first_chunk().map(|index| i32::from_ne_bytes(*index));
        }
    })?;
    let Some(index) = index else { return Ok(true) };
    let (mut name, mut segments) = (None, u32::MAX);
    dump(RTM_GETLINK, &[0; IFINFOMSG_BYTES], RTM_NEWLINK, |body| {
        let Some((head, rest)) = body.split_first_chunk::<IFINFOMSG_BYTES>() else { return };
        if head[4..].first_chunk().map(|index| i32::from_ne_bytes(*index)) != Some(index) {
            return;
        }
        for (kind, value) in attributes(rest) {
            match kind {
                IFLA_IFNAME => name = CStr::from_bytes_until_nul(value).ok().map(ToOwned::to_owned),
                IFLA_GSO_MAX_SEGS => {
                    segments = value.first_chunk().map_or(u32::MAX, |value| u32::from_ne_bytes(*value));
                }
                _ => {}
            }
        }
    })?;
    let Some(name) = name.and_then(|name| name.into_string().ok()) else { return Ok(true) };
    Ok(segments > 1 && offload::segments(&name)?)
}

/// Packets that the device `name` has dropped on transmission since its creation.
pub fn transmit_drops(name: &str) -> io::Result<u64> {
    // /proc/net would show the namespace of the process, not of this thread.
    let table = fs::read_to_string("/proc/thread-self/net/dev")?;
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'));
    // Eight columns of receiving, then bytes, packets, errors and drops of sending.
    let drops = line.and_then(|line| line.split_whitespace().nth(11)?.parse().ok());
    drops.ok_or_else(|| io::Error::other(format!("no device {name} in /proc/thread-self/net/dev")))
}

/// Names of all devices.
pub fn names() -> io::Result<Vec<String>> {
    let table = fs::read_to_string("/proc/thread-self/net/dev")?;
    let names = table.lines().filter_map(|line| line.split_once(':'));
    Ok(names.map(|(name, _)| name.trim().to_owned()).collect())
}

pub(crate) fn index_of(name: &str) -> io::Result<u32> {
    let name = CString::new(name)?;
    // SAFETY: `name` is a string that ends in a zero byte.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::namespace::Namespace;

    /// Devices of the routes to the networks 198.18.0.0/24 and 2001:2::/64, sorted.
    fn devices() -> io::Result<[Vec<String>; 2]> {
        let find = |table: &str, network: (usize, &str), device: usize| -> io::Result<Vec<String>> {
            let table = fs::read_to_string(table)?;
            let lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            let lines = lines.filter(|words| words[network.0] == network.1 && words[device] != "lo");
            let mut devices: Vec<String> = lines.map(|words| words[device].to_owned()).collect();
            devices.sort();
            Ok(devices)
        };
        let ipv4 = format!("{:08X}", u32::from_ne_bytes([198, 18, 0, 0]));
        Ok([
            find("/proc/thread-self/net/route", (1, &ipv4), 0)?,
            find("/proc/thread-self/net/ipv6_route", (0, "20010002000000000000000000000000"), 9)?,
        ])
    }

    /// Two devices with addresses of one network, as on a machine that is a host of a path.
    #[test]
    fn a_route_with_a_congestion_control_replaces_that_of_its_own_device_alone() {
        let work = || {
            let here = fs::File::open("/proc/thread-self/ns/net")?;
            for (near, far, address) in [("a0", "a1", 1), ("b0", "b1", 2)] {
                make_pair(&PairedDevices {
                    near,
                    near_mtu_bytes: 1500,
                    far,
                    far_address: [2, 0, 0, 0, 0, address],
                    far_namespace: here.as_fd(),
                })?;
                [near, far].into_iter().try_for_each(|name| set_up(name, Setting::default()))?;
                add_address(near, [198, 18, 0, address].into(), 24)?;
                add_address(near, [0x2001, 2, 0, 0, 0, 0, 0, address.into()].into(), 64)?;
            }
            let before = devices()?;
            set_congestion("b0", [198, 18, 0, 2].into(), 24, "reno")?;
            set_congestion("b0", [0x2001, 2, 0, 0, 0, 0, 0, 2u16].into(), 64, "reno")?;
            Ok((before, devices()?))
        };
        match Namespace::create(work) {
            Ok((_, (before, after))) => {
                assert_eq!(before, [["a0", "b0"]; 2]);
                assert_eq!(after, before);
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                println!(
                    "skipped: a_route_with_a_congestion_control_replaces_that_of_its_own_device_alone: {error}"
                );
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn loopback_takes_super_packets_and_an_address_of_nobody_is_none_of_our_business() {
        for address in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "203.0.113.77"] {
            assert!(takes_super_packets(address.parse().unwrap()).expect("anybody may ask"), "{address}");
        }
    }
}
