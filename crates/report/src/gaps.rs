//! The gaps between packets: sentences about their patterns, a table, and the figures.

use std::fmt::Write;

use analysis::Sample;
use analysis::gaps::capture::{Busiest, Found};
use analysis::gaps::{Band, Cause, Compression, Gaps, Histogram, Kind, Pattern, Shown, Tap, TapGaps};
use serde_json::{Value, json};

use crate::figures::figure::{Figure, short};
use crate::figures::histogram::steps;
use crate::figures::line_style::Key;
use crate::format::{NONE, duration, fixed, percent};
use crate::tables::layout::{Column, Field, Table};

/// The taps that are drawn, with their colours: a third one differs from the second only if the emulator was late.
const DRAWN: [(Tap, &str, &str); 2] =
    [(Tap::Sent, "sent", "var(--other-5)"), (Tap::Received, "received", "var(--other-6)")];

/// Drawn gap of simultaneous packets: a logarithmic axis has no zero.
const LEAST_US: f64 = 0.1;

/// Sentences about the gaps: one for each cause, and one for ACK compression.
pub(crate) fn sentences(gaps: &Gaps) -> Vec<String> {
    let mut said = Vec::new();
    for gaps in &gaps.taps {
        for band in gaps.bands.iter().filter(|band| band.new) {
            said.push(sentence(gaps, band));
        }
    }
    if said.is_empty() {
        said.push("nothing is regular in the gaps between packets".to_owned());
    }
    said.extend(gaps.compression.map(|found| compression(&found)));
    said
}

fn sentence(gaps: &TapGaps, band: &Band) -> String {
    let (kind, place) = (gaps.kind.name(), place(gaps.tap));
    let period = duration(band.period_s);
    match band.cause {
        Some(Cause::Serialisation) => format!(
            "{kind} {place}: {} of the gaps are one packet's time, {period}: a line that is never idle",
            percent(band.share)
        ),
        Some(Cause::TimerTick) => {
            format!("{kind} {place}: on the multiples of {period}: a host that acts when its timer ticks")
        }
        Some(Cause::Coalescing) => format!(
            "{kind} {place}: in groups, {period} apart at least: a card that holds its interrupts back \
             (interrupt coalescing)"
        ),
        Some(Cause::AckMerging) => format!(
            "{kind} {place}: on a lattice of {period} that their sender did not make: a line that packs small \
             frames together"
        ),
        Some(Cause::Emulator) => {
            format!(
                "{kind} {place}: regular with {period} because the emulator was late; no property of the path"
            )
        }
        None => match band.pattern {
            Pattern::Spacing => format!("{kind} {place}: evenly spaced, {period}, by their sender"),
            Pattern::Lattice => {
                format!("{kind} {place}: on the multiples of {period}, of no cause that is known")
            }
            Pattern::Groups => {
                format!("{kind} {place}: in groups, {period} apart at least, as their sender made them")
            }
        },
    }
}

/// Connection of a capture's gaps, and the analysed part of it; `None` if there were too few packets.
pub(crate) fn whose(found: &Found) -> Option<String> {
    let Busiest { from, to, data_packets, looked_at, two_taps } = &found.of;
    let (all, kept) = (fixed(*data_packets as f64, 0), fixed(*looked_at as f64, 0));
    if found.gaps.is_none() {
        let said = || {
            format!(
                "nothing is said of gaps: {from} sent most, {all} packets with data to {to}, of which {kept} were kept"
            )
        };
        return (looked_at < data_packets).then(said);
    }
    let taps = if *two_taps { ", between two taps" } else { "" };
    let part = if looked_at < data_packets { format!(": the first {kept} of {all}") } else { String::new() };
    Some(format!(
        "gaps between the packets with data from {from} to {to}, and what acknowledges them{taps}{part}"
    ))
}

fn place(tap: Tap) -> &'static str {
    match tap {
        Tap::Sent => "as sent",
        Tap::Due => "behind the path",
        Tap::Received => "as received",
    }
}

fn compression(found: &Compression) -> String {
    if found.runs == 0 {
        return "no acknowledgements were pressed together on their way".to_owned();
    }
    let mut said = format!(
        "{} of the acknowledgements came pressed together, {} in a row on average (at most {})",
        percent(found.in_runs),
        fixed(found.acks_per_run, 1),
        found.acks_per_run_max,
    );
    if let Some(bursts) = found.bursts {
        let (sent, acked) = (fixed(bursts.sent_bytes / 1e3, 1), fixed(bursts.acked_bytes / 1e3, 1));
        let _ = write!(said, "; {sent} kB are sent behind such a row, which acknowledges {acked} kB");
        if let Some(correlation) = bursts.correlation {
            let _ = write!(said, " (correlation {})", fixed(correlation, 2));
        }
    }
    said
}

/// Table of the gaps: data and acknowledgements at every tap.
pub(crate) fn table(gaps: &Gaps) -> Table {
    let columns = vec![
        Column::text("packets"),
        Column::text("tap"),
        Column::number("number", ""),
        Column::number("together", "%"),
        Column::number("mean", "µs"),
        Column::number("p50", "µs"),
        Column::number("p99", "µs"),
        Column::text("regular"),
    ];
    let row = |gaps: &TapGaps| {
        let us = |s: f64| Field::new(fixed(s * 1e6, 2));
        let bands: Vec<String> = gaps.bands.iter().map(band).collect();
        vec![
            Field::new(gaps.kind.name()),
            Field::new(gaps.tap.name()),
            Field::new(fixed(gaps.packets as f64, 0)),
            Field::new(fixed(gaps.zero_share * 100.0, 1)),
            us(gaps.mean_s),
            us(gaps.p50_s),
            us(gaps.p99_s),
            Field::new(if bands.is_empty() { NONE.to_owned() } else { bands.join("; ") }),
        ]
    };
    Table { columns, rows: gaps.taps.iter().map(row).collect() }
}

fn band(band: &Band) -> String {
    let pattern = match band.pattern {
        Pattern::Spacing => "spacing",
        Pattern::Lattice => "lattice",
        Pattern::Groups => "groups",
    };
    let cause = match band.cause {
        Some(Cause::Serialisation) => ", serialisation",
        Some(Cause::TimerTick) => ", timer tick",
        Some(Cause::Coalescing) => ", interrupt coalescing",
        Some(Cause::AckMerging) => ", ACK merging",
        Some(Cause::Emulator) => ", late emulator",
        None => "",
    };
    let old = if band.new { "" } else { " (carried along)" };
    format!("{pattern} {}{cause}{old}", duration(band.period_s))
}

/// Gap against time, over the load and over the window, a zoom into that, and both histograms, for data and for
/// acknowledgements.
pub(crate) fn figures(n: usize, gaps: &Gaps) -> Vec<Figure> {
    let mut figures = Vec::new();
    for kind in [Kind::Data, Kind::Acks] {
        let lines: Vec<(&'static str, &'static str, &Shown)> = DRAWN
            .iter()
            .filter_map(|(tap, name, colour)| Some((*name, *colour, &gaps.at(kind, *tap)?.shown)))
            .filter(|(_, _, shown)| !shown.points.is_empty())
            .collect();
        if lines.is_empty() {
            continue;
        }
        let id =
            |what: &str| format!("fig-gaps-{n}-{}-{what}", if kind == Kind::Data { "data" } else { "acks" });
        let title = |what: &str| format!("{}: {what}", if kind == Kind::Data { "Data" } else { "ACKs" });
        let dots = |pick: fn(&Shown) -> &[Sample], least_us: f64| {
            let drawn = lines.iter().map(|(name, colour, shown)| points(name, colour, pick(shown), least_us));
            drawn.collect::<Vec<_>>()
        };
        let bars = |pick: fn(&Shown) -> &Histogram| {
            lines.iter().map(|(name, colour, shown)| steps(name, colour, pick(shown))).collect::<Vec<_>>()
        };
        let axes = |x: Value, y: Value| json!({"xaxis": x, "yaxis": y, "showlegend": false, "margin": {"l": 8, "r": 12, "t": 10, "b": 8}});
        let legend = lines.iter().map(|(name, colour, _)| Key::solid(name, colour)).collect::<Vec<_>>();
        let time = |text: &str| json!({"title": {"text": text}});
        let log = |text: &str| json!({"title": {"text": text}, "type": "log"});
        let figure = |what: &str, words: &str, traces, layout| Figure {
            id: id(what),
            title: title(words),
            traces,
            layout,
            legend: legend.clone(),
        };
        if lines.iter().any(|(_, _, shown)| !shown.whole.is_empty()) {
            figures.push(figure(
                "whole",
                "gap against time, the whole load",
                dots(|shown| &shown.whole, LEAST_US),
                axes(time("since the beginning, s"), log("gap, µs")),
            ));
        }
        figures.push(figure(
            "time",
            "gap against time",
            dots(|shown| &shown.points, LEAST_US),
            axes(time("since the beginning, s"), log("gap, µs")),
        ));
        figures.push(figure(
            "zoom",
            "four milliseconds of it",
            dots(|shown| &shown.zoom, 0.0),
            axes(
                time("since the first of them, s"),
                json!({"title": {"text": "gap, µs"}, "rangemode": "tozero"}),
            ),
        ));
        figures.push(figure(
            "linear",
            "packets by gap",
            bars(|shown| &shown.linear),
            axes(time("gap, µs"), log("packets")),
        ));
        figures.push(figure(
            "log",
            "packets by gap, logarithmic",
            bars(|shown| &shown.logarithmic),
            axes(log("gap, µs"), log("packets")),
        ));
    }
    figures
}

fn points(name: &str, colour: &str, samples: &[Sample], least_us: f64) -> Value {
    let x: Vec<f64> = samples.iter().map(|(x, _)| (x * 1e7).round() / 1e7).collect();
    let y: Vec<f64> = samples.iter().map(|(_, y)| short((y * 1e6).max(least_us))).collect();
    json!({
        "type": "scatter", "mode": "markers", "name": name, "x": x, "y": y,
        "marker": {"color": colour, "size": 2.5, "opacity": 0.6},
        "hovertemplate": format!("%{{y:.4~g}} µs at %{{x:.6f}} s<extra>{name}</extra>"),
    })
}
