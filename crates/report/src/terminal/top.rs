//! Live connections for a screen: one line each, as many columns as fit.

use std::fmt::Write;

use analysis::live::Row;
use diagnosis::Limiter;

use crate::format::NONE;
use crate::tables::layout::{Colour, paint};

/// A column. Columns of higher rank are dropped first on a narrow screen.
struct Column {
    rank: u8,
    title: &'static str,
    is_number: bool,
    text: fn(&Row) -> String,
}

const fn text(rank: u8, title: &'static str, text: fn(&Row) -> String) -> Column {
    Column { rank, title, is_number: false, text }
}

const fn number(rank: u8, title: &'static str, text: fn(&Row) -> String) -> Column {
    Column { rank, title, is_number: true, text }
}

const COLUMNS: &[Column] = &[
    text(0, "role", |row| row.role.to_owned()),
    text(6, "local", |row| row.local.to_string()),
    text(0, "peer", |row| row.peer.to_string()),
    text(3, "process", process),
    text(7, "cc", |row| row.congestion.clone()),
    text(5, "state", |row| row.doing.state.to_owned()),
    number(0, "out Mb/s", |row| mega(row.doing.sent_bits_per_s)),
    number(0, "in Mb/s", |row| mega(row.doing.received_bits_per_s)),
    number(1, "rtt ms", |row| milli(row.doing.rtt_s)),
    number(4, "± ms", |row| milli(row.doing.rtt_var_s)),
    number(1, "cwnd", |row| row.doing.cwnd_packets.to_string()),
    number(4, "ssthresh", |row| row.doing.ssthresh_packets.map_or_else(dash, |packets| packets.to_string())),
    number(2, "flight", |row| row.doing.in_flight_packets.to_string()),
    number(4, "unsent", |row| bytes(row.doing.notsent_bytes.into())),
    number(6, "deliv Mb/s", |row| mega(row.doing.delivery_bits_per_s)),
    number(6, "pace Mb/s", |row| row.doing.pacing_bits_per_s.map_or_else(dash, mega)),
    number(5, "busy %", |row| percent(row.doing.busy)),
    number(3, "rwnd %", |row| percent(row.doing.rwnd_limited)),
    number(3, "sndbuf %", |row| percent(row.doing.sndbuf_limited)),
    number(3, "cwnd %", |row| percent(row.doing.cwnd_limited)),
    number(2, "retrans", |row| row.doing.retransmitted_packets_total.to_string()),
    number(2, "ring/loss/rto/idle", cuts),
    text(0, "limiter", |row| row.doing.limiter.name().to_owned()),
];

/// The table, no wider than `width` and with `height` lines at most.
pub fn top(rows: &[Row], width: usize, height: usize, colour: Colour) -> String {
    let shown = if rows.len() < height { rows.len() } else { height.saturating_sub(2) };
    let (rows, left) = rows.split_at(shown);
    let mut columns: Vec<(&Column, Vec<String>, usize)> = COLUMNS
        .iter()
        .map(|column| {
            let fields: Vec<String> = rows.iter().map(column.text).collect();
            let widest = fields.iter().map(|field| field.chars().count()).max().unwrap_or(0);
            (column, fields, widest.max(column.title.chars().count()))
        })
        .collect();
    while columns.iter().map(|(_, _, width)| width + 2).sum::<usize>() > width + 2 {
        let Some(least) = columns.iter().map(|(column, _, _)| column.rank).filter(|rank| *rank > 0).max()
        else {
            break;
        };
        // The last of them first: readers look at the left ones first.
        let place = columns.iter().rposition(|(column, _, _)| column.rank == least);
        columns.remove(place.unwrap_or(columns.len() - 1));
    }
    let mut out = String::new();
    let titles = columns.iter().map(|(column, _, width)| pad(column.title, *width, column.is_number));
    let _ = writeln!(out, "{}", paint(&fit(&titles.collect::<Vec<_>>().join("  "), width), "1", colour));
    for (at, row) in rows.iter().enumerate() {
        let fields = columns.iter().map(|(column, fields, width)| pad(&fields[at], *width, column.is_number));
        let line = fit(&fields.collect::<Vec<_>>().join("  "), width);
        let _ = match style(row.doing.limiter) {
            Some(style) => writeln!(out, "{}", paint(&line, style, colour)),
            None => writeln!(out, "{line}"),
        };
    }
    if !left.is_empty() {
        let _ = writeln!(out, "… and {} more", left.len());
    }
    out
}

/// Colour of a row: limiters that a setting relieves stand out, idle connections step back.
fn style(limiter: Limiter) -> Option<&'static str> {
    match limiter {
        Limiter::DeviceQueue
        | Limiter::Loss
        | Limiter::PathMtu
        | Limiter::ReceiveWindow
        | Limiter::SendBuffer => Some("33"),
        Limiter::Idle => Some("2"),
        _ => None,
    }
}

fn pad(text: &str, width: usize, right: bool) -> String {
    let gap = " ".repeat(width.saturating_sub(text.chars().count()));
    if right { format!("{gap}{text}") } else { format!("{text}{gap}") }
}

fn fit(line: &str, width: usize) -> String {
    line.trim_end().chars().take(width).collect()
}

fn process(row: &Row) -> String {
    match (&row.process, row.pid) {
        (Some(name), Some(pid)) => format!("{name}/{pid}"),
        _ => dash(),
    }
}

fn cuts(row: &Row) -> String {
    let cuts = row.doing.cuts_total;
    format!("{}/{}/{}/{}", cuts.local, cuts.loss + cuts.mark, cuts.timeout, cuts.idle_restart)
}

fn dash() -> String {
    NONE.to_owned()
}

fn mega(bits_per_s: f64) -> String {
    let value = bits_per_s / 1e6;
    if value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn milli(seconds: f64) -> String {
    let value = seconds * 1e3;
    if value < 10.0 { format!("{value:.2}") } else { format!("{value:.1}") }
}

fn percent(share: f64) -> String {
    format!("{:.0}", share * 100.0)
}

fn bytes(value: u64) -> String {
    match value {
        0..10_000 => value.to_string(),
        10_000..10_000_000 => format!("{}K", value >> 10),
        _ => format!("{}M", value >> 20),
    }
}

#[cfg(test)]
mod tests {
    use analysis::live::Live;
    use event::{Host, Instant, SocketSample};

    use super::*;

    fn row(port: u16) -> Row {
        Row {
            netns: 4_026_531_840,
            role: "target",
            local: "198.18.0.2:3260".parse().unwrap(),
            peer: format!("198.18.0.1:{port}").parse().unwrap(),
            pid: Some(4711),
            process: Some("tgtd".to_owned()),
            uid: 0,
            congestion: "cubic".to_owned(),
            bbr_bits_per_s: None,
            sndbuf_bytes: None,
            rcvbuf_bytes: None,
            doing: Live::new(SocketSample::new(Instant::ZERO, Host::Far, 0)).take(),
        }
    }

    #[test]
    fn as_many_columns_as_there_is_room_for() {
        let rows: Vec<Row> = (0..3).map(|n| row(40_000 + n)).collect();
        let wide = top(&rows, 1000, 100, Colour::Never);
        assert_eq!(wide.lines().count(), 4);
        for column in COLUMNS {
            assert!(wide.contains(column.title), "{}: {wide}", column.title);
        }
        let mut before = usize::MAX;
        for width in [1000, 160, 120, 80, 60] {
            let text = top(&rows, width, 100, Colour::Never);
            let head = text.lines().next().unwrap().split("  ").filter(|title| !title.is_empty()).count();
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
            assert!(head <= before && text.contains("198.18.0.1:40002"), "{width}: {text}");
            assert!(text.contains("limiter"), "{width}: {text}");
            before = head;
        }
        top(&rows, 5, 100, Colour::Ansi);
    }

    #[test]
    fn lines_that_have_no_room_are_counted() {
        let rows: Vec<Row> = (0..30).map(|n| row(40_000 + n)).collect();
        let text = top(&rows, 100, 10, Colour::Never);
        assert_eq!(text.lines().count(), 10);
        assert!(text.ends_with("… and 22 more\n"), "{text}");
        for height in 0..4 {
            top(&rows, 100, height, Colour::Never);
        }
        assert_eq!(top(&rows[..9], 100, 10, Colour::Never).lines().count(), 10);
    }
}
