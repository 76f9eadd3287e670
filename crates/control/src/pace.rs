//! The policy `pace`: what `none` does, and what is sent is paced by the kernel, in bulk capped by the delivered rate
//! (`cap.rs`). A lone request is paced by the kernel alone, at its window over the round trip.

use crate::cap::Cap;
use crate::cuts::Cuts;
use crate::none::Fixed;
use crate::policy::{Decision, Observation, Policy};
use crate::product::Product;
use crate::space::BURST_DEPTH_BYTES;

/// See the file's beginning.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    product: Product,
    cuts: Cuts,
    cap: Cap,
}

impl Pace {
    pub(crate) fn new() -> Pace {
        Pace { product: Product::new(), cuts: Cuts::default(), cap: Cap::new(BURST_DEPTH_BYTES) }
    }
}

impl Policy for Pace {
    fn observe(&mut self, seen: &Observation) {
        self.product.observe(seen);
        let cut = self.cuts.observe(seen);
        self.cap.observe(seen, &self.product, cut, None);
    }

    fn decide(&self) -> Decision {
        Decision {
            pacing_bytes_per_s: self.cap.pacing_bytes_per_s(&self.product),
            look_again: self.cap.look_again(&self.product).min(Fixed::DECISION.look_again),
            ..Fixed::DECISION
        }
    }

    fn product_bytes(&self) -> u64 {
        self.product.bytes()
    }
}
