//! Artificial latency of a LUN: every command waits before its execution.
//!
//! This file computes delays only. The event loop waits with timers, not in threads, so that thousands of
//! commands wait concurrently, as in the queue of a real device.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use event::{format_delay, parse_delay};

use super::chance;
use crate::spec::{OptionError, not};

/// Delays of reads and of writes; zero by default.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Delays {
    /// Delay of commands that only read the medium, such as READ and VERIFY.
    pub read: Delay,
    /// Delay of commands that modify or flush the medium, such as WRITE and SYNCHRONIZE CACHE.
    pub write: Delay,
}

/// A random delay, uniformly distributed between two bounds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Delay {
    least: Duration,
    most: Duration,
}

/// Upper limit of a delay. Initiators abort a command after about 30 s, so a longer delay is a mistake.
const MOST: Duration = Duration::from_secs(60);

impl Delays {
    /// Returns true if both delays are always zero.
    pub fn is_none(self) -> bool {
        self.read.is_none() && self.write.is_none()
    }
}

impl Delay {
    /// Returns true if the delay is always zero.
    pub fn is_none(self) -> bool {
        self.most.is_zero()
    }

    /// Returns the delay of the `nth` command; `seed` makes it reproducible.
    pub fn of(self, seed: u64, nth: u64) -> Duration {
        let range_ns = (self.most - self.least).as_nanos() as u64;
        let extra_ns = (u128::from(chance::draw(seed, nth)) * u128::from(range_ns + 1)) >> 64;
        self.least + Duration::from_nanos(extra_ns as u64)
    }
}

impl FromStr for Delay {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Delay, OptionError> {
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        let (least, most) = (parse_delay(least)?, parse_delay(most)?);
        if most < least {
            return Err(OptionError::Reversed { found: text.to_owned() });
        }
        if most > MOST {
            return Err(not(text, "delay", "at most 60s"));
        }
        Ok(Delay { least, most })
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_delay(self.least))?;
        if self.most > self.least { write!(f, "..{}", format_delay(self.most)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_within_its_bounds_and_uses_them() {
        let delay: Delay = "2ms..3ms".parse().unwrap();
        let times: Vec<Duration> = (0..1000).map(|nth| delay.of(7, nth)).collect();
        let (min, max) = (times.iter().min().unwrap(), times.iter().max().unwrap());
        assert!(*min >= delay.least && *min < Duration::from_micros(2050), "{min:?}");
        assert!(*max <= delay.most && *max > Duration::from_micros(2950), "{max:?}");
        assert_eq!(times, (0..1000).map(|nth| delay.of(7, nth)).collect::<Vec<_>>(), "by the seed");
        assert_ne!(times[..9], (0..9).map(|nth| delay.of(8, nth)).collect::<Vec<_>>());
        let constant: Delay = "8ms".parse().unwrap();
        assert!((0..100).all(|nth| constant.of(0, nth) == Duration::from_millis(8)));
        assert!("0".parse::<Delay>().unwrap().is_none());
        assert!("61s".parse::<Delay>().unwrap_err().to_string().contains("at most 60s"));
    }
}
