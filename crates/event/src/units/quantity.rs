//! Sizes, rates and delays as users write them: `4KiB`, `1gbit`, `8ms`.
//!
//! A bare number is refused wherever a unit could be meant in two ways (rates and delays); for sizes
//! it means bytes.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Bytes(pub u64);

/// Bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BitRate(pub u64);

/// Reason why a size, rate or delay could not be parsed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError {
    found: String,
    expected: &'static str,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not {}", self.found, self.expected)
    }
}

impl core::error::Error for ParseError {}

const SIZE: &str = "a size such as 512, 4KiB, 1MiB, 2GB";
const RATE: &str = "a rate such as 100mbit, 1gbit, 2.5gbit";
const DELAY: &str = "a time such as 8ms, 250us, 1.5s";

const SIZE_UNITS: [(&str, u64); 11] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("B", 1),
    ("", 1),
];
const RATE_UNITS: [(&str, u64); 8] = [
    ("kbit", 1_000),
    ("mbit", 1_000_000),
    ("gbit", 1_000_000_000),
    ("bit", 1),
    ("kbit/s", 1_000),
    ("Mbit/s", 1_000_000),
    ("Gbit/s", 1_000_000_000),
    ("bit/s", 1),
];
const DELAY_UNITS: [(&str, u64); 5] =
    [("ns", 1), ("us", 1_000), ("µs", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

impl FromStr for Bytes {
    type Err = ParseError;

    fn from_str(s: &str) -> Result<Bytes, ParseError> {
        scaled(s, &SIZE_UNITS, SIZE).map(Bytes)
    }
}

impl FromStr for BitRate {
    type Err = ParseError;

    fn from_str(s: &str) -> Result<BitRate, ParseError> {
        match scaled(s, &RATE_UNITS, RATE)? {
            0 => Err(ParseError { found: s.to_owned(), expected: RATE }),
            rate => Ok(BitRate(rate)),
        }
    }
}

/// Reads a time such as `8ms`, `250us`, `1.5s`, or a bare `0`.
pub fn parse_delay(s: &str) -> Result<Duration, ParseError> {
    if s.trim() == "0" {
        return Ok(Duration::ZERO);
    }
    scaled(s, &DELAY_UNITS, DELAY).map(Duration::from_nanos)
}

/// Writes a time with the largest unit that is not longer than it, and two digits behind the point: `8ms`, `1.5s`.
pub fn format_delay(d: Duration) -> String {
    let ns = d.as_nanos() as f64;
    let (unit, size) = match d.as_nanos() {
        0 => return "0".to_owned(),
        1..1_000 => ("ns", 1.0),
        1_000..1_000_000 => ("us", 1e3),
        1_000_000..1_000_000_000 => ("ms", 1e6),
        _ => ("s", 1e9),
    };
    format!("{}{unit}", short(ns / size))
}

impl Bytes {
    /// Parses like [`FromStr`], for contexts that want a plain number.
    pub fn parse(s: &str) -> Result<u64, ParseError> {
        s.parse::<Bytes>().map(|b| b.0)
    }
}

impl BitRate {
    /// Time to put `bytes` on a line of this rate, rounded up to a nanosecond.
    pub fn time_for(self, bytes: u64) -> Duration {
        let ns = (u128::from(bytes) * 8 * 1_000_000_000).div_ceil(u128::from(self.0.max(1)));
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Bytes that a line of this rate carries in `d`, rounded down.
    pub fn bytes_in(self, d: Duration) -> u64 {
        u64::try_from(u128::from(self.0) * d.as_nanos() / 8_000_000_000).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0;
        for (unit, size) in [("TiB", 1u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
            if n >= size {
                return write!(f, "{}{unit}", short(n as f64 / size as f64));
            }
        }
        write!(f, "{n}B")
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0;
        for (unit, size) in [("gbit", 1_000_000_000u64), ("mbit", 1_000_000), ("kbit", 1_000)] {
            if n >= size {
                return write!(f, "{}{unit}", short(n as f64 / size as f64));
            }
        }
        write!(f, "{n}bit")
    }
}

fn short(v: f64) -> String {
    let text = format!("{v:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn scaled(s: &str, units: &[(&str, u64)], expected: &'static str) -> Result<u64, ParseError> {
    let wrong = || ParseError { found: s.to_owned(), expected };
    let text = s.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..split], text[split..].trim());
    let exact = units.iter().find(|(name, _)| *name == unit);
    let any_case = || units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    let (_, size) = exact.or_else(any_case).ok_or_else(wrong)?;
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(*size).ok_or_else(wrong);
    }
    let value = number.parse::<f64>().map_err(|_| wrong())? * *size as f64;
    // There is no part of a byte: the unit was forgotten.
    if *size == 1 && value.fract() != 0.0 {
        return Err(wrong());
    }
    if !value.is_finite() || value < 0.0 || value >= u64::MAX as f64 {
        return Err(wrong());
    }
    Ok(value.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in
            [("512", 512), ("4KiB", 4096), ("1.5MiB", 1_572_864), ("2GB", 2_000_000_000), ("8kib", 8192)]
        {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["", "KiB", "4 apples", "-1", "1e3", "99999999999TiB", ".", "1.5", "0.4B"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
        assert_eq!(Bytes(1_572_864).to_string(), "1.5MiB");
        assert_eq!(
            "4 apples".parse::<Bytes>().unwrap_err().to_string(),
            "'4 apples' is not a size such as 512, 4KiB, 1MiB, 2GB"
        );
    }

    #[test]
    fn rates() {
        assert_eq!("1gbit".parse(), Ok(BitRate(1_000_000_000)));
        assert_eq!("2.5Gbit/s".parse(), Ok(BitRate(2_500_000_000)));
        assert!("1000".parse::<BitRate>().is_err(), "a rate needs its unit");
        assert!("0gbit".parse::<BitRate>().is_err());
        assert_eq!(BitRate(1_000_000_000).time_for(1_250), Duration::from_micros(10));
        assert_eq!(BitRate(1_000_000_000).bytes_in(Duration::from_millis(1)), 125_000);
        assert_eq!(BitRate(2_500_000_000).to_string(), "2.5gbit");
    }

    #[test]
    fn delays() {
        assert_eq!(parse_delay("8ms"), Ok(Duration::from_millis(8)));
        assert_eq!(parse_delay("0"), Ok(Duration::ZERO));
        assert_eq!(parse_delay("1.5s"), Ok(Duration::from_millis(1500)));
        assert!(parse_delay("8").is_err(), "a delay needs its unit");
        assert_eq!(format_delay(Duration::from_millis(8)), "8ms");
        assert_eq!(format_delay(Duration::from_micros(1500)), "1.5ms");
        assert_eq!(format_delay(Duration::ZERO), "0");
    }
}
