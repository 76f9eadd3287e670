//! Notice of one end about its congestion window: plain data, independent of its transport to the other end.

/// A word about a congestion window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowNotice {
    /// Reason of the notice.
    pub kind: WindowKind,
    /// After a cut the window that is left, otherwise the largest that is known to be good.
    pub cwnd_packets: u32,
    /// Payload of a packet.
    pub mss_bytes: u32,
}

/// Reasons of a notice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowKind {
    /// The sender's own device was full, which cut it; nothing was lost.
    CutHere,
    /// A loss on the path cut it.
    CutByLoss,
    /// A retransmission timeout cut it.
    CutByTimeout,
    /// Stable window: the largest one without a cut.
    Limit,
}

impl WindowKind {
    /// The name that tables have.
    pub const fn name(self) -> &'static str {
        match self {
            WindowKind::CutHere => "cut-here",
            WindowKind::CutByLoss => "cut-by-loss",
            WindowKind::CutByTimeout => "cut-by-timeout",
            WindowKind::Limit => "limit",
        }
    }
}

impl WindowNotice {
    /// Bytes that the window allows in a round trip.
    pub fn bytes(&self) -> u64 {
        u64::from(self.cwnd_packets) * u64::from(self.mss_bytes)
    }
}
