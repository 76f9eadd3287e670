//! How many requests can be under way: the caller's depth, the initiator's queue limit, the command window, and the
//! length of a request.

use super::facts::Facts;
use super::limiter::Limiter;
use super::model::{Effect, Finding, LONG_BYTES};
use super::verdict::Evidence;

/// The least share of all requests that must wait in front of a gate: the same as for the gates of layers.
const WAITING_SHARE: f64 = 0.02;

/// What bounds the number of requests under way.
pub(super) fn find(facts: &Facts) -> Vec<Finding> {
    let out = facts.outstanding;
    if out.called <= 0.0 {
        return Vec::new();
    }
    let mut found = vec![caller(facts)];
    let sessions = facts.sessions.max(1.0);
    let gates = [
        (Limiter::QueueLimit, out.called, out.queued, out.queue_limit, QUEUE),
        (Limiter::CommandWindow, out.queued, out.granted, out.window_most, WINDOW),
    ];
    for (limiter, above, inside, limit, [what, seen]) in gates {
        let waiting = above - inside;
        let waits = waiting >= WAITING_SHARE * out.called;
        let most = if waits { Some(inside) } else { limit.map(|limit| limit * sessions) };
        let Some(most) = most else { continue };
        let evidence = vec![
            Evidence { what: what.to_owned(), value: inside, unit: "", seen },
            Evidence { what: "requests that wait in front of it".to_owned(), value: waiting, unit: "", seen },
        ];
        let share = if waits { (waiting / out.called / WAITING_SHARE / 5.0).min(1.0) } else { 0.0 };
        found.push(Finding { limiter, share, effect: Effect::Places(most), evidence });
    }
    if facts.request_bytes < LONG_BYTES {
        found.push(Finding {
            limiter: Limiter::BlockSize,
            share: 0.0,
            effect: Effect::Longer,
            evidence: vec![Evidence {
                what: "mean length of a request".to_owned(),
                value: facts.request_bytes,
                unit: "bytes",
                seen: "io: len_bytes",
            }],
        });
    }
    found
}

const QUEUE: [&str; 2] = ["requests in the initiator's iSCSI queue", "layers: called_t_ns, queued_t_ns"];
const WINDOW: [&str; 2] = ["commands that the window lets be open", "layers: queued_t_ns, granted_t_ns"];

fn caller(facts: &Facts) -> Finding {
    let out = facts.outstanding;
    let most = out.caller_most.map_or(out.called, |most| most * facts.sessions.max(1.0));
    let evidence = vec![
        Evidence {
            what: "requests that the caller keeps outstanding".to_owned(),
            value: out.called,
            unit: "",
            seen: "io: issued_t_ns, completed_t_ns",
        },
        Evidence {
            what: "requests that one round trip of the line would take".to_owned(),
            value: path_takes(facts).map_or(f64::NAN, f64::ceil),
            unit: "",
            seen: match facts.line_busy {
                Some(_) => "packets: scheduled_t_ns; sockets: min_rtt_ns",
                None => "sockets: delivery_rate_bytes_per_s, min_rtt_ns",
            },
        },
    ];
    let evidence = evidence.into_iter().filter(|e| e.value.is_finite()).collect();
    let is_used = out.called >= 0.8 * most;
    let most = if is_used { out.called } else { most };
    // One that follows the path has twice what it takes under way.
    let follows = path_takes(facts).filter(|_| out.caller_follows);
    let most = follows.map_or(most, |takes| most.max(2.0 * takes));
    Finding { limiter: Limiter::CallerDepth, share: 0.0, effect: Effect::Places(most), evidence }
}

/// Requests that one round trip of the line takes.
fn path_takes(facts: &Facts) -> Option<f64> {
    Some(facts.line_bytes_per_s? * facts.rtt_s? / facts.request_bytes.max(1.0))
}
