//! Arrays of tables in a plan.

use document::{Problems, Section};

/// Tables of the array `key`; none if it is absent.
pub(super) fn sections<'a>(
    top: &Section<'a>,
    key: &str,
    name: &str,
    problems: &mut Problems<'_>,
) -> Vec<Section<'a>> {
    top.entry(key).map(|entry| entry.sections(name, problems)).unwrap_or_default()
}
