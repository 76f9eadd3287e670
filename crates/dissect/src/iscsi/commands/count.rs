//! A number of events of which the capture may not show every one.

use serde::Serialize;

/// Number of events in a capture. Serialized as a number, as an object with `least` and `most`, or as null.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(untagged)]
pub enum Count {
    /// The number.
    Exact(u64),
    /// Bounds, at most 20 % from their middle.
    Between {
        /// Lower bound.
        least: u64,
        /// Upper bound.
        most: u64,
    },
    /// Not counted: the bounds are too far apart.
    #[default]
    Unknown,
}

/// Largest distance of a bound from the middle, as a share of that: bounds farther apart are of no use for a rate.
const SPREAD_MAX: f64 = 0.2;

impl Count {
    /// A number between bounds.
    pub(super) fn between(least: u64, most: u64) -> Self {
        match most.checked_sub(least) {
            None => Self::Unknown,
            Some(0) => Self::Exact(least),
            Some(apart) if apart as f64 <= SPREAD_MAX * (least + most) as f64 => {
                Self::Between { least, most }
            }
            Some(_) => Self::Unknown,
        }
    }

    /// The number without `fewer` of those that are certain.
    pub(super) fn less(self, fewer: u64) -> Self {
        match self {
            Self::Exact(number) => Self::Exact(number.saturating_sub(fewer)),
            Self::Between { least, most } => {
                Self::between(least.saturating_sub(fewer), most.saturating_sub(fewer))
            }
            Self::Unknown => Self::Unknown,
        }
    }

    /// The number, if it is exact.
    pub fn exact(self) -> Option<u64> {
        match self {
            Self::Exact(number) => Some(number),
            Self::Between { .. } | Self::Unknown => None,
        }
    }

    /// The number or the middle of its bounds.
    pub fn estimate(self) -> Option<u64> {
        match self {
            Self::Exact(number) => Some(number),
            Self::Between { least, most } => Some(least + (most - least) / 2),
            Self::Unknown => None,
        }
    }

    /// True if `number` is not excluded.
    pub fn allows(self, number: u64) -> bool {
        match self {
            Self::Exact(exact) => exact == number,
            Self::Between { least, most } => (least..=most).contains(&number),
            Self::Unknown => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_too_far_apart_are_no_count() {
        assert_eq!(Count::between(7, 7), Count::Exact(7));
        assert_eq!(Count::between(80, 120), Count::Between { least: 80, most: 120 });
        assert_eq!(Count::between(80, 121), Count::Unknown);
        assert_eq!(Count::between(3, 2), Count::Unknown);
        assert_eq!(Count::between(80, 120).estimate(), Some(100));
        assert_eq!(Count::between(90, 110).less(10), Count::Between { least: 80, most: 100 });
        assert_eq!((Count::Exact(7).less(9), Count::Unknown.less(1)), (Count::Exact(0), Count::Unknown));
    }
}
