//! The face of what decides about a packet when it comes to the path, before it waits for anything.
//!
//! Loss is decided here and not behind the bottleneck, so that the n-th packet has the fate that the seed gives
//! it whatever the load does to the queue.

use event::{Fate, Instant};

/// Lets packets in or drops them.
pub trait Gate {
    /// Whether packet number `n` comes in at `now`, or the fate it has instead. Asked once for every packet of the
    /// direction, in order, whatever other gates say.
    fn admit(&mut self, now: Instant, n: u64) -> Result<(), Fate>;

    /// The time that schedules count from. Until it is known they have not begun.
    fn begin(&mut self, _now: Instant) {}
}
