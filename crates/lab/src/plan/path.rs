//! The `[path]` of a plan: what lies between the near and the far host.

use std::time::Duration;

use document::Scalar;
use event::{BitRate, parse_delay};
use link::{FRAMING_BYTES, Shape};

/// An emulated path, the same in both directions.
#[derive(Clone, PartialEq, Debug)]
pub struct Path {
    /// One-way propagation delay.
    pub delay: Duration,
    /// Rate of the line; it carries IP packets plus 38 bytes of Ethernet each.
    pub rate: BitRate,
    /// Waiting queue in front of the line.
    pub queue: Queue,
    /// Largest IP packet, at least 1280 bytes (RFC 8200, section 5).
    pub mtu_bytes: u32,
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
}

/// What can be said of a path.
pub(super) const PATH_KEYS: &[&str] = &["delay", "rate", "queue", "mtu"];

impl Default for Path {
    fn default() -> Path {
        Path { delay: Duration::ZERO, rate: BitRate(1_000_000_000), queue: Queue::Default, mtu_bytes: 1500 }
    }
}

impl Path {
    /// Both ways of propagation, without any waiting or serialisation.
    pub fn rtt(&self) -> Duration {
        self.delay * 2
    }

    /// The waiting queue, never smaller than one packet.
    pub fn queue_bytes(&self) -> u64 {
        let wanted = match self.queue {
            Queue::Default => Shape::usual_queue_bytes(self.delay, self.rate),
            Queue::Bdp(factor) => (self.rate.bytes_in(self.rtt()) as f64 * factor) as u64,
            Queue::Bytes(bytes) => bytes,
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
            "rate" => self.rate = value.rate()?,
            "queue" => self.queue = queue(value)?,
            "mtu" => self.mtu_bytes = value.number(1280, 65_535)?,
            _ => unreachable!("'{key}' is in PATH_KEYS"),
        }
        Ok(())
    }
}

fn queue(value: &Scalar) -> Result<Queue, String> {
    let label = value.label();
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
    fn queues() {
        let mut path = Path::default();
        assert_eq!(path.queue_bytes(), 1_000_000);
        path.delay = Duration::from_millis(50);
        assert_eq!(path.queue_bytes(), 12_500_000);
        for (text, bytes) in [("0.1bdp", 1_250_000), ("2MB", 2_000_000), ("1", 1538)] {
            path.set("queue", &Scalar::Text(text.to_owned())).unwrap();
            assert_eq!(path.queue_bytes(), bytes, "{text}");
        }
        for text in ["0bdp", "-1bdp", "many", "NaNbdp", "inf bdp"] {
            assert!(path.set("queue", &Scalar::Text(text.to_owned())).is_err(), "{text}");
        }
    }
}
