//! The policy `study`: the congestion-window control study's, as its authors describe it. One block outstanding, as
//! large as the sender's window: what is left of it after a cut by the sender's own device, and the limit once it has
//! been stable. Nothing is paced, nothing else follows the path. The sender of reads tells its window by notification
//! (`docs/reference/notification.md`); without that the block stays as it began.

use event::{WindowKind, WindowNotice};

use crate::measure::product::Product;
use crate::policy::none::Fixed;
use crate::policy::{Decision, Observation, Policy};

/// See the file's beginning.
#[derive(Clone, Debug)]
pub(crate) struct Study {
    product: Product,
    block_bytes: Option<u64>,
}

impl Study {
    pub(crate) fn new() -> Study {
        Study { product: Product::new(), block_bytes: None }
    }
}

impl Policy for Study {
    fn observe(&mut self, seen: &Observation) {
        self.product.observe(seen);
    }

    fn told(&mut self, notice: &WindowNotice) {
        if matches!(notice.kind, WindowKind::CutHere | WindowKind::Limit) {
            self.block_bytes = Some(notice.bytes());
        }
    }

    fn decide(&self) -> Decision {
        // One byte more than nothing: the next request goes out when none is outstanding.
        Decision { block_bytes: self.block_bytes, outstanding_bytes: 1, ..Fixed::DECISION }
    }

    fn product_bytes(&self) -> u64 {
        self.product.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_is_the_window_of_a_cut_here_and_of_the_limit() {
        let mut study = Study::new();
        assert_eq!(study.decide().block_bytes, None, "as the caller begins");
        let notice = |kind, cwnd_packets| WindowNotice { kind, cwnd_packets, mss_bytes: 1448 };
        for (kind, window, expected) in
            [(WindowKind::CutHere, 150, 150), (WindowKind::CutByLoss, 75, 150), (WindowKind::Limit, 280, 280)]
        {
            study.told(&notice(kind, window));
            assert_eq!(study.decide().block_bytes, Some(expected * 1448), "{kind:?}");
        }
        assert_eq!(study.decide().pacing_bytes_per_s, None);
    }
}
