//! Gates at the entry of a path: each admits a packet or drops it, before it waits for anything.
//!
//! Loss is decided here and not behind the bottleneck, so that the n-th packet has the fate that the seed gives
//! it whatever the load does to the queue.

mod loss;
mod outage;
mod policer;

use event::{Fate, Instant};

use crate::Packet;

pub use loss::{Loss, LossModel};
pub use outage::{Outage, Outages};
pub use policer::{Contract, Policer};

/// Lets packets in or drops them.
pub trait Gate {
    /// Admission of `packet` at `now`, or the fate it has instead. Called once for every packet of the direction, in
    /// order, whatever other gates say.
    fn admit(&mut self, now: Instant, packet: &Packet) -> Result<(), Fate>;

    /// The time that schedules count from. Until it is known they have not begun.
    fn begin(&mut self, _now: Instant) {}
}
