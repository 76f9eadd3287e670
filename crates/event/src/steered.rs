//! What the policy of a connection was shown besides its sample, and what it decided: with both a recorded connection can
//! be shown to a policy again exactly as it was. Plain data; what decisions mean is `control`'s business.

use crate::{CongestionDecision, MayChange, WindowNotice};

/// Input and decision of a connection's policy at the time of a sample. The default is the row of a sample that no policy was shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Steered {
    /// The most payload that had waited at one time since the sample before.
    pub burst_bytes: u64,
    /// Some of that was held back, as the policy wanted it.
    pub was_spaced: bool,
    /// How fast what was held back really went out; 0 if that was not known.
    pub handed_bytes_per_s: u64,
    /// Others had moved data of late that go out there too.
    pub has_company: bool,
    /// Its congestion control knows itself how fast it may send (BBR).
    pub paces_itself: bool,
    /// Permission to change it.
    pub may_change: MayChange,
    /// Verdict on the route: share of packets that random loss takes; 0 if there is none, 2^32 − 1 is refuted.
    pub remembered_ppm: u32,
    /// Its device takes packets one by one, so that the kernel's pacing needs a timer for each.
    pub paced_one_by_one: bool,
    /// Its slow-start threshold can be forgotten and nothing else changes.
    pub forgets_freely: bool,
    /// What the process had left the connection of the line since the sample before.
    pub granted: Granted,
    /// The last word of the other end about its window since the sample before.
    pub told: Option<WindowNotice>,
    /// What the policy said then.
    pub decided: Decided,
}

/// What a process that serves several senders said to one of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Granted {
    /// Nothing.
    #[default]
    Unsaid,
    /// It may have everything.
    All,
    /// So many bytes per second.
    Part(u64),
}

/// A decision as tables have it. The default is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Decided {
    /// Length of requests; 0 is the caller's.
    pub block_bytes: u64,
    /// Payload that may be outstanding; 0 only if there is no decision.
    pub outstanding_bytes: u64,
    /// Commands that the target should let be open.
    pub commands: u32,
    /// Cap of the pacing rate; 2^64 − 1 is unpaced, 2^64 − 2 paced without a cap.
    pub pacing_bytes_per_s: u64,
    /// How fast a lone request's data go to TCP; 2^64 − 1 is as fast as it takes them.
    pub burst_bytes_per_s: u64,
    /// The most of them at one time.
    pub burst_depth_bytes: u64,
    /// Unsent bytes that the kernel may hold; 2^64 − 1 is as its rate is.
    pub held_bytes: u64,
    /// How many times by then the slow-start threshold was to have been forgotten.
    pub thresholds_forgotten: u32,
    /// Congestion control to use.
    pub congestion: CongestionDecision,
    /// How soon the policy wanted to see the connection again.
    pub look_ns: u64,
}
