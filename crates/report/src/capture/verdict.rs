//! What limits the connections of a capture: a row for each verdict here, everything else as the doctor says it.

use analysis::capture::Connection;
use analysis::doctor::Verdict;

use crate::doctor;
use crate::format::{percents, plain};
use crate::table::{Colour, Column, Field, Table};

/// Verdicts of a connection that have a row.
const ROWS: usize = 3;

/// What limits most, of every connection.
pub(super) fn table(shown: &[(usize, &Connection)]) -> Option<Table> {
    let columns = vec![
        Column::number("nr", ""),
        Column::text("limited by"),
        Column::number("of the time", "%"),
        Column::number("now", "MB/s"),
        Column::number("without it", "MB/s"),
        Column::text("then by"),
    ];
    let mut rows = Vec::new();
    for (number, diagnosis) in shown.iter().filter_map(|(n, c)| Some((n, c.diagnosis.as_ref()?))) {
        for verdict in diagnosis.verdicts.iter().take(ROWS) {
            let Verdict { limiter, share, predicted, next, .. } = verdict;
            rows.push(vec![
                Field::new(number.to_string()),
                Field::new(limiter.title()),
                Field::new(percents(*share)),
                Field::new(plain(diagnosis.current.bytes_per_s / 1e6)),
                Field::new(plain(predicted.bytes_per_s / 1e6)),
                Field::new(if limiter.is_final() { "" } else { next.name() }),
            ]);
        }
    }
    (!rows.is_empty()).then_some(Table { columns, rows })
}

/// What limits the connection that carries most, with what shows it and what to change.
pub(super) fn text(shown: &[(usize, &Connection)], colour: Colour) -> Option<String> {
    let mut diagnosed = shown.iter().filter_map(|(n, connection)| Some((n, connection.diagnosis.as_ref()?)));
    let (number, first) = diagnosed.next()?;
    let mut out = doctor::text(first, &format!("connection {number}"), colour);
    let others = diagnosed.count();
    if others > 0 {
        out.push_str("\nWhat shows the verdicts on the others is on the page of --out, and in --json.\n");
    }
    Some(out)
}

/// The same of every connection, for the page.
pub(super) fn html(shown: &[(usize, &Connection)]) -> String {
    let details = |(number, connection): &(usize, &Connection)| {
        let [first, second] = &connection.directions;
        let place = format!("{} – {}", first.from, second.from);
        Some(doctor::details(&format!("connection {number}"), &place, connection.diagnosis.as_ref()?))
    };
    shown.iter().filter_map(details).collect()
}
