//! Window scale of a connection whose SYNs are not in the capture, from the data that the windows have permitted.
//!
//! A sender never passes the right edge of the window (RFC 9293 section 3.8.6): the scale is at least the least one that
//! permits every segment. With a larger one no flight would have filled more than half of the window, so a flight that
//! fills it at the least scale again and again was held back by it.

/// Largest shift (RFC 7323 section 2.3).
const SHIFT_MAX: u8 = 14;
/// Segments that a scale has to permit before it counts. The segments of one flight at least: before the first
/// acknowledgement of a capture nothing is known of the bytes in flight.
const PERMITTED_MIN: u32 = 64;

/// Segments beyond the window, in excess of those within, from which on a larger scale is believed: an acknowledgement that
/// the tap has lost puts a few segments of one flight there.
const BEYOND_MIN: u32 = 16;

/// Round trips between tap and sender from which on the fastest of them is believed: an answer that was held back until
/// there was data acknowledges late.
const ROUND_TRIPS_MIN: u64 = 32;

/// Search for the scale of one side's windows.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::tcp) struct WindowScale {
    /// With the edges that the sender knew by the round trip between tap and sender.
    known: Search,
    /// With the edges that have passed the tap: a lower bound.
    passed: Search,
    is_believed: bool,
}

impl WindowScale {
    /// Takes the end of new data, the right edge that the sender knew with a scale, and the one that has passed the tap;
    /// true if the scale rose. `round_trips` between tap and sender have been measured.
    pub(in crate::tcp) fn permit(
        &mut self,
        end: u64,
        known: impl Fn(u8) -> Option<u64>,
        passed: impl Fn(u8) -> Option<u64>,
        round_trips: u64,
    ) -> bool {
        self.is_believed = round_trips >= ROUND_TRIPS_MIN;
        self.passed.permit(end, passed);
        self.known.permit(end, known)
    }

    /// Least shift that permits the data so far.
    pub(in crate::tcp) fn least(self) -> u8 {
        self.known.shift
    }

    /// Shift of the windows; `None` if the data do not tell it.
    pub(in crate::tcp) fn shift(self) -> Option<u8> {
        let shift = self.known.settled()?;
        (self.is_believed || self.passed.settled() == Some(shift)).then_some(shift)
    }
}

/// Search for the least scale.
#[derive(Clone, Copy, Debug, Default)]
struct Search {
    shift: u8,
    permitted: u32,
    beyond: u32,
}

impl Search {
    fn permit(&mut self, end: u64, edge: impl Fn(u8) -> Option<u64>) -> bool {
        let is_beyond = edge(self.shift).is_some_and(|edge| edge < end);
        self.permitted = self.permitted.saturating_add(1);
        self.beyond = if is_beyond { self.beyond + 1 } else { self.beyond.saturating_sub(1) };
        let has_risen = self.beyond >= BEYOND_MIN && self.shift < SHIFT_MAX;
        if has_risen {
            *self = Self { shift: self.shift + 1, ..Self::default() };
        }
        has_risen
    }

    /// The shift; `None` while too little was sent.
    fn settled(self) -> Option<u8> {
        (self.permitted >= PERMITTED_MIN).then_some(self.shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_scale_that_permits_the_data() {
        let mut scale = Search::default();
        let window = |shift| Some(1_000_u64 << shift);
        let mut permit = |end, times: u32| (0..times).filter(|_| scale.permit(end, window)).count();
        assert_eq!(permit(1_000, 100), 0);
        assert_eq!(permit(8_000, BEYOND_MIN - 1), 0, "an acknowledgement may be lost");
        assert_eq!(permit(8_000, 80), 3, "eight times the window");
        assert_eq!(scale.settled(), None, "of some segments nothing is known");
        (0..PERMITTED_MIN).for_each(|_| assert!(!scale.permit(7_000, window)));
        assert_eq!(scale.settled(), Some(3));
        assert!(!scale.permit(u64::MAX, |_| None), "no window is known");
        (0..1_000).for_each(|_| _ = scale.permit(u64::MAX, window));
        assert_eq!(scale.shift, SHIFT_MAX);
    }

    #[test]
    fn a_scale_that_hangs_on_the_round_trip_needs_many_of_them() {
        let scale = |passed: u64, round_trips| {
            let mut scale = WindowScale::default();
            let edges = |of: u64| move |shift: u8| Some(of + (1_000_u64 << shift));
            (0..500).for_each(|_| _ = scale.permit(8_000, edges(0), edges(passed), round_trips));
            scale.shift()
        };
        assert_eq!(scale(0, 0), Some(3));
        assert_eq!(scale(6_000, 0), None);
        assert_eq!(scale(6_000, ROUND_TRIPS_MIN), Some(3));
    }
}
