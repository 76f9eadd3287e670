//! The flags that describe a path, and the path they make.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use event::{BitRate, Bytes};
use link::{
    Both, Contract, FRAMING_BYTES, Faults, Line, LossModel, Rates, Schedule, Shape, Share, Time,
    want_single_packets,
};
use wan::{Buffers, DeviceKind, Spec};

use crate::exit::Exit;

/// Smallest MTU that IPv6 allows (RFC 8200, section 5) and largest that a packet's length field does.
const MTU: std::ops::RangeInclusive<i64> = 1280..=65_535;
/// Rings that network cards have.
const RING: std::ops::RangeInclusive<i64> = 80..=4_096;
/// Bounds of a TCP buffer: with less than two packets nothing flows, and the kernel knows 31 bits.
const BUFFER_BYTES: std::ops::RangeInclusive<u64> = 8_192..=1 << 30;

/// Properties of the path. Every VALUE may be near:VALUE,far:VALUE instead: for packets that near sends and for
/// those that far sends.
#[derive(Args, Debug)]
#[command(next_help_heading = "The path (VALUE for both directions, or near:VALUE,far:VALUE by sender)")]
pub(super) struct PathArgs {
    /// Propagation one way, such as 8ms; half of the round trip
    #[arg(long, default_value = "0", value_name = "VALUE")]
    delay: Both<Time>,
    /// Rate of the wire, such as 100mbit or 1gbit, with 38 bytes of Ethernet for each packet
    #[arg(long, default_value = "1gbit", value_name = "VALUE")]
    rate: Both<BitRate>,
    /// What may wait for the wire: packets of MTU size (256), or bytes (2MB) [default: rate x round trip, at
    /// least 1 MB and 4 ms]
    #[arg(long, value_name = "VALUE")]
    queue: Option<Both<Queue>>,
    /// Policer: packets above a rate are dropped, none wait for it: 500mbit/1MB (rate on the wire, bytes of a burst)
    #[arg(long, value_name = "VALUE")]
    police: Option<Both<Contract>>,
    /// Packets lost: 0.01%, in bursts burst:0.1%/8 (share lost, mean packets in a burst),
    /// elliott:0.1%/10%/50%/0% (chance of the line to turn bad, to turn good; lost while bad, while good), or by
    /// number packets:100/200-210
    #[arg(long, value_name = "VALUE")]
    loss: Option<Both<LossModel>>,
    /// Up to this much longer for each packet, evenly spread; none overtakes another
    #[arg(long, value_name = "VALUE")]
    jitter: Option<Both<Time>>,
    /// Let packets overtake each other by --jitter
    #[arg(long, requires = "jitter")]
    jitter_overtakes: bool,
    /// Packets that are held back for --reorder-hold, so that others pass them, such as 0.1%
    #[arg(long, value_name = "VALUE")]
    reorder: Option<Both<Share>>,
    /// How long packets are held back by --reorder
    #[arg(long, default_value = "1ms", value_name = "VALUE")]
    reorder_hold: Both<Time>,
    /// Packets that arrive twice, such as 0.1%
    #[arg(long, value_name = "VALUE")]
    duplicate: Option<Both<Share>>,
    /// Pack frames of up to 128 bytes (acknowledgements) together, one bunch in each such time: 125us. Data keep
    /// their gaps
    #[arg(long, value_name = "VALUE")]
    merge_acks: Option<Both<Time>>,
    /// Show packets to the receiving host in groups, so long after the first of each, as a card does that coalesces
    /// interrupts: 100us
    #[arg(long, value_name = "VALUE")]
    coalesce: Option<Both<Time>>,
    /// Show packets to the receiving host only when a clock ticks, with this period: 1ms
    #[arg(long, value_name = "VALUE")]
    tick: Option<Both<Time>>,
    /// When the line is down, from the start of COMMAND: 10s+200ms (at 10 s, for 200 ms), 10s+200ms/30s (then every
    /// 30 s), several with commas
    #[arg(long, value_name = "VALUE")]
    down: Option<Both<Schedule>>,
    /// Rates of lines that the near hosts have to themselves, near's first, instead of one that all share: 60mbit,20mbit. No more
    /// than --rate in all; each has a queue that drains for as long as --queue does at --rate
    #[arg(long, value_name = "RATES")]
    near_rates: Option<Rates>,
    /// Largest packet, in bytes of IP
    #[arg(long, default_value = "1500", value_parser = clap::value_parser!(u32).range(MTU))]
    mtu: u32,
    /// Give each host's device a ring of N packets that empties at the rate of the wire: a full ring drops what TCP
    /// sends while TCP looks (state CWR), and nothing is lost on the path
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(RING))]
    ring: Option<u32>,
    /// Cut super-packets into packets of MTU size before anything happens to them [default: with --ring, --police, --loss,
    /// --reorder, --duplicate, --merge-acks, --coalesce, --tick, --jitter-overtakes, a --queue in packets and one so short
    /// that super-packets would be too coarse for it]
    #[arg(long)]
    segment: bool,
    /// What is left to chance follows from N: the same N, the same fate of the n-th packet
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The device that each host has: tun, veth, or auto: tun, and veth where /dev/net/tun does not open
    #[arg(long, value_name = "KIND", default_value = "auto")]
    device: DeviceKind,
    /// Most that TCP buffers of received data for a connection: about twice the window that it offers [default: as the
    /// path needs]
    #[arg(long, value_name = "SIZE")]
    rcvbuf: Option<Bytes>,
    /// Most that TCP buffers of data to send for a connection [default: as the path needs]
    #[arg(long, value_name = "SIZE")]
    sndbuf: Option<Bytes>,
    /// Congestion control of the hosts' sockets, such as cubic, unless a program chooses another one after it has begun to
    /// connect [default: that of this machine]
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// No IPv4: FARLUN_NEAR and FARLUN_FAR are IPv6 addresses
    #[arg(long)]
    ipv6: bool,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Queue {
    Packets(u64),
    Bytes(u64),
}

impl FromStr for Queue {
    type Err = String;

    fn from_str(s: &str) -> Result<Queue, String> {
        let wrong = || format!("'{s}' is not a queue such as 256 (packets) or 2MB");
        match s.parse() {
            Ok(packets @ 1..=1_000_000) => Ok(Queue::Packets(packets)),
            Ok(_) => Err(format!(
                "a queue of {s} packets, expected 1 to 1000000; a size needs its unit, such as {s}B"
            )),
            Err(_) => Bytes::parse(s).map(Queue::Bytes).map_err(|_| wrong()),
        }
    }
}

impl PathArgs {
    /// The path that the flags describe.
    pub(super) fn spec(self) -> anyhow::Result<Spec> {
        let near_first = [true, false];
        let rtt =
            near_first.map(|near| self.delay.of(near).map_or(Duration::ZERO, |delay| delay.0)).iter().sum();
        let [near, far] = near_first.map(|near| self.line(near, rtt));
        let (near, far) = (near?, far?);
        if let Some(name) = &self.congestion {
            net::congestion::check_congestion(name)
                .map_err(|error| Exit::usage(format!("--congestion: {error}")))?;
        }
        let segment = self.segment || want_single_packets([&near, &far], self.mtu);
        Ok(Spec {
            near,
            far,
            mtu_bytes: self.mtu,
            seed: self.seed,
            ring_packets: self.ring,
            segment: segment || self.ring.is_some(),
            buffers: Buffers {
                receive: buffer("rcvbuf", self.rcvbuf)?,
                send: buffer("sndbuf", self.sndbuf)?,
            },
            congestion: self.congestion,
            only_ipv6: self.ipv6,
            near_hosts: 1,
            far_hosts: 1,
            far_is_here: false,
            device: self.device,
        })
    }

    fn line(&self, near: bool, rtt: Duration) -> anyhow::Result<Line> {
        let packet_bytes = u64::from(self.mtu) + u64::from(FRAMING_BYTES);
        let rate = self.rate.of(near).copied().unwrap_or(BitRate(1_000_000_000));
        let queue = self.queue.as_ref().and_then(|queue| queue.of(near));
        let (queue_bytes, queue_packets) = match queue {
            None => (Shape::usual_queue_bytes(rtt / 2, rate), None),
            Some(Queue::Bytes(bytes)) if *bytes < packet_bytes => {
                return Err(Exit::usage(format!(
                    "a queue of {bytes} bytes holds no packet of {} bytes; give at least {packet_bytes} bytes",
                    self.mtu
                )));
            }
            Some(Queue::Bytes(bytes)) => (*bytes, None),
            Some(Queue::Packets(packets)) => (packets * packet_bytes, Some(*packets)),
        };
        let delay = self.delay.of(near).map_or(Duration::ZERO, |delay| delay.0);
        let plain = Line::plain(Shape { delay, rate, queue_bytes });
        Ok(self.faults().on(near, &Line { queue_packets, ..plain }))
    }

    fn faults(&self) -> Faults {
        Faults {
            police: self.police.clone().unwrap_or_default(),
            loss: self.loss.clone().unwrap_or_default(),
            jitter: self.jitter.clone().unwrap_or_default(),
            jitter_overtakes: self.jitter_overtakes,
            reorder: self.reorder.clone().unwrap_or_default(),
            reorder_hold: self.reorder_hold.clone(),
            duplicate: self.duplicate.clone().unwrap_or_default(),
            merge_acks: self.merge_acks.clone().unwrap_or_default(),
            coalesce: self.coalesce.clone().unwrap_or_default(),
            tick: self.tick.clone().unwrap_or_default(),
            down: self.down.clone().unwrap_or_default(),
            near_rates: self.near_rates.clone().unwrap_or_default(),
        }
    }
}

fn buffer(flag: &str, size: Option<Bytes>) -> anyhow::Result<Option<u64>> {
    match size.map(|size| size.0) {
        Some(bytes) if !BUFFER_BYTES.contains(&bytes) => {
            Err(Exit::usage(format!("--{flag} {}: expected 8KiB to 1GiB", Bytes(bytes))))
        }
        bytes => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use clap::Parser;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        path: PathArgs,
    }

    fn spec(flags: &str) -> Result<Spec, String> {
        let words = std::iter::once("wan").chain(flags.split_whitespace());
        let flags = Flags::try_parse_from(words).map_err(|error| error.to_string())?;
        flags.path.spec().map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_plain_path_is_not_cut_and_has_the_usual_queue() {
        let plain = spec("--delay 8ms --rate 1gbit").expect("a path");
        assert_eq!(plain, Spec::new(Duration::from_millis(8), BitRate(1_000_000_000), None, 1500));
        let sized = spec("--delay 8ms --queue 3MB --mtu 9000").expect("a path");
        assert_eq!(sized, Spec::new(Duration::from_millis(8), BitRate(1_000_000_000), Some(3_000_000), 9000));
    }

    #[test]
    fn what_is_meant_for_packets_cuts_super_packets() {
        for flags in [
            "--queue 256",
            "--queue 50KB",
            "--ring 80",
            "--loss 0.01%",
            "--police near:500mbit/1MB",
            "--merge-acks 125us",
            "--tick far:1ms",
            "--segment",
        ] {
            assert!(spec(flags).expect(flags).segment, "{flags}");
        }
        for flags in ["--queue 2MB", "--jitter 1ms", "--down 1s+1ms"] {
            assert!(!spec(flags).expect(flags).segment, "{flags}");
        }
    }

    #[test]
    fn directions_may_differ_in_everything() {
        let path = spec(
            "--delay near:2ms,far:40ms --rate near:10mbit,far:100mbit --queue far:50 --loss far:burst:1%/4 \
             --merge-acks near:125us --down near:1s+1ms,5s+2ms/10s,far:0+1s",
        )
        .expect("a path");
        let (near, far) = (&path.near, &path.far);
        assert_eq!(
            (near.shape.delay, far.shape.delay),
            (Duration::from_millis(2), Duration::from_millis(40))
        );
        assert_eq!((near.shape.rate, far.shape.rate), (BitRate(10_000_000), BitRate(100_000_000)));
        assert_eq!((near.queue_packets, far.queue_packets), (None, Some(50)));
        assert_eq!(far.shape.queue_bytes, 50 * 1538);
        assert!(near.loss.is_none() && far.loss.is_some() && near.merge.is_some() && far.merge.is_none());
        assert_eq!((near.outages.len(), far.outages.len()), (2, 1));
    }

    #[test]
    fn mistakes_are_named() {
        for (flags, said) in [
            ("--queue 0", "expected 1 to 1000000"),
            ("--queue 2000000", "a size needs its unit, such as 2000000B"),
            ("--queue 100B", "holds no packet of 1500 bytes; give at least 1538 bytes"),
            ("--loss 1", "'1' is not a loss such as 0.01%"),
            ("--police 500mbit", "'500mbit' is not a policer such as 500mbit/1MB"),
            ("--delay 8", "'8' is not a time"),
            ("--delay 11s", "'11s' is more than 10s"),
            ("--ring 79", "80"),
            ("--jitter-overtakes", "--jitter"),
            ("--mtu 1000", "1280"),
            ("--down 5s", "is not an outage such as"),
            ("--near-rates 60mbit,0", "'0' is not a rate"),
            ("--delay near:1ms,near:2ms", "names one side twice"),
        ] {
            let error = spec(flags).expect_err(flags);
            assert!(error.contains(said), "{flags}: {error}");
        }
    }
}
