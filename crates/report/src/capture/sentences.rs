//! Sentences about a connection: facts that have no table.

use dissect::{
    CaptureInterface, ConnectionSummary, DirectionSummary, Dissection, IscsiSummary, LoginParameters,
    Negotiation,
};

use super::seen;
use crate::format::{NONE, duration, fixed, percent};

/// All facts about one connection of a capture.
pub(super) fn all(capture: &Dissection, connection: &ConnectionSummary) -> Vec<String> {
    let mut said = Vec::new();
    said.extend(taken(capture, connection));
    said.extend(only(connection));
    said.extend(connection.directions.iter().filter_map(missing));
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

/// Interfaces of its packets, if the capture has several.
fn taken(capture: &Dissection, connection: &ConnectionSummary) -> Option<String> {
    let interfaces = &capture.totals.interfaces;
    let name = |number: u32| {
        let interface = interfaces.iter().find(|interface| interface.number == number);
        interface.map_or_else(|| number.to_string(), CaptureInterface::label)
    };
    let names = |numbers: &[u32]| numbers.iter().map(|number| name(*number)).collect::<Vec<_>>().join(", ");
    let [first, second] = connection.directions.each_ref().map(|direction| direction.interface);
    match &connection.also_at[..] {
        _ if interfaces.len() < 2 => None,
        _ if first != second => Some(format!(
            "what {} sends was taken at {}, what it gets at {}",
            connection.directions[0].from,
            name(first),
            name(second)
        )),
        [] => Some(format!("taken at {}", name(first))),
        others => Some(format!("taken at {}; {} shows it too", name(first), names(others))),
    }
}

/// The only direction in the capture, if it lacks the other one.
fn only(connection: &ConnectionSummary) -> Option<String> {
    let direction = connection.directions.iter().find(|direction| direction.packets > 0)?;
    let DirectionSummary { from, to, .. } = direction;
    connection.one_direction.then(|| {
        format!("only packets from {from} to {to} are in the capture: nothing is known of answers and acknowledgements")
    })
}

/// Gaps of a direction in the capture.
fn missing(direction: &DirectionSummary) -> Option<String> {
    let DirectionSummary { from, missing_bytes, gaps, .. } = direction;
    let bytes = fixed(*missing_bytes as f64, 0);
    (*gaps > 0).then(|| {
        format!("{bytes} bytes that {from} sent were acknowledged and are not in the capture, in {gaps} gaps")
    })
}

/// Commands whose answer was on its way, or missing, when the capture ended.
fn undelivered(iscsi: &IscsiSummary) -> Vec<String> {
    let told = &iscsi.commands;
    let mut said = Vec::new();
    if told.undelivered > 0 {
        said.push(format!(
            "answered, and the status never arrived at the initiator: {} commands; TCP sent it, or data in front of it, again \
             and got no acknowledgement",
            fixed(told.undelivered as f64, 0)
        ));
    }
    let services = [told.read_service, told.write_service, told.other_service];
    let is_long = |waiting_s: &f64| services.iter().flatten().all(|service| *waiting_s > service.max_s);
    said.extend(told.waiting_s.filter(is_long).map(|waiting_s| {
        format!("the oldest command without an answer waits for {} at the end", duration(waiting_s))
    }));
    said
}

/// Results of the login: negotiated values, defaults, and offers without an answer.
fn negotiated(negotiation: &Negotiation) -> Vec<String> {
    let Negotiation { agreed, offered, defaults, .. } = negotiation;
    let sentences = [
        (agreed, "the login agreed on ", ""),
        (defaults, "not agreed on, so that the defaults of RFC 7143 hold: ", ""),
        (offered, "the initiator offered ", "; no answer to that is in the capture"),
    ];
    let of = |(found, before, behind): (&Option<LoginParameters>, &str, &str)| {
        Some(format!("{before}{}{behind}", keys(found.as_ref()?)))
    };
    sentences.into_iter().filter_map(of).collect()
}

/// Known keys with their values.
fn keys(parameters: &LoginParameters) -> String {
    let truth = |value: Option<bool>| value.map(|is| if is { "Yes" } else { "No" }.to_owned());
    let number = |value: Option<u64>| value.map(|number| number.to_string());
    let keys = [
        ("InitialR2T", truth(parameters.initial_r2t)),
        ("ImmediateData", truth(parameters.immediate_data)),
        ("FirstBurstLength", number(parameters.first_burst_bytes)),
        ("MaxBurstLength", number(parameters.max_burst_bytes)),
        ("MaxOutstandingR2T", number(parameters.max_outstanding_r2t)),
    ];
    let known = keys.into_iter().filter_map(|(key, value)| Some(format!("{key}={}", value?)));
    known.collect::<Vec<_>>().join(", ")
}

fn of_iscsi(iscsi: &IscsiSummary) -> Vec<String> {
    let mut said = Vec::new();
    let told = &iscsi.commands;
    let digest = |on: Option<bool>| match on {
        Some(true) => "CRC32C",
        Some(false) => "none",
        None => "not known",
    };
    said.push(format!(
        "commands: {}, with their status: {}; digests of headers: {}, of data: {}",
        seen::count(told.sent),
        seen::count(told.completed),
        digest(iscsi.header_digest),
        digest(iscsi.data_digest)
    ));
    said.extend(undelivered(iscsi));
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
    said.extend(negotiated(&iscsi.negotiation));
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
                "the {name}'s PDUs: {}, of which {} ({}) are inferred; {} more were inferred and refuted; {} of the bytes in none",
                framing.pdus,
                framing.inferred,
                percent(framing.inferred_share),
                framing.refuted,
                percent(framing.lost_share)
            ));
        }
    }
    said
}
