//! Duration of a comparison.

use super::rounds::Plan;

/// Duration of a comparison.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// Figures to quote.
    Full,
    /// Enough to see that the comparison runs.
    Quick,
}

impl Length {
    /// A full comparison's rounds and their seconds, or a short round.
    pub(super) fn plan(self, rounds: usize, seconds: u32) -> Plan {
        if self == Length::Full { Plan { rounds, seconds } } else { Plan { rounds: 1, seconds: 2 } }
    }
}
