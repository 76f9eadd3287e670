//! A diagnosis as lines.

use analysis::doctor::{Diagnosis, Evidence};

/// Says what limits, and what shows it.
pub(super) fn say(diagnosis: &Diagnosis) {
    let Some(verdict) = diagnosis.first() else { return };
    let percent = verdict.share * 100.0;
    say!("   limit: {} ({}), {percent:.0} % of the time", verdict.limiter.title(), verdict.limiter.name());
    for Evidence { what, value, unit, seen } in &verdict.evidence {
        say!("     {what}: {value:.6} {unit}  [{seen}]");
    }
}
