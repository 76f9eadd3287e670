//! What the doctor says of one run of a load.

use std::path::Path;

use analysis::Span;
use analysis::doctor::{Diagnosis, Question, judge, survey};
use serde_json::Value;
use store::manifest::Window;

use crate::run::LabError;

/// What limits the load whose tables are in `dir`, within `window` of when it began by its own document.
pub(super) fn asked(dir: &Path, near: Option<&Value>, window: Option<Window>) -> Result<Diagnosis, LabError> {
    let began_ns = near.and_then(|near| near["t_start_ns"].as_u64());
    let span = began_ns.zip(window).map(|(began_ns, window)| {
        let ns = |s: f64| began_ns + (s * 1e9) as u64;
        Span { start_ns: ns(window.start_s), end_ns: ns(window.start_s + window.length_s) }
    });
    let facts = survey(dir, Question { op: None, window: span })?;
    facts.map(|facts| judge(&facts)).ok_or_else(|| LabError::Nothing(dir.to_owned()))
}
