//! What a segment is to its connection.

use serde::Serialize;

/// What a segment is to its connection, as seen at the tap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Nothing but an acknowledgement, or the beginning or end of the connection.
    Control,
    /// Data that was not there before, in order.
    New,
    /// Fills a gap so soon that it was only late.
    OutOfOrder,
    /// Fills a gap: sent again, but what was lost never passed the tap.
    Unseen,
    /// Sent again after three duplicate acknowledgements or a selective one above it.
    Fast,
    /// Sent again because time had passed: a retransmission timeout or a tail probe.
    Timeout,
    /// Sent again though it had been acknowledged.
    Spurious,
    /// Sent again sooner than any answer could come: the sender's own device had dropped it.
    Local,
    /// A byte before the next one, to see whether the peer is there.
    KeepAlive,
    /// A byte into a window that is closed.
    WindowProbe,
}

impl Kind {
    /// Its name in lists.
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
}

impl Kind {
    /// Whether its bytes were sent before, or may have been.
    pub(super) fn is_again(self) -> bool {
        self.is_repair() || self == Self::Spurious
    }

    /// Whether it repairs a loss.
    pub(super) fn is_repair(self) -> bool {
        matches!(self, Self::Unseen | Self::Fast | Self::Timeout | Self::Local)
    }
}

/// How many segments were of each kind; segments without data are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Kinds {
    /// [`Kind::New`].
    pub new: u64,
    /// [`Kind::OutOfOrder`].
    pub out_of_order: u64,
    /// [`Kind::Unseen`].
    pub unseen: u64,
    /// [`Kind::Fast`].
    pub fast: u64,
    /// [`Kind::Timeout`].
    pub timeout: u64,
    /// [`Kind::Spurious`].
    pub spurious: u64,
    /// [`Kind::Local`].
    pub local: u64,
    /// [`Kind::KeepAlive`].
    pub keep_alive: u64,
    /// [`Kind::WindowProbe`].
    pub window_probe: u64,
}

impl Kinds {
    pub(super) fn count(&mut self, kind: Kind) {
        match kind {
            Kind::Control => {}
            Kind::New => self.new += 1,
            Kind::OutOfOrder => self.out_of_order += 1,
            Kind::Unseen => self.unseen += 1,
            Kind::Fast => self.fast += 1,
            Kind::Timeout => self.timeout += 1,
            Kind::Spurious => self.spurious += 1,
            Kind::Local => self.local += 1,
            Kind::KeepAlive => self.keep_alive += 1,
            Kind::WindowProbe => self.window_probe += 1,
        }
    }

    /// Segments that were sent again, of whatever reason.
    pub fn retransmissions(&self) -> u64 {
        self.unseen + self.fast + self.timeout + self.spurious + self.local
    }
}
