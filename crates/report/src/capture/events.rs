//! Events of a capture as a table.

use analysis::capture::{CaptureEvent, DiagnosedCapture};
use dissect::ConnectionEvent;

use crate::format::fixed;
use crate::tables::layout::{Column, Field, Table};

/// Kinds that are shown; `--json` has all of them.
const SHOWN: usize = 40;

/// All events, the first one first; `None` without any.
pub(super) fn table(capture: &DiagnosedCapture) -> Option<Table> {
    let columns = vec![
        Column::text("event"),
        Column::text("of"),
        Column::number("count", ""),
        Column::number("connections", ""),
        Column::number("first", "s"),
        Column::number("last", "s"),
        Column::text("for example"),
        Column::text("commands outstanding"),
    ];
    let rows: Vec<_> = capture.events().iter().take(SHOWN).map(row).collect();
    (!rows.is_empty()).then_some(Table { columns, rows })
}

/// Sentence about kinds without a row.
pub(super) fn beyond(capture: &DiagnosedCapture) -> Option<String> {
    let rest = capture.events().len().checked_sub(SHOWN).filter(|rest| *rest > 0)?;
    Some(format!("{rest} more kinds of events are not shown: --json has all of them"))
}

fn row(event: &CaptureEvent) -> Vec<Field> {
    let CaptureEvent { side, count, connections, first_s, last_s, example, outstanding, .. } = event;
    let number = |number: u64| Field::new(fixed(number as f64, 0));
    let outstanding = outstanding.map_or_else(String::new, |at| {
        format!("{} to {}, {} on average", at.least, at.most, fixed(at.mean, 1))
    });
    vec![
        Field::new(name(event)),
        Field::new(side.map_or_else(|| example.from.clone(), str::to_owned)),
        number(*count),
        number(*connections),
        Field::new(fixed(*first_s, 6)),
        Field::new(fixed(*last_s, 6)),
        Field::new(format!("connection {}, packet {}", example.connection, example.packet)),
        Field::new(outstanding),
    ]
}

/// Name of an event with its address.
fn name(event: &CaptureEvent) -> String {
    match (event.event, &event.address) {
        (ConnectionEvent::Redirect { .. }, Some(address)) => format!("{}, to {address}", event.name),
        (ConnectionEvent::Redirect { .. }, None) => format!("{}, address not captured", event.name),
        (_, Some(address)) => format!("{}, from {address}", event.name),
        (_, None) => event.name.clone(),
    }
}
