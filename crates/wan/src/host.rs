//! One end of the path: a namespace with its device, its addresses and its settings.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use net::interface::{self, Setting};
use net::namespace::Namespace;
use net::tun::Tun;

use crate::{Side, Spec, WanError, lane};

/// The device's name in each namespace.
const DEVICE: &str = "wan0";

/// Packets that may lie in a device until its thread reads them. They have not come to the path yet, so this
/// must never drop; a window of 400 MB that TCP sends at once is 32 000 super-packets of 12 500 bytes.
const DEVICE_QUEUE_PACKETS: u32 = 65_536;

/// Settings under /proc/sys/net of each end, and why.
const SYSCTLS: [(&str, &str); 6] = [
    // What one connection learnt of the path must not start the next one, or cells contaminate each other.
    ("ipv4/tcp_no_metrics_save", "1"),
    // Windows grow to what the path needs; the default of 6 or 32 MB would be the limiter at every long delay.
    // The least and the first size are the kernel's own: 1 GiB is only reached by what uses it.
    ("ipv4/tcp_rmem", "4096 131072 1073741824"),
    ("ipv4/tcp_wmem", "4096 16384 1073741824"),
    // A connection that was idle for a retransmission timeout would start from ten packets again. That is a
    // limiter of its own, studied by a plan of its own; elsewhere it would make the figure of a cell depend on
    // how long its ends happened to pause.
    ("ipv4/tcp_slow_start_after_idle", "0"),
    // The path carries what the commands send and little else.
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

/// An end of the path.
pub(crate) struct Host {
    pub(crate) side: Side,
    pub(crate) namespace: Namespace,
    pub(crate) only_ipv6: bool,
    pub(crate) tun: Tun,
    /// Names as sysctl(8) writes them, with the values read back.
    pub(crate) sysctls: BTreeMap<String, String>,
}

impl Host {
    /// Makes the end `side` of a path.
    pub(crate) fn create(side: Side, spec: &Spec) -> Result<Host, WanError> {
        let set_up = || Ok(furnish(side, spec));
        let (namespace, furnished) = Namespace::create(set_up).map_err(WanError::Namespace)?;
        let (tun, sysctls) = furnished?;
        Ok(Host { side, namespace, only_ipv6: spec.only_ipv6, tun, sysctls })
    }

    /// Packets that the device dropped before the path saw them.
    pub(crate) fn device_drops(&self) -> Result<u64, WanError> {
        self.namespace.run(|| interface::transmit_drops(DEVICE)).map_err(|source| WanError::SetUp {
            side: self.side.name(),
            what: "read the device's counters".to_owned(),
            source,
        })
    }

    /// Whether a TCP socket listens.
    pub(crate) fn listens(&self) -> Result<bool, WanError> {
        let tables = ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"];
        let read = || Ok(tables.iter().any(|path| fs::read_to_string(path).is_ok_and(|t| has_listener(&t))));
        self.namespace.run(read).map_err(|source| WanError::SetUp {
            side: self.side.name(),
            what: "look for listening sockets".to_owned(),
            source,
        })
    }
}

/// Runs in the new namespace.
fn furnish(side: Side, spec: &Spec) -> Result<(Tun, BTreeMap<String, String>), WanError> {
    let failed = |what: String| move |source: io::Error| WanError::SetUp { side: side.name(), what, source };
    for (name, value) in SYSCTLS {
        fs::write(sysctl_path(name), value).map_err(failed(format!("set {name} to {value}")))?;
    }
    // After the settings: a device copies those of ipv6/conf/default when it is made.
    let tun = Tun::create(DEVICE).map_err(WanError::Tun)?;
    interface::set_up("lo", Setting::default()).map_err(failed("take up lo".to_owned()))?;
    let setting = Setting {
        mtu_bytes: Some(spec.mtu_bytes),
        queue_packets: Some(
            spec.ring_packets.map_or(DEVICE_QUEUE_PACKETS, |ring| ring - lane::READ_AHEAD_PACKETS),
        ),
        gso_max_bytes: Some(spec.gso_max_bytes()),
        // A ring has a place for each packet of MTU size.
        gso_max_segments: spec.ring_packets.map(|_| 1),
    };
    let what = format!("take up {DEVICE} with an MTU of {}", spec.mtu_bytes);
    interface::set_up(DEVICE, setting).map_err(failed(what))?;
    if spec.ring_packets.is_some() {
        let what = format!("take the queue away before {DEVICE}");
        interface::without_queue(DEVICE).map_err(failed(what))?;
    }
    for (address, bits) in side.addresses(spec.only_ipv6) {
        interface::add_address(DEVICE, address, bits).map_err(failed(format!("add {address}/{bits}")))?;
    }
    let mut sysctls = BTreeMap::new();
    for name in SYSCTLS.iter().map(|(name, _)| *name).chain(REPORTED) {
        let value = fs::read_to_string(sysctl_path(name)).map_err(failed(format!("read {name}")))?;
        let words: Vec<&str> = value.split_whitespace().collect();
        sysctls.insert(format!("net.{}", name.replace('/', ".")), words.join(" "));
    }
    Ok((tun, sysctls))
}

/// These files show the namespace of the thread that opens them.
fn sysctl_path(name: &str) -> std::path::PathBuf {
    Path::new("/proc/sys/net").join(name)
}

/// Whether a table as in /proc/net/tcp has a socket in state LISTEN (0A).
fn has_listener(table: &str) -> bool {
    table.lines().skip(1).any(|line| line.split_whitespace().nth(3) == Some("0A"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_found_among_other_sockets() {
        let head = "  sl  local_address rem_address   st tx_queue rx_queue\n";
        let open = "   0: 020012C6:0CBC 010012C6:9C40 01 00000000:00000000 00:00000000\n";
        let listening = "   1: 00000000:0CBC 00000000:0000 0A 00000000:00000000 00:00000000\n";
        assert!(!has_listener(head));
        assert!(!has_listener(&format!("{head}{open}")));
        assert!(has_listener(&format!("{head}{open}{listening}")));
    }
}
