//! The `[path]` of a plan: the emulated line between the near and the far hosts.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use document::Scalar;
use event::{BitRate, Bytes};
use link::{Both, FRAMING_BYTES, Faults, Line, Shape, Share, Time};

use super::found_rate::FoundRate;

/// An emulated path.
#[derive(Clone, PartialEq, Debug)]
pub struct Path {
    /// One-way propagation delay.
    pub delay: Duration,
    /// Rate of the line; it carries IP packets plus 38 bytes of Ethernet each.
    pub rate: BitRate,
    /// Expression for the rate, evaluated after other cells; until then [`Path::rate`] means nothing.
    pub found_rate: Option<FoundRate>,
    /// Largest bandwidth-delay product: a found rate is lowered to it.
    pub bdp_max_bytes: Option<u64>,
    /// Waiting queue in front of the line.
    pub queue: Queue,
    /// Differences for packets that far sends.
    pub back: Back,
    /// Largest IP packet, at least 1280 bytes (RFC 8200, section 5).
    pub mtu_bytes: u32,
    /// No IPv4: the hosts have their IPv6 addresses alone.
    pub ipv6: bool,
    /// Super-packets are cut into packets of MTU size before anything happens to them.
    pub segment: bool,
    /// Impairments and host settings: flags of `farlun wan`, without the dashes, and their values.
    pub faults: BTreeMap<&'static str, String>,
}

/// Values of the way back; `None` where both ways are alike.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Back {
    /// One-way propagation delay.
    pub delay: Option<Duration>,
    /// Rate of the line.
    pub rate: Option<BitRate>,
    /// Waiting queue in front of it.
    pub queue: Option<Queue>,
}

/// Size of a waiting queue.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Queue {
    /// Not stated: one bandwidth-delay product, at least 1 MB and 4 ms.
    Default,
    /// A multiple of the bandwidth-delay product of the round trip: `0.1bdp`.
    Bdp(f64),
    /// A size.
    Bytes(u64),
    /// Packets of MTU size.
    Packets(u32),
}

/// Keys of a path.
pub(in crate::plan) const PATH_KEYS: &[&str] = &[
    "delay",
    "rate",
    "queue",
    "mtu",
    "ipv6",
    "segment",
    "bdp_max",
    "police",
    "loss",
    "jitter",
    "jitter_overtakes",
    "reorder",
    "reorder_hold",
    "duplicate",
    "merge_acks",
    "coalesce",
    "tick",
    "down",
    "near_rates",
    "ring",
    "device",
    "rcvbuf",
    "sndbuf",
    CONGESTION,
];

/// Congestion control of the hosts' sockets that choose none. As an axis of a matrix the key means that of the loads.
pub(in crate::plan) const CONGESTION: &str = "congestion";
/// Longest name that the kernel takes (TCP_CA_NAME_MAX, less the zero that ends it).
const CONGESTION_NAME_MAX_BYTES: usize = 15;

/// Buffers of TCP, as `farlun wan` takes them.
const BUFFER_BYTES: std::ops::RangeInclusive<u64> = 8_192..=1 << 30;
/// Rings that network cards have.
const RING_PACKETS: (u32, u32) = (80, 4_096);

/// Impairments that are off at a time of 0 or a share of 0 %.
const NONE_AT_ZERO: &[&str] = &["jitter", "reorder", "duplicate", "merge-acks", "coalesce", "tick"];
/// Flags for settings of hosts, not of lines.
const OF_HOSTS: &[&str] = &["ring", "device", "rcvbuf", "sndbuf", CONGESTION];
/// An impairment without a value.
const OVERTAKES: &str = "jitter-overtakes";

impl Default for Path {
    fn default() -> Path {
        Path {
            delay: Duration::ZERO,
            rate: BitRate(1_000_000_000),
            found_rate: None,
            bdp_max_bytes: None,
            queue: Queue::Default,
            back: Back::default(),
            mtu_bytes: 1500,
            ipv6: false,
            segment: false,
            faults: BTreeMap::new(),
        }
    }
}

impl Path {
    /// Both ways of propagation, without any waiting or serialisation.
    pub fn rtt(&self) -> Duration {
        self.delay + self.back.delay.unwrap_or(self.delay)
    }

    /// The path with the rate that was found for it, limited by its bandwidth-delay product.
    pub fn with_found(&self, rate: BitRate) -> Path {
        let most = self.bdp_max_bytes.filter(|_| !self.rtt().is_zero()).map(|bytes| {
            let bits_per_s = bytes as f64 * 8.0 / self.rtt().as_secs_f64();
            BitRate(bits_per_s as u64)
        });
        Path { rate: most.map_or(rate, |most| most.min(rate)), found_rate: None, ..self.clone() }
    }

    /// Size of the waiting queue of one direction.
    pub fn queue_of(&self, near: bool) -> Queue {
        self.back.queue.filter(|_| !near).unwrap_or(self.queue)
    }

    /// Delay, rate and queue of one direction; the queue holds at least one packet.
    pub fn shape(&self, near: bool) -> Shape {
        let delay = self.back.delay.filter(|_| !near).unwrap_or(self.delay);
        let rate = self.back.rate.filter(|_| !near).unwrap_or(self.rate);
        let packet_bytes = u64::from(self.mtu_bytes) + u64::from(FRAMING_BYTES);
        let wanted = match self.queue_of(near) {
            Queue::Default => Shape::usual_queue_bytes(self.rtt() / 2, rate),
            Queue::Bdp(factor) => (rate.bytes_in(self.rtt()) as f64 * factor) as u64,
            Queue::Bytes(bytes) => bytes,
            Queue::Packets(packets) => u64::from(packets) * packet_bytes,
        };
        Shape { delay, rate, queue_bytes: wanted.max(packet_bytes) }
    }

    /// Lines for packets of near and of far.
    pub fn lines(&self) -> [Line; 2] {
        let mut faults =
            Faults { jitter_overtakes: self.faults.contains_key(OVERTAKES), ..Faults::default() };
        let with_value =
            self.faults.iter().filter(|(flag, _)| !OF_HOSTS.contains(flag) && **flag != OVERTAKES);
        for (flag, text) in with_value {
            faults.set(flag, text).expect("values were checked when the plan was read");
        }
        [true, false].map(|near| {
            let queue_packets = match self.queue_of(near) {
                Queue::Packets(packets) => Some(packets.into()),
                _ => None,
            };
            faults.on(near, &Line { queue_packets, ..Line::plain(self.shape(near)) })
        })
    }

    /// True if super-packets are cut, also for an impairment that needs it.
    pub fn is_segmented(&self) -> bool {
        let [near, far] = self.lines();
        let wanted = link::want_single_packets([&near, &far], self.mtu_bytes);
        self.segment || wanted || self.faults.contains_key("ring")
    }

    pub(in crate::plan) fn set(&mut self, key: &str, value: &Scalar) -> Result<(), String> {
        match key {
            "delay" => {
                let (near, far) = each::<Time>(value, Time(Duration::ZERO))?;
                (self.delay, self.back.delay) = (near.0, far.map(|time| time.0));
            }
            // One that is no rate by itself may be one that is found, which is the same both ways.
            "rate" => match each(value, Path::default().rate) {
                Ok((near, far)) => (self.rate, self.back.rate, self.found_rate) = (near, far, None),
                Err(error) => {
                    let found = FoundRate::read(value).unwrap_or(Err(error))?;
                    (self.found_rate, self.back.rate) = (Some(found), None);
                }
            },
            "queue" => (self.queue, self.back.queue) = each(value, Queue::Default)?,
            "bdp_max" => match value.bytes()? {
                0 => return Err("with 0 bytes under way nothing flows".to_owned()),
                bytes => self.bdp_max_bytes = Some(bytes),
            },
            "ipv6" => self.ipv6 = value.bool()?,
            "mtu" => self.mtu_bytes = value.number(1280, 65_535)?,
            "ring" => {
                let packets = value.number(RING_PACKETS.0, RING_PACKETS.1)?;
                self.faults.insert("ring", packets.to_string());
            }
            "device" => match value.label().as_str() {
                "auto" => drop(self.faults.remove("device")),
                kind @ ("tun" | "veth") => drop(self.faults.insert("device", kind.to_owned())),
                other => return Err(format!("'{other}' is no device; there are auto, tun and veth")),
            },
            "rcvbuf" | "sndbuf" => {
                let flag = if key == "rcvbuf" { "rcvbuf" } else { "sndbuf" };
                let bytes = value.bytes()?;
                if !BUFFER_BYTES.contains(&bytes) {
                    return Err(format!("'{}' is no buffer of 8KiB to 1GiB", value.label()));
                }
                self.faults.insert(flag, format!("{bytes}B"));
            }
            CONGESTION => drop(self.faults.insert(CONGESTION, congestion(value)?)),
            "segment" => self.segment = value.bool()?,
            "jitter_overtakes" => match value.bool()? {
                true => drop(self.faults.insert(OVERTAKES, String::new())),
                false => drop(self.faults.remove(OVERTAKES)),
            },
            "police" => self.fault("police", value)?,
            "loss" => self.fault("loss", value)?,
            "jitter" => self.fault("jitter", value)?,
            "reorder" => self.fault("reorder", value)?,
            "reorder_hold" => self.fault("reorder-hold", value)?,
            "duplicate" => self.fault("duplicate", value)?,
            "merge_acks" => self.fault("merge-acks", value)?,
            "coalesce" => self.fault("coalesce", value)?,
            "tick" => self.fault("tick", value)?,
            "down" => self.fault("down", value)?,
            "near_rates" => self.fault("near-rates", value)?,
            _ => unreachable!("'{key}' is in PATH_KEYS"),
        }
        Ok(())
    }

    /// Sets an impairment after parsing it as `farlun wan` will; removes one that is off.
    fn fault(&mut self, flag: &'static str, value: &Scalar) -> Result<(), String> {
        let text = value.label();
        Faults::default().set(flag, &text)?;
        match NONE_AT_ZERO.contains(&flag) && is_nothing(&text) {
            true => self.faults.remove(flag),
            false => self.faults.insert(flag, text),
        };
        Ok(())
    }
}

/// Congestion control by its kernel name, restricted to characters that are safe on a command line.
pub(in crate::plan) fn congestion(value: &Scalar) -> Result<String, String> {
    let name = value.text()?;
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    match is_plain && (1..=CONGESTION_NAME_MAX_BYTES).contains(&name.len()) {
        true => Ok(name.to_owned()),
        false => Err(format!("'{name}' is not a congestion control such as cubic or bbr")),
    }
}

/// True for a time of 0 or a share of 0 %, both ways.
fn is_nothing(text: &str) -> bool {
    let time = text.parse::<Both<Time>>().is_ok_and(|time| time.all(|time| time.0.is_zero()));
    time || text.parse::<Both<Share>>().is_ok_and(|share| share.all(|share| *share == Share::NONE))
}

/// Value for near and, if it differs, for far, of a text with one for both directions or one for each; `usual` for a
/// missing one.
fn each<T>(value: &Scalar, usual: T) -> Result<(T, Option<T>), String>
where
    T: FromStr<Err: ToString> + Copy + PartialEq,
{
    let both: Both<T> = value.label().parse()?;
    let [near, far] = [true, false].map(|near| both.of(near).copied().unwrap_or(usual));
    Ok((near, Some(far).filter(|far| *far != near)))
}

impl FromStr for Queue {
    type Err = String;

    fn from_str(s: &str) -> Result<Queue, String> {
        if let Some(packets) = s.strip_suffix("packets") {
            let packets = packets.trim().parse().ok().filter(|packets| (1..=1_000_000).contains(packets));
            return packets
                .map(Queue::Packets)
                .ok_or_else(|| format!("'{s}' is not a queue such as '256 packets', of at most a million"));
        }
        let Some(factor) = s.strip_suffix("bdp") else {
            return Bytes::parse(s)
                .map(Queue::Bytes)
                .map_err(|_| format!("'{s}' is not a queue such as 256KB, 2MB or 0.5bdp"));
        };
        match factor.trim().parse::<f64>() {
            Ok(factor) if factor > 0.0 && factor <= 100.0 => Ok(Queue::Bdp(factor)),
            _ => Err(format!("'{s}' is not a queue such as 256KB, 2MB or 0.5bdp (at most 100bdp)")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_checked_and_nothing_of_one_is_none() {
        let mut path = Path::default();
        let text = |text: &str| Scalar::Text(text.to_owned());
        for (key, value, flag, given) in [
            ("loss", text("0.01%"), "loss", Some("0.01%")),
            ("jitter", text("2ms"), "jitter", Some("2ms")),
            ("jitter", text("0"), "jitter", None),
            ("merge_acks", text("125us"), "merge-acks", Some("125us")),
            ("ring", Scalar::Integer(256), "ring", Some("256")),
            ("device", text("veth"), "device", Some("veth")),
            ("device", text("auto"), "device", None),
            ("duplicate", text("0%"), "duplicate", None),
            ("duplicate", text("near:0%,far:0.1%"), "duplicate", Some("near:0%,far:0.1%")),
            ("tick", text("near:0,far:0"), "tick", None),
            ("down", text("near:10s+200ms/30s,40s+1s"), "down", Some("near:10s+200ms/30s,40s+1s")),
            ("near_rates", text("60mbit,20mbit"), "near-rates", Some("60mbit,20mbit")),
            ("reorder_hold", text("2ms"), "reorder-hold", Some("2ms")),
            ("congestion", text("cubic"), "congestion", Some("cubic")),
            ("jitter_overtakes", Scalar::Bool(true), "jitter-overtakes", Some("")),
            ("jitter_overtakes", Scalar::Bool(false), "jitter-overtakes", None),
        ] {
            path.set(key, &value).unwrap();
            assert_eq!(path.faults.get(flag).map(String::as_str), given, "{key}");
        }
        for (key, value) in [
            ("loss", text("1")),
            ("ring", Scalar::Integer(10)),
            ("device", text("tap")),
            ("reorder", text("2ms")),
            ("jitter", text("11s")),
            ("down", text("5s")),
            ("near_rates", text("fast")),
            ("congestion", text("cu bic")),
            ("jitter_overtakes", text("yes")),
        ] {
            assert!(path.set(key, &value).is_err(), "{key}");
        }
    }

    #[test]
    fn lines_are_those_that_the_command_makes() {
        let mut path = Path::default();
        assert!(!path.is_segmented());
        for (key, value) in
            [("jitter", "near:1ms"), ("queue", "64 packets"), ("down", "far:1s+1ms"), ("delay", "8ms")]
        {
            path.set(key, &Scalar::Text(value.to_owned())).unwrap();
        }
        path.set("jitter_overtakes", &Scalar::Bool(true)).unwrap();
        path.set("ring", &Scalar::Integer(256)).unwrap();
        let [near, far] = path.lines();
        assert!(near.jitter.is_some_and(|jitter| jitter.overtaking) && far.jitter.is_none());
        assert_eq!((near.outages.len(), far.outages.len()), (0, 1));
        assert_eq!((near.queue_packets, near.shape.queue_bytes), (Some(64), 64 * 1538));
        assert!(path.is_segmented());
    }

    #[test]
    fn directions_may_differ() {
        let mut path = Path::default();
        for (key, value) in [
            ("delay", "near:2ms,far:40ms"),
            ("rate", "near:10mbit,far:100mbit"),
            ("queue", "near:64 packets,far:0.5bdp"),
        ] {
            path.set(key, &Scalar::Text(value.to_owned())).unwrap();
        }
        let [near, far] = path.lines().map(|line| (line.shape, line.queue_packets));
        let shape = |ms, mbit: u64, queue_bytes| Shape {
            delay: Duration::from_millis(ms),
            rate: BitRate(mbit * 1_000_000),
            queue_bytes,
        };
        assert_eq!(near, (shape(2, 10, 64 * 1538), Some(64)));
        assert_eq!(far, (shape(40, 100, 262_500), None));
        assert_eq!(path.rtt(), Duration::from_millis(42));
        path.set("rate", &Scalar::Text("far:1gbit".to_owned())).unwrap();
        path.set("delay", &Scalar::Text("near:1ms,far:1ms".to_owned())).unwrap();
        path.set("queue", &Scalar::Integer(5_000_000)).unwrap();
        assert_eq!(
            (path.back, path.rate.0),
            (Back::default(), 1_000_000_000),
            "what is not said is as usual"
        );
        for (key, value) in [("delay", "near:1ms,2ms"), ("rate", "near:1"), ("queue", "far:0 packets")] {
            assert!(path.set(key, &Scalar::Text(value.to_owned())).is_err(), "{key}");
        }
    }

    #[test]
    fn a_rate_that_is_found_keeps_to_the_memory() {
        let mut path = Path::default();
        let text = |text: &str| Scalar::Text(text.to_owned());
        path.set("rate", &text("0.8 * plain.throughput")).unwrap();
        path.set("bdp_max", &text("400MB")).unwrap();
        for (delay, rate) in [("0", 6_000), ("250ms", 6_000), ("400ms", 4_000)] {
            path.set("delay", &text(delay)).unwrap();
            let found = path.with_found(BitRate(6_000_000_000));
            assert_eq!((found.rate.0 / 1_000_000, found.found_rate), (rate, None), "{delay}");
        }
        path.set("rate", &text("2gbit")).unwrap();
        assert_eq!((path.rate.0, &path.found_rate), (2_000_000_000, &None), "the last one said");
        for wrong in ["fast", "2.5 gb", "plain.iops", "plain.throughput *", "plain.throughput + line.rate"] {
            assert!(path.set("rate", &text(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn queues() {
        let mut path = Path::default();
        let queue_bytes = |path: &Path| path.shape(true).queue_bytes;
        assert_eq!(queue_bytes(&path), 1_000_000);
        path.delay = Duration::from_millis(50);
        assert_eq!(queue_bytes(&path), 12_500_000);
        for (text, bytes) in [("0.1bdp", 1_250_000), ("2MB", 2_000_000), ("1", 1538)] {
            path.set("queue", &Scalar::Text(text.to_owned())).unwrap();
            assert_eq!(queue_bytes(&path), bytes, "{text}");
        }
        path.set("queue", &Scalar::Text("256 packets".to_owned())).unwrap();
        assert_eq!((path.queue, queue_bytes(&path)), (Queue::Packets(256), 256 * 1538));
        for text in ["0 packets", "many packets", "0bdp", "-1bdp", "many", "NaNbdp", "inf bdp"] {
            assert!(path.set("queue", &Scalar::Text(text.to_owned())).is_err(), "{text}");
        }
    }
}
