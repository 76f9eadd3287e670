//! The `[path]` of a plan: what lies between the near and the far host.

use std::collections::BTreeMap;
use std::time::Duration;

use document::Scalar;
use event::{BitRate, parse_delay};
use link::{FRAMING_BYTES, LossModel, Shape, Share};

use super::found_rate::FoundRate;

/// An emulated path, the same in both directions.
#[derive(Clone, PartialEq, Debug)]
pub struct Path {
    /// One-way propagation delay.
    pub delay: Duration,
    /// Rate of the line; it carries IP packets plus 38 bytes of Ethernet each.
    pub rate: BitRate,
    /// What gives the rate once other cells have been run; until then [`Path::rate`] means nothing.
    pub found_rate: Option<FoundRate>,
    /// Most bytes that rate × round trip may be: a rate that is found is lowered to it.
    pub bdp_max_bytes: Option<u64>,
    /// Waiting queue in front of the line.
    pub queue: Queue,
    /// Largest IP packet, at least 1280 bytes (RFC 8200, section 5).
    pub mtu_bytes: u32,
    /// No IPv4: the hosts have their IPv6 addresses alone.
    pub ipv6: bool,
    /// Super-packets are cut into packets of MTU size before anything happens to them.
    pub segment: bool,
    /// What else happens to packets: flags of `farlun wan`, without the dashes, and their values.
    pub faults: BTreeMap<&'static str, String>,
}

/// How a waiting queue is sized.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Queue {
    /// Not stated: one bandwidth-delay product, at least 1 MB.
    Default,
    /// A multiple of the bandwidth-delay product of the round trip: `0.1bdp`.
    Bdp(f64),
    /// A size.
    Bytes(u64),
    /// Packets of MTU size.
    Packets(u32),
}

/// What can be said of a path.
pub(super) const PATH_KEYS: &[&str] = &[
    "delay",
    "rate",
    "queue",
    "mtu",
    "ipv6",
    "segment",
    "bdp_max",
    "loss",
    "jitter",
    "reorder",
    "duplicate",
    "merge_acks",
    "coalesce",
    "tick",
    "ring",
    "rcvbuf",
    "sndbuf",
];

/// Buffers of TCP, as `farlun wan` takes them.
const BUFFER_BYTES: std::ops::RangeInclusive<u64> = 8_192..=1 << 30;
/// Rings that network cards have.
const RING_PACKETS: (u32, u32) = (80, 4_096);

impl Default for Path {
    fn default() -> Path {
        Path {
            delay: Duration::ZERO,
            rate: BitRate(1_000_000_000),
            found_rate: None,
            bdp_max_bytes: None,
            queue: Queue::Default,
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
        self.delay * 2
    }

    /// The path with the rate that was found for it, or with so much of it as it may have under way.
    pub fn with_found(&self, rate: BitRate) -> Path {
        let most = self.bdp_max_bytes.filter(|_| !self.delay.is_zero()).map(|bytes| {
            let bits_per_s = bytes as f64 * 8.0 / self.rtt().as_secs_f64();
            BitRate(bits_per_s as u64)
        });
        Path { rate: most.map_or(rate, |most| most.min(rate)), found_rate: None, ..self.clone() }
    }

    /// The waiting queue, never smaller than one packet.
    pub fn queue_bytes(&self) -> u64 {
        let wanted = match self.queue {
            Queue::Default => Shape::usual_queue_bytes(self.delay, self.rate),
            Queue::Bdp(factor) => (self.rate.bytes_in(self.rtt()) as f64 * factor) as u64,
            Queue::Bytes(bytes) => bytes,
            Queue::Packets(packets) => {
                u64::from(packets) * (u64::from(self.mtu_bytes) + u64::from(FRAMING_BYTES))
            }
        };
        wanted.max(u64::from(self.mtu_bytes) + u64::from(FRAMING_BYTES))
    }

    pub(super) fn set(&mut self, key: &str, value: &Scalar) -> Result<(), String> {
        match key {
            "delay" => {
                self.delay = parse_delay(&value.label()).map_err(|e| e.to_string())?;
                if self.delay > Duration::from_secs(10) {
                    return Err(format!("'{}' one way is more than 10s", value.label()));
                }
            }
            "rate" => match value.rate() {
                Ok(rate) => (self.rate, self.found_rate) = (rate, None),
                Err(error) => self.found_rate = Some(FoundRate::read(value).unwrap_or(Err(error))?),
            },
            "bdp_max" => match value.bytes()? {
                0 => return Err("with 0 bytes under way nothing flows".to_owned()),
                bytes => self.bdp_max_bytes = Some(bytes),
            },
            "ipv6" => self.ipv6 = value.bool()?,
            "segment" => self.segment = value.bool()?,
            "queue" => self.queue = queue(value)?,
            "mtu" => self.mtu_bytes = value.number(1280, 65_535)?,
            "ring" => {
                let packets = value.number(RING_PACKETS.0, RING_PACKETS.1)?;
                self.faults.insert("ring", packets.to_string());
            }
            "rcvbuf" | "sndbuf" => {
                let flag = if key == "rcvbuf" { "rcvbuf" } else { "sndbuf" };
                let bytes = value.bytes()?;
                if !BUFFER_BYTES.contains(&bytes) {
                    return Err(format!("'{}' is no buffer of 8KiB to 1GiB", value.label()));
                }
                self.faults.insert(flag, format!("{bytes}B"));
            }
            "loss" => {
                let model: LossModel = value.text()?.parse()?;
                self.faults.insert("loss", model.to_string());
            }
            "reorder" => self.fault("reorder", share(value)?),
            "duplicate" => self.fault("duplicate", share(value)?),
            "jitter" => self.fault("jitter", time(value)?),
            "merge_acks" => self.fault("merge-acks", time(value)?),
            "coalesce" => self.fault("coalesce", time(value)?),
            "tick" => self.fault("tick", time(value)?),
            _ => unreachable!("'{key}' is in PATH_KEYS"),
        }
        Ok(())
    }

    /// Nothing of a fault is none.
    fn fault(&mut self, flag: &'static str, value: Option<String>) {
        match value {
            Some(value) => self.faults.insert(flag, value),
            None => self.faults.remove(flag),
        };
    }
}

fn share(value: &Scalar) -> Result<Option<String>, String> {
    let share: Share = value.text()?.parse().map_err(|error: link::ShareError| error.to_string())?;
    Ok((share > Share::NONE).then(|| share.to_string()))
}

fn time(value: &Scalar) -> Result<Option<String>, String> {
    let label = value.label();
    let time = parse_delay(&label).map_err(|error| error.to_string())?;
    Ok((!time.is_zero()).then_some(label))
}

fn queue(value: &Scalar) -> Result<Queue, String> {
    let label = value.label();
    if let Some(packets) = label.strip_suffix("packets") {
        let packets = packets.trim().parse().ok().filter(|packets| (1..=1_000_000).contains(packets));
        return packets
            .map(Queue::Packets)
            .ok_or_else(|| format!("'{label}' is not a queue such as '256 packets', of at most a million"));
    }
    let Some(factor) = label.strip_suffix("bdp") else {
        return value
            .bytes()
            .map(Queue::Bytes)
            .map_err(|_| format!("'{label}' is not a queue such as 256KB, 2MB or 0.5bdp"));
    };
    match factor.trim().parse::<f64>() {
        Ok(factor) if factor > 0.0 && factor <= 100.0 => Ok(Queue::Bdp(factor)),
        _ => Err(format!("'{label}' is not a queue such as 256KB, 2MB or 0.5bdp (at most 100bdp)")),
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
            ("duplicate", text("0%"), "duplicate", None),
        ] {
            path.set(key, &value).unwrap();
            assert_eq!(path.faults.get(flag).map(String::as_str), given, "{key}");
        }
        for (key, value) in [("loss", text("1")), ("ring", Scalar::Integer(10)), ("reorder", text("2ms"))] {
            assert!(path.set(key, &value).is_err(), "{key}");
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
        assert_eq!(path.queue_bytes(), 1_000_000);
        path.delay = Duration::from_millis(50);
        assert_eq!(path.queue_bytes(), 12_500_000);
        for (text, bytes) in [("0.1bdp", 1_250_000), ("2MB", 2_000_000), ("1", 1538)] {
            path.set("queue", &Scalar::Text(text.to_owned())).unwrap();
            assert_eq!(path.queue_bytes(), bytes, "{text}");
        }
        path.set("queue", &Scalar::Text("256 packets".to_owned())).unwrap();
        assert_eq!((path.queue, path.queue_bytes()), (Queue::Packets(256), 256 * 1538));
        for text in ["0 packets", "many packets", "0bdp", "-1bdp", "many", "NaNbdp", "inf bdp"] {
            assert!(path.set("queue", &Scalar::Text(text.to_owned())).is_err(), "{text}");
        }
    }
}
