//! The path of a run in its JSON document.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use link::Line;
use serde::Serialize;

use crate::{HostName, Side, Spec};

/// Configuration of the path. The first three fields are those of the line from near to far.
#[derive(Clone, Debug, Serialize)]
pub struct PathShown {
    /// Propagation one way.
    pub delay_ns: u64,
    /// Rate on the wire.
    pub rate_bits_per_s: u64,
    /// Capacity of the queue in bytes on the wire.
    pub queue_bytes: u64,
    /// Largest packet, in bytes of IP.
    pub mtu: u32,
    /// Largest super-packet that TCP builds, in bytes.
    pub gso_max_bytes: u32,
    /// Seed of all random decisions.
    pub seed: u64,
    /// Its hosts.
    #[serde(flatten)]
    pub hosts: HostsShown,
    /// True if super-packets are cut before the model sees them.
    pub segment: bool,
    /// Memory for packets under way.
    pub memory_bytes: u64,
    /// Rates of the lines that the near hosts have to themselves; none if they share one.
    pub near_rates_bits_per_s: Vec<u64>,
    /// Line for packets that near sends.
    pub near: LineShown,
    /// Line for packets that far sends.
    pub far: LineShown,
}

/// The hosts of a path.
#[derive(Clone, Debug, Serialize)]
pub struct HostsShown {
    /// Packets that each host's device holds.
    pub ring_packets: Option<u32>,
    /// The device that the hosts have: `tun` or `veth`.
    pub device: &'static str,
    /// The hosts, and their addresses.
    pub hosts: BTreeMap<String, Vec<IpAddr>>,
    /// True for a path without IPv4.
    pub ipv6: bool,
    /// Congestion control of the hosts' sockets that choose none, if it was set.
    pub congestion: Option<String>,
}

/// One direction.
#[derive(Clone, Debug, Serialize)]
pub struct LineShown {
    /// Propagation.
    pub delay_ns: u64,
    /// Rate on the wire.
    pub rate_bits_per_s: u64,
    /// Capacity of the queue in bytes on the wire.
    pub queue_bytes: u64,
    /// Capacity of the queue in packets, if it is limited so.
    pub queue_packets: Option<u64>,
    /// Policer as `--police` takes it.
    pub police: Option<String>,
    /// Loss as `--loss` takes it.
    pub loss: Option<String>,
    /// Largest jitter.
    pub jitter_ns: u64,
    /// True if jitter may reorder packets.
    pub jitter_overtakes: bool,
    /// Share of packets that are held back, so that later ones overtake them, from 0 to 1.
    pub reorder: f64,
    /// Time for which they are held back.
    pub reorder_hold_ns: u64,
    /// Share of packets that arrive twice, from 0 to 1.
    pub duplicate: f64,
    /// Period of a line that packs small frames together; 0 if it does not.
    pub merge_acks_ns: u64,
    /// Hold time of interrupt coalescing at the receiving host; 0 for none.
    pub coalesce_ns: u64,
    /// Timer tick of a receiving host that polls only then; 0 for none.
    pub tick_ns: u64,
    /// Outages as `--down` takes them.
    pub down: Vec<String>,
}

impl PathShown {
    pub(crate) fn of(spec: &Spec, device: &'static str) -> PathShown {
        let [near, far] = [&spec.near, &spec.far].map(LineShown::of);
        PathShown {
            delay_ns: near.delay_ns,
            rate_bits_per_s: near.rate_bits_per_s,
            queue_bytes: near.queue_bytes,
            mtu: spec.mtu_bytes,
            gso_max_bytes: spec.gso_max_bytes(),
            seed: spec.seed,
            hosts: HostsShown {
                ring_packets: spec.ring_packets,
                device,
                hosts: [Side::Near, Side::Far]
                    .into_iter()
                    .flat_map(|side| spec.hosts(side))
                    .map(|host| (host.to_string(), addresses(host, spec)))
                    .collect(),
                ipv6: spec.only_ipv6,
                congestion: spec.congestion.clone(),
            },
            segment: spec.segment,
            memory_bytes: spec.memory_bytes(device == "veth"),
            near_rates_bits_per_s: spec.near.own.rates.iter().map(|rate| rate.0).collect(),
            near,
            far,
        }
    }
}

fn addresses(host: HostName, spec: &Spec) -> Vec<IpAddr> {
    host.addresses(spec.only_ipv6).into_iter().map(|(address, _)| address).collect()
}

impl LineShown {
    fn of(line: &Line) -> LineShown {
        let ns = |time: Duration| time.as_nanos() as u64;
        LineShown {
            delay_ns: ns(line.shape.delay),
            rate_bits_per_s: line.shape.rate.0,
            queue_bytes: line.shape.queue_bytes,
            queue_packets: line.queue_packets,
            police: line.police.as_ref().map(ToString::to_string),
            loss: line.loss.as_ref().map(ToString::to_string),
            jitter_ns: line.jitter.map_or(0, |jitter| ns(jitter.most)),
            jitter_overtakes: line.jitter.is_some_and(|jitter| jitter.overtaking),
            reorder: line.reorder.map_or(0.0, |reorder| reorder.share.fraction()),
            reorder_hold_ns: line.reorder.map_or(0, |reorder| ns(reorder.hold)),
            duplicate: line.duplicate.map_or(0.0, link::Share::fraction),
            merge_acks_ns: line.merge.map_or(0, ns),
            coalesce_ns: line.coalesce.map_or(0, ns),
            tick_ns: line.tick.map_or(0, ns),
            down: line.outages.iter().map(ToString::to_string).collect(),
        }
    }
}
