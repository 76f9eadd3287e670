//! A load in steps: an instrument that owns its load asks the path, where facts from one end leave the limiter open.
//!
//! [`StepPlan`] is the machine: observations so far → the next load, or none. [`diagnose`] draws the verdicts from them.
//! Two laws decide: Little's law (requests outstanding = rate × latency) and the bottleneck law (rate ≤ depth ÷ base
//! latency, and ≤ the lowest rate). A limiter that follows the depth is the caller's; one that follows the number of
//! connections is a connection's; one that follows neither is shared: the line, the store, a CPU.
//!
//! No clock and no I/O: the instrument that runs the loads has both. `docs/reference/doctor.md` explains the steps to users.

mod ceiling;
mod curve;
mod judge;
mod plan;
#[cfg(test)]
mod system;

use serde::Serialize;

use crate::facts::Facts;

pub use self::judge::diagnose;
pub use self::plan::{SLOW, StepPlan};

/// Purpose of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepRole {
    /// One request outstanding in each session: the base latency.
    Low,
    /// The nominal load, as the caller runs it.
    Nominal,
    /// Fewer requests outstanding than nominal.
    Fewer,
    /// More requests outstanding.
    More,
    /// As many requests outstanding over more sessions.
    Spread,
    /// Longer requests, as many bytes outstanding.
    Longer,
}

/// One load of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct StepLoad {
    /// Purpose.
    pub role: StepRole,
    /// Sessions.
    pub sessions: u32,
    /// Requests outstanding in each of them; `None` follows the path.
    pub depth: Option<u32>,
    /// Bytes of a request.
    pub request_bytes: u64,
}

/// End of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepEnd {
    /// Its time was over.
    Whole,
    /// Requests took longer than the plan allows.
    Slow,
    /// The target had no room for more: BUSY or TASK SET FULL.
    Refused,
}

/// A step that was run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct StepObservation {
    /// The load.
    pub load: StepLoad,
    /// Facts about it.
    pub facts: Facts,
    /// Its end.
    pub end: StepEnd,
    /// Seconds over which its facts were counted.
    pub counted_s: f64,
}

impl StepRole {
    /// Every role, in the order in which plans use them.
    pub const ALL: [StepRole; 6] = [
        StepRole::Low,
        StepRole::Nominal,
        StepRole::Fewer,
        StepRole::More,
        StepRole::Spread,
        StepRole::Longer,
    ];

    /// Name in documents and run directories; stable.
    pub const fn name(self) -> &'static str {
        match self {
            StepRole::Low => "low",
            StepRole::Nominal => "nominal",
            StepRole::Fewer => "fewer",
            StepRole::More => "more",
            StepRole::Spread => "spread",
            StepRole::Longer => "longer",
        }
    }

    /// Role with this name.
    pub fn named(name: &str) -> Option<StepRole> {
        StepRole::ALL.into_iter().find(|role| role.name() == name)
    }
}

impl StepEnd {
    /// Name in documents and run directories; stable.
    pub const fn name(self) -> &'static str {
        match self {
            StepEnd::Whole => "whole",
            StepEnd::Slow => "slow",
            StepEnd::Refused => "refused",
        }
    }

    /// End with this name.
    pub fn named(name: &str) -> Option<StepEnd> {
        [StepEnd::Whole, StepEnd::Slow, StepEnd::Refused].into_iter().find(|end| end.name() == name)
    }
}

impl StepObservation {
    /// Bytes per second; of a step that was cut short, those that its time shows for certain.
    ///
    /// Data of the requests outstanding when the counting began may have been on the way before: behind a gap, or in a
    /// buffer. By Little's law they are the rate times the latency, which is much of a short time.
    pub fn rate(&self) -> f64 {
        let counted = match self.end {
            StepEnd::Whole => 1.0,
            StepEnd::Slow | StepEnd::Refused => 1.0 - self.latency_s() / self.counted_s.max(1e-9),
        };
        self.facts.current.bytes_per_s * counted.max(0.0)
    }

    /// Mean latency of a request in seconds.
    pub fn latency_s(&self) -> f64 {
        self.facts.current.latency_s
    }

    /// Requests outstanding, over all sessions.
    pub fn outstanding(&self) -> f64 {
        let set = self.load.depth.map(|depth| f64::from(depth) * f64::from(self.load.sessions));
        set.unwrap_or(self.facts.outstanding.called).max(1.0)
    }

    /// True if requests wait inside the initiator: for the command window, or for its own queue limit.
    pub(super) fn is_gated(&self) -> bool {
        let out = &self.facts.outstanding;
        out.called - out.granted >= GATED * out.called
    }
}

/// Share of the requests that must wait in front of a gate inside the initiator, until the gate holds the load. More than
/// the 2 % that show a gate at all: the caller's last requests always pass through.
const GATED: f64 = 0.2;
