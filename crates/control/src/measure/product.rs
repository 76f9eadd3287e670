//! The bandwidth-delay product of a connection, as measured, and how much outstanding follows from it.
//!
//! Twice the product is kept under way, and four times while it still grows, so that a window which doubles every
//! round trip is never short of data, and under BBR, whose window is twice the product, and at its start 2.9 times. What is too much waits at the sender, not in the network. The rate is measured
//! over whole round trips: what an application reads at one go after a pause was not carried that fast.

use core::time::Duration;

use crate::measure::counter::Counter;
use crate::measure::max_filter::MaxFilter;
use crate::policy::Observation;

/// Least payload outstanding: also enough to keep a fast short line busy.
pub(crate) const OUTSTANDING_MIN_BYTES: u64 = 8 << 20;
/// Most payload outstanding.
const OUTSTANDING_MAX_BYTES: u64 = 1 << 30;
/// Least and most commands in the target's window.
pub(crate) const COMMANDS_MIN: u64 = 4096;
const COMMANDS_MAX: u64 = 65_535;
/// Shortest time over which a rate is measured.
pub(crate) const RATE_MIN_TIME: Duration = Duration::from_millis(40);

/// What is known of a path's length and of what it carries.
#[derive(Clone, Debug)]
pub(crate) struct Product {
    min_rtt: Option<Duration>,
    /// Rate of payload through this connection, both ways together.
    moved: MaxFilter<8>,
    moved_before: u64,
    counter: Counter,
    request_bytes: u64,
    paces_itself: bool,
}

impl Product {
    pub(crate) fn new() -> Product {
        Product {
            min_rtt: None,
            moved: MaxFilter::new(),
            moved_before: 0,
            counter: Counter::default(),
            request_bytes: 0,
            paces_itself: false,
        }
    }

    /// Takes what has been moved; a rate is known after a round trip.
    pub(crate) fn observe(&mut self, seen: &Observation) {
        self.min_rtt = seen.min_rtt.or(self.min_rtt);
        self.paces_itself = seen.paces_itself;
        if seen.request_bytes > 0 {
            self.request_bytes = seen.request_bytes;
        }
        let rate = self.counter.rate(seen.now, seen.moved_bytes, seen.rtt.max(RATE_MIN_TIME));
        let Some(rate) = rate else { return };
        self.moved_before = self.moved.max();
        self.moved.advance();
        self.moved.add(rate);
    }

    /// Smallest round-trip time.
    pub(crate) fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt
    }

    /// The product.
    pub(crate) fn bytes(&self) -> u64 {
        let min_rtt_ns = self.min_rtt.unwrap_or_default().as_nanos();
        let bytes = u128::from(self.moved.max()) * min_rtt_ns / 1_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Payload to keep outstanding.
    pub(crate) fn outstanding_bytes(&self) -> u64 {
        let factor = if self.is_growing() || self.paces_itself { 4 } else { 2 };
        self.bytes().saturating_mul(factor).clamp(OUTSTANDING_MIN_BYTES, OUTSTANDING_MAX_BYTES)
    }

    /// Commands that the target should let be open.
    pub(crate) fn command_window(&self) -> u32 {
        let commands = self.bytes().saturating_mul(2) / self.request_bytes.max(512);
        commands.clamp(COMMANDS_MIN, COMMANDS_MAX) as u32
    }

    /// Whether the product was a good deal smaller a round ago.
    fn is_growing(&self) -> bool {
        self.moved.max() > self.moved_before + self.moved_before / 8
    }
}
