//! Predicted performance of a connection without one of its limiters.
//!
//! The model is a closed queueing system, as for the doctor's rules (`diagnosis::judge`): an initiator with N requests of
//! B bytes outstanding gets N × B ÷ R (Little's law), and never more than the narrowest part carries. Asymptotic bounds
//! of such systems: Lazowska et al., "Quantitative System Performance", 1984, chapter 5.
//!
//! | limiter | without it |
//! |---|---|
//! | `nagle`, `separate-status` | each small segment waits for an acknowledgement: one round trip, and the delay of that acknowledgement (RFC 896; RFC 1122 section 4.2.3.2). That time is gone |
//! | `r2t` | the part of the propagation in which commands wait for R2Ts is gone: data follow their command (RFC 7143 section 13.10, `InitialR2T=No`, and a FirstBurstLength of a whole request) |
//! | `store-latency`, `sender-cpu` | the peer's turn beyond the round trip is gone |
//! | `congestion-window` | rounds of slow start (RFC 5681 section 3.1) take as long as their bytes take at the rate of the line |
//! | `receive-window`, `send-buffer`, `loss`, `device-queue` | a window W allowed W ÷ RTT; then N × B ÷ R, R without queueing, up to the rate of the line |
//! | `queue-depth`, `round-trip` | as many requests as the command window admits: W × B ÷ R, up to the rate of the line |
//! | `command-window` | one more command at least, because each free place was taken at once |
//!
//! The rate seen in a capture is no bound of the path if something else limits it. The rate of the line is that of packet
//! trains ([`dissect::TrainSummary`]). Where these are too short to measure it, they bound it from below, and so do the
//! predictions.

use diagnosis::{Certainty, Limiter, Performance};
use dissect::{IscsiSummary as Iscsi, TimeUse};

use super::line::Line;
use super::load::Load;

/// Most requests that a remedy of the depth asks for: the usual default of stacks (`diagnosis::remedy`).
const DEPTH_MAX: f64 = 256.0;
/// Requests outstanding up to which nothing can queue on the line: the time of a request has its own time there.
const SERIAL: f64 = 1.05;
/// Ratio of a rate to the rate that was seen up to which it needs no other evidence.
const SEEN: f64 = 1.05;
/// Smallest part of a time that remains without a limiter.
const LEFT_MIN: f64 = 1e-3;

/// Bounds of a connection.
pub(super) struct Bounds {
    current: Performance,
    length_s: f64,
    line: Line,
    /// Requests outstanding at the initiator, mean.
    outstanding: f64,
    request_bytes: f64,
    /// Latency of a request in seconds without a queue.
    unloaded_s: f64,
    /// Bytes per second that the target was seen to serve, at least.
    served_bytes_per_s: f64,
    /// Commands that the target admits.
    window: Option<f64>,
    /// True if completed commands are counted: their size and number are known.
    is_counted: bool,
}

/// Predicted performance, its standing, and the limiter that bounds it then, if the bound is known.
pub(super) struct Prediction {
    pub(super) predicted: Performance,
    pub(super) certainty: Certainty,
    pub(super) next: Option<Limiter>,
}

impl Bounds {
    /// Bounds of a connection at its `current` performance; its requests wait for `waits_s` of the time for Nagle's algorithm,
    /// R2Ts and the like.
    pub(super) fn new(
        iscsi: &Iscsi,
        time: TimeUse,
        load: &Load<'_>,
        current: Performance,
        waits_s: f64,
    ) -> Self {
        let told = &iscsi.commands;
        let Load { data, commands: requests, command_bytes: request_bytes, turn, .. } = *load;
        let outstanding = load.outstanding.max(1.0);
        let seen =
            data.delivered.map_or(0.0, |delivered| delivered.peak_bytes_per_s).max(current.bytes_per_s);
        let line = match Line::seen(data) {
            Line::Rate(rate) => Line::Rate(rate.max(current.bytes_per_s)),
            Line::AtLeast(rate) => Line::AtLeast(rate.max(seen)),
        };
        let to_target_s = iscsi.network_to_target_s.unwrap_or(0.0);
        let rtt_s = to_target_s + iscsi.network_to_initiator_s.unwrap_or(0.0);
        // The fastest turn has no queue in front of it.
        let service_s = turn.map_or(0.0, |turn| (turn.min_s - to_target_s).max(0.0));
        let turn_s = turn.map_or(0.0, |turn| (turn.p50_s - to_target_s).max(0.0));
        let on_line_s = match line {
            Line::Rate(rate) => request_bytes / rate.max(1.0),
            Line::AtLeast(_) => 0.0,
        };
        Bounds {
            current,
            length_s: time.length_s,
            line,
            outstanding,
            request_bytes,
            unloaded_s: rtt_s + service_s + on_line_s + waits_s * outstanding / requests,
            served_bytes_per_s: outstanding * request_bytes / turn_s.max(f64::MIN_POSITIVE),
            window: iscsi.window.map(|window| window.largest as f64).filter(|most| *most > 0.0),
            is_counted: told.completed.estimate().is_some(),
        }
    }

    /// Performance without a limiter that took `seconds`.
    pub(super) fn without(&self, limiter: Limiter, seconds: f64) -> Prediction {
        match limiter {
            Limiter::LinkRate => self.prediction(self.current.bytes_per_s, Certainty::Figure, None),
            _ if !self.is_counted => self.prediction(self.current.bytes_per_s, Certainty::Unknown, None),
            Limiter::Nagle
            | Limiter::SeparateStatus
            | Limiter::R2t
            | Limiter::StoreLatency
            | Limiter::SenderCpu
            | Limiter::CongestionWindow => self.without_time(seconds),
            Limiter::ReceiveWindow | Limiter::SendBuffer | Limiter::Loss | Limiter::DeviceQueue => {
                let bytes_per_s = self.outstanding * self.request_bytes / self.unloaded_s.max(1e-9);
                self.on_the_line(bytes_per_s, Some(Limiter::QueueDepth))
            }
            Limiter::QueueDepth | Limiter::RoundTrip => self.with_more_requests(),
            Limiter::CommandWindow => {
                let window = self.window.unwrap_or(self.outstanding).max(1.0);
                let (Line::Rate(most) | Line::AtLeast(most)) = self.line;
                let bytes_per_s = (self.current.bytes_per_s * (window + 1.0) / window).min(most);
                self.prediction(bytes_per_s, Certainty::AtLeast, Some(Limiter::QueueDepth))
            }
            _ => self.prediction(self.current.bytes_per_s, Certainty::Unknown, None),
        }
    }

    /// The same load in less time.
    fn without_time(&self, seconds: f64) -> Prediction {
        let left = (1.0 - seconds / self.length_s).max(LEFT_MIN);
        let bytes_per_s = self.current.bytes_per_s / left;
        if self.outstanding <= SERIAL {
            return self.prediction(bytes_per_s, Certainty::Figure, None);
        }
        self.on_the_line(bytes_per_s, None)
    }

    /// As many requests as the target and the remedies allow.
    fn with_more_requests(&self) -> Prediction {
        let (requests, next) = match self.window {
            Some(window) if window < DEPTH_MAX => (window, Limiter::CommandWindow),
            _ => (DEPTH_MAX, Limiter::QueueDepth),
        };
        let latency_s = self.current.latency_s.max(1e-9);
        let bytes_per_s = requests.max(self.outstanding) * self.request_bytes / latency_s;
        let mut found = self.on_the_line(bytes_per_s.min(self.served_bytes_per_s), Some(next));
        if found.predicted.bytes_per_s >= self.served_bytes_per_s && bytes_per_s > self.served_bytes_per_s {
            // A target executes requests beside each other, for all that is known.
            (found.certainty, found.next) = (Certainty::AtLeast, Some(Limiter::StoreLatency));
        }
        // More requests of the same latency.
        found.predicted.latency_s = self.current.latency_s;
        found
    }

    /// A rate as far as the line carries it.
    fn on_the_line(&self, bytes_per_s: f64, next: Option<Limiter>) -> Prediction {
        match self.line {
            Line::Rate(line) if line < bytes_per_s => {
                self.prediction(line, Certainty::Figure, Some(Limiter::LinkRate))
            }
            Line::AtLeast(seen) if bytes_per_s > seen * SEEN => {
                self.prediction(seen, Certainty::AtLeast, None)
            }
            _ => self.prediction(bytes_per_s, Certainty::Figure, next),
        }
    }

    /// Prediction with the requests outstanding of now, and no rate below the present one.
    fn prediction(&self, bytes_per_s: f64, certainty: Certainty, next: Option<Limiter>) -> Prediction {
        let now = self.current;
        let bytes_per_s = bytes_per_s.max(now.bytes_per_s);
        let latency_s = now.latency_s * now.bytes_per_s / bytes_per_s.max(f64::MIN_POSITIVE);
        let certainty = match certainty {
            Certainty::AtLeast if bytes_per_s <= now.bytes_per_s => Certainty::Unknown,
            certainty => certainty,
        };
        Prediction { predicted: Performance { bytes_per_s, latency_s }, certainty, next }
    }
}
