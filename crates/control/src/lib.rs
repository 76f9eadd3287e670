//! Policies: what a session should have outstanding and how fast it should send.
//!
//! One policy object per connection and end. It is fed what was observed and asked what to do; it has no
//! clock and does no I/O, so a recorded run can be replayed through it. It never names the protocol: the
//! initiator and the target translate its decisions. [`Choice`] names the policies; what each is good for, with what
//! was measured, is in `docs/control.md`, how the default works in `docs/auto.md`.

mod arrival;
mod auto;
#[cfg(test)]
mod beside;
#[cfg(test)]
mod bulk;
mod cap;
mod choice;
mod claimant;
mod connections;
mod counter;
mod crowd;
mod cuts;
mod early;
mod max_filter;
mod monitor;
mod none;
mod pace;
mod policy;
mod product;
mod ring;
mod share;
mod space;
mod study;
#[cfg(test)]
mod testing;
mod threshold;
mod train;
mod unqueued;
mod wary;
mod word;

pub use cap::BULK_BYTES;
pub use choice::Choice;
pub use connections::{Connections, Traffic};
pub use crowd::{Arrived, Burst, BurstStart, Crowd};
pub use monitor::Monitor;
pub use policy::{Decision, Observation, Policy, UNCAPPED};
pub use share::{Claim, Handed, Sharing};
pub use space::worth_bytes;
pub use threshold::NO_THRESHOLD_PACKETS;
pub use word::{PART_LASTS, Word, Words};
