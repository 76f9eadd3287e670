//! The figures of a page, as the descriptions plotly draws.
//!
//! Colours are names of CSS variables (`var(--read)`): the page's script puts in what the light or dark
//! theme says. Those over time are in `over_time.rs`.

use analysis::{CellResult, Spread, Tour};
use serde_json::{Value, json};

use crate::tables::place;

/// How a plan asks for [`throughput`].
pub(crate) const AGAINST_DELAY: &str = "throughput by delay";

/// One drawing.
pub(crate) struct Figure {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) traces: Vec<Value>,
    pub(crate) layout: Value,
    /// Names and colours of the lines, for figures whose legend stands outside.
    pub(crate) legend: Vec<(String, String)>,
}

impl Figure {
    pub(crate) fn json(&self) -> Value {
        json!({"id": self.id, "traces": self.traces, "layout": self.layout})
    }
}

/// Throughput against one-way delay, with the line's goodput: of the loads that follow the path, and of all if the plan
/// asks for it.
pub(crate) fn throughput(tour: &Tour) -> Option<Figure> {
    let mut traces = vec![];
    let draw = tour.run.plan["draw"].as_array();
    let asked = draw.is_some_and(|draw| draw.iter().any(|word| word == AGAINST_DELAY));
    // A load with a path of its own is no part of a figure of the others against theirs.
    let has_axis = |cell: &&CellResult| cell.point.contains_key("delay");
    let varies = tour.cells.iter().any(|cell| has_axis(&cell));
    let is_drawn = |cell: &CellResult| cell.bulk || asked;
    let is_shown = |cell: &&CellResult| is_drawn(cell) && (!varies || has_axis(cell));
    let goodput = points(tour.cells.iter().filter(is_shown), |cell| cell.line.get("goodput"));
    if !goodput.is_empty() {
        let (x, y): (Vec<f64>, Vec<f64>) = goodput.iter().map(|(x, s)| (*x, mbit(s.median))).unzip();
        traces.push(json!({
            "type": "scatter", "mode": "lines", "name": "line (computed)", "x": x, "y": y,
            "line": {"color": "var(--line)", "dash": "dot", "width": 1.5},
            "hovertemplate": "%{y:.1f} Mb/s<extra>line (computed)</extra>",
        }));
    }
    let mut ticks: Vec<f64> = Vec::new();
    let mut top = goodput.iter().map(|(_, s)| mbit(s.max)).fold(0.0, f64::max);
    let mut loads: Vec<&str> = Vec::new();
    for (n, (name, cells)) in series_of(tour, &["delay"], is_drawn).into_iter().enumerate() {
        let found = points(cells.iter().copied().filter(is_shown), |cell| cell.values.get("throughput"));
        if found.is_empty() {
            continue;
        }
        ticks.extend(found.iter().map(|(x, _)| *x));
        top = found.iter().map(|(_, s)| mbit(s.max)).fold(top, f64::max);
        let column =
            |value: fn(&Spread) -> f64| found.iter().map(|(_, s)| mbit(value(s))).collect::<Vec<_>>();
        // Lines of one load differ by where they lie in the matrix: they need colours of their own.
        let load = cells[0].load.as_str();
        let colour = if loads.contains(&load) { other_colour(n) } else { colour(cells[0], n) };
        loads.push(load);
        let symbol = ["circle", "square", "diamond", "triangle-up", "cross", "x"][n % 6];
        traces.push(json!({
            "type": "scatter", "mode": "lines+markers", "name": name,
            "x": found.iter().map(|(x, _)| *x).collect::<Vec<_>>(), "y": column(|s| s.median),
            "error_y": {
                "type": "data", "symmetric": false, "thickness": 1, "width": 4, "color": colour,
                "array": column(|s| s.max - s.median), "arrayminus": column(|s| s.median - s.min),
                "visible": found.iter().any(|(_, s)| s.repeats > 1),
            },
            "line": {"color": colour, "width": 2}, "marker": {"color": colour, "size": 8, "symbol": symbol},
            "hovertemplate": format!("%{{y:.1f}} Mb/s at %{{x}} ms<extra>{}</extra>", plotly_text(&name)),
        }));
    }
    ticks.sort_unstable_by(f64::total_cmp);
    ticks.dedup();
    let widest = *ticks.last()?;
    Some(Figure {
        id: "fig-throughput".to_owned(),
        title: "Throughput against delay".to_owned(),
        traces,
        layout: json!({
            "xaxis": {
                "title": {"text": "one-way delay, ms"}, "tickvals": ticks,
                "range": [-0.03 * widest.max(1.0), 1.03 * widest.max(1.0)],
            },
            "yaxis": {"title": {"text": "application throughput, Mb/s"}, "range": [0.0, headroom(top)]},
        }),
        legend: Vec::new(),
    })
}

/// The lines of a figure: its cells, apart by every axis of the matrix but these.
pub(crate) fn series_of<'a>(
    tour: &'a Tour,
    but: &[&str],
    is_drawn: impl Fn(&CellResult) -> bool,
) -> Vec<(String, Vec<&'a CellResult>)> {
    let mut series: Vec<(String, Vec<&CellResult>)> = Vec::new();
    for cell in tour.cells.iter().filter(|cell| is_drawn(cell)) {
        let mut rest = cell.point.clone();
        rest.retain(|axis, _| !but.contains(&axis.as_str()));
        let place = place(&CellResult { point: rest, ..CellResult::default() });
        let name = if place.is_empty() { cell.load.clone() } else { format!("{}, {place}", cell.load) };
        match series.iter_mut().find(|(known, _)| *known == name) {
            Some((_, cells)) => cells.push(cell),
            None => series.push((name, vec![cell])),
        }
    }
    series
}

/// One-way delay in ms and a figure, in order of delay.
fn points<'a>(
    cells: impl Iterator<Item = &'a CellResult>,
    figure: impl Fn(&CellResult) -> Option<&Spread>,
) -> Vec<(f64, Spread)> {
    let mut found: Vec<(f64, Spread)> =
        cells.filter_map(|cell| Some((cell.path?.delay_ns as f64 / 1e6, *figure(cell)?))).collect();
    found.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    found.dedup();
    found
}

/// Loads keep their colour on the whole page.
pub(crate) fn colour(cell: &CellResult, n: usize) -> String {
    match cell.load.as_str() {
        name @ ("stream" | "read" | "write") => format!("var(--{name})"),
        _ => other_colour(n),
    }
}

fn other_colour(n: usize) -> String {
    format!("var(--other-{})", n % 6 + 1)
}

/// Top of an axis, a little above the highest value.
pub(crate) fn headroom(top: f64) -> f64 {
    if top > 0.0 { short(top * 1.08) } else { 1.0 }
}

pub(crate) fn mbit(bits_per_s: f64) -> f64 {
    short(bits_per_s / 1e6)
}

/// Six significant digits are more than a screen can show.
pub(crate) fn short(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// Plotly reads a little markup in texts; ours has none.
pub(crate) fn plotly_text(text: &str) -> String {
    text.replace('<', "‹").replace('>', "›").replace('%', "%%")
}
