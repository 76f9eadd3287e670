//! Request for facts: operation, window and hosts of a load.

use event::Op;
use tables::manifest::Cell;

use crate::Span;
use crate::load::{arrivals, initiators};

/// Share of a load that is left out at its beginning if it has no window of its own.
pub(super) const BEGINNING: f64 = 0.1;

/// Request for facts from a directory with tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Question {
    /// Reads or writes; `None` takes the operation with more bytes.
    pub op: Option<Op>,
    /// Over which time; `None` is all of the load but its beginning.
    pub window: Option<Span>,
    /// Hosts of the load at the near and at the far end; later ones are competing traffic. `None` is all.
    pub hosts: Option<[u32; 2]>,
}

impl Question {
    /// Window of the cell's other figures, and the load's own hosts; nothing else of the cell is used.
    pub fn of(cell: &Cell) -> Question {
        let hosts = Some([cell.initiators, cell.targets]);
        let (Ok(Some(first)), Ok(others)) = (cell.load(), cell.other_loads()) else {
            return Question { hosts, ..Question::default() };
        };
        let load = initiators::together(first, &others);
        Question { op: Op::named(&load.op), window: Some(arrivals::window(cell, &load)), hosts }
    }
}
