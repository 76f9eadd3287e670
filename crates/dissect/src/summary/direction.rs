//! Summary of one direction of a TCP connection.

use serde::Serialize;

use crate::connection::TappedConnection;
use crate::figures::delivery::DeliverySummary;
use crate::figures::distribution::Durations;
use crate::figures::slow_start::SlowStartSummary;
use crate::figures::trains::TrainSummary;
use crate::tcp::black_hole::BlackHole;
use crate::tcp::kind::SegmentKindCounts;
use crate::tcp::span::SequenceSpan;

/// One direction of a connection.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DirectionSummary {
    /// Address of the sender.
    pub from: String,
    /// Address of the receiver.
    pub to: String,
    /// Interface of the packets.
    pub interface: u32,
    /// Sequence numbers in the capture.
    #[serde(skip)]
    pub(crate) span: SequenceSpan,
    /// Segments.
    pub packets: u64,
    /// Segments with data.
    pub data_packets: u64,
    /// Payload in bytes, retransmissions included.
    pub payload_bytes: u64,
    /// Share of the payload that the capture has kept.
    pub kept_share: Option<f64>,
    /// Acknowledged bytes that are not in the capture.
    pub missing_bytes: u64,
    /// Number of gaps with those bytes.
    pub gaps: u64,
    /// Segments with data by kind.
    pub kinds: SegmentKindCounts,
    /// [`SegmentKindCounts::retransmissions`].
    pub retransmissions: u64,
    /// Segments above a size that never arrive.
    pub black_hole: Option<BlackHole>,
    /// Round trip from the tap to the receiver, by acknowledgement, delayed ones included.
    pub ack_rtt: Option<Durations>,
    /// True if one of them is that of an acknowledgement without data, which waited for no answer.
    pub ack_rtt_alone: bool,
    /// Delivery rate.
    pub delivered: Option<DeliverySummary>,
    /// Rate of packet trains behind the path.
    pub trains: Option<TrainSummary>,
    /// Slow starts.
    pub slow_starts: SlowStartSummary,
    /// Share of bursts that began when acknowledgements had reached the sender; null if there are few.
    pub ack_clocked_share: Option<f64>,
    /// Maximum of the bytes in flight.
    pub flight_max_bytes: u64,
    /// Mean of the bytes in flight, without pauses of more than a second.
    pub flight_mean_bytes: f64,
    /// Duplicate acknowledgements.
    pub duplicate_acks: u64,
    /// Acknowledgements that advanced.
    pub acks: u64,
    /// Acknowledgements among them that stand before their data: those were not captured, or by another clock.
    pub early_acks: u64,
    /// True if the receiver acknowledged selectively.
    pub sack: bool,
    /// Zero-window periods of the receiver.
    pub zero_windows: u64,
    /// Duration of those.
    pub zero_window_s: f64,
    /// Segments after which the receive window, as known to the sender, had no room for two more. Without the
    /// handshake the scale is the least that permits all data.
    pub window_full: u64,
    /// True if the handshake or the data tell the scale of the receive window.
    pub window_known: bool,
    /// Segments with fewer than 128 bytes of payload.
    pub tinygrams: u64,
    /// Segments larger than the MSS.
    pub super_packets: u64,
    /// Payload of the largest segment.
    pub largest_bytes: u64,
    /// MSS in bytes, if the handshake is in the capture.
    pub mss_bytes: Option<u64>,
    /// Stalls of Nagle's algorithm against delayed acknowledgements.
    pub nagle_stalls: u64,
    /// Time for which the small segments behind them waited, the round trip included.
    pub nagle_stall_s: f64,
}

impl DirectionSummary {
    pub(crate) fn new(connection: &TappedConnection, direction: usize) -> Self {
        let (own, peer) = (&connection.directions[direction], &connection.directions[1 - direction]);
        let (totals, stream) = (&own.totals, &connection.streams[direction]);
        let kept = totals.kept_bytes as f64 / totals.payload_bytes as f64;
        let busy_ns = own.delivery.busy_ns(connection.last_ns);
        Self {
            from: connection.addresses[direction].to_string(),
            to: connection.addresses[1 - direction].to_string(),
            interface: connection.interfaces()[direction],
            span: own.span(),
            packets: totals.packets,
            data_packets: totals.data_packets,
            payload_bytes: totals.payload_bytes,
            kept_share: (totals.payload_bytes > 0).then_some(kept),
            missing_bytes: stream.missing_bytes,
            gaps: stream.gaps,
            kinds: totals.kinds,
            retransmissions: totals.kinds.retransmissions(),
            black_hole: own.black_hole(connection.end_ns),
            ack_rtt: own.rtt.durations(),
            ack_rtt_alone: totals.rtt_alone,
            delivered: own.delivery.summary(),
            trains: own.trains(peer),
            slow_starts: own.bursts.slow_starts.summary(),
            ack_clocked_share: own.bursts.ack_clock.share(),
            flight_max_bytes: totals.flight_max,
            flight_mean_bytes: own.flight_level.mean_over(busy_ns),
            duplicate_acks: totals.dup_acks,
            acks: totals.acks,
            early_acks: totals.early_acks,
            sack: totals.sack_seen,
            zero_windows: peer.window.zero_windows,
            zero_window_s: peer.window.zero_window_ns as f64 / 1e9,
            window_full: totals.window_full,
            window_known: peer.window_shift(own).is_some(),
            tinygrams: totals.tinygrams,
            super_packets: totals.super_packets,
            largest_bytes: totals.largest as u64,
            mss_bytes: own.handshake.mss_with(&peer.handshake).map(u64::from),
            nagle_stalls: connection.stalls[direction].count,
            nagle_stall_s: connection.stalls[direction].total_ns as f64 / 1e9,
        }
    }
}
