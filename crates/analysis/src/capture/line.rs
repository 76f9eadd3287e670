//! Rate of the line, as far as a capture shows it.

use dissect::{DirectionSummary as Direction, TimeUse};

/// Share of the receive window in the time with data at hand from which on its updates space the packets.
const WINDOW: f64 = 0.2;

/// Rate of the line.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Line {
    /// Bytes per second, measured.
    Rate(f64),
    /// Lower bound.
    AtLeast(f64),
}

impl Line {
    /// The line behind a direction with data.
    pub(super) fn seen(data: &Direction) -> Line {
        match data.trains {
            Some(trains) if trains.is_line => Line::Rate(trains.bytes_per_s),
            trains => Line::AtLeast(trains.map_or(0.0, |trains| trains.bytes_per_s)),
        }
    }

    /// The rate, if it is measured.
    pub(super) fn rate(self) -> Option<f64> {
        if let Line::Rate(rate) = self { Some(rate) } else { None }
    }
}

/// True if data at hand waited for the receive window.
pub(super) fn is_window_limited(time: TimeUse) -> bool {
    time.receive_window_s > WINDOW * (time.receive_window_s + time.sending_s)
}
