//! A figure of the loads against a number that the plan varies: throughput against parallelism, turnaround
//! against block size.

use analysis::{CellResult, Spread, Tour};
use serde_json::{Value, json};

use crate::figure::{Figure, colour, headroom, plotly_text, short};
use crate::tables::place;

/// What is drawn against what.
struct Against {
    id: &'static str,
    title: &'static str,
    /// Axis of the matrix, with or without a load's name before it.
    axis: &'static str,
    x: fn(&CellResult) -> Option<u64>,
    x_title: &'static str,
    metric: &'static str,
    scale: f64,
    y_title: &'static str,
}

const FIGURES: &[Against] = &[
    Against {
        id: "fig-parallelism",
        title: "Throughput against parallelism",
        axis: "depth",
        x: |cell| cell.depth,
        x_title: "requests outstanding per initiator",
        metric: "calls_per_s",
        scale: 1.0,
        y_title: "requests per second",
    },
    Against {
        id: "fig-turnaround",
        title: "Turnaround against block size",
        axis: "block",
        x: |cell| cell.block_bytes,
        x_title: "block, bytes",
        metric: "turnaround",
        scale: 1.0,
        y_title: "median turnaround, round trips",
    },
    Against {
        id: "fig-packets-per-read",
        title: "Packets per request against block size",
        axis: "block",
        x: |cell| cell.block_bytes,
        x_title: "block, bytes",
        metric: "packets_per_read",
        scale: 1.0,
        y_title: "packets per request, both ways",
    },
];

/// What one load came to at the places of the axis.
struct Line<'a> {
    name: String,
    cell: &'a CellResult,
    points: Vec<(u64, Spread)>,
}

/// Those for which the plan varies what they are drawn against.
pub(crate) fn figures(tour: &Tour) -> Vec<Figure> {
    FIGURES.iter().filter_map(|against| figure(tour, against)).collect()
}

fn figure(tour: &Tour, against: &Against) -> Option<Figure> {
    let mut lines: Vec<Line> = Vec::new();
    for cell in &tour.cells {
        let of_axis = |axis: &String| axis.rsplit('.').next() == Some(against.axis);
        let Some(axis) = cell.point.keys().find(|axis| of_axis(axis)).cloned() else { continue };
        let (Some(x), Some(spread)) = ((against.x)(cell), cell.values.get(against.metric)) else { continue };
        let mut rest = cell.point.clone();
        rest.remove(&axis);
        let place = place(&CellResult { point: rest, ..CellResult::default() });
        let name = if place.is_empty() { cell.load.clone() } else { format!("{}, {place}", cell.load) };
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push((x, *spread)),
            None => lines.push(Line { name, cell, points: vec![(x, *spread)] }),
        }
    }
    lines.retain(|line| line.points.len() > 1);
    let points = || lines.iter().flat_map(|line| &line.points);
    let top = points().map(|(_, spread)| spread.max * against.scale).fold(0.0, f64::max);
    let mut ticks: Vec<u64> = points().map(|(x, _)| *x).collect();
    ticks.sort_unstable();
    ticks.dedup();
    if ticks.is_empty() {
        return None;
    }
    let traces = lines.iter().enumerate().map(|(n, line)| trace(against, n, line));
    Some(Figure {
        id: against.id.to_owned(),
        title: against.title.to_owned(),
        traces: traces.collect(),
        layout: json!({
            "xaxis": {"title": {"text": against.x_title}, "type": "log", "tickvals": ticks,
                "ticktext": ticks.iter().map(|x| words(against.axis, *x)).collect::<Vec<_>>()},
            "yaxis": {"title": {"text": against.y_title}, "range": [0.0, headroom(top)]},
        }),
        legend: Vec::new(),
    })
}

fn trace(against: &Against, n: usize, line: &Line) -> Value {
    let Line { name, cell, points } = line;
    let mut points = points.clone();
    points.sort_unstable_by_key(|(x, _)| *x);
    let column = |value: fn(&Spread) -> f64| {
        points.iter().map(|(_, spread)| short(value(spread) * against.scale)).collect::<Vec<_>>()
    };
    // Lines of one load differ by where they lie in the matrix: they need colours of their own.
    let colour = if n == 0 { colour(cell, n) } else { format!("var(--other-{})", (n - 1) % 6 + 1) };
    let symbol = ["circle", "square", "diamond", "triangle-up", "cross", "x"][n % 6];
    json!({
        "type": "scatter", "mode": "lines+markers", "name": name,
        "x": points.iter().map(|(x, _)| *x).collect::<Vec<_>>(), "y": column(|s| s.median),
        "error_y": {
            "type": "data", "symmetric": false, "thickness": 1, "width": 4, "color": colour,
            "array": column(|s| s.max - s.median), "arrayminus": column(|s| s.median - s.min),
            "visible": points.iter().any(|(_, s)| s.repeats > 1),
        },
        "line": {"color": colour, "width": 2}, "marker": {"color": colour, "size": 8, "symbol": symbol},
        "hovertemplate": format!("%{{y:.4~g}} at %{{x}}<extra>{}</extra>", plotly_text(name)),
    })
}

/// A tick: blocks in the units of the plan.
fn words(axis: &str, x: u64) -> String {
    if axis == "block" { event::Bytes(x).to_string() } else { x.to_string() }
}
