//! Policies: what a session should have outstanding and how fast it should send.
//!
//! One policy object per end and session. It is fed what was observed and asked what to do; it has no
//! clock and does no I/O, so a recorded run can be replayed through it. It never names the protocol: the
//! initiator and the target translate its decisions.

mod bdp;
mod max_filter;
mod policy;

pub use bdp::Bdp;
pub use policy::{Decision, Observation, Policy};
