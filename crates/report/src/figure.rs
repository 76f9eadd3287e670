//! The figures of a page, as the descriptions plotly draws.
//!
//! Colours are names of CSS variables (`var(--read)`): the page's script puts in what the light or dark
//! theme says. Series are thinned out here, after everything was computed.

use std::cmp::Reverse;

use analysis::gain::is_policy;
use analysis::manifest::Path;
use analysis::{CellResult, Repeat, Sample, Spread, Tour};
use event::BitRate;
use serde_json::{Value, json};

use crate::decimate::decimate;
use crate::format::duration;
use crate::tables::place;

/// Samples of one line of a figure.
const MOST_SAMPLES: usize = 600;
/// A figure of more has room for one line of each.
const FEW_CELLS: usize = 8;

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

/// Throughput of the bulk loads against one-way delay, with the line's goodput.
pub(crate) fn throughput(tour: &Tour) -> Option<Figure> {
    let mut traces = vec![];
    // A load with a path of its own is no part of a figure of the others against theirs.
    let has_axis = |cell: &&CellResult| cell.point.contains_key("delay");
    let varies = tour.cells.iter().any(|cell| has_axis(&cell));
    let is_shown = |cell: &&CellResult| cell.bulk && (!varies || has_axis(cell));
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
    for (n, (name, cells)) in series_of(tour, |cell| cell.bulk).into_iter().enumerate() {
        let found = points(cells.iter().copied().filter(is_shown), |cell| cell.values.get("throughput"));
        if found.is_empty() {
            continue;
        }
        ticks.extend(found.iter().map(|(x, _)| *x));
        top = found.iter().map(|(_, s)| mbit(s.max)).fold(top, f64::max);
        let column =
            |value: fn(&Spread) -> f64| found.iter().map(|(_, s)| mbit(value(s))).collect::<Vec<_>>();
        let colour = colour(cells[0], n);
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

/// Rate over time, one figure for every path.
pub(crate) fn rates(tour: &Tour) -> Vec<Figure> {
    over_time(
        tour,
        "fig-rate",
        "rate, Mb/s",
        |repeat, _| vec![scaled(&repeat.rate, 1e-6)],
        |cell| cell.line.get("goodput").map(|s| (mbit(s.median), "line (computed)")),
    )
}

/// Congestion window of the sender over time, one figure for every path; of each sender that has a part in it, where
/// several initiators run a load and few loads are drawn.
pub(crate) fn windows(tour: &Tour) -> Vec<Figure> {
    let cwnd = |repeat: &Repeat, cells: usize| {
        let most = repeat.connections.first().map_or(0, |sender| sender.sent_bytes);
        let count = if cells <= FEW_CELLS { repeat.initiators.len().max(1) } else { 1 };
        let senders = repeat.connections.iter().filter(|sender| sender.sent_bytes > most / 100);
        senders.take(count).map(|sender| scaled(&sender.cwnd_bytes, 1e-6)).collect::<Vec<_>>()
    };
    over_time(tour, "fig-cwnd", "window, MB", cwnd, |cell| {
        let bdp = cell.line.get("bdp").filter(|s| s.median > 0.0)?;
        Some((bdp.median / 1e6, "bandwidth-delay product"))
    })
}

/// One figure per path, with the lines of each load there that is about throughput: of its first valid repeat.
fn over_time(
    tour: &Tour,
    id: &str,
    unit: &str,
    series: impl Fn(&Repeat, usize) -> Vec<Vec<Sample>>,
    reference: impl Fn(&CellResult) -> Option<(f64, &'static str)>,
) -> Vec<Figure> {
    let lines = series_of(tour, is_over_time);
    let paths = paths(tour);
    let is_told = paths.iter().any(|(_, Reverse(rate), _)| *rate != paths[0].1.0);
    let mut figures = Vec::new();
    for path in paths {
        let (delay_ns, Reverse(rate), _) = path;
        let here = |cell: &&&CellResult| cell.path.is_some_and(|known| line_of(&known) == path);
        let shown = lines.iter().filter(|(_, cells)| cells.iter().any(|cell| here(&cell))).count();
        let mut traces = Vec::new();
        let mut legend = Vec::new();
        let (mut end_s, mut top, mut level) = (0.0_f64, 0.0_f64, None);
        for (n, (name, cells)) in lines.iter().enumerate() {
            let Some(cell) = cells.iter().find(here) else { continue };
            let Some(repeat) = cell.repeats.iter().find(|repeat| repeat.valid) else { continue };
            let before = traces.len();
            for samples in series(repeat, shown) {
                let samples = decimate(&samples, MOST_SAMPLES);
                let Some((last_s, _)) = samples.last() else { continue };
                end_s = end_s.max(*last_s);
                top = samples.iter().map(|(_, y)| *y).fold(top, f64::max);
                traces.push(line(name, (&colour(cell, n), dash(cell)), &samples));
            }
            if traces.len() > before {
                legend.push((name.clone(), colour(cell, n)));
                level = level.or_else(|| reference(cell));
            }
        }
        if traces.is_empty() {
            continue;
        }
        if let Some((value, name)) = level {
            top = top.max(value);
            legend.insert(0, (name.to_owned(), "var(--line)".to_owned()));
            traces.insert(
                0,
                json!({
                    "type": "scatter", "mode": "lines", "name": name, "x": [0.0, end_s], "y": [value, value],
                    "line": {"color": "var(--line)", "dash": "dot", "width": 1.5},
                    "hovertemplate": format!("%{{y:.4~g}}<extra>{name}</extra>"),
                }),
            );
        }
        let rate = if is_told { format!(", {}", BitRate(rate)) } else { String::new() };
        let delay_s = delay_ns as f64 / 1e9;
        figures.push(Figure {
            id: format!("{id}-{}", figures.len() + 1),
            title: format!("{} one way{rate}", duration(delay_s)),
            traces,
            layout: json!({
                "xaxis": {"title": {"text": "since the load began, s"}, "range": [0.0, end_s]},
                "yaxis": {"title": {"text": unit}, "range": [0.0, headroom(top)]},
                "showlegend": false, "margin": {"l": 8, "r": 12, "t": 10, "b": 8},
            }),
            legend,
        });
    }
    figures
}

/// A line over time, in a colour and a kind of dashes.
fn line(name: &str, (colour, dash): (&str, &str), samples: &[Sample]) -> Value {
    let (x, y): (Vec<f64>, Vec<f64>) = samples.iter().map(|(x, y)| (short(*x), short(*y))).unzip();
    json!({
        "type": "scatter", "mode": "lines", "name": name, "x": x, "y": y,
        "line": {"color": colour, "dash": dash, "width": 1.6},
        "hovertemplate": format!("%{{y:.4~g}} at %{{x:.2f}} s<extra>{}</extra>", plotly_text(name)),
    })
}

/// The lines of one load under several policies have one colour.
fn dash(cell: &CellResult) -> &'static str {
    let policy = cell.point.iter().find(|(axis, _)| is_policy(axis)).map(|(_, policy)| policy.as_str());
    match policy {
        Some("none") => "dot",
        Some("study") => "dashdot",
        Some("pace") => "dash",
        _ => "solid",
    }
}

/// Whether a cell is drawn over time: it follows the path, or is compared with others for what it carries.
fn is_over_time(cell: &CellResult) -> bool {
    let has_policy = cell.point.keys().any(|axis| is_policy(axis));
    cell.bulk || has_policy || cell.repeats.iter().any(|repeat| repeat.initiators.len() > 1)
}

/// The paths of the cells that are drawn over time, the longest last.
fn paths(tour: &Tour) -> Vec<(u64, Reverse<u64>, u32)> {
    let paths = tour.cells.iter().filter(|cell| is_over_time(cell)).filter_map(|c| c.path);
    let mut lines: Vec<_> = paths.map(|path| line_of(&path)).collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}

/// Delay, rate and MTU: what makes a panel of its own. Queues in front of a line share it.
fn line_of(path: &Path) -> (u64, Reverse<u64>, u32) {
    (path.delay_ns, Reverse(path.rate_bits_per_s), path.mtu)
}

/// The lines of a figure: its cells, apart by every axis of the matrix but the delay.
fn series_of(tour: &Tour, is_drawn: impl Fn(&CellResult) -> bool) -> Vec<(String, Vec<&CellResult>)> {
    let mut series: Vec<(String, Vec<&CellResult>)> = Vec::new();
    for cell in tour.cells.iter().filter(|cell| is_drawn(cell)) {
        let mut rest = cell.point.clone();
        rest.remove("delay");
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
        _ => format!("var(--other-{})", n % 4 + 1),
    }
}

/// Top of an axis, a little above the highest value.
pub(crate) fn headroom(top: f64) -> f64 {
    if top > 0.0 { short(top * 1.08) } else { 1.0 }
}

fn mbit(bits_per_s: f64) -> f64 {
    short(bits_per_s / 1e6)
}

fn scaled(series: &[Sample], scale: f64) -> Vec<Sample> {
    series.iter().map(|(x, y)| (*x, y * scale)).collect()
}

/// Six significant digits are more than a screen can show.
pub(crate) fn short(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// Plotly reads a little markup in texts; ours has none.
pub(crate) fn plotly_text(text: &str) -> String {
    text.replace('<', "‹").replace('>', "›").replace('%', "%%")
}
