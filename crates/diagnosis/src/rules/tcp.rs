//! TCP at the sender: the peer's window, the send buffer, the congestion window and the reason for its size, pacing, and
//! the ramp of the load.

use super::model::{Effect, Finding};
use crate::facts::{Facts, SenderTime, TcpSender};
use crate::limiter::Limiter;
use crate::remedy::more_connections;
use crate::verdict::Evidence;

/// Share of the time below which nothing is a limit.
const LEAST_SHARE: f64 = 0.2;
/// Retransmissions below which their share says nothing about another rate.
const MANY_LOSSES: f64 = 16.0;
/// Share of the time that counts as all of it.
const MOST_OF_IT: f64 = 0.6;
/// Share of the load below which a ramp is negligible.
const LEAST_RAMP: f64 = 0.15;
/// Smallest ratio of the rate without a ramp to the rate with it.
const RAMP_COSTS: f64 = 1.1;
/// Ratio of pacing rate to goodput up to which the rate is reached: the difference is headers and retransmissions.
const PACED: f64 = 1.15;
/// Share of the time from which on pacing is the only limit.
const NEARLY_ALWAYS: f64 = 0.9;
/// Linux advertises about half of a receive buffer: packets take more of it than their payload, and the ratio depends on
/// how they arrive. A window of at least this part of its buffer has grown to its final size.
const WINDOW_OF_BUFFER: f64 = 0.5;
const GROWN: f64 = 0.25;
/// Payload is at least three quarters of a send buffer.
const SENT_OF_BUFFER: f64 = 0.75;
/// Part of a send buffer in flight from which on the buffer is full.
const FULL_BUFFER: f64 = 0.4;

/// Limits of TCP.
pub(super) fn find(facts: &Facts) -> Vec<Finding> {
    let Some(sender) = &facts.sender else { return Vec::new() };
    let mut found = Vec::new();
    found.extend(receive_window(facts, sender));
    found.extend(send_buffer(facts, sender));
    found.extend(cut_window(facts, sender));
    found.extend(pacing(facts, sender));
    let ramp = ramp(facts, sender);
    if ramp.is_some() && sender.ramp.is_growing {
        // A limit at a passing rate does not hold at the final one.
        let is_of_while = |f: &Finding| f.share >= LEAST_SHARE && f.share < MOST_OF_IT;
        found.retain(|f| f.limiter == Limiter::Pacing || !is_of_while(f));
    }
    found.extend(ramp);
    let is_of_one = |f: &&Finding| {
        let is_other = matches!(f.limiter, Limiter::Pacing | Limiter::CongestionWindow);
        f.share >= LEAST_SHARE && !is_other
    };
    let worst = found.iter().filter(is_of_one).max_by(|a, b| a.share.total_cmp(&b.share));
    let times = more_connections(facts);
    if let Some(worst) = worst.filter(|_| times > 1.0) {
        let evidence = vec![
            Evidence::new("connections", facts.connections, "", "sockets: connection"),
            worst.evidence[0].clone(),
        ];
        found.push(Finding {
            limiter: Limiter::Connections,
            share: worst.share,
            effect: Effect::MoreConnections(times),
            evidence,
        });
    }
    found
}

/// Rate of the load if a limit that holds for `share` of the time held all the time, alone. Between an acknowledgement and
/// the packets that it releases nothing is held for a moment, so most of the time counts as all of it.
fn held(facts: &Facts, share: f64) -> f64 {
    let share = if share >= MOST_OF_IT { 1.0 } else { share.max(LEAST_SHARE) };
    facts.current.bytes_per_s / share
}

/// Rate bound of a buffer that limits for `share` of the time: as [`held`], and no more than one buffer per round trip. A
/// buffer that does not limit yet is bounded by the latter, unless the load is faster already.
fn buffered(facts: &Facts, share: f64, carries_bytes: Option<f64>) -> Option<Effect> {
    let carries = carries_bytes.zip(facts.path.rtt_s).map(|(bytes, rtt_s)| bytes / rtt_s.max(1e-6));
    let bytes_per_s = if share >= LEAST_SHARE {
        let most = carries.map_or(f64::INFINITY, |carries| carries.max(facts.current.bytes_per_s));
        held(facts, share).min(most)
    } else {
        carries.filter(|carries| *carries > facts.current.bytes_per_s)?
    };
    Some(Effect::Rate { bytes_per_s, of_connection: true })
}

fn receive_window(facts: &Facts, sender: &TcpSender) -> Option<Finding> {
    let (share, window) = (sender.time.receive_window, facts.receiver.window_bytes);
    let mut evidence = vec![Evidence::new(
        "share of the time in which the sender waited for the receiver's window",
        share,
        "",
        "sockets: rwnd_limited_ns",
    )];
    evidence.extend(window.map(|window| {
        Evidence::new("window that the receiver offers", window, "bytes", "sockets: snd_wnd_bytes")
    }));
    let limit = facts.receiver.buffer_most_bytes;
    evidence.extend(limit.map(|limit| {
        Evidence::new("limit of its buffer", limit, "bytes", "sessions: receive_buffer_max_bytes")
    }));
    let carries = limit.map(|limit| {
        let limit = limit * facts.connections.max(1.0);
        let grown = window.filter(|window| *window >= GROWN * limit);
        (WINDOW_OF_BUFFER * limit).min(grown.unwrap_or(f64::INFINITY))
    });
    let effect = buffered(facts, share, carries)?;
    Some(Finding { limiter: Limiter::ReceiveWindow, share, effect, evidence })
}

/// Share of the time with a full send buffer in flight. The kernel's own share is smaller: each acknowledgement makes room
/// for a moment.
fn buffer_share(facts: &Facts, sender: &TcpSender) -> f64 {
    let SenderTime { send_buffer, starved, .. } = sender.time;
    let is_full = sender
        .socket
        .buffer_most_bytes
        .is_some_and(|limit| sender.traffic.flight_bytes >= FULL_BUFFER * limit * facts.connections.max(1.0));
    if is_full { starved.max(send_buffer) } else { send_buffer }
}

fn send_buffer(facts: &Facts, sender: &TcpSender) -> Option<Finding> {
    let share = buffer_share(facts, sender);
    let flight_bytes = sender.traffic.flight_bytes;
    let mut evidence = vec![
        Evidence::new(
            "share of the time in which the send buffer was full and all of it in flight",
            share,
            "",
            "sockets: sndbuf_limited_ns, notsent_bytes, unsent_bytes",
        ),
        Evidence::new("bytes in flight", flight_bytes, "bytes", "sockets: unacked_packets, mss_bytes"),
    ];
    let limit = sender.socket.buffer_most_bytes;
    evidence.extend(limit.map(|limit| {
        Evidence::new("limit of the send buffer", limit, "bytes", "sessions: send_buffer_max_bytes")
    }));
    let carries = limit.map(|limit| limit * facts.connections.max(1.0) * SENT_OF_BUFFER);
    let effect = buffered(facts, share, carries)?;
    Some(Finding { limiter: Limiter::SendBuffer, share, effect, evidence })
}

/// The congestion window after cuts, by losses or by the sender's own device.
fn cut_window(facts: &Facts, sender: &TcpSender) -> Option<Finding> {
    let (share, cuts, traffic) = (sender.time.congestion_window, &sender.cuts, &sender.traffic);
    // Without a cut in the window of the figures, earlier cuts explain the size: over a long path the recovery takes longer
    // than most loads.
    let (local, lost) = match cuts.local + traffic.retransmitted {
        total if total > 0.0 => (cuts.local, episodes(traffic.retransmitted)),
        _ => (cuts.earlier_local, cuts.earlier_losses),
    };
    let limiter = match () {
        () if local > 0.0 && local >= lost => Limiter::DeviceQueue,
        () if lost > 0.0 => Limiter::Loss,
        () => return None,
    };
    let mut evidence = vec![
        Evidence::new(
            "share of the time at the congestion window",
            share,
            "",
            "sockets: cwnd_packets, unacked_packets",
        ),
        Evidence::new(
            "congestion window, mean",
            traffic.cwnd_bytes,
            "bytes",
            "sockets: cwnd_packets, mss_bytes",
        ),
    ];
    let seen = "sockets: cwnd_packets, ssthresh_packets, state";
    evidence.push(match limiter {
        Limiter::DeviceQueue => Evidence::new("cuts without a loss", local, "", seen),
        _ if traffic.retransmitted == 0.0 => {
            Evidence::new("cuts by losses, all of them before", lost, "", seen)
        }
        _ => Evidence::new(
            "packets sent again",
            traffic.retransmitted,
            "packets",
            "sockets: retransmitted_packets",
        ),
    });
    let is_many = traffic.retransmitted >= MANY_LOSSES && sender.time.backlogged < 0.5;
    let bytes_per_s = if share >= LEAST_SHARE {
        held(facts, share)
    } else if limiter == Limiter::Loss && is_many {
        after_losses(facts, sender)?
    } else {
        return None;
    };
    let effect = Effect::Rate { bytes_per_s, of_connection: true };
    Some(Finding { limiter, share, effect, evidence })
}

/// Loss episodes: losses come in bursts, and a window is cut once for each round trip with losses.
fn episodes(retransmitted: f64) -> f64 {
    (retransmitted / 8.0).ceil()
}

/// Rate of CUBIC at this loss ratio, or of Reno where that is higher (RFC 9438 section 5.1, RFC 3649).
fn after_losses(facts: &Facts, sender: &TcpSender) -> Option<f64> {
    let traffic = &sender.traffic;
    let share = traffic.retransmitted / traffic.packets.max(1.0);
    let rtt = facts.path.rtt_s?.max(1e-6);
    let (reno, cubic) = (1.22 / share.sqrt(), 1.054 * (rtt / share).powf(0.75));
    let carries = reno.max(cubic) * traffic.mss_bytes / rtt * facts.connections.max(1.0);
    // A faster load had no random losses, which the formula assumes.
    Some(carries).filter(|carries| *carries > facts.current.bytes_per_s)
}

fn pacing(facts: &Facts, sender: &TcpSender) -> Option<Finding> {
    let share = sender.time.pacing;
    let rate = sender.traffic.pacing_bytes_per_s?;
    // Without a cap, TCP paces a little faster than its window allows, whatever limits that. So only a rate that the load
    // reaches is a limit, or one that holds data back nearly all the time while nothing else does.
    let is_reached = rate <= PACED * facts.current.bytes_per_s || share >= NEARLY_ALWAYS;
    // A rate that follows the path is that of the line as far as its sender knows: only a cap, or a line that is known to
    // carry more, makes it a limit of its own.
    let cap = sender.traffic.pacing_cap_bytes_per_s;
    let is_own = cap.is_some() || facts.path.line_busy.is_some();
    let holds = share >= LEAST_SHARE && is_reached && is_own;
    let bytes_per_s = match cap {
        _ if holds => facts.current.bytes_per_s,
        // A cap that is not reached limits from there on.
        Some(cap) => cap.max(facts.current.bytes_per_s),
        None => return None,
    };
    let evidence = vec![
        Evidence::new(
            "share of the time in which pacing held data back",
            share,
            "",
            "sockets: unacked_packets, cwnd_packets, notsent_bytes",
        ),
        Evidence::new("pacing rate, mean", rate, "bytes/s", "sockets: pacing_rate_bytes_per_s"),
    ];
    Some(Finding {
        limiter: Limiter::Pacing,
        share: if holds { share } else { 0.0 },
        effect: Effect::Rate { bytes_per_s, of_connection: true },
        evidence,
    })
}

/// The congestion window that still opens, or that pauses close.
fn ramp(facts: &Facts, sender: &TcpSender) -> Option<Finding> {
    let (ramp, restarts, current) = (&sender.ramp, sender.cuts.restarts, facts.current.bytes_per_s);
    let lost = ramp.plateau_bytes_per_s - current;
    let is_ramp = ramp.share >= LEAST_RAMP && lost > 0.05 * current;
    let then = match ramp.is_growing {
        true => f64::INFINITY,
        false => ramp.plateau_bytes_per_s.max(current),
    };
    // A ramp without a gain would hide the limits that have one.
    if (!is_ramp && restarts < 2.0) || then < RAMP_COSTS * current {
        return None;
    }
    let evidence = vec![
        Evidence::new(
            "share of the load until it was as fast as later",
            ramp.share,
            "",
            "sockets: t_ns, app_tx_bytes",
        ),
        Evidence::new("rate then", ramp.plateau_bytes_per_s, "bytes/s", "sockets: app_tx_bytes"),
        Evidence::new("windows closed by a pause", restarts, "", "sockets: cwnd_packets, unacked_packets"),
    ];
    Some(Finding {
        limiter: Limiter::CongestionWindow,
        share: ramp.share,
        effect: Effect::Ramp { now: current, then },
        evidence,
    })
}
