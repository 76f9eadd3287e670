//! The steps of a load as a table for a terminal. Nothing is judged here.

use diagnosis::steps::{StepEnd, StepObservation, StepRole};

use crate::format::{duration, plain};
use crate::tables::layout::{Colour, Column, Field, Table};

/// Every step of one measurement, in order.
pub fn text(steps: &[StepObservation], colour: Colour) -> String {
    if steps.is_empty() {
        return String::new();
    }
    let columns = vec![
        Column::text("step"),
        Column::number("sessions", ""),
        Column::number("outstanding", ""),
        Column::number("request", "KiB"),
        Column::number("rate", "MB/s"),
        Column::text("latency"),
        Column::text("round trip"),
        Column::text(""),
    ];
    let row = |step: &StepObservation| {
        vec![
            Field::new(role(step.load.role)),
            Field::new(step.load.sessions.to_string()),
            Field::new(plain(step.outstanding())),
            Field::new(plain(step.load.request_bytes as f64 / 1024.0)),
            Field::new(plain(step.facts.current.bytes_per_s / 1e6)),
            Field::new(duration(step.latency_s())),
            Field::new(step.facts.path.loaded_rtt_s.map_or_else(String::new, duration)),
            Field::new(end(step.end)),
        ]
    };
    let table = Table { columns, rows: steps.iter().map(row).collect() };
    table.text(colour).replace('\u{202f}', " ")
}

const fn role(role: StepRole) -> &'static str {
    match role {
        StepRole::Low => "one at a time",
        StepRole::Nominal => "nominal load",
        StepRole::Fewer => "fewer outstanding",
        StepRole::More => "more outstanding",
        StepRole::Spread => "more sessions",
        StepRole::Longer => "longer requests",
    }
}

const fn end(end: StepEnd) -> &'static str {
    match end {
        StepEnd::Whole => "",
        StepEnd::Slow => "ended: requests became slow",
        StepEnd::Refused => "ended: the target has no room",
    }
}
