//! Receive window that one side advertises: its right edge and the times at which it is closed.

use wire::inet::Segment;
use wire::inet::tcp::{RST, SYN};

use crate::figures::edges::EdgeHistory;

/// Receive window of one side.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReceiveWindow {
    /// Last advertised window, unscaled as in the header.
    last: Option<u16>,
    edges: EdgeHistory,
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

    /// Adds a right edge to the history, see [`EdgeHistory::add`].
    pub(super) fn add_edge(&mut self, t_ns: u64, edge: u64, apart_ns: u64) {
        self.edges.add(t_ns, edge, apart_ns);
    }

    /// Right edge at a time; `None` before the history begins.
    pub(super) fn edge_at(&self, t_ns: u64) -> Option<u64> {
        self.edges.at(t_ns)
    }

    /// Last advertised window, as in the header.
    pub(super) fn unscaled(&self) -> Option<u16> {
        self.last
    }

    /// Forgets the edges of a scale that was too small.
    pub(crate) fn forget_edges(&mut self) {
        self.edges = EdgeHistory::default();
    }

    /// True if the window is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.last == Some(0)
    }

    /// Ends an open zero-window period at the end of the capture.
    pub(super) fn finish(&mut self, t_ns: u64) {
        if let Some(since) = self.zero_since_ns.take() {
            self.zero_window_ns += t_ns.saturating_sub(since);
        }
    }
}
