//! What of a connection has no table of its own.

use analysis::capture::{Connection, Iscsi};

use crate::format::{NONE, duration, fixed, percent};

/// Everything about one connection.
pub(super) fn all(connection: &Connection) -> Vec<String> {
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
