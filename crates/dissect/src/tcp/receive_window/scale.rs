//! Window scale of a connection whose SYNs are not in the capture, from the data that the windows have permitted.
//!
//! A sender never passes the right edge of the window (RFC 9293 section 3.8.6): the scale is at least the least one that
//! permits every segment. With a larger one no flight would have filled more than half of the window, so a flight that
//! fills it at the least scale again and again was held back by it.
//!
//! A tap that has lost acknowledgements does not know the edge that the sender knew. The next one that it shows is at least as
//! far: a segment beyond that too was permitted by a larger scale. One before it tells nothing, and many of those leave the
//! scale unknown.

/// Largest shift (RFC 7323 section 2.3).
const SHIFT_MAX: u8 = 14;
/// Segments that a scale has to permit before it counts: one window of 64 KiB in segments of 1 KiB. Before the first
/// acknowledgement of a capture nothing is known of the bytes in flight, and without the option no flight is larger (RFC
/// 7323 section 2.2).
const PERMITTED_MIN: u32 = 64;

/// Segments beyond the window, in excess of those within, from which on a larger scale is believed, or none: an initial window
/// (RFC 6928), which leaves before the tap has seen an acknowledgement of its flight.
const BEYOND_MIN: u32 = 10;

/// Round trips between tap and sender from which on the fastest of them is believed: an answer that was held back until
/// there was data acknowledges late. If one acknowledgement in four waits for no data, 32 miss all of those once in ten
/// thousand captures (0.75 to the power of 32).
const ROUND_TRIPS_MIN: u64 = 32;

/// Search for the scale of one side's windows.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::tcp) struct WindowScale {
    /// With the edges that the sender knew by the round trip between tap and sender.
    known: Search,
    /// With the edges that have passed the tap: a lower bound.
    passed: Search,
    is_believed: bool,
    /// The shift that was known last: doubt comes and goes.
    last_known: Option<u8>,
}

impl WindowScale {
    /// Takes the end of new data, the right edge that the sender knew with a scale, and the one that has passed the tap;
    /// true if another shift was known before. `round_trips` between tap and sender have been measured.
    pub(in crate::tcp) fn permit(
        &mut self,
        end: u64,
        known: impl Fn(u8) -> Option<u64>,
        passed: impl Fn(u8) -> Option<u64>,
        round_trips: u64,
    ) -> bool {
        self.is_believed = round_trips >= ROUND_TRIPS_MIN;
        self.passed.permit(end, passed);
        self.known.permit(end, known);
        let Some(shift) = self.shift() else { return false };
        self.last_known.replace(shift).is_some_and(|before| before != shift)
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
    /// Segments beyond the edge that the next acknowledgement had as well.
    beyond: u32,
    /// Segments beyond an edge that a lost acknowledgement may have moved.
    doubtful: u32,
    /// Segments beyond the present edge.
    waiting: Option<Waiting>,
}

/// Segments beyond an edge, until the next one.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    edge: u64,
    count: u32,
    /// Ends of the first one and of the last one.
    first: u64,
    last: u64,
}

impl Search {
    fn permit(&mut self, end: u64, edge_of: impl Fn(u8) -> Option<u64>) {
        let Some(edge) = edge_of(self.shift) else { return };
        if let Some(waiting) = self.waiting.take_if(|waiting| waiting.edge != edge) {
            self.judge(waiting, edge);
        }
        self.permitted = self.permitted.saturating_add(1);
        if edge < end {
            let waiting = self.waiting.get_or_insert(Waiting { edge, count: 0, first: end, last: end });
            waiting.count = waiting.count.saturating_add(1);
            waiting.last = waiting.last.max(end);
        } else {
            self.beyond = self.beyond.saturating_sub(1);
            self.doubtful = self.doubtful.saturating_sub(1);
        }
        if self.beyond >= BEYOND_MIN && self.shift < SHIFT_MAX {
            *self = Self { shift: self.shift + 1, ..Self::default() };
        }
    }

    /// Holds segments beyond an edge against the next one.
    fn judge(&mut self, waiting: Waiting, edge: u64) {
        let Waiting { count, first, last, .. } = waiting;
        match (first > edge, last > edge) {
            (true, _) => self.beyond = self.beyond.saturating_add(count),
            (false, true) => self.beyond = self.beyond.saturating_add(1),
            (false, false) => self.doubtful = self.doubtful.saturating_add(count),
        }
    }

    /// The shift; `None` while too little was sent, or too much beyond the edges that are known.
    fn settled(&self) -> Option<u8> {
        let waiting = self.waiting.map_or(0, |waiting| waiting.count);
        let is_clear = self.doubtful.max(waiting) < BEYOND_MIN;
        (self.permitted >= PERMITTED_MIN && is_clear).then_some(self.shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sender that keeps `flight` segments of 1 000 bytes out, each one acknowledged. The window is 64 of them at shift 0.
    /// The tap loses so many acknowledgements of each hundred, in a row.
    fn search(flight: u64, lost: u64, segments: u64) -> Search {
        let mut search = Search::default();
        let mut acked = 0;
        for n in flight..flight + segments {
            if n % 100 >= lost {
                acked = (n - flight) * 1_000;
            }
            search.permit(n * 1_000, |shift| Some(acked + (64_000 << shift)));
        }
        search
    }

    #[test]
    fn the_least_scale_that_permits_the_data() {
        for (flight, expected) in [(10, 0), (60, 0), (100, 1), (120, 1), (140, 2), (500, 3)] {
            assert_eq!(search(flight, 0, 1_000).settled(), Some(expected), "{flight}");
        }
        assert_eq!(search(60, 0, 60).settled(), None, "of some segments nothing is known");
        let mut unknown = Search::default();
        (0..1_000).for_each(|_| unknown.permit(u64::MAX, |_| None));
        assert_eq!((unknown.shift, unknown.settled()), (0, None), "no window is known");
        let mut largest = Search::default();
        (0..4_000).for_each(|n| largest.permit(u64::MAX - 1, |shift| Some(n + u64::from(shift))));
        assert_eq!(largest.shift, SHIFT_MAX);
    }

    #[test]
    fn lost_acknowledgements_raise_no_scale() {
        for lost in [1, 10, 20, 30, 50, 90] {
            for flight in [40, 60, 63] {
                let found = search(flight, lost, 10_000);
                assert_eq!(found.shift, 0, "{lost} lost, {flight} in flight");
                assert!(found.settled().is_none_or(|shift| shift == 0));
            }
            assert_eq!(search(140, lost.min(30), 10_000).shift, 2, "{lost} lost");
        }
        assert_eq!(search(63, 90, 10_050).settled(), None, "most of the edges are not known");
    }

    #[test]
    fn a_scale_that_hangs_on_the_round_trip_needs_many_of_them() {
        let scale = |passed: u64, round_trips| {
            let mut scale = WindowScale::default();
            for n in 0..500_u64 {
                let edges = |of: u64| move |shift: u8| Some(of + n + (1_000_u64 << shift));
                _ = scale.permit(n + 8_000, edges(0), edges(passed), round_trips);
            }
            scale.shift()
        };
        assert_eq!(scale(0, 0), Some(3));
        assert_eq!(scale(6_000, 0), None);
        assert_eq!(scale(6_000, ROUND_TRIPS_MIN), Some(3));
    }

    /// Acknowledgements of a stretch are lost at the tap, and the shift that was known is doubtful meanwhile.
    #[test]
    fn doubt_that_passes_is_no_change() {
        let mut scale = WindowScale::default();
        let (mut acked, mut doubts, mut changes) = (0, 0, 0);
        for n in 60..6_060_u64 {
            let is_lost = (2_000..2_200).contains(&n);
            acked = if is_lost { acked } else { (n - 60) * 1_000 };
            let edge = move |shift: u8| Some(acked + (64_000_u64 << shift));
            changes += u32::from(scale.permit(n * 1_000, edge, edge, ROUND_TRIPS_MIN));
            doubts += u32::from(n > 1_000 && scale.shift().is_none());
        }
        assert_eq!((scale.shift(), changes), (Some(0), 0));
        assert!(doubts > 0, "the stretch is long enough for doubt");
        // More than that scale permits, with all acknowledgements.
        for n in 6_060..8_060_u64 {
            let acked = (n - 120) * 1_000;
            let edge = move |shift: u8| Some(acked + (64_000_u64 << shift));
            changes += u32::from(scale.permit(n * 1_000, edge, edge, ROUND_TRIPS_MIN));
        }
        assert_eq!((scale.shift(), changes), (Some(1), 1));
    }
}
