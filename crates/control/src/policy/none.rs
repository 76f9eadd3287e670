//! The policy `none`: what an initiator does that knows nothing of its path. Blocks as the caller has them, a fixed
//! amount outstanding, nothing paced. It is what the others are compared with.

use core::time::Duration;

use event::CongestionDecision;

use crate::lone::space::BURST_DEPTH_BYTES;
use crate::measure::product::{COMMANDS_MIN, OUTSTANDING_MIN_BYTES, Product};
use crate::policy::{Decision, Observation, Policy};

/// How soon to look again: nothing follows from it but the table.
const LOOK: Duration = Duration::from_millis(10);

/// See the file's beginning.
#[derive(Clone, Debug)]
pub(crate) struct Fixed {
    product: Product,
}

impl Fixed {
    pub(crate) fn new() -> Fixed {
        Fixed { product: Product::new() }
    }

    /// What it always decides.
    pub(crate) const DECISION: Decision = Decision {
        block_bytes: None,
        outstanding_bytes: OUTSTANDING_MIN_BYTES,
        command_window: COMMANDS_MIN as u32,
        pacing_bytes_per_s: None,
        burst_bytes_per_s: None,
        burst_depth_bytes: BURST_DEPTH_BYTES,
        held_bytes: None,
        thresholds_forgotten: 0,
        congestion: CongestionDecision::HOSTS,
        look_again: LOOK,
    };
}

impl Policy for Fixed {
    fn observe(&mut self, seen: &Observation) {
        // For advice about socket buffers only.
        self.product.observe(seen);
    }

    fn decide(&self) -> Decision {
        Fixed::DECISION
    }

    fn product_bytes(&self) -> u64 {
        self.product.bytes()
    }
}
