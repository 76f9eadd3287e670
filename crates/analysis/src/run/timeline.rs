//! What is looked at inside a cell: its layers, and the packets around a typical request.

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

/// Points of all lines of one layer that a page has room for.
const POINTS: usize = 12_000;
/// Requests that a page has room for.
const REQUESTS: usize = 2_000;
/// Packets that a page has room for.
const PACKETS: usize = 16_000;
/// Points of gaps that a page has room for, in each of its pictures.
const GAPS: usize = 8_000;
/// Of one cell at least, and at most: with fewer, a picture says nothing; with more, no more.
const POINTS_RANGE: [usize; 2] = [120, 1_500];
const REQUESTS_RANGE: [usize; 2] = [20, 400];
const PACKETS_RANGE: [usize; 2] = [300, 6_000];
const GAPS_RANGE: [usize; 2] = [150, 1_500];

/// How much of a cell is kept for drawing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Points of all lines of one layer.
    points: usize,
    /// Requests to look at one by one.
    requests: usize,
    /// Packets of a diagram.
    packets: usize,
    /// Gaps of a picture.
    gaps: usize,
}

impl Room {
    /// Of each of so many cells, of which so many have packets.
    pub(crate) fn of_each(cells: usize, with_packets: usize) -> Room {
        let share = |all: usize, of: usize, [least, most]: [usize; 2]| (all / of.max(1)).clamp(least, most);
        Room {
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

/// Figures of the layers and of packets; with `room`, what is drawn of them too. The `request` of that CmdSN
/// is shown in any case if the cell has it.
pub(crate) fn look(
    repeat: &mut Repeat,
    dir: &CellDir,
    load: &Load,
    room: Option<Room>,
    request: Option<u32>,
) -> Result<(), TableError> {
    let CellDir { cell, path } = dir;
    let window = arrivals::window(cell, load);
    // The first host at each end writes into the cell's directory, the others below it.
    let further = |end: &'static str, count: u32| (2..=count).map(move |n| path.join(format!("{end}{n}")));
    let below = further("near", cell.initiators).chain(further("far", cell.targets));
    let hosts: Vec<PathBuf> = std::iter::once(path.clone()).chain(below.filter(|dir| dir.is_dir())).collect();
    // What competes with the load has hosts of its own, behind those of the load.
    let between = Hosts { near: cell.initiators, far: cell.targets };
    let question = Question {
        origin_ns: load.t_start_ns,
        window,
        rtt_ns: line::rtt_of(cell),
        points: room.map_or(0, |room| room.points),
        requests: room.map_or(0, |room| room.requests),
        request: request.filter(|_| room.is_some()),
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
    if let Some(room) = room {
        let start_ns = start(stack.as_ref(), window, line::rtt_of(cell));
        repeat.diagram = Diagram::collect(path, &hosts, between, start_ns, room.packets)?;
    }
    repeat.stack = stack;
    Ok(())
}

/// Where a diagram begins: a little before the typical request, or else with the window.
fn start(stack: Option<&Stack>, window: Span, rtt_ns: u64) -> u64 {
    let typical = stack.and_then(|stack| {
        let example = stack.examples.iter().find(|example| example.name == "median")?;
        stack.requests.get(example.request)
    });
    typical.map_or(window.start_ns, |request| request.called_ns.saturating_sub(rtt_ns / 4))
}
