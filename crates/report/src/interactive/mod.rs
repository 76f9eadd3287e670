//! Drawings of the inside of a cell: requests in every layer, one request, the packets.
//!
//! The page holds them as rows of numbers, and its script draws the selected or visible part: requests and packets as
//! they are, lines thinned by `analysis`.

mod devices;
mod in_flight;
mod lines;
mod packets;
mod request;

use analysis::diagram::Diagram;
use analysis::{CellResult, Repeat, Tour};
use serde_json::{Value, json};

use crate::figures::figure::Figure;
use crate::gaps;
use crate::tables::layout::Table;
use crate::tables::{self, place};

/// A drawing that the page's script makes itself.
pub(crate) struct Drawing {
    pub(crate) id: String,
    pub(crate) title: String,
    /// Function of the script that draws it.
    kind: &'static str,
    data: Value,
}

/// Drawings of one cell.
pub(crate) struct Inside {
    /// Name of the cell.
    pub(crate) name: String,
    /// Point in the matrix.
    pub(crate) place: String,
    /// Conclusion in words.
    pub(crate) gist: String,
    /// Activity of the block devices below the store.
    pub(crate) devices: Vec<String>,
    /// Doubts about its figures.
    pub(crate) doubts: Vec<String>,
    pub(crate) in_flight: Option<Drawing>,
    pub(crate) residence: Option<Table>,
    /// Session of the table's numbers.
    pub(crate) whose: Option<String>,
    pub(crate) request: Option<Drawing>,
    pub(crate) packets: Option<Drawing>,
    /// Gaps between packets: sentences, their table and their figures.
    pub(crate) gaps: Option<(Vec<String>, Table, Vec<Figure>)>,
}

impl Drawing {
    /// The packets of a page that shows nothing but one connection, from the first that is drawn on.
    pub(crate) fn of_packets(diagram: &Diagram) -> Drawing {
        Drawing {
            id: "fig-packets".to_owned(),
            title: "Packets between the hosts".to_owned(),
            kind: "packets",
            data: packets::data(diagram, None),
        }
    }

    pub(crate) fn json(&self) -> Value {
        json!({"id": self.id, "kind": self.kind, "data": self.data})
    }
}

impl Inside {
    /// The figures as the page's script wants them.
    pub(crate) fn json(&self) -> impl Iterator<Item = Value> {
        let drawings = [&self.in_flight, &self.request, &self.packets].into_iter().flatten();
        let gaps = self.gaps.iter().flat_map(|(_, _, figures)| figures);
        drawings.map(Drawing::json).chain(gaps.map(Figure::json))
    }
}

/// True if a figure of this name is drawn: the plan's `draw` has it, or there is none.
pub(crate) fn drawn(tour: &Tour, name: &str) -> bool {
    tour.run.plan["draw"].as_array().is_none_or(|list| list.iter().any(|word| word == name))
}

/// The cells with recorded layers or packets, in the order of the plan. With `draw`, a plan gets only those of
/// `in-flight`, `request`, `packets` and `gaps` that it names.
pub(crate) fn inside(tour: &Tour) -> Vec<Inside> {
    let shown = tour.cells.iter().filter_map(|cell| {
        let repeat = cell.repeats.iter().find(|repeat| repeat.valid)?;
        (repeat.stack.is_some() || repeat.diagram.is_some() || repeat.gaps.is_some())
            .then_some((cell, repeat))
    });
    let all = shown.enumerate().map(|(n, (cell, repeat))| one(n + 1, cell, repeat, tour));
    all.filter(|inside| inside.json().next().is_some()).collect()
}

fn one(n: usize, cell: &CellResult, repeat: &Repeat, tour: &Tour) -> Inside {
    let wanted = |what| drawn(tour, what);
    let stack = repeat.stack.as_ref();
    let in_flight = stack.filter(|_| wanted("in-flight"));
    let request = stack.filter(|stack| wanted("request") && !stack.examples.is_empty());
    let packets = repeat.diagram.as_ref().filter(|_| wanted("packets"));
    let gaps = repeat.gaps.as_ref().filter(|_| wanted("gaps"));
    let origin_ns = stack.map(|stack| stack.origin_ns);
    Inside {
        name: tables::load(cell),
        place: place(cell),
        gist: stack.map_or_else(String::new, in_flight::gist),
        devices: devices::sentences(repeat, &cell.op),
        doubts: stack.map_or_else(Vec::new, in_flight::doubts),
        in_flight: in_flight.and_then(|stack| lines::data(stack, repeat.window_s)).map(|data| Drawing {
            id: format!("fig-in-flight-{n}"),
            title: "Requests inside each layer".to_owned(),
            kind: "layers",
            data,
        }),
        residence: in_flight.map(in_flight::table),
        whose: in_flight.and_then(in_flight::whose),
        request: request.map(|stack| Drawing {
            id: format!("fig-request-{n}"),
            title: "One request through all layers".to_owned(),
            kind: "request",
            data: request::data(stack),
        }),
        packets: packets.map(|diagram| Drawing {
            id: format!("fig-packets-{n}"),
            title: "Packets between the hosts".to_owned(),
            kind: "packets",
            data: packets::data(diagram, origin_ns),
        }),
        gaps: gaps.map(|gaps| (gaps::sentences(gaps), gaps::table(gaps), gaps::figures(n, gaps))),
    }
}
