//! Reason of a congestion window cut, derived from two consecutive samples of a connection.
//!
//! The kernel has no counter for the cuts that a host makes itself because its device refused a packet (state CWR), and
//! the states last about a round trip, which samples may miss. The lasting sign is a slow-start threshold below the
//! earlier window, together with the other fields that changed. Not detected: a cut that was made and outgrown between
//! two samples, and the second of two. BBR's window follows its model and not its threshold, which it sets once, when
//! it leaves startup (`bbr_check_drain`): neither devices nor marks cut it, and it does not shrink while unused.

use crate::{CongestionState, Instant, SocketSample};

/// Reasons of a window cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// The sending host's own device or queue refused a packet; nothing was lost on the path.
    Local,
    /// The path marked a packet (ECN).
    Mark,
    /// Packets were lost on the path and repaired by fast recovery.
    Loss,
    /// Retransmission timeout: all data in flight are considered lost.
    Timeout,
    /// The window shrank because it was not used: the connection was idle, or its application sent less.
    IdleRestart,
}

/// The fields of one sample that describe the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    /// Time of the sample.
    pub t: Instant,
    /// Congestion window.
    pub cwnd_packets: u32,
    /// Slow-start threshold.
    pub ssthresh_packets: u32,
    /// Congestion state.
    pub state: CongestionState,
    /// Unacknowledged packets.
    pub unacked_packets: u32,
    /// Packets retransmitted in all.
    pub retransmitted_packets: u32,
    /// Packets thought lost.
    pub lost_packets: u32,
    /// Retransmission timeouts in all.
    pub timeouts: u32,
    /// Packets that the path had marked.
    pub marked_packets: u32,
    /// Time with something to send or unacknowledged; 0 if that is not known.
    pub busy_ns: u64,
    /// Rate-based congestion control (BBR), which paces by its own model.
    pub paces_itself: bool,
}

/// Idle for so long, a connection begins again: the least retransmission timeout of Linux.
const IDLE_NS: u64 = 200_000_000;

fn between(before: &Look, after: &Look) -> Option<Cut> {
    if after.timeouts != before.timeouts || (after.is_timed_out() && !before.is_timed_out()) {
        return Some(Cut::Timeout);
    }
    let follows_model = before.paces_itself || after.paces_itself;
    let lost = after.retransmitted_packets != before.retransmitted_packets
        || after.lost_packets > 0
        || after.is_repairing();
    // A window that doubles may be cut to more than there was at the look before.
    let was_cut_high = after.is_reducing() && after.threshold() < before.threshold();
    if (after.threshold() < before.cwnd() || was_cut_high) && is_cut(before, after) {
        return Some(match () {
            () if lost || before.is_repairing() => Cut::Loss,
            () if follows_model => return None,
            () if after.marked_packets != before.marked_packets => Cut::Mark,
            () => Cut::Local,
        });
    }
    // An unused window shrinks to no less than the threshold allows: the kernel remembers three quarters of it.
    let is_shrunk = after.cwnd() < before.cwnd() && 4 * after.threshold() >= 3 * before.cwnd();
    let is_quiet = !lost && !before.is_reducing() && after.state == CongestionState::Open;
    let is_unused = was_idle(before, after) || !before.is_used_up();
    let is_kept = after.has_threshold() && !follows_model;
    (is_shrunk && is_quiet && is_unused && is_kept).then_some(Cut::IdleRestart)
}

/// True if a cut set the threshold, which is below the earlier window. An empty flight proves nothing: a lone request
/// is sent, overflows the ring and is gone before the next sample.
fn is_cut(before: &Look, after: &Look) -> bool {
    let fell = after.cwnd() < before.cwnd();
    if after.threshold() == before.threshold() {
        // Cut to where it was cut before. Disuse would have raised the threshold to three quarters of the window.
        return fell && !before.is_reducing() && 4 * after.threshold() < 3 * before.cwnd();
    }
    // The end of slow start sets the threshold too, to the window that there is, and leaves the window alone.
    let has_shown = fell || after.is_reducing();
    // Disuse only raises it.
    let is_lower = after.threshold() < before.threshold() || 4 * after.threshold() < 3 * before.cwnd();
    has_shown && (is_lower || before.is_used_up())
}

/// True if the connection was idle for so long that its window is no longer valid.
fn was_idle(before: &Look, after: &Look) -> bool {
    let elapsed = after.t.since(before.t).as_nanos() as u64;
    let idle_ns = elapsed.saturating_sub(after.busy_ns.saturating_sub(before.busy_ns));
    before.unacked_packets == 0 || after.unacked_packets == 0 || (after.busy_ns > 0 && idle_ns >= IDLE_NS)
}

impl From<&SocketSample> for Look {
    fn from(sample: &SocketSample) -> Look {
        Look {
            t: sample.t,
            cwnd_packets: sample.cwnd_packets,
            ssthresh_packets: sample.ssthresh_packets,
            state: sample.state,
            unacked_packets: sample.unacked_packets,
            retransmitted_packets: sample.retransmitted_packets,
            lost_packets: sample.lost_packets,
            timeouts: sample.timeouts,
            marked_packets: sample.marked_packets,
            busy_ns: sample.busy_ns,
            paces_itself: sample.steered.is_some_and(|steered| steered.paces_itself),
        }
    }
}

impl Look {
    /// Reason of a window cut since `before`, the previous sample of the same connection; `None` without a cut.
    pub fn cut_since(&self, before: &Look) -> Option<Cut> {
        between(before, self)
    }

    fn cwnd(&self) -> u64 {
        self.cwnd_packets.into()
    }

    fn threshold(&self) -> u64 {
        self.ssthresh_packets.into()
    }

    fn is_timed_out(&self) -> bool {
        self.state == CongestionState::Loss
    }

    fn is_repairing(&self) -> bool {
        matches!(self.state, CongestionState::Recovery | CongestionState::Loss)
    }

    /// A window that was cut falls over a round trip.
    fn is_reducing(&self) -> bool {
        self.is_repairing() || self.state == CongestionState::Cwr
    }

    fn is_used_up(&self) -> bool {
        4 * u64::from(self.unacked_packets) >= 3 * self.cwnd()
    }

    fn has_threshold(&self) -> bool {
        self.threshold() < 1 << 30
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Host;

    const OPEN: CongestionState = CongestionState::Open;
    const CWR: CongestionState = CongestionState::Cwr;
    const RECOVERY: CongestionState = CongestionState::Recovery;
    const LOSS: CongestionState = CongestionState::Loss;
    const NONE: u32 = i32::MAX as u32;

    /// A sample as (cwnd, ssthresh, unacked, retransmitted, state).
    type Short = (u32, u32, u32, u32, CongestionState);

    /// One sample every 10 ms, always busy.
    fn samples(short: &[Short]) -> Vec<SocketSample> {
        let each = short.iter().enumerate().map(|(at, (cwnd, ssthresh, unacked, again, state))| {
            let t = Instant::from_nanos(at as u64 * 10_000_000);
            SocketSample {
                cwnd_packets: *cwnd,
                ssthresh_packets: *ssthresh,
                unacked_packets: *unacked,
                retransmitted_packets: *again,
                state: *state,
                busy_ns: t.as_nanos() + 1,
                ..SocketSample::new(t, Host::Near, 0)
            }
        });
        each.collect()
    }

    /// Cuts by device, marks, losses, timeouts and disuse.
    #[track_caller]
    fn check_samples(samples: &[SocketSample], expected: [usize; 5]) {
        let looks: Vec<Look> = samples.iter().map(Look::from).collect();
        let cuts: Vec<Cut> = looks.windows(2).filter_map(|step| step[1].cut_since(&step[0])).collect();
        let kinds = [Cut::Local, Cut::Mark, Cut::Loss, Cut::Timeout, Cut::IdleRestart];
        let counts = kinds.map(|kind| cuts.iter().filter(|cut| **cut == kind).count());
        assert_eq!(counts, expected, "{cuts:?} in {samples:#?}");
    }

    #[track_caller]
    fn check(short: &[Short], expected: [usize; 5]) {
        check_samples(&samples(short), expected);
    }

    #[test]
    fn a_window_that_falls_while_nothing_is_sent_again_was_cut_here() {
        check(
            &[(400, NONE, 400, 0, OPEN), (290, 280, 250, 0, OPEN), (300, 280, 300, 0, OPEN)],
            [1, 0, 0, 0, 0],
        );
        // Twice, once caught in the act.
        let sawtooth = [
            (400, NONE, 400, 3, OPEN),
            (390, 280, 390, 3, CWR),
            (350, 280, 350, 3, OPEN),
            (250, 245, 240, 3, OPEN),
        ];
        check(&sawtooth, [2, 0, 0, 0, 0]);
        // A lone request now and then: nothing is under way at either sample.
        check(&[(400, NONE, 0, 0, OPEN), (290, 280, 0, 0, OPEN), (300, 280, 0, 0, OPEN)], [1, 0, 0, 0, 0]);
        // Doubled since, and cut to more than there was, as is seen while it falls.
        check(
            &[(100, NONE, 90, 0, OPEN), (140, 140, 140, 0, CWR), (141, 140, 140, 0, OPEN)],
            [1, 0, 0, 0, 0],
        );
        // Caught before it fell: one cut, not two.
        check(
            &[(400, NONE, 400, 0, OPEN), (400, 280, 390, 0, CWR), (282, 280, 280, 0, OPEN)],
            [1, 0, 0, 0, 0],
        );
    }

    #[test]
    fn a_regular_sawtooth_has_one_cut_a_tooth() {
        let tooth = [(280, 280, 280, 0, OPEN), (340, 280, 340, 0, OPEN), (400, 280, 399, 0, OPEN)];
        let teeth: Vec<Short> = (0..5).flat_map(|_| tooth).collect();
        check(&teeth, [4, 0, 0, 0, 0]);
        let slow = [
            (400, 280, 400, 0, OPEN),
            (360, 280, 350, 0, CWR),
            (310, 280, 300, 0, CWR),
            (281, 280, 280, 0, OPEN),
        ];
        check(&slow, [1, 0, 0, 0, 0]);
    }

    #[test]
    fn a_loss_that_is_repaired_is_a_loss() {
        let loss = [0, 0, 1, 0, 0];
        // Repaired between two samples, and seen while it lasts.
        check(&[(400, NONE, 400, 0, OPEN), (280, 280, 280, 9, OPEN)], loss);
        let seen = [
            (400, NONE, 400, 0, OPEN),
            (390, 280, 400, 2, RECOVERY),
            (330, 280, 390, 4, RECOVERY),
            (280, 280, 280, 5, OPEN),
        ];
        check(&seen, loss);
        let mut early = samples(&[(400, NONE, 400, 0, OPEN), (399, 280, 400, 0, CWR)]);
        early[1].lost_packets = 3;
        check_samples(&early, loss);
    }

    #[test]
    fn a_timeout_is_one_however_long_it_lasts() {
        let timeout = [0, 0, 0, 1, 0];
        let once = [
            (400, NONE, 400, 0, OPEN),
            (1, 200, 400, 1, LOSS),
            (12, 200, 380, 20, LOSS),
            (200, 200, 200, 90, OPEN),
        ];
        check(&once, timeout);
        let mut again = samples(&once);
        again[2..].iter_mut().for_each(|sample| sample.timeouts = 2);
        check_samples(&again, [0, 0, 0, 2, 0]);
    }

    #[test]
    fn a_mark_of_the_path_is_no_local_cut() {
        let mut marked = samples(&[(400, NONE, 400, 0, OPEN), (290, 280, 280, 0, CWR)]);
        marked[1].marked_packets = 5;
        check_samples(&marked, [0, 1, 0, 0, 0]);
    }

    #[test]
    fn a_window_that_was_not_used_shrinks_by_disuse() {
        let idle = [0, 0, 0, 0, 1];
        // Nothing was under way.
        check(&[(400, 300, 0, 0, OPEN), (10, 300, 10, 0, OPEN)], idle);
        // The connection was quiet between two samples.
        let mut quiet = samples(&[(400, 300, 380, 0, OPEN), (10, 300, 10, 0, OPEN)]);
        quiet[1].t = Instant::from_nanos(2_000_000_000);
        check_samples(&quiet, idle);
        // Busy, but with less than the window.
        check(&[(400, 100, 60, 0, OPEN), (210, 300, 60, 0, OPEN)], idle);
    }

    #[test]
    fn what_only_looks_like_a_cut() {
        // Slow start ends: the window stops growing fast.
        check(&[(400, NONE, 400, 0, OPEN), (402, 399, 400, 0, OPEN)], [0; 5]);
        // A repair that is over.
        check(&[(390, 280, 300, 7, RECOVERY), (280, 280, 280, 7, OPEN)], [0; 5]);
        check(&[], [0; 5]);
    }

    #[test]
    fn what_has_its_own_model_is_cut_by_losses_and_timeouts_alone() {
        let looks = |short: &[Short]| {
            let looks = samples(short);
            looks.iter().map(|sample| Look { paces_itself: true, ..sample.into() }).collect::<Vec<_>>()
        };
        let cuts = |short: &[Short]| {
            looks(short).windows(2).filter_map(|step| step[1].cut_since(&step[0])).collect::<Vec<_>>()
        };
        // It looks for a smaller round trip, before and after it has a threshold, and is not used for a while.
        assert_eq!(cuts(&[(400, NONE, 400, 0, OPEN), (4, NONE, 4, 0, OPEN), (400, NONE, 400, 0, OPEN)]), []);
        let drained = [(800, NONE, 800, 0, OPEN), (400, 380, 400, 0, OPEN)];
        assert_eq!(cuts(&drained), []);
        assert_eq!(cuts(&[drained[1], (4, 380, 4, 0, OPEN), (400, 380, 0, 0, OPEN)]), []);
        let mut marked = looks(&drained);
        marked[1].marked_packets = 5;
        assert_eq!(marked[1].cut_since(&marked[0]), None);
        assert_eq!(cuts(&[(400, 300, 0, 0, OPEN), (310, 300, 10, 0, OPEN)]), []);
        assert_eq!(cuts(&[(400, NONE, 400, 0, OPEN), (1, 200, 400, 1, LOSS)]), [Cut::Timeout]);
        assert_eq!(cuts(&[(760, 380, 760, 0, OPEN), (400, 380, 400, 9, RECOVERY)]), [Cut::Loss]);
    }
}
