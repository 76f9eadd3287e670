//! Random parameters of the cases of a plan: paths, and strength of each limiter.

use std::time::Duration;

use diagnosis::Limiter;
use event::format_delay;

use crate::plan::{Case, Plan};

/// One case with its draws.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Drawn<'a> {
    pub(super) case: &'a Case,
    pub(super) rtt: Duration,
    /// Share of the performance that each of its limiters leaves.
    pub(super) injected: Vec<(Limiter, f64)>,
}

impl Drawn<'_> {
    /// `receive-window-16ms`.
    pub(super) fn name(&self) -> String {
        let names: Vec<&str> = self.case.limiters.iter().map(|limiter| limiter.name()).collect();
        let op = match self.case.op {
            event::Op::Read => "",
            event::Op::Write => "-write",
        };
        format!("{}{op}-{}", names.join("+"), format_delay(self.rtt))
    }
}

/// All cases with each of their paths, in the order of the plan.
pub(super) fn all(plan: &Plan, seed: u64) -> Vec<Drawn<'_>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut drawn = Vec::new();
    for case in &plan.cases {
        for rtt in &case.rtts {
            let mut limiters = case.limiters.clone();
            // Either of two may be the tighter one.
            if random.bool() {
                limiters.reverse();
            }
            let shares = case.leaves.iter().map(|b| b.least + (b.most - b.least) * random.f64());
            let injected = limiters.into_iter().zip(shares.collect::<Vec<_>>()).collect();
            drawn.push(Drawn { case, rtt: *rtt, injected });
        }
    }
    drawn
}
