//! Facts about a load before any judgement: plain numbers from any source.
//!
//! The doctor's survey reads them from the tables of a run, a capture supplies some of them too. A number that its source
//! does not supply is `None`; nothing is guessed here.

mod sender;

use serde::Serialize;

pub use self::sender::{CwndCuts, RampFacts, SenderSocket, SenderTime, SenderTraffic, TcpSender};
use crate::performance::Performance;

/// One load: requests of one kind, from one or several sessions to one target.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Facts {
    /// True for writes: data flow to the target.
    pub is_write: bool,
    /// Requests that the figures cover.
    pub requests: u64,
    /// Mean length of a request in bytes.
    pub request_bytes: f64,
    /// Measured performance.
    pub current: Performance,
    /// The path between the ends.
    #[serde(flatten)]
    pub path: PathFacts,
    /// Sessions.
    pub sessions: f64,
    /// Connections, summed over all sessions.
    pub connections: f64,
    /// Requests outstanding, and the limits on their number.
    pub outstanding: Concurrency,
    /// Time of a request by stage.
    pub stages: StageTimes,
    /// TCP at the end that sends the data.
    pub sender: Option<TcpSender>,
    /// TCP at the end that receives the data.
    pub receiver: TcpReceiver,
    /// Event loops of both ends.
    #[serde(flatten)]
    pub loops: LoopFacts,
    /// Parameters negotiated at login.
    pub agreed: Option<Negotiated>,
    /// Unanswerable questions for lack of data in the source, one sentence each.
    pub cannot_know: Vec<String>,
}

/// Network path under the load: round-trip times, line rate and line utilisation.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct PathFacts {
    /// Base round-trip time in seconds: the smallest that TCP measured.
    pub rtt_s: Option<f64>,
    /// Smoothed round-trip time under the load, in seconds, mean, of the initiator's own packets.
    pub loaded_rtt_s: Option<f64>,
    /// Payload rate of the line while it is busy, in bytes per second.
    pub line_bytes_per_s: Option<f64>,
    /// Share of the time in which packets wait for the line.
    pub line_busy: Option<f64>,
}

/// Event loops of both ends; the busiest loop of an end counts.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct LoopFacts {
    /// Share of the time in which the loop waits for events.
    pub idle: PerEnd,
    /// Share of one CPU that the loop's thread uses.
    pub cpu: PerEnd,
}

/// One value for each end.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct PerEnd {
    /// Initiator.
    pub near: Option<f64>,
    /// Target.
    pub far: Option<f64>,
}

/// Requests outstanding, summed over all sessions, as means over time.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Concurrency {
    /// Submitted by the caller and not completed.
    pub called: f64,
    /// In the initiator's iSCSI queue or beyond it.
    pub queued: f64,
    /// Admitted by the command window.
    pub granted: f64,
    /// Largest number that the caller of one session had outstanding.
    pub caller_most: Option<f64>,
    /// True for a caller that adds requests with the bandwidth-delay product.
    pub caller_follows: bool,
    /// Limit on the iSCSI queue of one session.
    pub queue_limit: Option<f64>,
    /// Largest command window that the target granted to one session.
    pub window_most: Option<f64>,
    /// Fewest requests outstanding when the target refused one for want of room.
    pub refused_at: Option<f64>,
}

/// Mean time of a request by stage, in seconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct StageTimes {
    /// From admission by the command window until the socket has the command.
    pub sending: Option<f64>,
    /// At the target, from the command's arrival until its execution begins.
    pub target_wait: Option<f64>,
    /// Write: from the command's departure until the last R2T.
    pub soliciting: Option<f64>,
    /// In the store.
    pub store: Option<f64>,
    /// In the store without queueing: the fastest tenth, or the fastest of the load's first requests.
    pub store_least: Option<f64>,
    /// Bytes per second of a store that serves requests one by one, seen with the load's first requests.
    pub store_bytes_per_s: Option<f64>,
    /// Requests in the store at a time.
    pub store_inside: Option<f64>,
    /// Total time at the target, without the response's wait for the socket.
    pub target: Option<f64>,
    /// From the target's response until its socket has accepted all of it.
    pub answering: Option<f64>,
    /// Read: from the command's departure to the first data, at the initiator.
    pub first_data: Option<f64>,
    /// Read: from the last data to the status, at the initiator.
    pub status_gap: Option<f64>,
    /// Read: from the first data to the last, at the initiator.
    pub data_spread: Option<f64>,
}

/// TCP at the receiver of the data.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct TcpReceiver {
    /// Largest advertised window in bytes, summed over all connections.
    pub window_bytes: Option<f64>,
    /// Limit of the receive buffer of one connection, in bytes.
    pub buffer_most_bytes: Option<f64>,
    /// Out-of-order packets since the connections were established, due to loss or reordering.
    pub behind_gap_packets: Option<f64>,
}

/// Parameters negotiated at login.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Negotiated {
    /// ImmediateData: data may travel with the command.
    pub immediate_data: bool,
    /// InitialR2T: no unsolicited data beyond immediate data.
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

impl Negotiated {
    /// Round trips that a write of `request_bytes` waits for R2Ts.
    pub fn solicited_rounds(&self, request_bytes: f64) -> f64 {
        let immediate =
            if self.immediate_data { self.segment_bytes.min(self.first_burst_bytes) } else { 0.0 };
        let unsolicited = if self.initial_r2t { immediate } else { self.first_burst_bytes };
        let rest = (request_bytes - unsolicited).max(0.0);
        (rest / (self.max_burst_bytes * self.max_outstanding_r2t).max(1.0)).ceil()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_beyond_the_first_burst_cost_round_trips() {
        let agreed = Negotiated {
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
        let more = Negotiated { max_outstanding_r2t: 8.0, ..agreed };
        assert_eq!(more.solicited_rounds(1_048_576.0), 1.0);
        let strict = Negotiated { initial_r2t: true, ..agreed };
        assert_eq!(strict.solicited_rounds(16_384.0), 1.0);
    }
}
