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

/// Search for the scale of one side's windows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WindowScale {
    shift: u8,
    permitted: u32,
}

impl WindowScale {
    /// Takes the end of new data, the acknowledgement before it and the unscaled window there; true if the scale rose.
    pub(super) fn permit(&mut self, end: u64, acked: u64, window: u16) -> bool {
        let flight = end.saturating_sub(acked);
        let before = self.shift;
        while self.shift < SHIFT_MAX && u64::from(window) << self.shift < flight {
            self.shift += 1;
        }
        let has_risen = self.shift > before;
        self.permitted = if has_risen { 0 } else { self.permitted.saturating_add(1) };
        has_risen
    }

    /// Shift of the windows; `None` while too little was sent.
    pub(super) fn shift(self) -> Option<u8> {
        (self.permitted >= PERMITTED_MIN).then_some(self.shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_scale_that_permits_everything() {
        let mut scale = WindowScale::default();
        assert!(!scale.permit(1_000, 0, 1_000));
        assert!(scale.permit(8_000, 0, 1_000), "eight times the window");
        assert_eq!(scale.shift(), None, "of one segment nothing is known");
        for _ in 0..PERMITTED_MIN {
            assert!(!scale.permit(7_000, 0, 1_000));
        }
        assert_eq!(scale.shift(), Some(3));
        assert!(scale.permit(u64::MAX, 0, 1), "more than any window");
        assert_eq!((scale.shift, scale.shift()), (SHIFT_MAX, None));
    }
}
