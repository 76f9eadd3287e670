//! The packets of a connection with their PDUs, as rows of numbers for the page's script.

use analysis::diagram::{Arrow, Diagram, Kind, Pdu};
use event::{Host, PduKind};
use serde_json::{Value, json};

/// Names of the kinds of packets and the style of each, in the order of their numbers.
const KINDS: [(Kind, &str, &str); 9] = [
    (Kind::Command, "command", "command"),
    (Kind::DataIn, "Data-In", "data-in"),
    (Kind::R2t, "R2T", "r2t"),
    (Kind::DataOut, "Data-Out", "data-out"),
    (Kind::Status, "status", "status"),
    (Kind::Ack, "pure ACK", "ack"),
    (Kind::Connection, "SYN, FIN, RST", "other-pdu"),
    (Kind::Other, "other PDU", "other-pdu"),
    (Kind::Unrecorded, "PDU not recorded", "unrecorded"),
];

/// `arrows`: `[from, ns since the packet before, ns on the way or -1, kind, segments, IP bytes, payload's first
/// byte, its length, acknowledged, sent before, first PDU, number of PDUs]`; `pdus`: `[from, name, has status,
/// itt, cmd_sn, buffer offset, data bytes, first byte, end]`. `start_s` is the first packet's time.
pub(super) fn data(diagram: &Diagram, origin_ns: Option<u64>) -> Value {
    let start_ns = diagram.arrows.first().map_or(0, |arrow| arrow.sent_ns);
    let mut before_ns = start_ns;
    let arrows: Vec<Value> = diagram
        .arrows
        .iter()
        .map(|arrow| {
            let row = arrow_row(arrow, before_ns);
            before_ns = arrow.sent_ns;
            row
        })
        .collect();
    let flow = diagram.flow;
    json!({
        "start_s": origin_ns.map(|origin| (start_ns as f64 - origin as f64) / 1e9),
        "near": format!("port {}", flow.near_port),
        "far": format!("port {}", flow.far_port),
        "others": diagram.others,
        "kinds": KINDS.map(|(kind, name, style)| {
            // A raw stream has no PDUs.
            let name = if kind == Kind::Unrecorded && diagram.pdus.is_empty() { "payload" } else { name };
            json!([name, format!("var(--{style})")])
        }),
        "arrows": arrows,
        "pdus": diagram.pdus.iter().map(pdu_row).collect::<Vec<_>>(),
    })
}

fn arrow_row(arrow: &Arrow, before_ns: u64) -> Value {
    let kind = KINDS.iter().position(|(kind, _, _)| *kind == arrow.kind).unwrap_or(0);
    json!([
        side(arrow.from),
        arrow.sent_ns - before_ns,
        arrow.received_ns.map_or(-1, |t| t.saturating_sub(arrow.sent_ns).cast_signed()),
        kind,
        arrow.segments,
        arrow.ip_bytes,
        arrow.bytes.start,
        arrow.bytes.end - arrow.bytes.start,
        arrow.acked,
        u8::from(arrow.again),
        arrow.pdus.start,
        arrow.pdus.len(),
    ])
}

fn pdu_row(pdu: &Pdu) -> Value {
    json!([
        side(pdu.from),
        name(pdu.kind),
        u8::from(pdu.has_status),
        pdu.itt,
        pdu.cmd_sn,
        pdu.offset_bytes,
        pdu.len_bytes,
        pdu.stream_begin,
        pdu.stream_end,
    ])
}

fn side(host: Host) -> u8 {
    u8::from(host == Host::Far)
}

fn name(kind: PduKind) -> &'static str {
    match kind {
        PduKind::Command => "SCSI Command",
        PduKind::Response => "SCSI Response",
        PduKind::DataIn => "Data-In",
        PduKind::DataOut => "Data-Out",
        PduKind::R2t => "R2T",
        other => other.name(),
    }
}
