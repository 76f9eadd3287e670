//! Figures over time: rate, congestion window and block, in a panel for every path.
//!
//! Series are thinned out here, after everything was computed.

use std::cmp::Reverse;

use analysis::policy_gain::is_policy;
use analysis::sockets::Connection;
use analysis::{CellResult, Repeat, Sample, Tour};
use event::BitRate;
use serde_json::{Value, json};

use super::decimate::decimate;
use super::figure::{Figure, headroom, mbit, plotly_text, series_of, short};
use super::line_style::{Key, Line, REFERENCE, Stroke, strokes};
use crate::format::duration;
use crate::tables::place;

/// Samples of one line, and of all lines of a panel.
const MOST_SAMPLES: usize = 600;
const PANEL_SAMPLES: usize = 4_800;
/// A panel of more has room for one line of each.
const FEW_CELLS: usize = 8;
/// Axes of the matrix that distinguish panels.
const OF_PANELS: &[&str] = &["delay", "ring", "initiators"];

/// Panel of a cell: a path, and the matrix's parameters of the hosts on it. Queues in front of a line share it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Panel {
    delay_ns: u64,
    /// The fastest first.
    rate: Reverse<u64>,
    mtu: u32,
    ring: Option<u32>,
    initiators: Option<u32>,
    /// A load of several initiators has a panel of its own, with a line for each, where the plan compares it with
    /// fewer.
    load: Option<String>,
}

/// Rate over time.
pub(crate) fn rates(tour: &Tour) -> Vec<Figure> {
    over_time(
        tour,
        ("fig-rate", "rate, Mb/s"),
        |repeat, _| vec![scaled(&repeat.rate, 1e-6)],
        |cell| cell.line.get("goodput").map(|s| (mbit(s.median), "line (computed)")),
    )
}

/// Congestion window of the sender over time; of each sender that has a part in it, where several initiators run a load
/// and few loads are drawn.
pub(crate) fn windows(tour: &Tour) -> Vec<Figure> {
    let cwnd = |repeat: &Repeat, cells: usize| {
        let most = repeat.connections.first().map_or(0, |sender| sender.sent_bytes);
        let senders = repeat.connections.iter().filter(|sender| sender.sent_bytes > most / 100);
        senders.take(room(repeat, cells)).map(|sender| scaled(&sender.cwnd_bytes, 1e-6)).collect::<Vec<_>>()
    };
    over_time(tour, ("fig-cwnd", "window, MB"), cwnd, |cell| {
        let bdp = cell.line.get("bdp").filter(|s| s.median > 0.0)?;
        Some((bdp.median / 1e6, "bandwidth-delay product"))
    })
}

/// Block size decided by the initiator's policy over time; empty if every policy leaves it to the caller.
pub(crate) fn blocks(tour: &Tour) -> Vec<Figure> {
    let asks = |connection: &&Connection| connection.host == "near" && !connection.block_bytes.is_empty();
    let is_changed = |cell: &CellResult| {
        let all = cell.repeats.iter().filter(|repeat| repeat.valid).flat_map(|repeat| &repeat.connections);
        let mut blocks = all.filter(asks).flat_map(|connection| &connection.block_bytes);
        blocks.any(|(_, bytes)| Some(*bytes as u64) != cell.block_bytes)
    };
    if !tour.cells.iter().any(is_changed) {
        return Vec::new();
    }
    let block = |repeat: &Repeat, cells: usize| {
        let asking = repeat.connections.iter().filter(asks).take(room(repeat, cells));
        asking.map(|connection| scaled(&connection.block_bytes, 1.0 / 1024.0)).collect::<Vec<_>>()
    };
    over_time(tour, ("fig-block", "block, KiB"), block, |_| None)
}

/// Number of lines of a cell in a panel with so many cells.
fn room(repeat: &Repeat, cells: usize) -> usize {
    if cells <= FEW_CELLS { repeat.initiators.len().max(1) } else { 1 }
}

/// One figure per panel, with the lines of each bulk load there: of its first valid repeat.
fn over_time(
    tour: &Tour,
    (id, unit): (&str, &str),
    series: impl Fn(&Repeat, usize) -> Vec<Vec<Sample>>,
    reference: impl Fn(&CellResult) -> Option<(f64, &'static str)>,
) -> Vec<Figure> {
    let lines = series_of(tour, OF_PANELS, is_over_time);
    let panels = panels(tour);
    // Parameters that all panels share are not repeated above each.
    let told = Told {
        rate: panels.iter().any(|panel| panel.rate != panels[0].rate),
        mtu: panels.iter().any(|panel| panel.mtu != panels[0].mtu),
    };
    let rests: Vec<String> = lines.iter().map(|(_, cells)| without_policy(cells[0])).collect();
    let told_lines: Vec<Line> = lines
        .iter()
        .zip(&rests)
        .map(|((_, cells), rest)| Line { load: &cells[0].load, rest, policy: policy(cells[0]) })
        .collect();
    let looks = strokes(&told_lines);
    let mut figures = Vec::new();
    for panel in panels {
        let here = |cell: &&&CellResult| Panel::of(cell).is_some_and(|known| known == panel);
        let shown = lines.iter().filter(|(_, cells)| cells.iter().any(|cell| here(&cell))).count();
        let found = lines.iter().zip(&looks).filter_map(|((name, cells), look)| {
            let cell = cells.iter().find(here)?;
            let repeat = cell.repeats.iter().find(|repeat| repeat.valid)?;
            let all: Vec<Vec<Sample>> =
                series(repeat, shown).into_iter().filter(|line| !line.is_empty()).collect();
            (!all.is_empty()).then_some((look, name, *cell, all))
        });
        let found: Vec<_> = found.collect();
        let count: usize = found.iter().map(|(.., all)| all.len()).sum();
        let most = MOST_SAMPLES.min(PANEL_SAMPLES / count.max(1));
        let (mut traces, mut legend) = (Vec::new(), Vec::new());
        let (mut end_s, mut top) = (0.0_f64, 0.0_f64);
        for (look, name, _, all) in &found {
            for samples in all {
                let samples = decimate(samples, most);
                end_s = samples.iter().map(|(x, _)| *x).fold(end_s, f64::max);
                top = samples.iter().map(|(_, y)| *y).fold(top, f64::max);
                traces.push(line(name, look, &samples));
            }
            let (name, colour) = ((*name).clone(), look.colour.clone());
            legend.push(Key { name, colour, dash: look.dash });
        }
        if traces.is_empty() {
            continue;
        }
        if let Some((value, name)) = found.iter().find_map(|(_, _, cell, _)| reference(cell)) {
            top = top.max(value);
            let (name, colour) = (name.to_owned(), "var(--line)".to_owned());
            legend.insert(0, Key { name, colour, dash: REFERENCE });
            traces.insert(0, level(&legend[0].name, value, end_s));
        }
        figures.push(Figure {
            id: format!("{id}-{}", figures.len() + 1),
            title: panel.words(&told),
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

/// A line over time.
fn line(name: &str, Stroke { colour, dash, .. }: &Stroke, samples: &[Sample]) -> Value {
    let (x, y): (Vec<f64>, Vec<f64>) = samples.iter().map(|(x, y)| (short(*x), short(*y))).unzip();
    json!({
        "type": "scatter", "mode": "lines", "name": plotly_text(name), "x": x, "y": y,
        "line": {"color": colour, "dash": dash, "width": 1.6},
        "hovertemplate": format!("%{{y:.4~g}} at %{{x:.2f}} s<extra>{}</extra>", plotly_text(name)),
    })
}

/// A reference line.
fn level(name: &str, value: f64, end_s: f64) -> Value {
    json!({
        "type": "scatter", "mode": "lines", "name": name, "x": [0.0, end_s], "y": [value, value],
        "line": {"color": "var(--line)", "dash": REFERENCE, "width": 1.5},
        "hovertemplate": format!("%{{y:.4~g}}<extra>{name}</extra>"),
    })
}

fn policy(cell: &CellResult) -> Option<&str> {
    cell.point.iter().find(|(axis, _)| is_policy(axis)).map(|(_, policy)| policy.as_str())
}

/// Difference of a line from others of its load, apart from the policy.
fn without_policy(cell: &CellResult) -> String {
    let mut point = cell.point.clone();
    point.retain(|axis, _| !is_policy(axis) && !OF_PANELS.contains(&axis.as_str()));
    place(&CellResult { point, ..CellResult::default() })
}

/// True for cells that are drawn over time: bulk loads, and loads compared with others by throughput.
fn is_over_time(cell: &CellResult) -> bool {
    let has_policy = cell.point.keys().any(|axis| is_policy(axis));
    cell.bulk || has_policy || cell.repeats.iter().any(|repeat| repeat.initiators.len() > 1)
}

/// Panels of the cells that are drawn over time, the longest path last.
fn panels(tour: &Tour) -> Vec<Panel> {
    let drawn = tour.cells.iter().filter(|cell| is_over_time(cell));
    let mut panels: Vec<Panel> = drawn.filter_map(Panel::of).collect();
    panels.sort_unstable();
    panels.dedup();
    panels
}

/// Parameters in which panels differ, which their titles name.
struct Told {
    rate: bool,
    mtu: bool,
}

impl Panel {
    fn of(cell: &CellResult) -> Option<Panel> {
        let path = cell.path?;
        let number = |axis: &str| cell.point.get(axis).and_then(|value| value.parse().ok());
        let initiators = number("initiators");
        Some(Panel {
            delay_ns: path.delay_ns,
            rate: Reverse(path.rate_bits_per_s),
            mtu: path.mtu,
            ring: number("ring"),
            initiators,
            load: initiators.filter(|count| *count > 1).map(|_| cell.load.clone()),
        })
    }

    /// Title of the panel.
    fn words(&self, told: &Told) -> String {
        let mut words = format!("{} one way", duration(self.delay_ns as f64 / 1e9));
        if told.rate {
            words += &format!(", {}", BitRate(self.rate.0));
        }
        if told.mtu {
            words += &format!(", packets of {}", self.mtu);
        }
        if let Some(ring) = self.ring {
            words += &format!(", ring {ring}");
        }
        match self.initiators {
            None => {}
            Some(1) => words += ", 1 initiator",
            Some(count) => words += &format!(", {count} initiators"),
        }
        match &self.load {
            Some(load) => format!("{words}: {load}"),
            None => words,
        }
    }
}

fn scaled(series: &[Sample], scale: f64) -> Vec<Sample> {
    series.iter().map(|(x, y)| (*x, y * scale)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use analysis::manifest::{Path, Run};
    use analysis::{RunSummary, Spread};

    use super::*;

    /// A load at a place, of so many initiators; the first of them has this block over time.
    fn cell(load: &str, point: &[(&str, &str)], initiators: usize, blocks: &[f64]) -> CellResult {
        let connection = |n: usize| Connection {
            host: "near".to_owned(),
            connection: n as u32,
            cwnd_bytes: vec![(0.0, 1e6), (1.0, 2e6)],
            block_bytes: blocks.iter().enumerate().map(|(n, block)| (n as f64, *block)).collect(),
            sent_bytes: 1_000,
            ..Connection::default()
        };
        let repeat = Repeat {
            valid: true,
            initiators: if initiators > 1 { vec![1.0; initiators] } else { Vec::new() },
            connections: (0..initiators).map(connection).collect(),
            ..Repeat::default()
        };
        CellResult {
            load: load.to_owned(),
            bulk: true,
            block_bytes: Some(1 << 20),
            point: point.iter().map(|(axis, value)| ((*axis).to_owned(), (*value).to_owned())).collect(),
            path: Some(Path { delay_ns: 8_000_000, rate_bits_per_s: 1_000_000_000, ..Path::default() }),
            line: BTreeMap::from([("bdp", Spread { median: 2e6, min: 2e6, max: 2e6, repeats: 1 })]),
            repeats: vec![repeat],
            ..CellResult::default()
        }
    }

    fn tour(cells: Vec<CellResult>) -> Tour {
        Tour { run: Run::default(), gist: RunSummary::default(), cells }
    }

    fn titles(figures: &[Figure]) -> Vec<(&str, usize)> {
        figures.iter().map(|figure| (figure.title.as_str(), figure.traces.len())).collect()
    }

    #[test]
    fn rings_and_numbers_of_initiators_have_panels_of_their_own() {
        let at = |load: &str, ring: &str, initiators: usize| {
            cell(load, &[("ring", ring), ("initiators", &initiators.to_string())], initiators, &[])
        };
        let cells =
            vec![at("one", "1024", 8), at("free", "1024", 8), at("one", "80", 1), at("free", "80", 1)];
        let figures = windows(&tour(cells));
        // Each has the path's own line besides.
        assert_eq!(
            titles(&figures),
            [
                ("8\u{202f}ms one way, ring 80, 1 initiator", 3),
                ("8\u{202f}ms one way, ring 1024, 8 initiators: free", 9),
                ("8\u{202f}ms one way, ring 1024, 8 initiators: one", 9),
            ]
        );
        let names: Vec<&str> = figures[0].legend.iter().map(|key| key.name.as_str()).collect();
        assert_eq!(names, ["bandwidth-delay product", "one", "free"], "the panel says where it is");
    }

    #[test]
    fn blocks_are_drawn_where_a_policy_decides_them() {
        let callers = || cell("read", &[("read.policy", "none")], 1, &[1_048_576.0, 1_048_576.0]);
        assert_eq!(titles(&blocks(&tour(vec![callers()]))), [], "the caller's own is no figure");
        let study = cell("read", &[("read.policy", "study")], 1, &[1_048_576.0, 262_144.0]);
        let figures = blocks(&tour(vec![callers(), study]));
        assert_eq!(titles(&figures), [("8\u{202f}ms one way", 2)]);
        assert_eq!(figures[0].traces[1]["y"], json!([1024.0, 256.0]));
    }
}
