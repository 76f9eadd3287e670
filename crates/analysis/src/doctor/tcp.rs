//! What TCP at the sending end waited for: the peer's window, its own buffer, its congestion window and why that is
//! small, pacing; and how long it took to get going.

use super::facts::{Facts, Sender};
use super::limiter::Limiter;
use super::model::{Effect, Finding};
use super::verdict::Evidence;

/// Less than this share of the time is no limit.
const LEAST_SHARE: f64 = 0.2;
/// Fewer losses than this tell nothing of how many there would be at another rate.
const MANY_LOSSES: f64 = 16.0;
/// As good as all of the time.
const MOST_OF_IT: f64 = 0.6;
/// A ramp shorter than this share of the load is none worth a word.
const LEAST_RAMP: f64 = 0.15;
/// Nor one without which the load would be less than so many times as fast.
const RAMP_COSTS: f64 = 1.1;
/// A load that is paced gets nearly all of the rate: what it lacks are headers and what is sent again.
const PACED: f64 = 1.15;
/// Pacing that holds data back for so much of the time is all there is.
const NEARLY_ALWAYS: f64 = 0.9;
/// So many times more connections are advised, and no more than so many of one session.
const TIMES: f64 = 4.0;
const CONNECTIONS: f64 = 16.0;

/// What TCP was limited by.
pub(super) fn find(facts: &Facts) -> Vec<Finding> {
    let Some(sender) = &facts.sender else { return Vec::new() };
    let mut found = Vec::new();
    found.extend(receive_window(facts, sender));
    found.extend(send_buffer(facts, sender));
    found.extend(congestion_window(facts, sender));
    found.extend(pacing(facts, sender));
    let ramp = ramp(facts, sender);
    if ramp.is_some() && sender.is_growing {
        // What holds a while at a rate that grows does not hold at the rate it grows to.
        let is_of_while = |f: &Finding| f.share >= LEAST_SHARE && f.share < MOST_OF_IT;
        found.retain(|f| f.limiter == Limiter::Pacing || !is_of_while(f));
    }
    found.extend(ramp);
    let is_of_one =
        |f: &&Finding| f.share >= LEAST_SHARE && f.limiter != Limiter::Pacing && f.limiter != Limiter::Ramp;
    let worst = found.iter().filter(is_of_one).max_by(|a, b| a.share.total_cmp(&b.share));
    let times = more_connections(facts);
    if let Some(worst) = worst.filter(|_| times > 1.0) {
        let evidence = vec![
            count("connections", facts.connections, "", "sockets: connection"),
            worst.evidence[0].clone(),
        ];
        found.push(Finding {
            limiter: Limiter::Connections,
            share: worst.share,
            effect: Effect::More(times),
            evidence,
        });
    }
    found
}

/// How many times more connections are advised.
pub(super) fn more_connections(facts: &Facts) -> f64 {
    TIMES.min(CONNECTIONS * facts.sessions.max(1.0) / facts.connections.max(1.0))
}

/// A rate that holds for a share of the time: what the load would get if it held all the time and nothing else did.
/// Between an acknowledgement and what it lets go nothing is held for a moment, so that most of the time is all of it.
fn held(facts: &Facts, share: f64) -> f64 {
    let share = if share >= MOST_OF_IT { 1.0 } else { share.max(LEAST_SHARE) };
    facts.current.bytes_per_s / share
}

/// A buffer that holds for a share of the time: the same, and no more than what it can carry in a round trip. One that does
/// not limit yet would with that, unless the load shows that it carries more.
fn buffered(facts: &Facts, share: f64, carries_bytes: Option<f64>) -> Option<Effect> {
    let carries = carries_bytes.zip(facts.rtt_s).map(|(bytes, rtt_s)| bytes / rtt_s.max(1e-6));
    let bytes_per_s = if share >= LEAST_SHARE {
        let most = carries.map_or(f64::INFINITY, |carries| carries.max(facts.current.bytes_per_s));
        held(facts, share).min(most)
    } else {
        carries.filter(|carries| *carries > facts.current.bytes_per_s)?
    };
    Some(Effect::Rate { bytes_per_s, of_connection: true })
}

fn receive_window(facts: &Facts, sender: &Sender) -> Option<Finding> {
    let window = facts.receiver.window_bytes;
    let mut evidence = vec![count(
        "share of the time in which the sender waited for the receiver's window",
        sender.receive_window,
        "",
        "sockets: rwnd_limited_ns",
    )];
    evidence.extend(
        window.map(|w| count("window that the receiver offers", w, "bytes", "sockets: snd_wnd_bytes")),
    );
    let limit = facts.receiver.buffer_most_bytes;
    evidence.extend(
        limit.map(|b| count("what its buffer may grow to", b, "bytes", "sessions: receive_buffer_max_bytes")),
    );
    let carries = limit.map(|limit| {
        let limit = limit * facts.connections.max(1.0);
        let grown = window.filter(|window| *window >= GROWN * limit);
        (WINDOW_OF_BUFFER * limit).min(grown.unwrap_or(f64::INFINITY))
    });
    let effect = buffered(facts, sender.receive_window, carries)?;
    Some(Finding { limiter: Limiter::ReceiveWindow, share: sender.receive_window, effect, evidence })
}

/// Linux offers about half of a receive buffer as window: packets take more of it than their payload, and how much more
/// depends on how they come. A window that is so large a part of it has grown as far as it will.
const WINDOW_OF_BUFFER: f64 = 0.5;
const GROWN: f64 = 0.25;
/// Of a send buffer three quarters and more are payload.
const SENT_OF_BUFFER: f64 = 0.75;

/// A send buffer of which so much is under way is full: packets take more of it than their payload.
const FULL_BUFFER: f64 = 0.4;

/// The share of the time in which the send buffer was full and all of it under way. The kernel counts less of it than there
/// is: each acknowledgement makes room for a moment.
fn buffer_share(sender: &Sender, limit: Option<f64>, connections: f64) -> f64 {
    let is_full =
        limit.is_some_and(|limit| sender.flight_bytes >= FULL_BUFFER * limit * connections.max(1.0));
    if is_full { sender.starved.max(sender.send_buffer) } else { sender.send_buffer }
}

fn send_buffer(facts: &Facts, sender: &Sender) -> Option<Finding> {
    let share = buffer_share(sender, sender.buffer_most_bytes, facts.connections);
    let mut evidence = vec![
        count(
            "share of the time in which the send buffer was full and all of it under way",
            share,
            "",
            "sockets: sndbuf_limited_ns, notsent_bytes, unsent_bytes",
        ),
        count("bytes under way", sender.flight_bytes, "bytes", "sockets: unacked_packets, mss_bytes"),
    ];
    let limit = sender.buffer_most_bytes;
    evidence.extend(
        limit.map(|b| {
            count("what the send buffer may grow to", b, "bytes", "sessions: send_buffer_max_bytes")
        }),
    );
    let carries = limit.map(|limit| limit * facts.connections.max(1.0) * SENT_OF_BUFFER);
    let effect = buffered(facts, share, carries)?;
    Some(Finding { limiter: Limiter::SendBuffer, share, effect, evidence })
}

fn congestion_window(facts: &Facts, sender: &Sender) -> Option<Finding> {
    let share = sender.congestion_window;
    // One that was not cut since is what the last cuts left of it and what it has grown by: over a long path that takes
    // longer than most loads are looked at.
    let (local, lost) = match sender.local_cuts + sender.retransmitted {
        cuts if cuts > 0.0 => (sender.local_cuts, episodes(sender)),
        _ => (sender.earlier_local_cuts, sender.earlier_losses),
    };
    let limiter = match () {
        () if local > 0.0 && local >= lost => Limiter::DeviceRing,
        () if lost > 0.0 => Limiter::Loss,
        () => return None,
    };
    let mut evidence = vec![
        count(
            "share of the time at the congestion window",
            share,
            "",
            "sockets: cwnd_packets, unacked_packets",
        ),
        count("congestion window, mean", sender.cwnd_bytes, "bytes", "sockets: cwnd_packets, mss_bytes"),
    ];
    match limiter {
        Limiter::DeviceRing => evidence.push(count(
            "cuts without a loss",
            local,
            "",
            "sockets: cwnd_packets, ssthresh_packets, state",
        )),
        _ if sender.retransmitted == 0.0 => evidence.push(count(
            "cuts by losses, all of them before",
            lost,
            "",
            "sockets: cwnd_packets, ssthresh_packets, state",
        )),
        _ => evidence.push(count(
            "packets sent again",
            sender.retransmitted,
            "packets",
            "sockets: retransmitted_packets",
        )),
    }
    let bytes_per_s = if share >= LEAST_SHARE {
        held(facts, share)
    } else if limiter == Limiter::Loss && sender.retransmitted >= MANY_LOSSES && sender.backlogged < 0.5 {
        after_losses(facts, sender)?
    } else {
        return None;
    };
    let effect = Effect::Rate { bytes_per_s, of_connection: true };
    Some(Finding { limiter, share, effect, evidence })
}

/// Losses come in bunches; a window is cut once for each round trip that has some.
fn episodes(sender: &Sender) -> f64 {
    (sender.retransmitted / 8.0).ceil()
}

/// What CUBIC gets at such a share of losses, or Reno where that is more (RFC 9438 section 5.1, RFC 3649).
fn after_losses(facts: &Facts, sender: &Sender) -> Option<f64> {
    let share = sender.retransmitted / sender.packets.max(1.0);
    let rtt = facts.rtt_s?.max(1e-6);
    let (reno, cubic) = (1.22 / share.sqrt(), 1.054 * (rtt / share).powf(0.75));
    let carries = reno.max(cubic) * sender.mss_bytes / rtt * facts.connections.max(1.0);
    // Where the load is faster these were no losses by chance, one of which comes after so many packets.
    Some(carries).filter(|carries| *carries > facts.current.bytes_per_s)
}

fn pacing(facts: &Facts, sender: &Sender) -> Option<Finding> {
    let rate = sender.pacing_bytes_per_s?;
    // TCP that is paced without a cap of its own sends a little faster than its window goes round, whatever holds that:
    // only a rate that the load has reached can be what limits it, or nearly has while nothing else held it.
    let is_reached = rate <= PACED * facts.current.bytes_per_s || sender.pacing >= NEARLY_ALWAYS;
    let holds = sender.pacing >= LEAST_SHARE && is_reached;
    // A cap that is not reached would be what holds the load from there on.
    let bytes_per_s = match sender.pacing_cap_bytes_per_s {
        _ if holds => facts.current.bytes_per_s,
        Some(cap) => cap.max(facts.current.bytes_per_s),
        None => return None,
    };
    let evidence = vec![
        count(
            "share of the time in which pacing held data back",
            sender.pacing,
            "",
            "sockets: unacked_packets, cwnd_packets, notsent_bytes",
        ),
        count("pacing rate, mean", rate, "bytes/s", "sockets: pacing_rate_bytes_per_s"),
    ];
    Some(Finding {
        limiter: Limiter::Pacing,
        share: if holds { sender.pacing } else { 0.0 },
        effect: Effect::Rate { bytes_per_s, of_connection: true },
        evidence,
    })
}

fn ramp(facts: &Facts, sender: &Sender) -> Option<Finding> {
    let lost = sender.plateau_bytes_per_s - facts.current.bytes_per_s;
    let is_ramp = sender.ramp >= LEAST_RAMP && lost > 0.05 * facts.current.bytes_per_s;
    let then = match sender.is_growing {
        true => f64::INFINITY,
        false => sender.plateau_bytes_per_s.max(facts.current.bytes_per_s),
    };
    // What nothing is gained by would hide all that is.
    if (!is_ramp && sender.restarts < 2.0) || then < RAMP_COSTS * facts.current.bytes_per_s {
        return None;
    }
    let evidence = vec![
        count(
            "share of the load until it was as fast as later",
            sender.ramp,
            "",
            "sockets: t_ns, app_tx_bytes",
        ),
        count("rate then", sender.plateau_bytes_per_s, "bytes/s", "sockets: app_tx_bytes"),
        count("windows closed by a pause", sender.restarts, "", "sockets: cwnd_packets, unacked_packets"),
    ];
    Some(Finding {
        limiter: Limiter::Ramp,
        share: sender.ramp,
        effect: Effect::Ramp { now: facts.current.bytes_per_s, then },
        evidence,
    })
}

fn count(what: &str, value: f64, unit: &'static str, seen: &'static str) -> Evidence {
    Evidence { what: what.to_owned(), value, unit, seen }
}
