//! Decisions about the congestion control of a connection, as tables have them. Plain data; when they are taken is
//! `control`'s business.

/// Congestion control that a connection is to use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CongestionChoice {
    /// The one that the host gave it.
    #[default]
    Hosts,
    /// A rate-based one (BBR).
    RateBased,
}

/// Reason of the last decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LossReason {
    /// There was none.
    #[default]
    None,
    /// Packets are lost without a queue.
    RandomLoss,
    /// Another connection of the same route has found random loss.
    Remembered,
    /// Packets are lost with a queue.
    CongestionLoss,
    /// The rate-based one carried no more.
    NoGain,
    /// It lost a larger share.
    MoreLoss,
    /// Packets are lost without a queue, and the system does not allow the change.
    NotPermitted,
}

/// Permission to change the congestion control.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MayChange {
    /// The kernel was not asked yet.
    #[default]
    Unasked,
    /// The kernel has allowed it.
    Yes,
    /// The user has chosen one.
    Explicit,
    /// The user forbids it.
    Locked,
    /// The kernel refuses it.
    Denied,
}

/// A decision. The default leaves the host's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CongestionDecision {
    /// Congestion control to use.
    pub choice: CongestionChoice,
    /// Reason of the last change, or of there being none.
    pub reason: LossReason,
    /// Restarts of the rate-based one requested so far.
    pub restarts: u32,
    /// Share of packets that random loss takes.
    pub share_ppm: u32,
}

impl CongestionChoice {
    /// The name that tables and users see.
    pub const fn name(self) -> &'static str {
        match self {
            CongestionChoice::Hosts => "hosts",
            CongestionChoice::RateBased => "rate-based",
        }
    }
}

impl LossReason {
    /// The name that tables and users see.
    pub const fn name(self) -> &'static str {
        match self {
            LossReason::None => "none",
            LossReason::RandomLoss => "random-loss",
            LossReason::Remembered => "remembered",
            LossReason::CongestionLoss => "congestion-loss",
            LossReason::NoGain => "no-gain",
            LossReason::MoreLoss => "more-loss",
            LossReason::NotPermitted => "not-permitted",
        }
    }
}

impl MayChange {
    /// The name that tables and users see.
    pub const fn name(self) -> &'static str {
        match self {
            MayChange::Unasked => "unasked",
            MayChange::Yes => "yes",
            MayChange::Explicit => "explicit",
            MayChange::Locked => "locked",
            MayChange::Denied => "denied",
        }
    }
}

impl CongestionDecision {
    /// The host's, for no reason.
    pub const HOSTS: CongestionDecision = CongestionDecision {
        choice: CongestionChoice::Hosts,
        reason: LossReason::None,
        restarts: 0,
        share_ppm: 0,
    };
}
