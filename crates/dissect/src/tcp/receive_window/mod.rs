//! Receive window that one side advertises: its right edge and the times at which it is closed.

pub(super) mod scale;

use wire::inet::Segment;
use wire::inet::tcp::{ACK, RST, SYN};

use crate::figures::edges::History;

/// A window as a segment advertises it.
#[derive(Clone, Copy, Debug, Default)]
struct Advertisement {
    /// Acknowledgement, extended.
    ack: u64,
    /// Window, unscaled.
    window: u16,
}

impl Advertisement {
    /// Right edge with a scale of `shift`.
    fn edge(self, shift: u8) -> u64 {
        self.ack + (u64::from(self.window) << shift)
    }
}

/// Receive window of one side.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReceiveWindow {
    /// Last advertised window, unscaled as in the header.
    last: Option<u16>,
    advertised: History<Advertisement>,
    /// Highest acknowledgement number: the next byte that this side expects.
    pub(super) expected: Option<u32>,
    zero_since_ns: Option<u64>,
    /// Zero-window periods.
    pub(crate) zero_windows: u64,
    /// Duration of those.
    pub(crate) zero_window_ns: u64,
}

impl ReceiveWindow {
    /// Takes the window in a segment of this side; true if it differs from the last one.
    pub(super) fn advertise(&mut self, t_ns: u64, segment: &Segment<'_>) -> bool {
        if segment.flags & RST != 0 {
            return false;
        }
        if segment.flags & ACK != 0 {
            let known = self.expected.unwrap_or(segment.ack);
            let is_ahead = segment.ack.wrapping_sub(known) < 1 << 31;
            self.expected = Some(if is_ahead { segment.ack } else { known });
        }
        let is_new = self.last != Some(segment.window);
        self.last = Some(segment.window);
        match (segment.window, self.zero_since_ns) {
            (0, None) if segment.flags & SYN == 0 => {
                self.zero_windows += 1;
                self.zero_since_ns = Some(t_ns);
            }
            (1.., Some(since)) => {
                self.zero_window_ns += t_ns.saturating_sub(since);
                self.zero_since_ns = None;
            }
            _ => {}
        }
        is_new
    }

    /// Adds the last window to the history, with the acknowledgement of the same segment.
    pub(super) fn remember(&mut self, t_ns: u64, ack: u64, shift: u8, apart_ns: u64) {
        let Some(window) = self.last else { return };
        let larger = |a: Advertisement, b: Advertisement| if a.edge(shift) > b.edge(shift) { a } else { b };
        self.advertised.add(t_ns, Advertisement { ack, window }, apart_ns, larger);
    }

    /// Right edge at a time with a scale of `shift`; `None` before the history begins. A window that shrinks revokes no
    /// permission: the sender may have used it.
    pub(super) fn edge_at(&self, t_ns: u64, shift: u8) -> Option<u64> {
        self.advertised.until(t_ns).map(|advertised| advertised.edge(shift)).max()
    }

    /// True if the window is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.last == Some(0)
    }

    /// Leaves out the time between two moments, which nobody watched.
    pub(super) fn skip(&mut self, from_ns: u64, to_ns: u64) {
        if let Some(since_ns) = &mut self.zero_since_ns {
            self.zero_window_ns += from_ns.saturating_sub(*since_ns);
            *since_ns = to_ns.max(*since_ns);
        }
    }

    /// Ends an open zero-window period at the end of the capture.
    pub(super) fn finish(&mut self, t_ns: u64) {
        if let Some(since) = self.zero_since_ns.take() {
            self.zero_window_ns += t_ns.saturating_sub(since);
        }
    }
}
