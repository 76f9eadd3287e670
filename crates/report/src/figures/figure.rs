//! The figures of a page, as descriptions for plotly.
//!
//! Colours are names of CSS variables (`var(--read)`): the page's script replaces them with those of the light or dark
//! theme. Figures over time are in `over_time.rs`.

use analysis::{CellResult, Spread, Tour};
use serde_json::{Value, json};

use super::line_style::{Key, Line, REFERENCE, strokes};
use crate::tables::{self, place};

/// Name of [`throughput`] in a plan's `draw`.
pub(crate) const AGAINST_DELAY: &str = "throughput by delay";

/// One figure.
pub(crate) struct Figure {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) traces: Vec<Value>,
    pub(crate) layout: Value,
    /// The lines, for figures whose legend stands outside.
    pub(crate) legend: Vec<Key>,
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
    // Where lines of several rates are beside each other each is drawn by itself: a delay has one figure of one line.
    let mut levels: Vec<Vec<(f64, f64)>> = Vec::new();
    for (x, spread) in &goodput {
        let y = mbit(spread.median);
        match levels.iter_mut().find(|level| level.last().is_some_and(|(before, _)| before < x)) {
            Some(level) => level.push((*x, y)),
            None => levels.push(vec![(*x, y)]),
        }
    }
    for level in levels {
        let (x, y): (Vec<f64>, Vec<f64>) = level.into_iter().unzip();
        traces.push(json!({
            "type": "scatter", "mode": "lines", "name": "line (computed)", "x": x, "y": y,
            "line": {"color": "var(--line)", "dash": REFERENCE, "width": 1.5},
            "hovertemplate": "%{y:.1f} Mb/s<extra>line (computed)</extra>",
        }));
    }
    let mut ticks: Vec<f64> = Vec::new();
    let mut top = goodput.iter().map(|(_, s)| mbit(s.max)).fold(0.0, f64::max);
    let series = series_of(tour, &["delay"], is_drawn);
    let lines: Vec<Line> =
        series.iter().map(|(name, cells)| Line { load: &cells[0].load, rest: name, policy: None }).collect();
    for ((name, cells), look) in series.iter().zip(strokes(&lines)) {
        let found = points(cells.iter().copied().filter(is_shown), |cell| cell.values.get("throughput"));
        if found.is_empty() {
            continue;
        }
        ticks.extend(found.iter().map(|(x, _)| *x));
        top = found.iter().map(|(_, s)| mbit(s.max)).fold(top, f64::max);
        let column =
            |value: fn(&Spread) -> f64| found.iter().map(|(_, s)| mbit(value(s))).collect::<Vec<_>>();
        let (colour, dash, symbol) = (look.colour, look.dash, look.symbol);
        traces.push(json!({
            "type": "scatter", "mode": "lines+markers", "name": plotly_text(name),
            "x": found.iter().map(|(x, _)| *x).collect::<Vec<_>>(), "y": column(|s| s.median),
            "error_y": {
                "type": "data", "symmetric": false, "thickness": 1, "width": 4, "color": colour,
                "array": column(|s| s.max - s.median), "arrayminus": column(|s| s.median - s.min),
                "visible": found.iter().any(|(_, s)| s.repeats > 1),
            },
            "line": {"color": colour, "dash": dash, "width": 2},
            "marker": {"color": colour, "size": 8, "symbol": symbol},
            "hovertemplate": format!("%{{y:.1f}} Mb/s at %{{x}} ms<extra>{}</extra>", plotly_text(name)),
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

/// Lines of a figure: cells, distinguished by every axis of the matrix but these.
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
        let load = tables::load(cell);
        let name = if place.is_empty() { load } else { format!("{load}, {place}") };
        match series.iter_mut().find(|(known, _)| *known == name) {
            Some((_, cells)) => cells.push(cell),
            None => series.push((name, vec![cell])),
        }
    }
    series
}

/// One-way delay in ms and a value, in order of delay.
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

/// Escapes text for plotly, which interprets some markup in texts, and `%{…}` in templates.
pub(crate) fn plotly_text(text: &str) -> String {
    text.replace('<', "‹").replace('>', "›").replace("%{", "% {")
}
