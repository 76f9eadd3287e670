//! What can limit an iSCSI path, one name for each: the words that verdicts, reports and plans share.

use serde::{Serialize, Serializer};

/// What limits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Limiter {
    /// The caller has too few requests outstanding.
    CallerDepth,
    /// The initiator hands too few requests to iSCSI at a time.
    QueueLimit,
    /// The target's command window: MaxCmdSN.
    CommandWindow,
    /// Writes wait for R2Ts: round trips for what FirstBurstLength, MaxBurstLength and MaxOutstandingR2T do not cover.
    R2t,
    /// Requests are too short for the number of them that can be outstanding.
    BlockSize,
    /// One connection is not enough.
    Connections,
    /// Nagle's algorithm holds a last small segment back until an acknowledgement, which the receiver delays.
    Nagle,
    /// Status comes in a PDU of its own, after the data.
    SeparateStatus,
    /// The sender's socket buffer.
    SendBuffer,
    /// The receiver's socket buffer: the window it offers.
    ReceiveWindow,
    /// The congestion window, cut by losses on the path.
    Loss,
    /// The congestion window, cut by the sending host itself, whose device had no room (CWR).
    DeviceRing,
    /// The congestion window has not opened yet, or was closed by a pause.
    Ramp,
    /// The sender paces itself below what the path takes.
    Pacing,
    /// The line is full.
    LinkRate,
    /// A CPU of the end that sends data.
    SenderCpu,
    /// A CPU of the end that receives data.
    ReceiverCpu,
    /// The target works on too few commands at a time.
    TargetQueue,
    /// The time the store takes for one request.
    StoreLatency,
    /// What the store moves per second.
    StoreBandwidth,
    /// One round trip per request, which nothing shortens.
    RoundTrip,
}

/// Every limiter, from the caller down to the store; the last is what remains.
pub const LIMITERS: &[Limiter] = &[
    Limiter::CallerDepth,
    Limiter::QueueLimit,
    Limiter::CommandWindow,
    Limiter::R2t,
    Limiter::BlockSize,
    Limiter::Connections,
    Limiter::Nagle,
    Limiter::SeparateStatus,
    Limiter::SendBuffer,
    Limiter::ReceiveWindow,
    Limiter::Loss,
    Limiter::DeviceRing,
    Limiter::Ramp,
    Limiter::Pacing,
    Limiter::LinkRate,
    Limiter::SenderCpu,
    Limiter::ReceiverCpu,
    Limiter::TargetQueue,
    Limiter::StoreLatency,
    Limiter::StoreBandwidth,
    Limiter::RoundTrip,
];

impl Limiter {
    /// Its name, in tables, plans and JSON. Names stay.
    pub const fn name(self) -> &'static str {
        match self {
            Limiter::CallerDepth => "caller-depth",
            Limiter::QueueLimit => "queue-limit",
            Limiter::CommandWindow => "command-window",
            Limiter::R2t => "r2t",
            Limiter::BlockSize => "block-size",
            Limiter::Connections => "connections",
            Limiter::Nagle => "nagle",
            Limiter::SeparateStatus => "separate-status",
            Limiter::SendBuffer => "send-buffer",
            Limiter::ReceiveWindow => "receive-window",
            Limiter::Loss => "loss",
            Limiter::DeviceRing => "device-ring",
            Limiter::Ramp => "ramp",
            Limiter::Pacing => "pacing",
            Limiter::LinkRate => "link-rate",
            Limiter::SenderCpu => "sender-cpu",
            Limiter::ReceiverCpu => "receiver-cpu",
            Limiter::TargetQueue => "target-queue",
            Limiter::StoreLatency => "store-latency",
            Limiter::StoreBandwidth => "store-bandwidth",
            Limiter::RoundTrip => "round-trip",
        }
    }

    /// What it is, for people.
    pub const fn title(self) -> &'static str {
        match self {
            Limiter::CallerDepth => "the caller keeps too few requests outstanding",
            Limiter::QueueLimit => "the initiator's queue limit",
            Limiter::CommandWindow => "the target's command window (MaxCmdSN)",
            Limiter::R2t => "writes wait for R2Ts",
            Limiter::BlockSize => "requests are too short",
            Limiter::Connections => "one connection is not enough",
            Limiter::Nagle => "Nagle's algorithm waits for delayed acknowledgements",
            Limiter::SeparateStatus => "status comes in a PDU of its own",
            Limiter::SendBuffer => "the sender's socket buffer",
            Limiter::ReceiveWindow => "the receiver's window",
            Limiter::Loss => "the congestion window, cut by losses",
            Limiter::DeviceRing => "the congestion window, cut by the sender's own device (CWR)",
            Limiter::Ramp => "the congestion window is still opening",
            Limiter::Pacing => "the sender paces itself",
            Limiter::LinkRate => "the line is full",
            Limiter::SenderCpu => "a CPU of the sender",
            Limiter::ReceiverCpu => "a CPU of the receiver",
            Limiter::TargetQueue => "the target works on too few commands at a time",
            Limiter::StoreLatency => "the store's time for a request",
            Limiter::StoreBandwidth => "the store's bandwidth",
            Limiter::RoundTrip => "the bare round trip",
        }
    }

    /// The limiter of a name.
    pub fn named(name: &str) -> Option<Limiter> {
        LIMITERS.iter().copied().find(|limiter| limiter.name() == name)
    }

    /// Whether there is something to set; otherwise the path or the caller is the limit and there is nothing to gain
    /// below them.
    pub const fn is_final(self) -> bool {
        matches!(self, Limiter::LinkRate | Limiter::RoundTrip)
    }
}

impl Serialize for Limiter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for limiter in LIMITERS {
            assert_eq!(Limiter::named(limiter.name()), Some(*limiter));
            assert!(
                limiter.name().bytes().all(|b| b.is_ascii_lowercase() || b == b'-' || b.is_ascii_digit())
            );
        }
        assert!(LIMITERS.windows(2).all(|pair| pair[0] < pair[1]), "in the order of the enum, each once");
    }
}
