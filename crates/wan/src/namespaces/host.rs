//! A host of the path: a namespace with its device, its addresses and its settings.
//!
//! Or this machine itself as the far one: then its namespace gets one more device, and nothing else of it is touched.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::ops::{Add, Sub};
use std::path::Path;
use std::time::Duration;

use net::interface::{self, Setting};
use net::namespace::Namespace;
use net::qdisc::{self, CardRing};
use net::tun::Tun;
use net::veth::Veth;

use super::device::{Device, DeviceKind, READ_AHEAD_PACKETS};
use crate::{HostName, Side, Spec, WanError};

/// The device's name in a namespace of the path, and on this machine.
const DEVICE: &str = "wan0";
const DEVICE_HERE: &str = "farlun-far";

/// Queue of a device before its thread reads it. Its packets have not reached the path yet, so it must never drop; a
/// window of 400 MB that TCP sends at once is 32 000 super-packets of 12 500 bytes.
const DEVICE_QUEUE_PACKETS: u32 = 65_536;
/// Shortest prefix of a network; shorter ones are parts of a default route.
const NETWORK_BITS_LEAST: u32 = 8;
/// Burst of the kernel's token bucket that empties a ring, so that its timer keeps up.
const RING_BURST: Duration = Duration::from_micros(100);
/// Ethernet header, the only part of the framing that the kernel counts.
const ETHERNET_BYTES: u32 = 14;

/// Settings under /proc/sys/net of each namespace, with reasons.
const SYSCTLS: [(&str, &str); 6] = [
    // Metrics of one connection must not start the next one, or cells contaminate each other.
    ("ipv4/tcp_no_metrics_save", "1"),
    // Windows grow up to the path's need; the default maximum of 6 or 32 MB would limit every long path. Minimum and
    // default are the kernel's own: memory is only used as needed.
    ("ipv4/tcp_rmem", "4096 131072 1073741824"),
    ("ipv4/tcp_wmem", "4096 16384 1073741824"),
    // A connection that was idle for a retransmission timeout would start from ten packets again. That is a
    // limiter of its own, studied by a plan of its own; elsewhere it would make the figure of a cell depend on
    // how long its ends happened to pause.
    ("ipv4/tcp_slow_start_after_idle", "0"),
    // The path carries the commands' traffic and little else.
    ("ipv6/conf/default/accept_ra", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
];

/// Settings that are reported but not changed.
const REPORTED: [&str; 5] = [
    "ipv4/tcp_congestion_control",
    "ipv4/tcp_timestamps",
    "ipv4/tcp_sack",
    "ipv4/tcp_window_scaling",
    "ipv4/tcp_limit_output_bytes",
];

/// Smallest TCP buffer, the kernel's own.
const BUFFER_LEAST: u64 = 4096;

/// For a ring in a queue of the kernel: at its default pacing ratios TCP keeps its backlog below a millisecond, in
/// which a card's ring would never fill. In percent of its rate.
const SYSCTLS_RING: [(&str, &str); 2] =
    [("ipv4/tcp_pacing_ss_ratio", "1000"), ("ipv4/tcp_pacing_ca_ratio", "1000")];

/// A host of the path.
pub(crate) struct Host {
    pub(crate) name: HostName,
    pub(crate) namespace: Namespace,
    /// True if the namespace was made for the path.
    pub(crate) own: bool,
    pub(crate) device: Device,
    device_name: &'static str,
    ring: bool,
    /// Names as sysctl(8) writes them, with the values read back.
    pub(crate) sysctls: BTreeMap<String, String>,
}

/// Packets that were dropped before the path.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Drops {
    /// The ring was full.
    pub(crate) ring: u64,
    /// A device had no room before they were read: the run is not valid.
    pub(crate) unasked: u64,
}

impl Add for Drops {
    type Output = Drops;

    fn add(self, more: Drops) -> Drops {
        Drops { ring: self.ring + more.ring, unasked: self.unasked + more.unasked }
    }
}

impl Sub for Drops {
    type Output = Drops;

    fn sub(self, before: Drops) -> Drops {
        Drops { ring: self.ring - before.ring, unasked: self.unasked - before.unasked }
    }
}

impl Host {
    /// Makes a host of a path in a namespace of its own.
    pub(crate) fn create(name: impl Into<HostName>, spec: &Spec) -> Result<Host, WanError> {
        let name = name.into();
        let set_up = || {
            Ok(settle(name, spec).and_then(|()| {
                let device = furnish(name, spec, DEVICE)?;
                let sysctls = settings_found(name)?;
                Ok((device, sysctls))
            }))
        };
        let (namespace, furnished) = Namespace::create(set_up).map_err(WanError::Namespace)?;
        let (device, sysctls) = furnished?;
        let ring = spec.ring_packets.is_some();
        Ok(Host { name, namespace, own: true, device, device_name: DEVICE, ring, sysctls })
    }

    /// Makes this machine the far host.
    pub(crate) fn here(spec: &Spec) -> Result<Host, WanError> {
        let name = HostName::from(Side::Far);
        for (address, bits) in name.addresses(spec.only_ipv6) {
            // A successful bind means that this machine has the address.
            if UdpSocket::bind((address, 0)).is_ok() {
                return Err(WanError::AddressTaken { address, bits });
            }
        }
        let table = fs::read_to_string("/proc/thread-self/net/route").unwrap_or_default();
        if let Some((destination, bits)) = route_in_the_way(&table, name.ipv4()) {
            return Err(WanError::RouteTaken { destination, bits });
        }
        let namespace = Namespace::current().map_err(failed(name, "open this machine's own namespace"))?;
        let device = furnish(name, spec, DEVICE_HERE)?;
        let (sysctls, ring) = (settings_found(name)?, spec.ring_packets.is_some());
        Ok(Host { name, namespace, own: false, device, device_name: DEVICE_HERE, ring, sysctls })
    }

    /// Packets dropped before the path since the host was made.
    pub(crate) fn drops(&self) -> Result<Drops, WanError> {
        let read = || {
            let sending = interface::transmit_drops(self.device_name)?;
            Ok(match (&self.device, self.ring) {
                (Device::Tun(_), true) => Drops { ring: sending, unasked: 0 },
                (Device::Tun(_), false) => Drops { ring: 0, unasked: sending },
                (Device::Veth(veth), ring) => Drops {
                    ring: if ring { qdisc::drops(self.device_name)? } else { 0 },
                    unasked: sending + veth.drops()?,
                },
            })
        };
        self.namespace.run(read).map_err(failed(self.name, "read the device's counters"))
    }

    /// True if a TCP socket listens that other hosts can reach.
    pub(crate) fn listens(&self) -> Result<bool, WanError> {
        let tables = ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"];
        let read = || Ok(tables.iter().any(|path| fs::read_to_string(path).is_ok_and(|t| has_listener(&t))));
        self.namespace.run(read).map_err(failed(self.name, "look for listening sockets"))
    }
}

/// Sets up a namespace of the path, the calling thread's own.
fn settle(name: HostName, spec: &Spec) -> Result<(), WanError> {
    let has_ipv6 = sysctl_path("ipv6").exists();
    for (sysctl, value) in SYSCTLS.iter().filter(|(sysctl, _)| has_ipv6 || !sysctl.starts_with("ipv6/")) {
        set(name, sysctl, value)?;
    }
    let buffers =
        [("ipv4/tcp_rmem", 131_072, spec.buffers.receive), ("ipv4/tcp_wmem", 16_384, spec.buffers.send)];
    for (sysctl, first, most) in buffers {
        if let Some(most) = most {
            set(name, sysctl, &format!("{BUFFER_LEAST} {} {most}", most.min(first)))?;
        }
    }
    interface::set_up("lo", Setting::default()).map_err(failed(name, "take up lo"))
}

/// Makes the host's device in the calling thread's namespace, after its settings: a new device copies those of
/// ipv6/conf/default.
fn furnish(name: HostName, spec: &Spec, device_name: &'static str) -> Result<Device, WanError> {
    let device = make(device_name, spec)?;
    let setting = Setting {
        mtu_bytes: Some(spec.mtu_bytes),
        queue_packets: Some(match (&device, spec.ring_packets) {
            (Device::Tun(_), Some(ring)) => ring - READ_AHEAD_PACKETS,
            _ => DEVICE_QUEUE_PACKETS,
        }),
        gso_max_bytes: Some(spec.gso_max_bytes()),
        // A ring has a place for each packet of MTU size.
        gso_max_segments: spec.ring_packets.map(|_| 1),
        no_neighbours: matches!(device, Device::Veth(_)),
    };
    let what = format!("take up {device_name} with an MTU of {}", spec.mtu_bytes);
    interface::set_up(device_name, setting).map_err(failed(name, what))?;
    if let Some(packets) = spec.ring_packets {
        match &device {
            Device::Tun(_) => qdisc::without_queue(device_name)
                .map_err(failed(name, format!("take the queue away before {device_name}")))?,
            // That needs settings of TCP that are not ours to change there.
            Device::Veth(_) if device_name == DEVICE_HERE => return Err(WanError::RingHere),
            Device::Veth(_) => {
                qdisc::with_ring(device_name, &card_ring(name.side(), spec, packets))
                    .map_err(WanError::Ring)?;
                for (sysctl, value) in SYSCTLS_RING {
                    set(name, sysctl, value)?;
                }
            }
        }
    }
    let ipv6 = allow_ipv6(device_name);
    for (address, bits) in name.addresses(spec.only_ipv6) {
        // Without IPv6 the host has IPv4 alone, unless the path is for IPv6.
        if address.is_ipv6() && !ipv6 && !spec.only_ipv6 {
            continue;
        }
        interface::add_address(device_name, address, bits)
            .map_err(failed(name, format!("add {address}/{bits}")))?;
        if let Some(congestion) = &spec.congestion {
            interface::set_congestion(device_name, address, bits, congestion).map_err(failed(
                name,
                format!("give {address}/{bits} the congestion control {congestion}"),
            ))?;
        }
    }
    Ok(device)
}

/// Enables IPv6 on a device of the path, also where new devices have none; false if this machine has no IPv6.
fn allow_ipv6(device_name: &str) -> bool {
    fs::write(sysctl_path(&format!("ipv6/conf/{device_name}/disable_ipv6")), "0").is_ok()
}

fn make(device_name: &str, spec: &Spec) -> Result<Device, WanError> {
    let veth = || {
        // With a ring there are no super-packets.
        let gso_max_bytes = spec.ring_packets.map_or(spec.gso_max_bytes(), |_| 0);
        let packet_max_bytes = gso_max_bytes.max(spec.mtu_bytes) as usize;
        Veth::create(device_name, packet_max_bytes, spec.veth_queue_bytes()).map(Device::Veth)
    };
    match spec.device {
        DeviceKind::Tun => Tun::create(device_name).map(Device::Tun).map_err(WanError::Tun),
        DeviceKind::Veth => veth().map_err(WanError::Veth),
        DeviceKind::Auto => match Tun::create(device_name) {
            Ok(tun) => Ok(Device::Tun(tun)),
            Err(tun) => veth().map_err(|veth| WanError::Device { tun, veth }),
        },
    }
}

/// Ring in a queue of the kernel, for a host whose device is no TUN.
fn card_ring(side: Side, spec: &Spec, packets: u32) -> CardRing {
    let rate = spec.line(side).shape.rate;
    let burst_bytes = rate.bytes_in(RING_BURST).max(u64::from(READ_AHEAD_PACKETS) * spec.packet_bytes());
    CardRing {
        packets,
        bytes_per_s: rate.0 / 8,
        burst_bytes: u32::try_from(burst_bytes).unwrap_or(u32::MAX),
        overhead_bytes: (link::FRAMING_BYTES - ETHERNET_BYTES) as u16,
    }
}

fn settings_found(name: HostName) -> Result<BTreeMap<String, String>, WanError> {
    let mut sysctls = BTreeMap::new();
    for sysctl in SYSCTLS.iter().chain(&SYSCTLS_RING).map(|(sysctl, _)| *sysctl).chain(REPORTED) {
        if !sysctl_path(sysctl).exists() {
            continue;
        }
        let value =
            fs::read_to_string(sysctl_path(sysctl)).map_err(failed(name, format!("read {sysctl}")))?;
        let words: Vec<&str> = value.split_whitespace().collect();
        sysctls.insert(format!("net.{}", sysctl.replace('/', ".")), words.join(" "));
    }
    Ok(sysctls)
}

fn set(name: HostName, sysctl: &str, value: &str) -> Result<(), WanError> {
    fs::write(sysctl_path(sysctl), value).map_err(failed(name, format!("set {sysctl} to {value}")))
}

fn failed(name: HostName, what: impl Into<String>) -> impl FnOnce(io::Error) -> WanError {
    let (host, what) = (name.to_string(), what.into());
    move |source| WanError::SetUp { host, what, source }
}

/// Path of a setting. These files show the namespace of the thread that opens them.
fn sysctl_path(name: &str) -> std::path::PathBuf {
    Path::new("/proc/sys/net").join(name)
}

/// The first route of a table as in /proc/net/route that overlaps the network of 256 addresses around `address`.
/// Default routes do not count, also if a tunnel splits them into halves or quarters.
fn route_in_the_way(table: &str, address: Ipv4Addr) -> Option<(Ipv4Addr, u32)> {
    let ours = u32::from(address) & 0xffff_ff00;
    table.lines().skip(1).find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // In the byte order of the network, printed as a number of this machine.
        let word = |at: usize| {
            u32::from_str_radix(words.get(at)?, 16).ok().map(|word| u32::from_be_bytes(word.to_ne_bytes()))
        };
        let (destination, mask) = (word(1)?, word(7)?);
        let both = mask & 0xffff_ff00;
        (mask.count_ones() >= NETWORK_BITS_LEAST && destination & both == ours & both)
            .then(|| (destination.into(), mask.count_ones()))
    })
}

/// True if a table as in /proc/net/tcp or tcp6 has a socket in state LISTEN (0A) that other hosts can reach.
fn has_listener(table: &str) -> bool {
    table.lines().skip(1).any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (address, state) = (words.next().unwrap_or_default(), words.nth(1));
        state == Some("0A") && !is_loopback(address)
    })
}

/// True if an address of these tables, words of 32 bits in host byte order, is 127.0.0.0/8 or ::1.
fn is_loopback(address: &str) -> bool {
    let words = address.split_once(':').map_or("", |(ip, _)| ip).as_bytes().chunks(8);
    let word =
        |word: &[u8]| u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok().map(u32::to_ne_bytes);
    match words.map(word).collect::<Option<Vec<_>>>().as_deref() {
        Some([[127, ..]] | [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 255, 255], [127, ..]]) => true,
        Some([a, b, c, [0, 0, 0, 1]]) => [a, b, c].into_iter().flatten().all(|byte| *byte == 0),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_that_are_in_the_way_are_found() {
        let head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";
        let default = "eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n";
        let other = "eth0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n";
        let found = |line: &str| {
            let table = format!("{head}{default}{other}{line}");
            route_in_the_way(&table, Ipv4Addr::new(198, 18, 0, 2)).map(|(to, bits)| format!("{to}/{bits}"))
        };
        assert_eq!(found(""), None);
        assert_eq!(
            found("tun0\t000012C6\t0\t0001\t0\t0\t0\t0000FEFF\t0\t0\t0\n").as_deref(),
            Some("198.18.0.0/15")
        );
        assert_eq!(
            found("tun0\t810012C6\t0\t0001\t0\t0\t0\tFFFFFFFF\t0\t0\t0\n").as_deref(),
            Some("198.18.0.129/32")
        );
        assert_eq!(found("tun0\t00000080\t0\t0001\t0\t0\t0\t00000080\t0\t0\t0\n"), None, "half of a default");
        assert_eq!(
            found("tun0\t000000C6\t0\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n").as_deref(),
            Some("198.0.0.0/8")
        );
        assert_eq!(found("tun0\t000112C6\t0\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"), None);
    }

    #[test]
    fn listeners_are_found_among_other_sockets() {
        let head = "  sl  local_address rem_address   st tx_queue rx_queue\n";
        let open = "   0: 020012C6:0CBC 010012C6:9C40 01 00000000:00000000 00:00000000\n";
        let listening = "   1: 00000000:0CBC 00000000:0000 0A 00000000:00000000 00:00000000\n";
        assert!(!has_listener(head));
        assert!(!has_listener(&format!("{head}{open}")));
        assert!(has_listener(&format!("{head}{open}{listening}")));
        for (address, reached) in [
            (hex(&[127, 0, 0, 1]), false),
            (hex(&[127, 9, 0, 1]), false),
            (hex(&[198, 18, 0, 2]), true),
            (hex(&std::net::Ipv6Addr::LOCALHOST.octets()), false),
            (hex(&Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets()), false),
            (hex(&std::net::Ipv6Addr::UNSPECIFIED.octets()), true),
            (hex(&[0x20, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]), true),
        ] {
            let line = format!("   1: {address}:0CBC 00000000:0000 0A 00000000:00000000\n");
            assert_eq!(has_listener(&format!("{head}{line}")), reached, "{address}");
        }
    }

    /// As the tables write an address: words as numbers of this machine.
    fn hex(octets: &[u8]) -> String {
        let words = octets.chunks(4).map(|word| u32::from_ne_bytes(word.try_into().expect("four")));
        words.map(|word| format!("{word:08X}")).collect()
    }
}
