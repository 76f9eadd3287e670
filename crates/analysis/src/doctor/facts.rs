//! What is known of a load before it is judged: plain numbers, from whatever source. [`super::survey`] takes them from
//! the tables of a run; a capture can fill them too. What a source does not tell is `None`, and is never guessed here.

use serde::Serialize;

use super::verdict::Performance;

/// One load: requests of one kind, from one or several sessions to one target.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Facts {
    /// Whether data go to the target; otherwise they come from it.
    pub is_write: bool,
    /// Requests that the figures are of.
    pub requests: u64,
    /// Mean length of a request.
    pub request_bytes: f64,
    /// How it fares.
    pub current: Performance,
    /// Smallest round trip that TCP saw.
    pub rtt_s: Option<f64>,
    /// Sessions.
    pub sessions: f64,
    /// Connections of all sessions together.
    pub connections: f64,
    /// Requests under way and what bounds their number.
    pub outstanding: Outstanding,
    /// Where requests spend their time.
    pub stages: Stages,
    /// TCP of the end that sends the data.
    pub sender: Option<Sender>,
    /// What the receiver lets TCP have.
    pub receiver: Receiver,
    /// Payload per second that the line carries while it is busy.
    pub line_bytes_per_s: Option<f64>,
    /// Share of the time for which something waited for the line.
    pub line_busy: Option<f64>,
    /// Share of the time for which the loop of the near and of the far end had nothing to do.
    pub idle: Ends,
    /// Share of one CPU that the loop of each end used.
    pub cpu: Ends,
    /// What was agreed at the login.
    pub agreed: Option<Agreed>,
    /// What the source does not tell, in sentences.
    pub cannot_know: Vec<String>,
}

/// A number of each end.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Ends {
    /// The initiator's.
    pub near: Option<f64>,
    /// The target's.
    pub far: Option<f64>,
}

/// Requests under way, of all sessions together: means over time.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Outstanding {
    /// Given by the caller and not answered.
    pub called: f64,
    /// In the initiator's iSCSI queue or beyond.
    pub queued: f64,
    /// Let go by the command window.
    pub granted: f64,
    /// The most that one session's caller ever had.
    pub caller_most: Option<f64>,
    /// The caller adds requests as the path takes them.
    pub caller_follows: bool,
    /// The most that a session may have in its iSCSI queue.
    pub queue_limit: Option<f64>,
    /// The most that the target ever allowed one session.
    pub window_most: Option<f64>,
}

/// Mean time that a request spends somewhere, in seconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Stages {
    /// From the command window's leave until the socket has the command.
    pub sending: Option<f64>,
    /// At the target, from the command's arrival until its execution begins.
    pub target_wait: Option<f64>,
    /// Write: from the command's departure until the last R2T.
    pub soliciting: Option<f64>,
    /// In the store.
    pub store: Option<f64>,
    /// In the store, of the tenth that is served soonest, or of the soonest of the first requests of all.
    pub store_least: Option<f64>,
    /// What the store moves per second, if it serves one request after the other: seen of the first of all.
    pub store_bytes_per_s: Option<f64>,
    /// Requests in the store at a time.
    pub store_inside: Option<f64>,
    /// At the target in all, but for what the answer waits for the socket.
    pub target: Option<f64>,
    /// From the target's answer until its socket has all of it.
    pub answering: Option<f64>,
    /// Read: between its last data and its status, at the initiator.
    pub status_gap: Option<f64>,
    /// Read: between its first data and its last, at the initiator.
    pub data_spread: Option<f64>,
}

/// TCP of the end that sends the data, over all of its connections.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Sender {
    /// Share of the time for which data waited to be sent.
    pub backlogged: f64,
    /// Share of the time limited by the peer's window.
    pub receive_window: f64,
    /// Share of the time limited by the send buffer.
    pub send_buffer: f64,
    /// Share of the time for which the socket had nothing left to send and its owner had: no window is in the way then,
    /// the socket takes no more.
    pub starved: f64,
    /// Share of the time limited by the congestion window.
    pub congestion_window: f64,
    /// Share of the time limited by pacing.
    pub pacing: f64,
    /// Mean window, of all connections together.
    pub cwnd_bytes: f64,
    /// Mean under way.
    pub flight_bytes: f64,
    /// Mean smoothed round trip.
    pub rtt_s: f64,
    /// Largest segment.
    pub mss_bytes: f64,
    /// Packets sent again.
    pub retransmitted: f64,
    /// Packets sent, about.
    pub packets: f64,
    /// Cuts by its own device.
    pub local_cuts: f64,
    /// The same before the time that the figures are of: a window grows for a long time from what it was cut to.
    pub earlier_local_cuts: f64,
    /// Cuts by losses and timeouts before that time.
    pub earlier_losses: f64,
    /// Mean pacing rate, of all connections together; `None` if unpaced.
    pub pacing_bytes_per_s: Option<f64>,
    /// The same if it never moved: then nobody follows the window or the path with it.
    pub pacing_cap_bytes_per_s: Option<f64>,
    /// Share of the time until it first sent as fast as later.
    pub ramp: f64,
    /// Its rate after the ramp, payload.
    pub plateau_bytes_per_s: f64,
    /// Its windows were still opening when the load ended: how fast it would get was not seen.
    pub is_growing: bool,
    /// Restarts from a small window after a pause, without loss.
    pub restarts: f64,
    /// Whether Nagle's algorithm is on.
    pub has_nagle: Option<bool>,
    /// The most that its socket buffer may hold, of one connection.
    pub buffer_most_bytes: Option<f64>,
}

/// The receiver's side of TCP.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Receiver {
    /// The largest window it offered, of all connections together.
    pub window_bytes: Option<f64>,
    /// The most that its socket buffer may hold, of one connection.
    pub buffer_most_bytes: Option<f64>,
}

/// What was agreed at the login.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Agreed {
    /// Data may go with the command.
    pub immediate_data: bool,
    /// Nothing else may go before an R2T.
    pub initial_r2t: bool,
    /// FirstBurstLength.
    pub first_burst_bytes: f64,
    /// MaxBurstLength.
    pub max_burst_bytes: f64,
    /// MaxOutstandingR2T.
    pub max_outstanding_r2t: f64,
    /// MaxRecvDataSegmentLength of the end that receives the data.
    pub segment_bytes: f64,
}

impl Facts {
    /// Requests per second.
    pub fn rate(&self) -> f64 {
        if self.request_bytes > 0.0 { self.current.bytes_per_s / self.request_bytes } else { 0.0 }
    }
}

impl Agreed {
    /// Round trips that a write of this length waits for R2Ts.
    pub fn solicited_rounds(&self, request_bytes: f64) -> f64 {
        let immediate =
            if self.immediate_data { self.segment_bytes.min(self.first_burst_bytes) } else { 0.0 };
        let unasked = if self.initial_r2t { immediate } else { self.first_burst_bytes };
        let rest = (request_bytes - unasked).max(0.0);
        (rest / (self.max_burst_bytes * self.max_outstanding_r2t).max(1.0)).ceil()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_covered_by_the_first_burst_costs_round_trips() {
        let agreed = Agreed {
            immediate_data: true,
            initial_r2t: false,
            first_burst_bytes: 65_536.0,
            max_burst_bytes: 262_144.0,
            max_outstanding_r2t: 1.0,
            segment_bytes: 8192.0,
        };
        assert_eq!(agreed.solicited_rounds(4096.0), 0.0);
        assert_eq!(agreed.solicited_rounds(65_536.0 + 1.0), 1.0);
        assert_eq!(agreed.solicited_rounds(1_048_576.0), 4.0);
        let more = Agreed { max_outstanding_r2t: 8.0, ..agreed };
        assert_eq!(more.solicited_rounds(1_048_576.0), 1.0);
        let strict = Agreed { initial_r2t: true, ..agreed };
        assert_eq!(strict.solicited_rounds(16_384.0), 1.0);
    }
}
