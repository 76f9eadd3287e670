//! Requests with their stages, as rows of numbers for the page's script.

use analysis::layers::{Request, Stack, Stage, Stamp};
use event::Host;
use serde_json::{Value, json};

/// `requests`: `[session or null, cmd_sn, itt, connection, op, offset, length, called s, latency ms, stages]`, a stage
/// being `[hand-over it begins with, the one it ends with, start µs, length µs]`; `stamps`: the names of the hand-overs and the
/// host of each; `examples`: `[name, number of the request]`.
pub(super) fn data(stack: &Stack) -> Value {
    let origin_ns = stack.origin_ns;
    let row = |request: &Request| {
        let id = request.id;
        json!([
            stack.session_number(id.session),
            id.cmd_sn,
            id.itt,
            id.connection,
            request.op,
            request.offset_bytes,
            request.len_bytes,
            rounded(request.called_ns.saturating_sub(origin_ns) as f64 / 1e9, 1e6),
            rounded(request.latency_s * 1e3, 1e6),
            request.stages.iter().map(stage).collect::<Vec<_>>(),
        ])
    };
    let stamps: Vec<Value> = Stamp::ALL
        .iter()
        .map(|stamp| json!([stamp.words(), if stamp.host() == Host::Near { 0 } else { 1 }]))
        .collect();
    let examples: Vec<Value> =
        stack.examples.iter().map(|example| json!([example.name, example.request])).collect();
    json!({"stamps": stamps, "examples": examples, "requests": stack.requests.iter().map(row).collect::<Vec<_>>()})
}

fn stage(stage: &Stage) -> Value {
    let number = |stamp: Stamp| Stamp::ALL.iter().position(|known| *known == stamp).unwrap_or(0);
    json!([
        number(stage.from),
        number(stage.to),
        rounded(stage.start_s * 1e6, 1e3),
        rounded(stage.length_s * 1e6, 1e3)
    ])
}

/// Rounds to a multiple of 1 ÷ `parts`.
fn rounded(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}
