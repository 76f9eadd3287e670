//! Cuts of a congestion window, from what is seen of it now and then.
//!
//! The kernel does not count cuts by the sender's own device, and the state CWR lasts about a round trip, which looks
//! may miss. What stays is that the threshold was set below the window. If nothing was sent again and no loss is being
//! repaired, while data were under way (an idle connection shrinks its window without any signal), it was the device.

use core::mem::replace;

use event::{CongestionState, WindowKind};

use crate::policy::Observation;

/// A connection that is limited by its application lets its window go to what is used, and its threshold to three quarters
/// of what it was (RFC 2861); a cut leaves half of it, or seven tenths.
const CUT_PERCENT: u64 = 73;

/// What the last look showed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cuts {
    before: Option<Observation>,
    /// The window was falling, which takes a round trip.
    is_falling: bool,
}

/// A cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cut {
    /// What cut the window.
    pub(crate) kind: WindowKind,
    /// The window before.
    pub(crate) from_packets: u32,
    /// What is left of it.
    pub(crate) to_packets: u32,
}

impl Cuts {
    /// Takes a look; the cut since the one before, if there was one.
    pub(crate) fn observe(&mut self, seen: &Observation) -> Option<Cut> {
        let before = self.before.replace(*seen)?;
        let is_cut =
            |state| matches!(state, CongestionState::Cwr | CongestionState::Recovery | CongestionState::Loss);
        let was_falling = replace(&mut self.is_falling, seen.cwnd_packets < before.cwnd_packets);
        let is_new = match seen.ssthresh_packets != before.ssthresh_packets {
            true => self.is_falling || is_cut(seen.state),
            false => !was_falling && (self.is_falling || (is_cut(seen.state) && !is_cut(before.state))),
        };
        let good_packets = u64::from(before.cwnd_packets) * CUT_PERCENT / 100;
        let is_below = u64::from(seen.ssthresh_packets) <= good_packets
            || (is_cut(seen.state) && seen.ssthresh_packets < before.cwnd_packets);
        let is_busy = is_cut(seen.state) || (seen.unacked_packets > 0 && before.unacked_packets > 0);
        if !(is_new && is_below && is_busy) {
            return None;
        }
        self.is_falling = true;
        let is_repaired = |state| matches!(state, CongestionState::Recovery);
        let kind = match seen.state {
            CongestionState::Loss => WindowKind::CutByTimeout,
            _ if seen.retransmitted_packets != before.retransmitted_packets => WindowKind::CutByLoss,
            _ if is_repaired(seen.state) || is_repaired(before.state) => WindowKind::CutByLoss,
            _ => WindowKind::CutHere,
        };
        Some(Cut { kind, from_packets: before.cwnd_packets, to_packets: seen.ssthresh_packets.max(1) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::QUIET;

    const NONE: u32 = i32::MAX as u32;

    /// Looks as (cwnd, ssthresh, unacked, retransmitted, state), and the kinds of the cuts between them.
    fn check(looks: &[(u32, u32, u32, u64, CongestionState)], expected: &[WindowKind]) {
        let mut cuts = Cuts::default();
        let found: Vec<WindowKind> = looks
            .iter()
            .filter_map(|&(cwnd_packets, ssthresh_packets, unacked_packets, retransmitted_packets, state)| {
                let seen = Observation {
                    cwnd_packets,
                    ssthresh_packets,
                    unacked_packets,
                    retransmitted_packets,
                    state,
                    ..QUIET
                };
                cuts.observe(&seen).map(|cut| cut.kind)
            })
            .collect();
        assert_eq!(found, expected, "{looks:?}");
    }

    #[test]
    fn by_the_device_by_a_loss_by_a_timeout() {
        use CongestionState::{Cwr, Loss, Open, Recovery};
        check(&[(400, NONE, 400, 0, Open), (290, 280, 250, 0, Open)], &[WindowKind::CutHere]);
        check(
            &[(400, NONE, 400, 0, Open), (400, 280, 0, 0, Cwr), (300, 280, 200, 0, Cwr)],
            &[WindowKind::CutHere],
        );
        check(&[(400, NONE, 400, 0, Open), (390, 280, 400, 0, Recovery)], &[WindowKind::CutByLoss]);
        check(&[(400, NONE, 400, 0, Open), (280, 280, 280, 9, Open)], &[WindowKind::CutByLoss]);
        check(&[(400, NONE, 400, 0, Open), (1, 200, 400, 0, Loss)], &[WindowKind::CutByTimeout]);
    }

    #[test]
    fn one_that_takes_several_looks_counts_once_and_the_same_again_counts_again() {
        use CongestionState::{Cwr, Open};
        let saw = [
            (300, 150, 300, 0, Open),
            (299, 150, 300, 0, Cwr),
            (240, 150, 240, 0, Cwr),
            (150, 150, 150, 0, Open),
            (151, 150, 150, 0, Open),
            (300, 150, 300, 0, Open),
            (180, 150, 300, 0, Open),
            (150, 150, 150, 0, Open),
        ];
        check(&saw, &[WindowKind::CutHere, WindowKind::CutHere]);
    }

    #[test]
    fn idleness_and_the_end_of_slow_start_are_no_cuts() {
        let open = CongestionState::Open;
        check(&[(400, 500, 0, 0, open), (10, 300, 4, 0, open)], &[]);
        check(&[(400, NONE, 400, 0, open), (402, 402, 400, 0, open)], &[]);
        // It is only used less.
        check(&[(400, 360, 400, 0, open), (380, 360, 380, 0, open)], &[]);
        check(&[(724, 362, 300, 0, open), (512, 543, 300, 0, open)], &[]);
    }
}
