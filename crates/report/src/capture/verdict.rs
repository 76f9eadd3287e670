//! Limiters of the connections of a capture: a table of verdicts; details in the form of the doctor's.

use analysis::capture::DiagnosedConnection;
use diagnosis::{Certainty, Verdict};

use crate::doctor;
use crate::format::{percents, plain};
use crate::tables::layout::{Colour, Column, Field, Table};

/// Verdicts of a connection that have a row.
const ROWS: usize = 3;

/// Main limiters of every connection.
pub(super) fn table(shown: &[(usize, DiagnosedConnection<'_>)]) -> Option<Table> {
    let columns = vec![
        Column::number("nr", ""),
        Column::text("limited by"),
        Column::number("of the time", "%"),
        Column::number("now", "MB/s"),
        Column::number("without it", "MB/s"),
        Column::text("then by"),
    ];
    let mut rows = Vec::new();
    for (number, diagnosis) in shown.iter().filter_map(|(n, c)| Some((n, c.diagnosis?))) {
        for verdict in diagnosis.verdicts.iter().take(ROWS) {
            let Verdict { limiter, share, predicted, certainty, next, .. } = verdict;
            let without = plain(predicted.bytes_per_s / 1e6);
            let without = match certainty {
                Certainty::Figure => without,
                Certainty::AtLeast => format!("≥ {without}"),
                Certainty::Unknown => "–".to_owned(),
            };
            rows.push(vec![
                Field::new(number.to_string()),
                Field::new(limiter.label()),
                Field::new(percents(*share)),
                Field::new(plain(diagnosis.current.bytes_per_s / 1e6)),
                Field::new(without),
                Field::new(if *limiter == *next || limiter.is_final() { "" } else { next.title() }),
            ]);
        }
    }
    (!rows.is_empty()).then_some(Table { columns, rows })
}

/// Diagnosis of the busiest connection, with evidence and remedies.
pub(super) fn text(shown: &[(usize, DiagnosedConnection<'_>)], colour: Colour) -> Option<String> {
    let mut diagnosed = shown.iter().filter_map(|(n, connection)| Some((n, connection.diagnosis?)));
    let (number, first) = diagnosed.next()?;
    let mut out = doctor::text(first, &format!("connection {number}"), colour);
    let others = diagnosed.count();
    if others > 0 {
        out.push_str("\nWhat shows the verdicts on the others is on the page of --out, and in --json.\n");
    }
    Some(out)
}

/// Verdicts of every connection for the page.
pub(super) fn html(shown: &[(usize, DiagnosedConnection<'_>)]) -> String {
    let details = |(number, connection): &(usize, DiagnosedConnection<'_>)| {
        let [first, second] = &connection.summary.directions;
        let place = format!("{} – {}", first.from, second.from);
        Some(doctor::details(&format!("connection {number}"), &place, connection.diagnosis?))
    };
    shown.iter().filter_map(details).collect()
}
