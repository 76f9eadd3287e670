//! Packets of a gap analysis: class, taps, times; limits of the analysis and of its figures.

use serde::Serialize;

/// Limit on analysed packets of one kind: one stretch of the run.
pub const PASSAGES_MAX: usize = 250_000;
/// Fewest packets for an analysis.
pub(super) const LEAST: usize = 256;

/// Class of a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Packet with payload.
    Data,
    /// Pure acknowledgement, without payload.
    Acks,
}

/// Observation point on the path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tap {
    /// Ingress: the path takes the packet from its sender. The only tap of a capture.
    Sent,
    /// Scheduled egress: delivery time in the model of the emulated path.
    Due,
    /// Egress: delivery to the receiver.
    Received,
}

/// Times of one packet, or of one super-packet (GSO), at the taps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passage {
    /// Time at the first tap.
    pub sent_ns: u64,
    /// Scheduled and actual time at the second tap; `None` with a single tap.
    pub arrived_ns: Option<(u64, u64)>,
    /// Data: bytes on the line. Acknowledgement: newly acknowledged payload bytes.
    pub bytes: u32,
    /// MTU-sized packets it stands for.
    pub segments: u32,
    /// Uncertainty of `sent_ns`: time since the first tap was last polled; the packet may be that much older.
    pub unseen_ns: u64,
}

/// Limits of the data that figures keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Drawing {
    /// Origin of the time axis.
    pub origin_ns: u64,
    /// Points per figure; 0 disables figures.
    pub points: usize,
}

impl Kind {
    /// Returns the name for output.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Data => "data",
            Kind::Acks => "acknowledgements",
        }
    }
}

impl Tap {
    /// Returns the name for output.
    pub const fn name(self) -> &'static str {
        match self {
            Tap::Sent => "sent",
            Tap::Due => "due",
            Tap::Received => "received",
        }
    }
}
