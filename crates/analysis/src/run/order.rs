//! Cells of a run in the order of its plan, each with its load and its point of the matrix.

use tables::manifest::CellEntry;

use super::cell::Point;

/// Cells in the order of the plan: run.json lists them as they were run, and their directories are numbered.
pub(crate) fn in_order(entries: &[CellEntry]) -> Vec<&CellEntry> {
    let mut entries: Vec<_> = entries.iter().collect();
    entries.sort_by_key(|entry| (entry.dir.rsplit_once('/').map(|(cell, _)| cell), entry.repeat));
    entries
}

/// The load of a cell, and where it lies in the plan's matrix.
pub(crate) fn place(entry: &CellEntry) -> (String, Point) {
    let point = entry.parameters.iter().map(|(axis, value)| (axis.clone(), label(value))).collect();
    let load = if entry.load.is_empty() { &entry.slug } else { &entry.load };
    (load.clone(), point)
}

/// A parameter as the plan writes it: texts without their quotes.
fn label(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
