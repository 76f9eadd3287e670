//! Drops at the entry of a path, before a packet waits for the bottleneck.
//!
//! Loss is decided here and not behind the bottleneck, so that the fate of the n-th packet follows from the seed,
//! independent of the load on the queue.

mod loss;
mod outage;
mod policer;

use event::{Fate, Instant};

use crate::Packet;

pub use loss::{Loss, LossModel};
pub use outage::{Outage, Outages};
pub use policer::{Contract, Policer};

/// Admission at the entry of a path.
pub trait Gate {
    /// Admission of `packet` at `now`, or its fate. Called once for every packet of the direction, in order,
    /// independent of the verdicts of other gates.
    fn admit(&mut self, now: Instant, packet: &Packet) -> Result<(), Fate>;

    /// Sets the origin of schedules. Before it they have not begun.
    fn begin(&mut self, _now: Instant) {}
}
