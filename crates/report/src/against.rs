//! A metric of the loads against what the plan varies: throughput against parallelism, turnaround against
//! block size, or whatever pair the plan's `draw` names.

use analysis::{CellResult, METRICS, Spread, Tour};
use serde_json::{Value, json};

use crate::figure::{Figure, colour, headroom, plotly_text, short};
use crate::tables::place;

/// What is drawn of a plan that does not say: metric and axis.
const USUAL: &[(&str, &str)] =
    &[("calls_per_s", "depth"), ("turnaround", "block"), ("packets_per_read", "block")];

/// A line: its name, its first cell, and its points: place along the axis, tick, figure.
struct Line<'a> {
    name: String,
    first: &'a CellResult,
    points: Vec<(f64, String, Spread)>,
}

/// Those that the plan asks for (`METRIC by AXIS`), or else the usual ones that have two points.
pub(crate) fn figures(tour: &Tour) -> Vec<Figure> {
    let asked = tour.run.plan["draw"].as_array().map(|list| {
        let pairs = list.iter().filter_map(|word| word.as_str()?.split_once(" by "));
        // It has a figure of its own.
        pairs.filter(|pair| *pair != ("throughput", "delay")).collect::<Vec<_>>()
    });
    let pairs = asked.unwrap_or_else(|| USUAL.to_vec());
    pairs
        .into_iter()
        .enumerate()
        .filter_map(|(n, (metric, axis))| figure(tour, n + 1, metric, axis))
        .collect()
}

fn figure(tour: &Tour, n: usize, metric: &str, axis: &str) -> Option<Figure> {
    let mut lines: Vec<Line> = Vec::new();
    for (place_in_plan, cell) in tour.cells.iter().enumerate() {
        // `read.depth` is the depth of one load, and drawn with those of the others.
        let key = cell.point.keys().find(|key| *key == axis || key.rsplit('.').next() == Some(axis));
        let (Some(key), Some(spread)) = (key.cloned(), cell.values.get(metric)) else { continue };
        let point = (along(axis, cell, place_in_plan), cell.point[&key].clone(), *spread);
        let mut rest = cell.point.clone();
        rest.remove(&key);
        let place = place(&CellResult { point: rest, ..CellResult::default() });
        let name = if place.is_empty() { cell.load.clone() } else { format!("{}, {place}", cell.load) };
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => lines.push(Line { name, first: cell, points: vec![point] }),
        }
    }
    lines.retain(|line| line.points.len() > 1);
    lines.iter_mut().for_each(|line| line.points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    let mut ticks: Vec<(f64, &str)> =
        lines.iter().flat_map(|line| &line.points).map(|(x, tick, _)| (*x, tick.as_str())).collect();
    ticks.sort_by(|a, b| a.0.total_cmp(&b.0));
    ticks.dedup_by(|a, b| a.0 == b.0);
    let (first, last) = (ticks.first()?.0, ticks.last()?.0);
    let about = METRICS.iter().find(|known| known.name == metric && !known.of_line)?;
    let (scale, unit) = in_unit(about.unit);
    let top = lines.iter().flat_map(|line| &line.points).map(|(_, _, s)| s.max * scale).fold(0.0, f64::max);
    let title = if unit.is_empty() { metric.to_owned() } else { format!("{metric}, {unit}") };
    let log = logarithmic(axis) && first > 0.0 && last > 4.0 * first;
    Some(Figure {
        id: format!("fig-against-{n}"),
        title: heading(metric, axis),
        traces: lines.iter().enumerate().map(|(n, line)| trace(n, line, scale)).collect(),
        layout: json!({
            "xaxis": {"title": {"text": axis_title(axis)}, "type": if log { "log" } else { "linear" },
                "tickvals": ticks.iter().map(|(x, _)| x).collect::<Vec<_>>(),
                "ticktext": ticks.iter().map(|(_, tick)| tick).collect::<Vec<_>>()},
            "yaxis": {"title": {"text": title}, "range": [0.0, headroom(top)]},
        }),
        legend: Vec::new(),
    })
}

/// Where a cell lies along an axis: as a number if the axis is one, else in the order of the plan.
fn along(axis: &str, cell: &CellResult, place_in_plan: usize) -> f64 {
    let number = match axis {
        "depth" => cell.depth.map(|depth| depth as f64),
        "block" => cell.block_bytes.map(|bytes| bytes as f64),
        "delay" => cell.path.map(|path| path.delay_ns as f64 / 1e6),
        _ => cell.point.iter().find(|(key, _)| *key == axis).and_then(|(_, value)| value.parse().ok()),
    };
    number.unwrap_or(place_in_plan as f64)
}

fn logarithmic(axis: &str) -> bool {
    axis == "block"
}

/// The words of the studies where there are such.
fn heading(metric: &str, axis: &str) -> String {
    match (metric, axis) {
        ("calls_per_s", "depth") => "Throughput against parallelism".to_owned(),
        ("turnaround", "block") => "Turnaround against block size".to_owned(),
        ("packets_per_read", "block") => "Packets per request against block size".to_owned(),
        _ => format!("{metric} against {axis}"),
    }
}

fn axis_title(axis: &str) -> &str {
    match axis {
        "depth" => "requests outstanding per initiator",
        "delay" => "one-way delay",
        other => other,
    }
}

/// A metric's unit as it is drawn.
fn in_unit(unit: &'static str) -> (f64, &'static str) {
    match unit {
        "bit/s" => (1e-6, "Mb/s"),
        "s" => (1e3, "ms"),
        "1/s" => (1.0, "per second"),
        other => (1.0, other),
    }
}

fn trace(n: usize, line: &Line, scale: f64) -> Value {
    let Line { name, first, points } = line;
    let column = |value: fn(&Spread) -> f64| {
        points.iter().map(|(_, _, s)| short(value(s) * scale)).collect::<Vec<_>>()
    };
    // Lines of one load differ by where they lie in the matrix: they need colours of their own.
    let colour = if n == 0 { colour(first, n) } else { format!("var(--other-{})", (n - 1) % 6 + 1) };
    let symbol = ["circle", "square", "diamond", "triangle-up", "cross", "x"][n % 6];
    let text: Vec<&str> = points.iter().map(|(_, tick, _)| tick.as_str()).collect();
    json!({
        "type": "scatter", "mode": "lines+markers", "name": name,
        "x": points.iter().map(|(x, _, _)| x).collect::<Vec<_>>(), "y": column(|s| s.median), "text": text,
        "error_y": {
            "type": "data", "symmetric": false, "thickness": 1, "width": 4, "color": colour,
            "array": column(|s| s.max - s.median), "arrayminus": column(|s| s.median - s.min),
            "visible": points.iter().any(|(_, _, s)| s.repeats > 1),
        },
        "line": {"color": colour, "width": 2}, "marker": {"color": colour, "size": 8, "symbol": symbol},
        "hovertemplate": format!("%{{y:.4~g}} at %{{text}}<extra>{}</extra>", plotly_text(name)),
    })
}
