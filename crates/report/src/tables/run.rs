//! The tables of a report: throughput, latency, checks. Which figures, in which unit, in which order.

use analysis::manifest::Check;
use analysis::policy_gain::Gain;
use analysis::{CellResult, Point, Repeat, Tour};

use super::layout::{Column, Field, Mark, Table};
use crate::format::{NONE, against, optional, plain};

/// Throughput of the bulk loads; `None` if the run has none.
pub(crate) fn throughput(tour: &Tour) -> Option<Table> {
    let cells: Vec<&CellResult> = tour.cells.iter().filter(|cell| cell.bulk).collect();
    let mut columns = vec![
        Column::text("load"),
        Column::text("at"),
        Column::number("throughput", "Mb/s"),
        Column::number("of the line", "%"),
    ];
    let repeated = cells.iter().any(|cell| cell.repeats.len() > 1);
    if repeated {
        columns.push(Column::number("range", "Mb/s"));
    }
    let several = has_connections(tour);
    if several {
        columns.push(Column::number("connections", ""));
    }
    columns.extend([
        Column::number("ramp to 95 %", "s"),
        Column::number("retransmitted", "packets"),
        Column::number("queue drops", "packets"),
        Column::text("counted at"),
    ]);
    let row = |cell: &&CellResult| {
        let spread = cell.values.get("throughput");
        let mut row = vec![
            Field::new(load(cell)),
            Field::new(place(cell)),
            Field::new(optional(median(cell, "throughput", 1e-6), 1)),
            Field::new(optional(median(cell, "share_of_line", 100.0), 1)),
        ];
        if repeated {
            let range = spread.map(|s| format!("{:.1} … {:.1}", s.min / 1e6, s.max / 1e6));
            row.push(Field::new(range.unwrap_or_else(|| NONE.to_owned())));
        }
        if several {
            row.push(Field::new(optional(median(cell, "connections", 1.0), 0)));
        }
        let source = cell.repeats.iter().find_map(|r| r.source).map_or(NONE, |source| source.words());
        row.extend([
            Field::new(optional(median(cell, "ramp", 1.0), 2)),
            Field::new(optional(median(cell, "retransmitted", 1.0), 0)),
            Field::new(optional(median(cell, "dropped_queue_full", 1.0), 0)),
            Field::new(source),
        ]);
        row
    };
    (!cells.is_empty()).then(|| Table { columns, rows: cells.iter().map(row).collect() })
}

/// True if any session had several connections.
pub(crate) fn has_connections(tour: &Tour) -> bool {
    let most = |cell: &CellResult| cell.values.get("connections").map_or(0.0, |spread| spread.max);
    tour.cells.iter().any(|cell| cell.bulk && most(cell) > 1.0)
}

/// Latency of single requests; `None` without loads of single requests.
pub(crate) fn latency(tour: &Tour) -> Option<Table> {
    let asks = |cell: &&CellResult| !cell.bulk && cell.repeats.iter().any(|r| r.latency.is_some());
    let cells: Vec<&CellResult> = tour.cells.iter().filter(asks).collect();
    let columns = vec![
        Column::text("load"),
        Column::text("at"),
        Column::text("requests"),
        Column::number("IOPS", ""),
        Column::number("median", "ms"),
        Column::number("p99", "ms"),
        Column::number("largest", "ms"),
        Column::number("base RTT", "ms"),
        Column::number("turnaround", "round trips"),
        Column::number("beyond 1 RTT", "× own bytes"),
        Column::number("CPU near", "µs/IO"),
        Column::number("CPU far", "µs/IO"),
    ];
    let row = |cell: &&CellResult| {
        let ms = |name| Field::new(optional(median(cell, name, 1e3), 3));
        vec![
            Field::new(load(cell)),
            Field::new(place(cell)),
            Field::new(requests(cell)),
            Field::new(optional(median(cell, "iops", 1.0), 0)),
            ms("latency_p50"),
            ms("latency_p99"),
            ms("latency_max"),
            ms("base_rtt"),
            Field::new(optional(median(cell, "turnaround", 1.0), 2)),
            Field::new(optional(median(cell, "excess_over_rtt_in_serialisations", 1.0), 2)),
            Field::new(optional(median(cell, "cpu_near_per_io", 1e6), 1)),
            Field::new(optional(median(cell, "cpu_far_per_io", 1e6), 1)),
        ]
    };
    (!cells.is_empty()).then(|| Table { columns, rows: cells.iter().map(row).collect() })
}

/// Gain of the policies; `None` if the run compares none.
pub(crate) fn gains(tour: &Tour) -> Option<Table> {
    let gains = analysis::policy_gain::gains(&tour.cells);
    let columns = vec![
        Column::text("load"),
        Column::text("at"),
        Column::text("policy"),
        Column::number("throughput", "Mb/s"),
        Column::number("counted over", "MB"),
        Column::number("against none", "%"),
        Column::number("from its start", "%"),
        Column::number("the study had", "%"),
        Column::number("cuts by the device", ""),
    ];
    let percent = |share: Option<f64>| {
        Field::new(share.map_or(NONE.to_owned(), |share| format!("{:+.1}", share * 100.0)))
    };
    let row = |gain: &Gain| {
        vec![
            Field::new(marked(&gain.load, gain.unvalidated)),
            Field::new(words(&gain.point)),
            Field::new(&gain.policy),
            Field::new(optional(Some(gain.bits_per_s * 1e-6), 1)),
            Field::new(optional(gain.counted_bytes.map(|bytes| bytes * 1e-6), 0)),
            percent(gain.gain),
            percent(gain.gain_from_start),
            percent(gain.published),
            Field::new(optional(gain.local_cuts, 0)),
        ]
    };
    (!gains.is_empty()).then(|| Table { columns, rows: gains.iter().map(row).collect() })
}

/// Throughput of each of several initiators; `None` if every cell had one.
pub(crate) fn initiators(tour: &Tour) -> Option<Table> {
    let several = |repeat: &&Repeat| repeat.valid && repeat.initiators.len() > 1;
    let cells: Vec<(&CellResult, &Repeat)> =
        tour.cells.iter().filter_map(|cell| Some((cell, cell.repeats.iter().find(several)?))).collect();
    let columns = vec![
        Column::text("load"),
        Column::text("at"),
        Column::number("all", "Mb/s"),
        Column::number("each", "Mb/s"),
        Column::number("Jain's index", ""),
        Column::number("cuts by the device", "per connection"),
    ];
    let row = |(cell, repeat): &(&CellResult, &Repeat)| {
        let value = |name: &str| repeat.values.get(name).copied();
        let list = |items: &mut dyn Iterator<Item = String>| items.collect::<Vec<_>>().join(", ");
        let senders = || repeat.connections.iter().filter(|connection| connection.sent_bytes > 0);
        vec![
            Field::new(load(cell)),
            Field::new(place(cell)),
            Field::new(optional(value("throughput").map(|rate| rate * 1e-6), 1)),
            Field::new(list(&mut repeat.initiators.iter().map(|rate| format!("{:.1}", rate * 1e-6)))),
            Field::new(optional(value("fairness"), 4)),
            Field::new(list(&mut senders().map(|connection| connection.cuts.local.to_string()))),
        ]
    };
    (!cells.is_empty()).then(|| Table { columns, rows: cells.iter().map(row).collect() })
}

/// The plan's expectations; `None` if it has none.
pub(crate) fn checks(tour: &Tour) -> Option<Table> {
    let columns = vec![
        Column::text(""),
        Column::text("check"),
        Column::number("found", ""),
        Column::number("expected", ""),
        Column::text("unit"),
    ];
    let row = |check: &Check| {
        let (mark, (found, expected)) = match check.value {
            Some(value) => (Mark::of(check.ok), against(value, check.bound)),
            None => (Mark::Open, ("not measured".to_owned(), plain(check.bound))),
        };
        vec![
            Field::mark(mark),
            Field::new(&check.name),
            Field::new(found),
            Field::new(format!("{} {expected}", symbol(check))),
            Field::new(&check.unit),
        ]
    };
    let checks = &tour.run.checks;
    (!checks.is_empty()).then(|| Table { columns, rows: checks.iter().map(row).collect() })
}

/// The load of a cell as it is shown.
pub(crate) fn load(cell: &CellResult) -> String {
    marked(&cell.load, cell.is_unvalidated())
}

/// A load, and that nothing judged the path that its figures are of.
pub(crate) fn marked(load: &str, is_unvalidated: bool) -> String {
    if is_unvalidated { format!("{load} (unvalidated)") } else { load.to_owned() }
}

/// Point of a cell in the matrix, in words: `delay 8ms`.
pub(crate) fn place(cell: &CellResult) -> String {
    words(&cell.point)
}

/// A place in a plan's matrix.
pub(crate) fn words(point: &Point) -> String {
    point.iter().map(|(axis, value)| format!("{axis} {value}")).collect::<Vec<_>>().join(", ")
}

fn median(cell: &CellResult, name: &str, scale: f64) -> Option<f64> {
    cell.values.get(name).map(|spread| spread.median * scale)
}

/// Requests of a cell: `4KiB read × 32`.
fn requests(cell: &CellResult) -> String {
    let block = cell.block_bytes.map(|bytes| format!("{} ", event::Bytes(bytes))).unwrap_or_default();
    let depth = cell.depth.map(|depth| format!(" × {depth}")).unwrap_or_default();
    format!("{block}{}{depth}", cell.op)
}

fn symbol(check: &Check) -> &'static str {
    match check.op.symbol() {
        ">=" => "≥",
        "<=" => "≤",
        "==" => "=",
        other => other,
    }
}
