//! Configuration of an emulated path: both directions, the MTU, and the hosts at its ends.

mod name;
mod shown;
mod side;

use std::time::Duration;

use event::BitRate;
use link::{FRAMING_BYTES, Line, MEMORY_MAX_BYTES, SUPER_PACKET_MAX_BYTES, Shape, super_packet_bytes};
use net::tun::Tun;

pub use name::{HOSTS_MAX, HostName};
pub use shown::{HostsShown, LineShown, PathShown};
pub use side::Side;

use crate::WanError;
use crate::machine::available_bytes;
use crate::namespaces::DeviceKind;

/// The path of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Spec {
    /// Line for packets that near sends.
    pub near: Line,
    /// Line for packets that far sends.
    pub far: Line,
    /// Largest packet, in bytes of IP.
    pub mtu_bytes: u32,
    /// Seed of all random decisions.
    pub seed: u64,
    /// Capacity of each host's transmit ring, in packets of MTU size. `None`: unlimited.
    pub ring_packets: Option<u32>,
    /// Super-packets are cut into packets of MTU size before anything happens to them.
    pub segment: bool,
    /// Limits of TCP's buffers at each host.
    pub buffers: Buffers,
    /// Congestion control of the hosts' sockets that choose none; `None` for that of this machine.
    pub congestion: Option<String>,
    /// The hosts have no IPv4 addresses.
    pub only_ipv6: bool,
    /// Number of near hosts, which share a line unless each has its own; 1 to 16.
    pub near_hosts: u8,
    /// Hosts at the far end.
    pub far_hosts: u8,
    /// The far host is this machine itself.
    pub far_is_here: bool,
    /// The device that the hosts have.
    pub device: DeviceKind,
}

/// Limits of TCP's buffers at each host for a connection, in bytes; `None`: as much as it needs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Buffers {
    /// Receive buffer (`tcp_rmem`); TCP offers about half of it as its window.
    pub receive: Option<u64>,
    /// Send buffer (`tcp_wmem`).
    pub send: Option<u64>,
}

/// Queues of all veth pairs together, in bytes, divided among the hosts; and the largest one.
const VETH_QUEUES_BYTES: usize = 256 << 20;
const VETH_QUEUE_MAX_BYTES: usize = 64 << 20;

impl Spec {
    /// A symmetric path without impairments, with the default queue if none is given.
    pub fn new(delay: Duration, rate: BitRate, queue_bytes: Option<u64>, mtu_bytes: u32) -> Spec {
        let queue_bytes = queue_bytes.unwrap_or_else(|| Shape::usual_queue_bytes(delay, rate));
        let line = Line::plain(Shape { delay, rate, queue_bytes });
        Spec {
            near: line.clone(),
            far: line,
            mtu_bytes,
            seed: 1,
            ring_packets: None,
            segment: false,
            buffers: Buffers::default(),
            congestion: None,
            only_ipv6: false,
            near_hosts: 1,
            far_hosts: 1,
            far_is_here: false,
            device: DeviceKind::Auto,
        }
    }

    /// Line for packets that `side` sends.
    pub fn line(&self, side: Side) -> &Line {
        match side {
            Side::Near => &self.near,
            Side::Far => &self.far,
        }
    }

    /// The hosts of `side`.
    pub fn hosts(&self, side: Side) -> impl Iterator<Item = HostName> + Clone {
        let count = match side {
            Side::Near => self.near_hosts,
            Side::Far => self.far_hosts,
        };
        HostName::first(side, count)
    }

    /// Largest super-packet that TCP may build, in bytes: 200 µs of the wire's rate, or the maximum if it is cut
    /// anyway.
    pub fn gso_max_bytes(&self) -> u32 {
        match self.segment {
            true => SUPER_PACKET_MAX_BYTES as u32,
            false => super_packet_bytes([&self.near, &self.far], self.mtu_bytes) as u32,
        }
    }

    /// The round trip of a packet that never waits.
    pub fn base_rtt(&self) -> Duration {
        self.near.shape.delay + self.far.shape.delay
    }

    /// Time in which the shorter of the queues drains; a device's ring is one of them.
    pub fn drain_time(&self) -> Duration {
        let ring = self.ring_packets.map(|packets| u64::from(packets) * self.packet_bytes());
        let line = |line: &Line| line.shape.rate.time_for(ring.unwrap_or(line.shape.queue_bytes));
        line(&self.near).min(line(&self.far))
    }

    /// Bytes on the wire of the largest packet.
    pub fn packet_bytes(&self) -> u64 {
        u64::from(self.mtu_bytes) + u64::from(FRAMING_BYTES)
    }

    /// Memory for the packets of both directions, and for the queues of veth pairs if there are any.
    pub fn memory_bytes(&self, has_veth: bool) -> u64 {
        let hosts = u64::from(self.near_hosts) + u64::from(self.far_hosts);
        let waiting = if has_veth { hosts * self.veth_queue_bytes() as u64 } else { 0 };
        self.near.memory_bytes().saturating_add(self.far.memory_bytes()).saturating_add(waiting)
    }

    /// Capacity of a host's queue, if its device is a veth pair.
    pub fn veth_queue_bytes(&self) -> usize {
        let hosts = usize::from(self.near_hosts) + usize::from(self.far_hosts);
        (VETH_QUEUES_BYTES / hosts.max(1)).min(VETH_QUEUE_MAX_BYTES)
    }

    /// Checks the number of hosts, the lines of single hosts and the policers, and that each direction has the memory
    /// that it needs, here and now.
    pub fn check(&self) -> Result<(), WanError> {
        for (side, found) in [(Side::Near, self.near_hosts), (Side::Far, self.far_hosts)] {
            if !(1..=HOSTS_MAX).contains(&found) {
                return Err(WanError::Hosts { side: side.name(), found });
            }
        }
        let packet_bytes = self.packet_bytes();
        for contract in [&self.near, &self.far].into_iter().filter_map(|line| line.police) {
            if contract.burst_bytes < packet_bytes {
                return Err(WanError::PolicerBurst { burst_bytes: contract.burst_bytes, packet_bytes });
            }
        }
        for line in [&self.near, &self.far].into_iter().filter(|line| !line.own.rates.is_empty()) {
            let (rates, hosts) = (line.own.rates.len(), self.near_hosts);
            if rates != usize::from(hosts) {
                return Err(WanError::NearRates { rates, hosts });
            }
            let (together, rate) = (line.own.together(), line.shape.rate);
            if together > rate {
                return Err(WanError::NearRatesTogether { together, rate });
            }
            let queue_bytes = line.least_queue_bytes();
            if line.queue_packets.is_none() && queue_bytes < packet_bytes {
                return Err(WanError::NearQueue { queue_bytes, packet_bytes });
            }
            if self.ring_packets.is_some() {
                return Err(WanError::RingOfLines);
            }
        }
        let has_veth = match self.device {
            DeviceKind::Tun => false,
            DeviceKind::Veth => true,
            DeviceKind::Auto => !Tun::opens(),
        };
        self.check_with(available_bytes(), has_veth)
    }

    fn check_with(&self, available_bytes: Option<u64>, has_veth: bool) -> Result<(), WanError> {
        for (side, line) in [(Side::Near, &self.near), (Side::Far, &self.far)] {
            let needed_bytes = line.memory_bytes();
            if needed_bytes > MEMORY_MAX_BYTES {
                let (side, limit_bytes) = (side.name(), MEMORY_MAX_BYTES);
                return Err(WanError::Memory { side, needed_bytes, limit_bytes });
            }
        }
        let needed_bytes = self.memory_bytes(has_veth);
        match available_bytes {
            Some(available_bytes) if available_bytes < needed_bytes => {
                Err(WanError::Machine { needed_bytes, available_bytes })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_memory_than_there_may_be_is_refused_with_its_size() {
        let path =
            |ms, mbit: u64| Spec::new(Duration::from_millis(ms), BitRate(mbit * 1_000_000), None, 1500);
        // 400 MB for a round trip of a second.
        let plenty = Some(8 << 30);
        assert!(path(500, 3_200).check_with(plenty, false).is_ok());
        let text =
            path(500, 10_000).check_with(plenty, false).expect_err("1.25 GB of queue alone").to_string();
        assert!(text.contains("2.15GiB") && text.contains("at most 1GiB"), "{text}");
        let text =
            path(500, 3_200).check_with(Some(1 << 30), false).expect_err("both directions").to_string();
        assert!(text.contains("1.38GiB") && text.contains("1GiB"), "{text}");
        assert!(path(500, 3_200).check_with(None, true).is_ok());
        let small = path(0, 100);
        let rings = |spec: &Spec| spec.memory_bytes(true) - spec.memory_bytes(false);
        assert_eq!(rings(&small), 128 << 20, "64 MiB for each of two hosts");
        assert_eq!(rings(&Spec { near_hosts: 7, ..small.clone() }), 256 << 20);
        assert!(small.check_with(Some(100 << 20), false).is_ok());
        assert!(small.check_with(Some(100 << 20), true).is_err(), "also where veth pairs were not asked for");
    }

    #[test]
    fn lines_of_their_own_are_one_for_each_and_no_more_than_the_one_in_front() {
        let said = |mbits: &[u64], ring_packets| {
            let queue_bytes = Some(if mbits == [90, 10] { 15_379 } else { 17_090 });
            let mut spec = Spec::new(Duration::from_millis(8), BitRate(100_000_000), queue_bytes, 1500);
            (spec.near_hosts, spec.ring_packets) = (2, ring_packets);
            spec.far.own.rates = mbits.iter().map(|mbit| BitRate(mbit * 1_000_000)).collect();
            spec.check().map_err(|error| error.to_string())
        };
        assert_eq!((said(&[60, 40], None), said(&[90, 9], None)), (Ok(()), Ok(())));
        for (mbits, ring, part) in [
            (&[60][..], None, "--near-rates: 1 given, expected one for each near host, 2 in all"),
            (&[60, 41], None, "come to 101mbit, expected no more than the --rate of 100mbit in all"),
            (&[90, 10], None, "is 1537 bytes, expected 1538 for a packet at least"),
            (&[60, 40], Some(256), "--ring with --near-rates"),
        ] {
            let text = said(mbits, ring).expect_err(part);
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_policer_lets_the_largest_packet_pass() {
        let mut spec = Spec::new(Duration::ZERO, BitRate(100_000_000), None, 9000);
        spec.far.police = Some("10mbit/9038".parse().expect("a contract"));
        assert!(spec.check().is_ok());
        spec.far.police = Some("10mbit/9037".parse().expect("a contract"));
        let text = spec.check().expect_err("no full packet would pass").to_string();
        assert!(text.contains("a burst of 9037 bytes, expected 9038"), "{text}");
    }

    #[test]
    fn the_usual_queue_is_a_bandwidth_delay_product_of_the_round_trip() {
        let gigabit = BitRate(1_000_000_000);
        let queue = |ms| Spec::new(Duration::from_millis(ms), gigabit, None, 1500).near.shape.queue_bytes;
        assert_eq!((queue(0), queue(8), queue(50)), (1_000_000, 2_000_000, 12_500_000));
        let fast = Spec::new(Duration::ZERO, BitRate(10_000_000_000), None, 9000);
        assert_eq!(fast.near.shape.queue_bytes, 5_000_000, "4 ms of the line");
        let short = Spec::new(Duration::from_millis(1), BitRate(10_000_000_000), None, 9000);
        assert_eq!(short.near.shape.queue_bytes, 5_000_000, "not the product of a shorter round trip");
    }
}
