//! Dimension of a figure, so that a time is never compared with a rate.
//!
//! Powers of seconds, bits and bytes; counts and ratios have none. Bits and bytes are kept apart, since a sum of both
//! would be wrong by a factor of eight.

use std::fmt;
use std::ops::{Div, Mul};

/// Powers of seconds, bits and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dimension {
    seconds: i16,
    bits: i16,
    bytes: i16,
}

impl Dimension {
    /// A count or a ratio.
    pub const NONE: Dimension = Dimension { seconds: 0, bits: 0, bytes: 0 };
    /// Seconds.
    pub const TIME: Dimension = Dimension { seconds: 1, bits: 0, bytes: 0 };
    /// Bits per second.
    pub const RATE: Dimension = Dimension { seconds: -1, bits: 1, bytes: 0 };
    /// Per second.
    pub const FREQUENCY: Dimension = Dimension { seconds: -1, bits: 0, bytes: 0 };

    /// Bytes.
    pub const SIZE: Dimension = Dimension { seconds: 0, bits: 0, bytes: 1 };

    /// Dimension of a metric with this unit.
    pub(in crate::plan) fn of_unit(unit: &str) -> Dimension {
        match unit {
            "s" => Dimension::TIME,
            "bit/s" => Dimension::RATE,
            "bytes" => Dimension::SIZE,
            "1/s" => Dimension::FREQUENCY,
            _ => Dimension::NONE,
        }
    }
}

impl Mul for Dimension {
    type Output = Dimension;

    fn mul(self, rhs: Dimension) -> Dimension {
        Dimension {
            seconds: self.seconds + rhs.seconds,
            bits: self.bits + rhs.bits,
            bytes: self.bytes + rhs.bytes,
        }
    }
}

impl Div for Dimension {
    type Output = Dimension;

    fn div(self, rhs: Dimension) -> Dimension {
        Dimension {
            seconds: self.seconds - rhs.seconds,
            bits: self.bits - rhs.bits,
            bytes: self.bytes - rhs.bytes,
        }
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Dimension::NONE => f.write_str("a ratio or a count"),
            Dimension::TIME => f.write_str("a time"),
            Dimension::RATE => f.write_str("a rate of bits"),
            Dimension::FREQUENCY => f.write_str("a number per second"),
            Dimension::SIZE => f.write_str("a size"),
            Dimension { seconds, bits, bytes } => {
                let mut gap = "in ";
                for (unit, power) in [("s", seconds), ("bit", bits), ("byte", bytes)] {
                    if power != 0 {
                        write!(f, "{gap}{unit}^{power}")?;
                        gap = " ";
                    }
                }
                Ok(())
            }
        }
    }
}
