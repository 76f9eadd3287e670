//! What a capture holds, for the terminal: connections, commands, what else is known of them.

use std::fmt::Write;

use analysis::capture::{Capture, Connection, Direction, Durations, Iscsi};

use crate::format::{NONE, duration, fixed, optional, percent};
use crate::table::{Colour, Column, Field, Table, paint};

/// Connections that are shown; `--json` has all of them.
const SHOWN: usize = 16;

/// A whole capture.
pub fn capture(capture: &Capture, colour: Colour) -> String {
    let mut shown: Vec<(usize, &Connection)> = (1..).zip(&capture.connections).collect();
    shown.sort_by_key(|(_, connection)| (connection.iscsi.is_none(), std::cmp::Reverse(payload(connection))));
    shown.truncate(SHOWN);
    let mut out = format!("{}\n", paint(&headline(capture), "1", colour));
    for sentence in reservations(capture) {
        let _ = writeln!(out, "{sentence}");
    }
    for table in [connections(&shown), retransmissions(&shown), commands(&shown)].into_iter().flatten() {
        let _ = write!(out, "\n{}", table.text(colour));
    }
    for (number, connection) in &shown {
        for sentence in sentences(connection) {
            let _ = write!(out, "\n{number}: {sentence}");
        }
    }
    if capture.connections.len() > SHOWN {
        let rest = capture.connections.len() - SHOWN;
        let _ = write!(out, "\n{rest} more connections are not shown: --json has all of them");
    }
    // Narrow gaps do not line up in every terminal's font.
    out.replace('\u{202f}', " ")
}

fn payload(connection: &Connection) -> u64 {
    connection.directions.iter().map(|direction| direction.payload_bytes).sum()
}

fn headline(capture: &Capture) -> String {
    let iscsi = capture.connections.iter().filter(|connection| connection.iscsi.is_some()).count();
    format!(
        "{} packets in {}: {} TCP connections, {iscsi} of them iSCSI",
        fixed(capture.packets as f64, 0),
        duration(capture.length_s),
        capture.connections.len()
    )
}

/// What the figures below it may not be trusted with.
fn reservations(capture: &Capture) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(cut) = &capture.cut {
        said.push(format!("read up to a cut: {cut}"));
    }
    if capture.dropped > 0 {
        said.push(format!("the capturing host lost {} packets", fixed(capture.dropped as f64, 0)));
    }
    if capture.beyond_packets > 0 {
        let packets = fixed(capture.beyond_packets as f64, 0);
        said.push(format!("{packets} packets belong to connections beyond those that are followed at once"));
    }
    said
}

fn connections(shown: &[(usize, &Connection)]) -> Option<Table> {
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
    let row = |number: usize, direction: &Direction| {
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
    let both = |(number, connection): &(usize, &Connection)| {
        let number = *number;
        connection.directions.iter().map(|direction| row(number, direction)).collect::<Vec<_>>()
    };
    let rows: Vec<_> = shown.iter().flat_map(both).collect();
    (!rows.is_empty()).then_some(Table { columns, rows })
}

fn retransmissions(shown: &[(usize, &Connection)]) -> Option<Table> {
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
        for direction in &connection.directions {
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

fn commands(shown: &[(usize, &Connection)]) -> Option<Table> {
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
    for (number, iscsi) in shown.iter().filter_map(|(number, c)| Some((number, c.iscsi.as_ref()?))) {
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

/// What has no table of its own.
fn sentences(connection: &Connection) -> Vec<String> {
    let mut said = Vec::new();
    if connection.idle_gaps > 0 {
        let (gaps, sum) = (connection.idle_gaps, duration(connection.idle_s));
        said.push(format!("{gaps} idle gaps of more than 200 ms, {sum} together"));
    }
    for direction in &connection.directions {
        if direction.nagle_stalls > 0 {
            let (stalls, sum) = (direction.nagle_stalls, duration(direction.nagle_stall_s));
            let from = &direction.from;
            said.push(format!("{from} waited {stalls} times for a delayed acknowledgement, {sum} together"));
        }
    }
    if let Some(iscsi) = &connection.iscsi {
        said.extend(of_iscsi(iscsi));
    }
    said
}

fn of_iscsi(iscsi: &Iscsi) -> Vec<String> {
    let mut said = Vec::new();
    let told = &iscsi.commands;
    let digest = |on: Option<bool>| match on {
        Some(true) => "CRC32C",
        Some(false) => "none",
        None => "not known",
    };
    said.push(format!(
        "{} commands, {} with their status; digests of headers: {}, of data: {}",
        told.sent,
        told.completed,
        digest(iscsi.header_digest),
        digest(iscsi.data_digest)
    ));
    if let (Some(level), Some(bytes)) = (told.in_flight, told.bytes_in_flight) {
        said.push(format!(
            "commands in flight: {} on average, {} at most ({} kB, {} kB)",
            fixed(level.mean, 2),
            level.max,
            fixed(bytes.mean / 1e3, 1),
            fixed(bytes.max as f64 / 1e3, 1)
        ));
    }
    if let Some(window) = iscsi.window {
        said.push(format!(
            "command window: up to {}, at least {} left, closed {} times, {} of the time",
            window.largest,
            window.least_open,
            window.closed,
            percent(window.closed_share)
        ));
    }
    if let Some(r2ts) = told.r2ts_per_write.filter(|r2ts| r2ts.max > 0) {
        said.push(format!("R2Ts per write: {} on average, {} at most", fixed(r2ts.mean, 2), r2ts.max));
    }
    let time = |s: Option<f64>| s.map_or_else(|| NONE.to_owned(), duration);
    said.push(format!(
        "to the first answer: network {}, target {}; from an R2T to its data: network {}, initiator {}",
        time(iscsi.network_to_target_s),
        time(iscsi.target_s),
        time(iscsi.network_to_initiator_s),
        time(iscsi.initiator_s)
    ));
    for (framing, name) in iscsi.framing.iter().zip(["initiator", "target"]) {
        if framing.inferred > 0 || framing.lost_bytes > 0 {
            said.push(format!(
                "the {name}'s PDUs: {}, of which {} are inferred ({} of those refuted); {} of the bytes in none",
                framing.pdus,
                framing.inferred,
                framing.refuted,
                percent(framing.lost_share)
            ));
        }
    }
    said
}

fn count(number: u64) -> Field {
    Field::new(fixed(number as f64, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_capture_says_what_it_is() {
        let mut empty = analysis::capture::Analyzer::new().finish(3, Some("at byte 5: why".to_owned()));
        let said = capture(&empty, Colour::Never);
        assert_eq!(
            said,
            "0 packets in 0 ms: 0 TCP connections, 0 of them iSCSI\nread up to a cut: at byte 5: why\n\
             the capturing host lost 3 packets\n"
        );
        empty.beyond_packets = 1_000;
        assert!(capture(&empty, Colour::Never).contains("1 000 packets belong to connections beyond"));
    }
}
