//! Classification of TCP segments: new data, reordering, the kinds of retransmission, probes.

use serde::Serialize;

/// Class of a segment as seen at the tap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SegmentKind {
    /// No data: an acknowledgement, or the beginning or end of the connection.
    Control,
    /// New data.
    New,
    /// Data that fills a hole within the reordering time.
    OutOfOrder,
    /// Retransmission that fills a hole: the lost segment never passed the tap.
    Unseen,
    /// Retransmission after three duplicate acknowledgements or a selective one above it.
    Fast,
    /// Retransmission by time: a retransmission timeout or a tail loss probe.
    Timeout,
    /// Retransmission of acknowledged data.
    Spurious,
    /// Retransmission sooner than any answer could arrive: the sender's own device dropped the segment.
    Local,
    /// Keep-alive: a byte before the next one.
    KeepAlive,
    /// Zero-window probe: a byte into a closed window.
    WindowProbe,
}

impl SegmentKind {
    /// Name in lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::New => "new",
            Self::OutOfOrder => "out_of_order",
            Self::Unseen => "unseen",
            Self::Fast => "fast",
            Self::Timeout => "timeout",
            Self::Spurious => "spurious",
            Self::Local => "local",
            Self::KeepAlive => "keep_alive",
            Self::WindowProbe => "window_probe",
        }
    }

    /// True for a retransmission, necessary or spurious.
    pub fn is_retransmission(self) -> bool {
        self.repairs_loss() || self == Self::Spurious
    }

    /// True for a retransmission of lost data.
    pub(crate) fn repairs_loss(self) -> bool {
        matches!(self, Self::Unseen | Self::Fast | Self::Timeout | Self::Local)
    }
}

/// Number of segments of each kind; segments without data are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SegmentKindCounts {
    /// [`SegmentKind::New`].
    pub new: u64,
    /// [`SegmentKind::OutOfOrder`].
    pub out_of_order: u64,
    /// [`SegmentKind::Unseen`].
    pub unseen: u64,
    /// [`SegmentKind::Fast`].
    pub fast: u64,
    /// [`SegmentKind::Timeout`].
    pub timeout: u64,
    /// [`SegmentKind::Spurious`].
    pub spurious: u64,
    /// [`SegmentKind::Local`].
    pub local: u64,
    /// [`SegmentKind::KeepAlive`].
    pub keep_alive: u64,
    /// [`SegmentKind::WindowProbe`].
    pub window_probe: u64,
}

impl SegmentKindCounts {
    pub(crate) fn count(&mut self, kind: SegmentKind) {
        match kind {
            SegmentKind::Control => {}
            SegmentKind::New => self.new += 1,
            SegmentKind::OutOfOrder => self.out_of_order += 1,
            SegmentKind::Unseen => self.unseen += 1,
            SegmentKind::Fast => self.fast += 1,
            SegmentKind::Timeout => self.timeout += 1,
            SegmentKind::Spurious => self.spurious += 1,
            SegmentKind::Local => self.local += 1,
            SegmentKind::KeepAlive => self.keep_alive += 1,
            SegmentKind::WindowProbe => self.window_probe += 1,
        }
    }

    /// Retransmissions of every kind.
    pub fn retransmissions(&self) -> u64 {
        self.unseen + self.fast + self.timeout + self.spurious + self.local
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_data_reordering_and_probes_are_no_retransmissions() {
        use SegmentKind::{
            Control, Fast, KeepAlive, Local, New, OutOfOrder, Spurious, Timeout, Unseen, WindowProbe,
        };
        let mut counts = SegmentKindCounts::default();
        for kind in [Control, New, OutOfOrder, KeepAlive, WindowProbe] {
            counts.count(kind);
            assert!(!kind.is_retransmission() && counts.retransmissions() == 0, "{kind:?}");
        }
        for (kind, retransmissions) in [Unseen, Fast, Timeout, Spurious, Local].into_iter().zip(1..) {
            counts.count(kind);
            assert!(kind.is_retransmission(), "{kind:?}");
            assert_eq!(counts.retransmissions(), retransmissions, "{kind:?}");
        }
    }
}
