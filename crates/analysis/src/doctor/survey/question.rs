//! Request for facts: operation, window and hosts of a load.

use event::Op;
use tables::manifest::Cell;

use crate::Span;
use crate::load::{arrivals, initiators};

/// Of a load without a window of its own so much is left out, from its beginning.
pub(super) const BEGINNING: f64 = 0.1;

/// What to ask of a directory with tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Question {
    /// Reads or writes; `None` asks for those that moved more.
    pub op: Option<Op>,
    /// Over which time; `None` is all of the load but its beginning.
    pub window: Option<Span>,
    /// Hosts of the load at the near and at the far end; those after them are of what competes with it. `None` is all.
    pub hosts: Option<[u32; 2]>,
}

impl Question {
    /// The time that a cell's other figures are of, and the load's own hosts; nothing else of what it says is looked at.
    pub fn of(cell: &Cell) -> Question {
        let hosts = Some([cell.initiators, cell.targets]);
        let (Ok(Some(first)), Ok(others)) = (cell.load(), cell.other_loads()) else {
            return Question { hosts, ..Question::default() };
        };
        let load = initiators::together(first, &others);
        Question { op: Op::named(&load.op), window: Some(arrivals::window(cell, &load)), hosts }
    }
}
