//! What limits the connections of a capture.

use analysis::capture::Connection;
use analysis::doctor::{Evidence, Limiter, Verdict};

use crate::format::{duration, fixed, percent, plain};
use crate::table::{Column, Field, Table};

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
                Field::new(fixed(share * 100.0, 0)),
                Field::new(plain(diagnosis.current.bytes_per_s / 1e6)),
                Field::new(plain(predicted.bytes_per_s / 1e6)),
                Field::new(if limiter.is_final() { "" } else { next.name() }),
            ]);
        }
    }
    (!rows.is_empty()).then_some(Table { columns, rows })
}

/// What shows it, and what cannot be known.
pub(super) fn sentences(connection: &Connection) -> Vec<String> {
    let Some(diagnosis) = &connection.diagnosis else { return Vec::new() };
    let mut said = Vec::new();
    for Verdict { limiter, share, evidence, .. } in diagnosis.verdicts.iter().take(ROWS) {
        let shown: Vec<String> = evidence.iter().map(number).collect();
        let because = if shown.is_empty() { String::new() } else { format!(": {}", shown.join("; ")) };
        said.push(format!("{}, {} of the time{because}", limiter.title(), percent(*share)));
    }
    let finals = |limiter: &Limiter| limiter.is_final();
    if diagnosis.first().is_some_and(|verdict| finals(&verdict.limiter)) {
        said.push("nothing below it is to be gained at this depth on this path".to_owned());
    }
    said.extend(diagnosis.cannot_know.iter().map(|what| format!("cannot be known from here: {what}")));
    said
}

fn number(evidence: &Evidence) -> String {
    let Evidence { what, value, unit, .. } = evidence;
    let value = match *unit {
        "s" => duration(*value),
        "bytes" => format!("{}\u{202f}kB", plain(value / 1e3)),
        "bytes/s" => format!("{}\u{202f}MB/s", plain(value / 1e6)),
        _ => plain(*value),
    };
    format!("{what} {value}")
}
