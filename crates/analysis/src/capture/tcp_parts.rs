//! Parts of the time in which data were at hand and TCP accepted no more, or retransmitted.

use diagnosis::{Evidence, Limiter};
use dissect::{ConnectionSummary as Connection, DirectionSummary as Direction, TimeUse};

use super::black_hole;
use super::line::{Line, is_window_limited};
use super::part::{Part, evidence, part};

/// Least share of the time with data at hand for which recovery counts as a limiter.
const RECOVERY_LEAST: f64 = 0.01;
/// Use of the line up to which it is not full, and from which on it is: the margin is that of both rates.
const USED: [f64; 2] = [0.75, 0.9];
/// Ratio of the mean of the flight to its maximum from which on it stands at a limit.
const AT_A_LIMIT: f64 = 0.7;

/// Parts of a connection's time, and the time in seconds that the data need on the line without filling it. That time is
/// a part of every round trip. `data` is the direction that carries most of the data.
pub(super) fn of(connection: &Connection, time: TimeUse, data: &Direction) -> (Vec<Part>, f64) {
    let (stalled_s, stall_evidence) = black_hole::of(connection, time).unwrap_or_default();
    let recovery_s = time.recovery_s - stalled_s;
    // Between two updates of a window that is in the way its sender has data at hand as well.
    let of_window_s = if is_window_limited(time) { time.sending_s } else { 0.0 };
    let seconds = time.sending_s + recovery_s - of_window_s;
    let known = Line::seen(data).rate();
    let again_share = recovery_s / seconds.max(f64::MIN_POSITIVE);
    let is_local = drops_at_device(data);
    // A device that drops does so at less than the line's rate or just at it. Which of the two is not seen, and the drops are.
    let line_s = if is_local { 0.0 } else { seconds * full_share(data, again_share) };
    // Time in recovery is not that of the data alone: without the losses it would have been shorter.
    let own_s = (own_s(data, known) - line_s).clamp(0.0, (seconds - recovery_s - line_s).max(0.0));
    let left_s = seconds - line_s - own_s;
    let mut parts =
        vec![part(Limiter::PathMtu, stalled_s, stall_evidence), part(Limiter::LinkRate, line_s, line(data))];
    parts.push(part(Limiter::ReceiveWindow, time.receive_window_s + of_window_s, window(data)));
    if is_local || again_share > RECOVERY_LEAST {
        let limiter = if is_local { Limiter::DeviceQueue } else { Limiter::Loss };
        parts.push(part(limiter, left_s, again(data)));
        return (parts, own_s);
    }
    let slow_s = slow_start_s(data).min(left_s);
    parts.push(part(Limiter::CongestionWindow, slow_s, slow_start(data)));
    let limiter = if stands_at_a_limit(data) { Limiter::SendBuffer } else { Limiter::Path };
    parts.push(part(limiter, left_s - slow_s, again(data)));
    (parts, own_s)
}

/// True if the sender's own device dropped most of the segments that were sent again.
fn drops_at_device(data: &Direction) -> bool {
    data.kinds.local * 2 > data.retransmissions && data.kinds.local * 2_000 > data.kinds.new
}

/// Time that the bytes take on a line of known rate.
fn own_s(data: &Direction, line: Option<f64>) -> f64 {
    let bytes = data.delivered.map_or(0.0, |delivered| delivered.bytes as f64);
    line.map_or(0.0, |line| bytes / line.max(1.0))
}

/// Share of the time for which the line is full; 0 without a rate of the line.
pub(super) fn full_share(data: &Direction, again_share: f64) -> f64 {
    if Line::seen(data).rate().is_none() {
        return 0.0;
    }
    even_share(data, again_share) * ((use_of_line(data) - USED[0]) / (USED[1] - USED[0])).clamp(0.0, 1.0)
}

/// Share of time with an even rate. A full line has one nearly all the time, since its queue drops are soon repaired;
/// half of the time is a sawtooth.
fn even_share(data: &Direction, again_share: f64) -> f64 {
    let full = data.delivered.map_or(0.0, |delivered| delivered.full_share);
    ((full - 0.5) / 0.4).clamp(0.0, 1.0) * (1.0 - 2.0 * again_share).max(0.0)
}

/// Rate as a share of that of packet trains, of which most are as fast as the line or slower; 1 without any. A full line
/// has no pauses between its trains.
fn use_of_line(data: &Direction) -> f64 {
    let both = data.trains.zip(data.delivered);
    both.map_or(1.0, |(trains, delivered)| delivered.peak_bytes_per_s / trains.bytes_per_s.max(1.0))
}

/// Time that slow starts took beyond that of their bytes at the rate of the line.
fn slow_start_s(data: &Direction) -> f64 {
    let peak = data.delivered.map_or(0.0, |delivered| delivered.peak_bytes_per_s);
    let rate = data.trains.map_or(peak, |trains| trains.bytes_per_s.max(peak));
    let starts = data.slow_starts;
    (starts.length_s - starts.bytes as f64 / rate.max(1.0)).max(0.0)
}

/// True if the flight size is constant, or the rate is constant below that of the line: a buffer limits, not an opening
/// window.
fn stands_at_a_limit(data: &Direction) -> bool {
    let stands = data.flight_mean_bytes >= AT_A_LIMIT * data.flight_max_bytes as f64;
    let is_even = even_share(data, 0.0) > 0.5;
    stands || (is_even && use_of_line(data) < USED[0])
}

fn line(data: &Direction) -> Vec<Evidence> {
    let full = data.delivered.map_or(0.0, |delivered| delivered.full_share);
    let rate = data.delivered.map_or(0.0, |delivered| delivered.peak_bytes_per_s);
    let mut said = vec![
        evidence("share of stretches of time at the full rate", full, "", "directions.delivered.full_share"),
        evidence("that rate", rate, "bytes/s", "directions.delivered.peak_bytes_per_s"),
    ];
    said.extend(trains(data));
    said
}

/// Rate of packet trains, if there are any.
pub(super) fn trains(data: &Direction) -> Option<Evidence> {
    let trains = data.trains?;
    Some(evidence("rate of packet trains", trains.bytes_per_s, "bytes/s", "directions.trains.bytes_per_s"))
}

fn again(data: &Direction) -> Vec<Evidence> {
    let again = data.retransmissions as f64 / data.data_packets.max(1) as f64;
    let mut said = vec![
        evidence("share of segments that were sent again", again, "", "directions.retransmissions"),
        evidence(
            "of them by the sender's own device",
            data.kinds.local as f64,
            "packets",
            "directions.kinds.local",
        ),
        evidence("bytes in flight, mean", data.flight_mean_bytes, "bytes", "directions.flight_mean_bytes"),
    ];
    said.extend(trains(data));
    said
}

fn slow_start(data: &Direction) -> Vec<Evidence> {
    let starts = data.slow_starts;
    vec![
        evidence("slow starts", starts.count as f64, "", "directions.slow_starts.count"),
        evidence("time of their rounds", starts.length_s, "s", "directions.slow_starts.length_s"),
    ]
}

fn window(data: &Direction) -> Vec<Evidence> {
    vec![
        evidence(
            "segments behind which the window had no room",
            data.window_full as f64,
            "packets",
            "directions.window_full",
        ),
        evidence(
            "bytes in flight, at most",
            data.flight_max_bytes as f64,
            "bytes",
            "directions.flight_max_bytes",
        ),
        evidence("times the window was closed", data.zero_windows as f64, "", "directions.zero_windows"),
    ]
}
