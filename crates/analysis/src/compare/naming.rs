//! Names of cells in messages.

use crate::run::cell::CellResult;

/// A cell as people know it: its load and its place.
pub(super) fn name(cell: &CellResult) -> String {
    match place(cell) {
        place if place.is_empty() => cell.load.clone(),
        place => format!("{} at {place}", cell.load),
    }
}

pub(super) fn place(cell: &CellResult) -> String {
    cell.point.iter().map(|(axis, value)| format!("{axis} {value}")).collect::<Vec<_>>().join(", ")
}
