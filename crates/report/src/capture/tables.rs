//! The tables of a capture.

use analysis::capture::DiagnosedConnection;
use dissect::{DirectionSummary, Durations};

use super::verdict;
use crate::format::{fixed, optional};
use crate::tables::layout::{Column, Field, Table};

/// All tables with rows, the verdict first.
pub(super) fn all(shown: &[(usize, DiagnosedConnection<'_>)]) -> Vec<Table> {
    verdict::table(shown).into_iter().chain(further(shown)).collect()
}

/// All tables but the verdict.
pub(super) fn further(shown: &[(usize, DiagnosedConnection<'_>)]) -> impl Iterator<Item = Table> {
    [connections(shown), retransmissions(shown), commands(shown), time(shown)].into_iter().flatten()
}

fn connections(shown: &[(usize, DiagnosedConnection<'_>)]) -> Option<Table> {
    let columns = vec![
        Column::number("nr", ""),
        Column::text("from"),
        Column::text("to"),
        Column::number("packets", ""),
        Column::number("data", "MB"),
        Column::number("RTT min", "ms"),
        Column::number("p50", "ms"),
        Column::number("in flight max", "kB"),
        Column::number("sent again", ""),
        Column::number("zero windows", ""),
        Column::number("tinygrams", ""),
        Column::number("stalls", ""),
    ];
    let row = |number: usize, direction: &DirectionSummary| {
        let ms = |pick: fn(&Durations) -> f64| direction.ack_rtt.as_ref().map(|rtt| pick(rtt) * 1e3);
        vec![
            Field::new(number.to_string()),
            Field::new(&direction.from),
            Field::new(&direction.to),
            count(direction.packets),
            Field::new(fixed(direction.payload_bytes as f64 / 1e6, 3)),
            Field::new(optional(ms(|rtt| rtt.min_s), 3)),
            Field::new(optional(ms(|rtt| rtt.p50_s), 3)),
            Field::new(fixed(direction.flight_max_bytes as f64 / 1e3, 1)),
            count(direction.retransmissions),
            count(direction.zero_windows),
            count(direction.tinygrams),
            count(direction.nagle_stalls),
        ]
    };
    let both = |(number, connection): &(usize, DiagnosedConnection<'_>)| {
        let number = *number;
        connection.summary.directions.iter().map(|direction| row(number, direction)).collect::<Vec<_>>()
    };
    let rows: Vec<_> = shown.iter().flat_map(both).collect();
    (!rows.is_empty()).then_some(Table { columns, rows })
}

fn retransmissions(shown: &[(usize, DiagnosedConnection<'_>)]) -> Option<Table> {
    let columns = vec![
        Column::number("nr", ""),
        Column::text("from"),
        Column::number("fast", ""),
        Column::number("timeout", ""),
        Column::number("spurious", ""),
        Column::number("local", ""),
        Column::number("unseen", ""),
        Column::number("out of order", ""),
        Column::number("keep-alives", ""),
        Column::number("window probes", ""),
    ];
    let mut rows = Vec::new();
    for (number, connection) in shown {
        for direction in &connection.summary.directions {
            let kinds = &direction.kinds;
            let numbers = [
                kinds.fast,
                kinds.timeout,
                kinds.spurious,
                kinds.local,
                kinds.unseen,
                kinds.out_of_order,
                kinds.keep_alive,
                kinds.window_probe,
            ];
            if numbers.iter().any(|number| *number > 0) {
                let mut row = vec![Field::new(number.to_string()), Field::new(&direction.from)];
                row.extend(numbers.map(count));
                rows.push(row);
            }
        }
    }
    (!rows.is_empty()).then_some(Table { columns, rows })
}

fn commands(shown: &[(usize, DiagnosedConnection<'_>)]) -> Option<Table> {
    let columns = vec![
        Column::number("nr", ""),
        Column::text("commands"),
        Column::number("completed", ""),
        Column::number("min", "ms"),
        Column::number("p50", "ms"),
        Column::number("p99", "ms"),
        Column::number("max", "ms"),
    ];
    let mut rows = Vec::new();
    for (number, iscsi) in shown.iter().filter_map(|(number, c)| Some((number, c.summary.iscsi.as_ref()?))) {
        let told = &iscsi.commands;
        for (name, service) in
            [("reads", told.read_service), ("writes", told.write_service), ("others", told.other_service)]
        {
            let Some(service) = service else { continue };
            let mut row = vec![Field::new(number.to_string()), Field::new(name), count(service.count)];
            let times = [service.min_s, service.p50_s, service.p99_s, service.max_s];
            row.extend(times.map(|s| Field::new(fixed(s * 1e3, 3))));
            rows.push(row);
        }
    }
    (!rows.is_empty()).then_some(Table { columns, rows })
}

/// Breakdown of the time.
fn time(shown: &[(usize, DiagnosedConnection<'_>)]) -> Option<Table> {
    let columns = vec![
        Column::number("nr", ""),
        Column::number("of", "s"),
        Column::number("not known", "s"),
        Column::number("no command", "s"),
        Column::number("on the way", "s"),
        Column::number("R2T", "s"),
        Column::number("command window", "s"),
        Column::number("target", "s"),
        Column::number("initiator", "s"),
        Column::number("refused", "s"),
        Column::number("sending", "s"),
        Column::number("receive window", "s"),
        Column::number("again", "s"),
    ];
    let row = |(number, connection): &(usize, DiagnosedConnection<'_>)| {
        let time = connection.summary.iscsi.as_ref()?.time?;
        let parts = [
            time.length_s,
            time.unseen_s,
            time.idle_s,
            time.way_s,
            time.r2t_s,
            time.closed_s,
            time.target_s,
            time.initiator_s,
            time.refused_s,
            time.sending_s,
            time.receive_window_s,
            time.recovery_s,
        ];
        let mut row = vec![Field::new(number.to_string())];
        row.extend(parts.map(|s| Field::new(fixed(s, 3))));
        Some(row)
    };
    let rows: Vec<_> = shown.iter().filter_map(row).collect();
    (!rows.is_empty()).then_some(Table { columns, rows })
}

fn count(number: u64) -> Field {
    Field::new(fixed(number as f64, 0))
}
