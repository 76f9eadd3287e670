//! A metric of the loads against an axis of the plan: throughput against parallelism, turnaround against block size, or
//! the pair that the plan's `draw` names.

use analysis::{CellResult, METRICS, Spread, Tour};
use event::{BitRate, Bytes, parse_delay};
use serde_json::{Value, json};

use super::figure::{Figure, headroom, plotly_text, short};
use super::line_style::{self, Stroke, strokes};
use crate::tables::{self, place};

/// Default figures of a plan without `draw`: metric and axis.
const USUAL: &[(&str, &str)] =
    &[("calls_per_s", "depth"), ("turnaround", "block"), ("packets_per_read", "block")];

/// A line: its name, its load, and its points: place along the axis, tick, figure.
struct Line<'a> {
    name: String,
    load: &'a str,
    points: Vec<(f64, String, Spread)>,
}

/// Figures that the plan requests (`METRIC by AXIS`), or else the default ones with at least two points.
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
    let places = places(&tour.run.plan, &tour.cells, axis);
    for cell in &tour.cells {
        let (Some(key), Some(spread)) = (key(cell, axis), cell.values.get(metric)) else { continue };
        let key = key.to_owned();
        let tick = cell.point[&key].clone();
        let Some(x) = places.iter().find(|(label, _)| *label == tick).map(|(_, x)| *x) else { continue };
        let point = (x, tick, *spread);
        let mut rest = cell.point.clone();
        rest.remove(&key);
        let place = place(&CellResult { point: rest, ..CellResult::default() });
        let load = tables::load(cell);
        let name = if place.is_empty() { load } else { format!("{load}, {place}") };
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => lines.push(Line { name, load: &cell.load, points: vec![point] }),
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
    let told: Vec<line_style::Line> = lines
        .iter()
        .map(|line| line_style::Line { load: line.load, rest: &line.name, policy: None })
        .collect();
    let log = logarithmic(axis) && first > 0.0 && last > 4.0 * first;
    Some(Figure {
        id: format!("fig-against-{n}"),
        title: heading(metric, axis),
        traces: lines.iter().zip(strokes(&told)).map(|(line, look)| trace(line, look, scale)).collect(),
        layout: json!({
            "xaxis": {"title": {"text": axis_title(axis)}, "type": if log { "log" } else { "linear" },
                "tickvals": ticks.iter().map(|(x, _)| x).collect::<Vec<_>>(),
                "ticktext": ticks.iter().map(|(_, tick)| plotly_text(tick)).collect::<Vec<_>>()},
            "yaxis": {"title": {"text": title}, "range": [0.0, headroom(top)]},
        }),
        legend: Vec::new(),
    })
}

/// Axis of a cell for a parameter: `read.depth` is the depth of one load, and drawn with those of the others.
fn key<'a>(cell: &'a CellResult, axis: &str) -> Option<&'a str> {
    cell.point.keys().map(String::as_str).find(|key| *key == axis || word(key) == axis)
}

/// Parameter of an axis, without the load's name: `block` of `read.block`.
fn word(axis: &str) -> &str {
    axis.rsplit('.').next().unwrap_or(axis)
}

/// Positions of the values of an axis: as numbers, sizes, rates or times if all of them are such, else in the order of
/// the plan.
fn places(plan: &Value, cells: &[CellResult], axis: &str) -> Vec<(String, f64)> {
    let mut labels: Vec<String> = Vec::new();
    for (key, cell) in cells.iter().filter_map(|cell| Some((key(cell, axis)?, cell))) {
        let planned = plan["matrix"][key].as_array().into_iter().flatten();
        let planned = planned.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        for label in planned.chain([cell.point[key].clone()]) {
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
    }
    let all =
        |number: fn(&str) -> Option<f64>| labels.iter().map(|l| number(l)).collect::<Option<Vec<f64>>>();
    let numbers = all(|l| l.parse().ok().filter(|number: &f64| number.is_finite()))
        .or_else(|| all(|l| Some(Bytes::parse(l).ok()? as f64)))
        .or_else(|| all(|l| Some(l.parse::<BitRate>().ok()?.0 as f64)))
        .or_else(|| all(|l| Some(parse_delay(l).ok()?.as_secs_f64() * 1e3)));
    let numbers = numbers.unwrap_or_else(|| (0..labels.len()).map(|n| n as f64).collect());
    labels.into_iter().zip(numbers).collect()
}

fn logarithmic(axis: &str) -> bool {
    word(axis) == "block"
}

/// Title of an axis or metric, in the studies' words where they have one.
fn heading(metric: &str, axis: &str) -> String {
    let words = match (metric, word(axis)) {
        ("calls_per_s", "depth") => "Throughput against parallelism",
        ("turnaround", "block") => "Turnaround against block size",
        ("packets_per_read", "block") => "Packets per request against block size",
        _ => return format!("{metric} against {axis}"),
    };
    match axis.split_once('.') {
        Some((load, _)) => format!("{words}: {load}"),
        None => words.to_owned(),
    }
}

fn axis_title(axis: &str) -> &str {
    match word(axis) {
        "depth" => "requests outstanding per initiator",
        "delay" => "one-way delay",
        _ => axis,
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

fn trace(line: &Line, Stroke { colour, dash, symbol }: Stroke, scale: f64) -> Value {
    let Line { name, points, .. } = line;
    let column = |value: fn(&Spread) -> f64| {
        points.iter().map(|(_, _, s)| short(value(s) * scale)).collect::<Vec<_>>()
    };
    let text: Vec<String> = points.iter().map(|(_, tick, _)| plotly_text(tick)).collect();
    json!({
        "type": "scatter", "mode": "lines+markers", "name": plotly_text(name),
        "x": points.iter().map(|(x, _, _)| x).collect::<Vec<_>>(), "y": column(|s| s.median), "text": text,
        "error_y": {
            "type": "data", "symmetric": false, "thickness": 1, "width": 4, "color": colour,
            "array": column(|s| s.max - s.median), "arrayminus": column(|s| s.median - s.min),
            "visible": points.iter().any(|(_, _, s)| s.repeats > 1),
        },
        "line": {"color": colour, "dash": dash, "width": 2}, "marker": {"color": colour, "size": 8, "symbol": symbol},
        "hovertemplate": format!("%{{y:.4~g}} at %{{text}}<extra>{}</extra>", plotly_text(name)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cells of one load on one axis, in this order.
    fn cells(load: &str, key: &str, values: &[&str]) -> Vec<CellResult> {
        let cell = |value: &&str| CellResult {
            load: load.to_owned(),
            point: [(key.to_owned(), (*value).to_owned())].into(),
            ..CellResult::default()
        };
        values.iter().map(cell).collect()
    }

    fn check(axis: &str, cells: &[CellResult], plan: &Value, expected: &[(&str, f64)]) {
        let found = places(plan, cells, axis);
        let found: Vec<(&str, f64)> = found.iter().map(|(label, x)| (label.as_str(), *x)).collect();
        assert_eq!(found, expected, "{axis}");
    }

    #[test]
    fn values_lie_where_all_of_them_are_numbers_sizes_or_times_and_else_in_the_order_of_the_plan() {
        let sizes = ["1KiB", "512", "64KiB"];
        let places = [("1KiB", 1024.0), ("512", 512.0), ("64KiB", 65536.0)];
        check("read.block", &cells("read", "read.block", &sizes), &Value::Null, &places);
        check("block", &cells("read", "read.block", &sizes), &Value::Null, &places);
        check("depth", &cells("read", "read.depth", &["8", "16"]), &Value::Null, &[("8", 8.0), ("16", 16.0)]);
        check("delay", &cells("read", "delay", &["0", "8ms"]), &Value::Null, &[("0", 0.0), ("8ms", 8.0)]);
        check(
            "rate",
            &cells("read", "rate", &["1gbit", "100mbit"]),
            &Value::Null,
            &[("1gbit", 1e9), ("100mbit", 1e8)],
        );
        let plan = json!({"matrix": {"target.compat": ["none", "nagle", "7"]}});
        let places = [("none", 0.0), ("nagle", 1.0), ("7", 2.0)];
        check("target.compat", &cells("read", "target.compat", &["7", "none"]), &plan, &places);
    }

    #[test]
    fn an_axis_of_one_load_is_named_as_that_of_all() {
        assert_eq!(heading("turnaround", "block"), "Turnaround against block size");
        assert_eq!(heading("turnaround", "delayed.block"), "Turnaround against block size: delayed");
        assert_eq!(heading("turnaround", "target.compat"), "turnaround against target.compat");
        assert_eq!(axis_title("read.depth"), axis_title("depth"));
        assert!(logarithmic("read.block") && !logarithmic("read.depth"));
    }
}
