//! Two runs side by side: sentences, a table for each pair of cells, and figures with both in them.

use std::fmt::Write;

use analysis::compare::{ComparedFigure, Comparison, Outcome, Pair};
use analysis::gaps::{Cause, Histogram, Kind, Tap};
use analysis::{Repeat, Sample};
use event::{BitRate, Bytes};
use serde_json::{Value, json};

use crate::figures::decimate::decimate;
use crate::figures::figure::{Figure, headroom, short};
use crate::figures::histogram::steps;
use crate::figures::line_style::Key;
use crate::format::{NONE, duration, escape, fixed, plain};
use crate::page;
use crate::tables::layout::{Colour, Column, Field, Table, paint};

const SIDES: [(&str, &str); 2] = [("first", "var(--other-5)"), ("second", "var(--other-6)")];
/// Samples of one line of a figure.
const MOST_SAMPLES: usize = 600;

/// The comparison for a terminal.
pub fn text(comparison: &Comparison, colour: Colour) -> String {
    let mut out = format!("{}\n", paint(&headline(comparison), "1", colour));
    for sentence in alone(comparison) {
        let _ = writeln!(out, "{sentence}");
    }
    for pair in &comparison.pairs {
        let _ = write!(out, "\n{}\n{}", paint(&title(pair), "1", colour), table(pair).text(colour));
        for sentence in sentences(pair) {
            let _ = writeln!(out, "  {sentence}");
        }
    }
    // Narrow gaps do not line up in every terminal's font.
    out.replace('\u{202f}', " ")
}

/// The comparison as a page. `rebuild` is the command that draws it again.
pub fn html(comparison: &Comparison, rebuild: &str) -> String {
    let mut body = format!(
        "<header>\n<p class=\"brand\">farlun <span>{}</span></p>\n<h1>{}</h1>\n</header>\n",
        escape(&comparison.plans.join(" / ")),
        escape(&headline(comparison)),
    );
    for sentence in alone(comparison) {
        let _ = write!(body, "<p class=\"note\">{}</p>", escape(&sentence));
    }
    let mut all = Vec::new();
    for (n, pair) in (1..).zip(&comparison.pairs) {
        let figures = figures(n, pair);
        let mut inside = String::from("<ul>");
        for sentence in sentences(pair) {
            let _ = write!(inside, "<li>{}</li>", escape(&sentence));
        }
        inside += "</ul>";
        inside += &table(pair).html(&format!("table-pair-{n}"));
        inside += &page::panels(&figures, "small");
        body += &page::section(&format!("pair-{n}"), &title(pair), "", &inside);
        all.extend(figures);
    }
    body += &page::rebuild(rebuild);
    let figures = all.iter().map(Figure::json).collect();
    page::document(&format!("farlun · {}", headline(comparison)), &body, &figures)
}

/// Figures that the headline names.
const NAMED: usize = 3;

/// The figures that differ most, in a sentence about the loads of the runs.
fn headline(comparison: &Comparison) -> String {
    let rows = || comparison.pairs.iter().flat_map(|pair| &pair.rows);
    let all = comparison.pairs.iter().flat_map(|pair| pair.rows.iter().map(move |row| (pair, row)));
    let mut differing: Vec<(&Pair, &ComparedFigure)> =
        all.filter(|(_, row)| row.outcome == Outcome::Differs && row.ratio.is_some()).collect();
    // Twice as much is as far away as half as much.
    let distance =
        |row: &ComparedFigure| row.ratio.map_or(0.0, |ratio| ratio.max(f64::MIN_POSITIVE).ln().abs());
    differing.sort_by(|a, b| distance(b.1).total_cmp(&distance(a.1)));
    let named = differing.iter().take(NAMED).map(|(pair, row)| {
        let ratio = row.ratio.map_or_else(String::new, |ratio| fixed(ratio, 2));
        format!("{} of {} is {ratio} times the first's", row.name.replace('_', " "), title(pair))
    });
    let mut parts: Vec<String> = named.collect();
    if parts.is_empty() {
        parts.push("nothing is shown to differ".to_owned());
    }
    let plans = match &comparison.plans {
        [one, other] if one == other => one.clone(),
        [one, other] => format!("{one} / {other}"),
    };
    let plans = if plans.trim_matches([' ', '/']).is_empty() { String::new() } else { format!("{plans}: ") };
    let count = |outcome| rows().filter(|row| row.outcome == outcome).count();
    let open = match count(Outcome::Open) {
        0 => String::new(),
        n => format!("; {n} have too few values to say"),
    };
    let pairs = match comparison.pairs.len() {
        1 => "one pair of cells".to_owned(),
        n => format!("{n} pairs of cells"),
    };
    let counts = format!("{} of {} figures of {pairs} differ{open}", count(Outcome::Differs), rows().count());
    format!("{plans}{} ({counts})", parts.join(", "))
}

fn alone(comparison: &Comparison) -> Vec<String> {
    let sides = ["first", "second"].iter().zip(&comparison.alone);
    let named = sides.filter(|(_, cells)| !cells.is_empty());
    let mut said: Vec<String> =
        named.map(|(side, cells)| format!("only the {side} run has: {}", cells.join(", "))).collect();
    if !comparison.unvalidated.is_empty() {
        let cells = comparison.unvalidated.join(", ");
        said.push(format!("left out, since nothing judged their paths (validity off): {cells}"));
    }
    said
}

fn title(pair: &Pair) -> String {
    let places = match pair.places.iter().all(|place| *place == pair.places[0]) {
        true => pair.places[0].clone(),
        false => pair
            .places
            .iter()
            .map(|place| if place.is_empty() { NONE } else { place })
            .collect::<Vec<_>>()
            .join(" / "),
    };
    if places.is_empty() { pair.name.clone() } else { format!("{} at {places}", pair.name) }
}

fn table(pair: &Pair) -> Table {
    let columns = vec![
        Column::text("figure"),
        Column::number("first", ""),
        Column::number("second", ""),
        Column::text("unit"),
        Column::number("second / first", ""),
        Column::number("chance", ""),
        Column::text("of"),
        Column::text("so they"),
    ];
    let row = |row: &ComparedFigure| {
        let (scale, unit) = in_unit(row);
        let value = |side: usize| Field::new(plain(row.medians[side] * scale));
        let chance = row.chance.map_or_else(
            || NONE.to_owned(),
            |chance| match chance {
                chance if chance < 1e-4 => "< 0.0001".to_owned(),
                chance => fixed(chance, 4),
            },
        );
        let [a, b] = row.samples;
        let of = if row.of_repeats { "repeats" } else { "stretches of one" };
        vec![
            Field::new(&row.name),
            value(0),
            value(1),
            Field::new(unit),
            Field::new(row.ratio.map_or_else(|| NONE.to_owned(), |ratio| fixed(ratio, 3))),
            Field::new(chance),
            Field::new(format!("{a} + {b} {of}")),
            Field::new(match row.outcome {
                Outcome::Differs => "differ",
                Outcome::Alike => "are alike",
                Outcome::Open => "too few to say",
            }),
        ]
    };
    Table { columns, rows: pair.rows.iter().map(row).collect() }
}

fn in_unit(row: &ComparedFigure) -> (f64, &'static str) {
    match row.unit {
        "bit/s" => (1e-6, "Mb/s"),
        "s" if row.medians.iter().all(|s| *s < 1e-3) => (1e6, "µs"),
        "s" if row.medians.iter().all(|s| *s < 1.0) => (1e3, "ms"),
        other => (1.0, other),
    }
}

/// Facts that are not in the table.
fn sentences(pair: &Pair) -> Vec<String> {
    let mut said: Vec<String> = pair.paths.iter().map(|(name, values)| path(name, *values)).collect();
    let [first, second] = &pair.causes;
    let has = |causes: &[(Cause, f64)], cause: Cause| causes.iter().any(|(known, _)| *known == cause);
    for (side, own, other) in [("first", first, second), ("second", second, first)] {
        for (cause, period_s) in own.iter().filter(|(cause, _)| !has(other, *cause)) {
            let period = duration(*period_s);
            said.push(format!(
                "only the gaps of the {side} show {}, with a period of {period}",
                name(*cause)
            ));
        }
    }
    for (cause, a) in first {
        if let Some((_, b)) = second.iter().find(|(other, _)| other == cause) {
            let (a, b) = (duration(*a), duration(*b));
            said.push(format!("the gaps of both show {}, with periods of {a} and {b}", name(*cause)));
        }
    }
    said.extend(pair.notes.iter().cloned());
    said
}

fn path(name: &str, [a, b]: [u64; 2]) -> String {
    let ms = |ns: u64| duration(ns as f64 / 1e9);
    match name {
        "delay_ns" => format!("their paths differ: {} one way and {}", ms(a), ms(b)),
        "rate_bits_per_s" => format!("their paths differ: {} and {}", BitRate(a), BitRate(b)),
        "queue_bytes" => format!("their paths differ: queues of {} and {}", Bytes(a), Bytes(b)),
        _ => format!("their paths differ: {name} {a} and {b}"),
    }
}

const fn name(cause: Cause) -> &'static str {
    match cause {
        Cause::Serialisation => "one packet's time on a line that is never idle (serialisation)",
        Cause::TimerTick => "a host's timer tick",
        Cause::Coalescing => "a card that holds its interrupts back (interrupt coalescing)",
        Cause::AckMerging => "a line that packs acknowledgements together (ACK merging)",
        Cause::Emulator => "an emulator that was late",
    }
}

/// Rate over time, and the gaps behind the path, of both.
fn figures(n: usize, pair: &Pair) -> Vec<Figure> {
    let legend: Vec<Key> = SIDES.iter().map(|(name, colour)| Key::solid(name, colour)).collect();
    let sides = || SIDES.into_iter().zip(&pair.drawn);
    let mut figures = Vec::new();
    let mut add = |what: &str, title: &str, traces: Vec<Value>, x: Value, y: Value| {
        if !traces.is_empty() {
            figures.push(Figure {
                id: format!("fig-pair-{n}-{what}"),
                title: title.to_owned(),
                traces,
                layout: json!({"xaxis": x, "yaxis": y, "showlegend": false,
                    "margin": {"l": 8, "r": 12, "t": 10, "b": 8}}),
                legend: legend.clone(),
            });
        }
    };
    let rates = sides().filter(|(_, repeat)| !repeat.rate.is_empty());
    let top =
        pair.drawn.iter().flat_map(|repeat| &repeat.rate).map(|(_, rate)| rate / 1e6).fold(0.0, f64::max);
    add(
        "rate",
        "Rate over time",
        rates.map(|((name, colour), repeat)| line(name, colour, &repeat.rate)).collect(),
        json!({"title": {"text": "since the load began, s"}}),
        json!({"title": {"text": "rate, Mb/s"}, "range": [0.0, headroom(top)]}),
    );
    let log = |text: &str| json!({"title": {"text": text}, "type": "log"});
    for (kind, tap, what, title) in [
        (Kind::Data, Tap::Due, "data", "Data behind the path, packets by gap"),
        (Kind::Acks, Tap::Sent, "acks-sent", "ACKs as sent, packets by gap"),
        (Kind::Acks, Tap::Due, "acks", "ACKs behind the path, packets by gap"),
    ] {
        let traces = sides()
            .filter_map(|((name, colour), repeat)| Some(steps(name, colour, histogram(repeat, kind, tap)?)));
        add(what, title, traces.collect(), log("gap, µs"), log("packets"));
    }
    figures
}

fn histogram(repeat: &Repeat, kind: Kind, tap: Tap) -> Option<&Histogram> {
    let histogram = &repeat.gaps.as_ref()?.at(kind, tap)?.shown.logarithmic;
    (!histogram.packets.is_empty()).then_some(histogram)
}

fn line(name: &str, colour: &str, samples: &[Sample]) -> Value {
    let thin = decimate(samples, MOST_SAMPLES);
    json!({
        "type": "scatter", "mode": "lines", "name": name,
        "x": thin.iter().map(|(x, _)| short(*x)).collect::<Vec<_>>(),
        "y": thin.iter().map(|(_, y)| short(y / 1e6)).collect::<Vec<_>>(),
        "line": {"color": colour, "width": 1.6},
        "hovertemplate": format!("%{{y:.4~g}} Mb/s at %{{x:.2f}} s<extra>{name}</extra>"),
    })
}
