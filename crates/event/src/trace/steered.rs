//! Input of a connection's policy besides its sample, and its decision: a recorded connection can be replayed to a
//! policy exactly. Plain data; `control` defines the meaning of decisions.

use crate::{CongestionDecision, MayChange, WindowNotice};

/// Input and decision of a connection's policy at the time of a sample. The default is the row of a sample that no policy was shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Steered {
    /// The most payload that had waited at one time since the sample before.
    pub burst_bytes: u64,
    /// Some of that was held back, as the policy wanted it.
    pub was_spaced: bool,
    /// Measured rate of paced data; 0 if unknown.
    pub handed_bytes_per_s: u64,
    /// Competing flows: others have recently moved data through the same device.
    pub has_company: bool,
    /// Rate-based congestion control (BBR), which paces by its own model.
    pub paces_itself: bool,
    /// Permission to change it.
    pub may_change: MayChange,
    /// Verdict on the route: share of packets that random loss takes; 0 if there is none, 2^32 − 1 is refuted.
    pub remembered_ppm: u32,
    /// The device has no segmentation offload, so that the kernel's pacing needs a timer for each packet.
    pub paced_one_by_one: bool,
    /// A reset of its slow-start threshold has no side effect.
    pub forgets_freely: bool,
    /// Rate allocated to the connection by its process since the sample before.
    pub granted: Granted,
    /// Latest notice of the other end about its congestion window since the sample before.
    pub told: Option<WindowNotice>,
    /// Decision of the policy.
    pub decided: Decided,
}

/// Allocation of a process with several senders to one of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Granted {
    /// No allocation.
    #[default]
    Unsaid,
    /// Unlimited.
    All,
    /// Rate in bytes per second.
    Part(u64),
}

/// A decision as tables have it. The default is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Decided {
    /// Length of requests; 0 is the caller's.
    pub block_bytes: u64,
    /// Limit on outstanding payload; 0 only without a decision.
    pub outstanding_bytes: u64,
    /// Commands that the target should let be open.
    pub commands: u32,
    /// Cap of the pacing rate; 2^64 − 1 is unpaced, 2^64 − 2 paced without a cap.
    pub pacing_bytes_per_s: u64,
    /// Rate at which a lone request's data go to TCP; 2^64 − 1 is unlimited.
    pub burst_bytes_per_s: u64,
    /// The most of them at one time.
    pub burst_depth_bytes: u64,
    /// Unsent bytes that the kernel may hold; 2^64 − 1 is as its rate is.
    pub held_bytes: u64,
    /// Number of resets of the slow-start threshold that the policy had requested so far.
    pub thresholds_forgotten: u32,
    /// Congestion control to use.
    pub congestion: CongestionDecision,
    /// Time to the next sample, as the policy requested it.
    pub look_ns: u64,
}
