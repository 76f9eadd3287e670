//! Bounds on the requests outstanding: the caller's queue depth, the initiator's queue limit, the command window, and the
//! length of a request.

use super::model::{Effect, Finding, LONG_BYTES};
use crate::facts::Facts;
use crate::limiter::Limiter;
use crate::verdict::Evidence;

/// Smallest share of all requests that must wait in front of a gate; the same as for the gates of layers.
const WAITING_SHARE: f64 = 0.02;

/// Bounds on the number of requests outstanding.
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
            Evidence::new(what, inside, "", seen),
            Evidence::new("requests that wait in front of it", waiting, "", seen),
        ];
        let share = if waits { (waiting / out.called / WAITING_SHARE / 5.0).min(1.0) } else { 0.0 };
        found.push(Finding { limiter, share, effect: Effect::Concurrency(most), evidence });
    }
    if facts.request_bytes < LONG_BYTES {
        found.push(Finding {
            limiter: Limiter::BlockSize,
            share: 0.0,
            effect: Effect::LongerRequests,
            evidence: vec![Evidence::new(
                "mean length of a request",
                facts.request_bytes,
                "bytes",
                "io: len_bytes",
            )],
        });
    }
    found
}

const QUEUE: [&str; 2] = ["requests in the initiator's iSCSI queue", "layers: called_t_ns, queued_t_ns"];
const WINDOW: [&str; 2] = ["commands that the window lets be open", "layers: queued_t_ns, granted_t_ns"];

fn caller(facts: &Facts) -> Finding {
    let out = facts.outstanding;
    let most = out.caller_most.map_or(out.called, |most| most * facts.sessions.max(1.0));
    let seen = match facts.path.line_busy {
        Some(_) => "packets: scheduled_t_ns; sockets: min_rtt_ns",
        None => "sockets: delivery_rate_bytes_per_s, min_rtt_ns",
    };
    let mut evidence = vec![Evidence::new(
        "requests that the caller keeps outstanding",
        out.called,
        "",
        "io: issued_t_ns, completed_t_ns",
    )];
    evidence.extend(bdp_requests(facts).map(|requests| {
        Evidence::new("requests that one round trip of the line would take", requests.ceil(), "", seen)
    }));
    let is_used = out.called >= 0.8 * most;
    let most = if is_used { out.called } else { most };
    // A caller that follows the path keeps twice the bandwidth-delay product outstanding.
    let follows = bdp_requests(facts).filter(|_| out.caller_follows);
    let most = follows.map_or(most, |requests| most.max(2.0 * requests));
    Finding { limiter: Limiter::QueueDepth, share: 0.0, effect: Effect::Concurrency(most), evidence }
}

/// Bandwidth-delay product of the line in requests.
fn bdp_requests(facts: &Facts) -> Option<f64> {
    Some(facts.path.line_bytes_per_s? * facts.path.rtt_s? / facts.request_bytes.max(1.0))
}
