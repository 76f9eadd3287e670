//! Cuts of a congestion window, from what is seen of it now and then. How a cut and its reason are told is
//! [`event::Look`]'s business; here is what a policy makes of them.

use event::{Look, WindowKind};

use crate::policy::Observation;

/// What the last look showed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cuts {
    before: Option<Look>,
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
    /// Takes a look; the cut since the one before, if there was one. A window that is not used shrinks without one.
    pub(crate) fn observe(&mut self, seen: &Observation) -> Option<Cut> {
        let look = look(seen);
        let before = self.before.replace(look)?;
        let kind = match look.cut_since(&before)? {
            event::Cut::Local => WindowKind::CutHere,
            event::Cut::Mark | event::Cut::Loss => WindowKind::CutByLoss,
            event::Cut::Timeout => WindowKind::CutByTimeout,
            event::Cut::IdleRestart => return None,
        };
        Some(Cut { kind, from_packets: before.cwnd_packets, to_packets: seen.ssthresh_packets.max(1) })
    }
}

fn look(seen: &Observation) -> Look {
    Look {
        t: seen.now,
        cwnd_packets: seen.cwnd_packets,
        ssthresh_packets: seen.ssthresh_packets,
        state: seen.state,
        unacked_packets: seen.unacked_packets,
        retransmitted_packets: seen.retransmitted_packets as u32,
        lost_packets: seen.lost_packets,
        timeouts: seen.timeouts,
        marked_packets: seen.marked_packets,
        busy_ns: seen.busy.as_nanos() as u64,
        paces_itself: seen.paces_itself,
    }
}

#[cfg(test)]
mod tests {
    use event::CongestionState;

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
    fn what_has_its_own_model_is_not_cut_by_the_device() {
        let at = |cwnd_packets, ssthresh_packets| Observation {
            cwnd_packets,
            ssthresh_packets,
            paces_itself: true,
            unacked_packets: 400,
            ..QUIET
        };
        let mut cuts = Cuts::default();
        assert!(
            [at(800, NONE), at(400, 380), at(4, 380), at(400, 380)]
                .iter()
                .all(|seen| cuts.observe(seen).is_none())
        );
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
        check(&[(400, 500, 0, 0, open), (10, 500, 4, 0, open)], &[]);
        check(&[(400, NONE, 400, 0, open), (402, 402, 400, 0, open)], &[]);
        // It is only used less.
        check(&[(400, 360, 400, 0, open), (380, 360, 380, 0, open)], &[]);
        check(&[(724, 362, 300, 0, open), (512, 543, 300, 0, open)], &[]);
    }
}
