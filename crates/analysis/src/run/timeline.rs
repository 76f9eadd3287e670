//! Data for the drawings of a cell: its layers, and the packets around a typical request.

use std::path::PathBuf;

use event::Op;
use tables::CellDir;
use tables::TableError;
use tables::manifest::Load;

use super::cell::Repeat;
use crate::Span;
use crate::diagram::{self, Diagram, Hosts};
use crate::layers::{self, LAYERS, Question, Stack};
use crate::load::arrivals;
use crate::metrics::{GATE, IN_FLIGHT_MAX, put};
use crate::path::line;

/// Points of all lines of one layer in a page.
const POINTS: usize = 12_000;
/// Requests in a page.
const REQUESTS: usize = 2_000;
/// Packets in a page.
const PACKETS: usize = 16_000;
/// Points of each gap figure in a page.
const GAPS: usize = 8_000;
/// Least and largest budget of one cell: fewer show nothing, more add nothing.
const POINTS_RANGE: [usize; 2] = [120, 1_500];
const REQUESTS_RANGE: [usize; 2] = [20, 400];
const PACKETS_RANGE: [usize; 2] = [300, 6_000];
const GAPS_RANGE: [usize; 2] = [150, 1_500];

/// Budget for the drawings of a cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleBudget {
    /// Points of all lines of one layer.
    points: usize,
    /// Single requests.
    requests: usize,
    /// Packets of a diagram.
    packets: usize,
    /// Gaps of a picture.
    gaps: usize,
}

impl SampleBudget {
    /// Budget of each of `cells` cells, of which some have packets.
    pub(crate) fn for_each_cell(cells: usize, with_packets: usize) -> SampleBudget {
        let share = |all: usize, of: usize, [least, most]: [usize; 2]| (all / of.max(1)).clamp(least, most);
        SampleBudget {
            points: share(POINTS, cells, POINTS_RANGE),
            requests: share(REQUESTS, cells, REQUESTS_RANGE),
            packets: share(PACKETS, with_packets, PACKETS_RANGE),
            gaps: share(GAPS, cells, GAPS_RANGE),
        }
    }

    /// Gaps of a picture.
    pub(crate) fn gaps(self) -> usize {
        self.gaps
    }
}

/// Adds the figures of layers and packets; with `budget`, also the data of their drawings. The `request` of that CmdSN is
/// drawn in any case if the cell has it.
pub(crate) fn add(
    repeat: &mut Repeat,
    dir: &CellDir,
    load: &Load,
    budget: Option<SampleBudget>,
    request: Option<u32>,
) -> Result<(), TableError> {
    let CellDir { cell, path } = dir;
    let window = arrivals::window(cell, load);
    // The first host at each end writes into the cell's directory, the others below it.
    let further = |end: &'static str, count: u32| (2..=count).map(move |n| path.join(format!("{end}{n}")));
    let below = further("near", cell.initiators).chain(further("far", cell.targets));
    let hosts: Vec<PathBuf> = std::iter::once(path.clone()).chain(below.filter(|dir| dir.is_dir())).collect();
    // Competing traffic has hosts of its own, behind those of the load.
    let between = Hosts { near: cell.initiators, far: cell.targets };
    let question = Question {
        origin_ns: load.t_start_ns,
        window,
        rtt_ns: line::rtt_of(cell),
        points: budget.map_or(0, |budget| budget.points),
        requests: budget.map_or(0, |budget| budget.requests),
        request: request.filter(|_| budget.is_some()),
    };
    let stack = Stack::collect(&hosts, question)?;
    if let Some(stack) = &stack {
        for (n, layer) in LAYERS.iter().enumerate() {
            let most = stack.in_flight_max(layer.name);
            put(&mut repeat.values, IN_FLIGHT_MAX[n], most);
            let gate = f64::from(u8::from(stack.gate == Some(layer.name)));
            put(&mut repeat.values, GATE[n], most.map(|_| gate));
        }
    }
    let has_store = stack.as_ref().is_some_and(|stack| stack.all.iter().any(|layer| layer.name == "store"));
    if let Some(op) = Op::named(&load.op).filter(|_| has_store) {
        repeat.devices = layers::devices(path, op, question)?;
    }
    let completed = repeat.values.get("calls_per_s").map(|rate| rate * window.length_s());
    if let Some(requests) = completed.filter(|requests| *requests > 0.0)
        && let Some(count) = diagram::count(path, between, window)?
    {
        put(&mut repeat.values, "packets_per_read", Some(count as f64 / requests));
    }
    if let Some(budget) = budget {
        let start_ns = start(stack.as_ref(), window, line::rtt_of(cell));
        repeat.diagram = Diagram::collect(path, &hosts, between, start_ns, budget.packets)?;
    }
    repeat.stack = stack;
    Ok(())
}

/// Start of a packet diagram: just before the typical request, or with the window.
fn start(stack: Option<&Stack>, window: Span, rtt_ns: u64) -> u64 {
    let typical = stack.and_then(|stack| {
        let example = stack.examples.iter().find(|example| example.name == "median")?;
        stack.requests.get(example.request)
    });
    typical.map_or(window.start_ns, |request| request.called_ns.saturating_sub(rtt_ns / 4))
}
