//! Policies: what a session should have outstanding and how fast it should send.
//!
//! One policy object per connection and end. It is fed what was observed and asked what to do; it has no
//! clock and does no I/O, so a recorded run can be replayed through it. It never names the protocol: the
//! initiator and the target translate its decisions. [`Choice`] names the policies; what each is good for, with what
//! was measured, is in `docs/control.md`, how the default works in `docs/auto.md`.

mod bulk;
mod connections;
mod lone;
mod loss;
mod measure;
mod policy;
mod sharing;
mod tell;
#[cfg(test)]
mod testing;
mod window;

pub use bulk::cap::BULK_BYTES;
pub use connections::{Connections, Traffic};
pub use lone::crowd::{Arrived, Burst, BurstStart, Crowd};
pub use lone::order::Order;
pub use lone::space::worth_bytes;
pub use policy::choice::Choice;
pub use policy::{Decision, Observation, Policy, UNCAPPED};
pub use sharing::meeting::Met;
pub use sharing::share::{Claim, Handed, Sharing};
pub use tell::monitor::Monitor;
pub use tell::word::{Word, Words, part_lasts};
pub use window::threshold::NO_THRESHOLD_PACKETS;
