//! Reasons against a comparison, as messages.

use super::naming::name;
use crate::run::cell::CellResult;

/// Cells of a run that a sentence names.
const NAMED: usize = 4;

/// Reasons why two runs were not compared.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// No cell of the one has a partner in the other.
    #[error(
        "the runs have no cell in common: the first has {}, the second has {}; name two cells to compare them",
        some(.cells.first()),
        some(.cells.last())
    )]
    NothingInCommon {
        /// The cells of each.
        cells: [Vec<String>; 2],
    },
    /// One has no valid repeat.
    #[error("{cell}: the {which} run has no valid repeat, and what is not valid has no figures to compare")]
    NotValid {
        /// Name of the cell.
        cell: String,
        /// `first` or `second`.
        which: &'static str,
    },
    /// The path of one was not validated.
    #[error(
        "{cell}: the figures of the {which} run are not validated (validity off), expected those of a path that was judged; \
         run it again without --validity off"
    )]
    Unvalidated {
        /// Name of the cell.
        cell: String,
        /// `first` or `second`.
        which: &'static str,
    },
    /// Their operations differ.
    #[error("{cell}: the first did '{}', the second '{}'; only loads of one kind can be compared", .kinds[0], .kinds[1])]
    Kinds {
        /// Name of the cell.
        cell: String,
        /// Operation of each.
        kinds: [String; 2],
    },
    /// One is a bulk load, the other single requests.
    #[error(
        "{cell}: one is about throughput and the other about single requests; their figures mean different things"
    )]
    Purpose {
        /// Name of the cell.
        cell: String,
    },
}

/// Checks that a pair can be compared.
pub(super) fn check(cells: [&CellResult; 2]) -> Result<(), Refusal> {
    let cell = name(cells[0]);
    for (which, of) in ["first", "second"].into_iter().zip(cells) {
        if !of.repeats.iter().any(|repeat| repeat.valid) {
            return Err(Refusal::NotValid { cell: name(of), which });
        }
        if of.is_unvalidated() {
            return Err(Refusal::Unvalidated { cell: name(of), which });
        }
    }
    if cells[0].op != cells[1].op {
        return Err(Refusal::Kinds { cell, kinds: cells.map(|cell| cell.op.clone()) });
    }
    if cells[0].bulk != cells[1].bulk {
        return Err(Refusal::Purpose { cell });
    }
    Ok(())
}

fn some(cells: Option<&Vec<String>>) -> String {
    let cells = cells.map_or(&[][..], Vec::as_slice);
    let rest = cells.len().saturating_sub(NAMED);
    let mut named = cells.iter().take(NAMED).map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    if rest > 0 {
        named += &format!(" and {rest} more");
    }
    if named.is_empty() { "none".to_owned() } else { named }
}
