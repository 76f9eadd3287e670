//! Times that follow the path: `2s`, `25rtt`, `1s + 25rtt`.
//!
//! A window must open after the ramp at every delay of a matrix, and the ramp takes a number of round
//! trips: so the times of a load are a fixed part plus round trips.

use std::fmt;
use std::time::Duration;

use document::Scalar;
use event::parse_delay;

use crate::exact;

/// A fixed time plus a number of round trips of the path.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct PathTime {
    /// The part that is the same on every path.
    pub fixed: Duration,
    /// The part that grows with the path.
    pub round_trips: f64,
}

impl PathTime {
    /// Its length on a path of this round-trip time.
    pub fn on(self, rtt: Duration) -> Duration {
        self.fixed + rtt.mul_f64(self.round_trips)
    }

    /// Reads the value of a key; a number without a unit is ambiguous and refused.
    pub(in crate::plan) fn read(value: &Scalar) -> Result<PathTime, String> {
        PathTime::parse(&value.label())
    }

    /// Reads a sum of times and round trips. Terms are separated by `+`; each has its unit.
    pub fn parse(text: &str) -> Result<PathTime, String> {
        let wrong = || format!("'{text}' is not a time such as 500ms, 25rtt or 1s + 25rtt");
        let mut sum = PathTime::default();
        for term in text.split('+').map(str::trim) {
            match term.strip_suffix("rtt").map(str::trim) {
                Some(number) => {
                    let round_trips: f64 = number.parse().map_err(|_| wrong())?;
                    if !(0.0..=1e6).contains(&round_trips) {
                        return Err(wrong());
                    }
                    sum.round_trips += round_trips;
                }
                None => sum.fixed += parse_delay(term).map_err(|_| wrong())?,
            }
        }
        if sum.fixed > Duration::from_secs(86_400) {
            return Err(format!("'{text}' is more than a day"));
        }
        Ok(sum)
    }
}

impl fmt::Display for PathTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.fixed.is_zero(), self.round_trips) {
            (_, 0.0) => f.write_str(&exact::time(self.fixed)),
            (true, n) => write!(f, "{n}rtt"),
            (false, n) => write!(f, "{} + {n}rtt", exact::time(self.fixed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_fixed_part_and_round_trips() {
        let rtt = Duration::from_millis(100);
        for (text, ms, shown) in [
            ("2s", 2_000, "2s"),
            ("0", 0, "0"),
            ("25rtt", 2_500, "25rtt"),
            ("1s + 25rtt", 3_500, "1s + 25rtt"),
            ("2.5 rtt+250ms", 500, "250ms + 2.5rtt"),
            ("1s + 1s", 2_000, "2s"),
        ] {
            let time = PathTime::parse(text).unwrap();
            assert_eq!(time.on(rtt), Duration::from_millis(ms), "{text}");
            assert_eq!(time.to_string(), shown);
        }
        for text in
            ["", "2", "rtt", "-1s", "1s - 2rtt", "2 x rtt", "1s +", "NaNrtt", "2000000rtt", "2000000s"]
        {
            assert!(PathTime::parse(text).is_err(), "{text}");
        }
    }
}
