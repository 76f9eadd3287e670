//! When a slow-start threshold says nothing of the path, so that it is to be forgotten.
//!
//! What a device refuses cuts the window as a loss does, though the path had room; and some kernels begin a connection
//! with the threshold that another one to the same peer was left with. From a threshold on a window grows by a packet
//! each round trip, and one that is much smaller than a block makes each block take many of those, for minutes, with
//! nothing lost. No spacing helps there. Without the threshold the window doubles again until it fits. What is spaced ends
//! slow start sooner besides: HyStart takes a train of half a round trip for a full line. In bulk it is the threshold of a
//! slow start that ended too early (`early.rs`).
//!
//! Without the right to it that has its price: the kernel paces the connection from then on (`net::threshold`), which takes
//! some of the speed of lone blocks, with a timer for every packet where the device takes no larger ones. So there a window
//! that grows back to what is needed in a few seconds is left alone, and where several lone blocks go out through a device a cut
//! is taken as it is. On a path below a millisecond a window is soon what it was.
//!
//! Bulk that is handed over as its device takes it needs no window to hold it back. If it is free to forget, it does so
//! after every cut by the device: the window doubles to twice what is under way, and that bears the next one. What HyStart
//! finds while a part of what all carry is handed over is that part and not the line, so a newcomer forgets it too; and one that
//! the kernel paces, which finds the queue of those who were there.

use core::time::Duration;

use event::{CongestionState, Instant, WindowKind};

use crate::bulk::cap::BULK_BYTES;
use crate::bulk::cap::is_long;
use crate::measure::cuts::Cut;
use crate::policy::Observation;
use crate::window::early::Early;

/// Between two times at least, where it is free, in round trips: the window has doubled that often.
const FREE_PAUSE_ROUNDS: u32 = 8;
/// Where it is not, at first; doubled each time, to so much.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(64);
/// Where it is not free a threshold is too small that is less than such a part of what goes out at one time.
const PART: u64 = 4;
/// Thresholds from here on are none.
pub const NO_THRESHOLD_PACKETS: u32 = 1 << 30;

/// What holds back bulk besides its window, if it is handed over at its time or is a newcomer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Held {
    /// Nothing that somebody else knows of.
    No,
    /// Its part of what all carry who go out there.
    ByPart,
    /// Its part of what is known that the device takes.
    ByDevice,
}

/// See the file's beginning.
#[derive(Clone, Debug)]
pub(crate) struct Threshold {
    is_known: bool,
    had_threshold: bool,
    /// What there is now says nothing.
    is_unfounded: bool,
    /// The last cut, if it was cut.
    cut: Option<WindowKind>,
    early: Early,
    forgotten: u32,
    next_at: Instant,
    pause: Duration,
}

impl Threshold {
    pub(crate) fn new() -> Threshold {
        Threshold {
            is_known: false,
            had_threshold: false,
            is_unfounded: false,
            cut: None,
            early: Early::default(),
            forgotten: 0,
            next_at: Instant::ZERO,
            pause: PAUSE_MIN,
        }
    }

    /// Takes what was seen, the cut if there was one, and what holds bulk back.
    pub(crate) fn observe(&mut self, seen: &Observation, cut: Option<Cut>, held: Held) {
        if !core::mem::replace(&mut self.is_known, true) {
            self.is_unfounded = is_inherited(seen);
        }
        if let Some(cut) = cut {
            self.cut = Some(cut.kind);
            let is_cut_here = cut.kind == WindowKind::CutHere;
            self.is_unfounded = is_cut_here && (!seen.has_company || seen.forgets_freely);
        }
        let is_lone = seen.backlog_bytes < BULK_BYTES;
        let has_threshold = seen.ssthresh_packets < NO_THRESHOLD_PACKETS;
        let had_threshold = core::mem::replace(&mut self.had_threshold, has_threshold);
        let is_found = has_threshold && !had_threshold;
        let has_lost = self.cut.is_some_and(|kind| kind != WindowKind::CutHere);
        if is_found && is_lone && seen.forgets_freely && !has_lost {
            self.is_unfounded = true;
        }
        let burst_packets = seen.burst_bytes / u64::from(seen.mss_bytes.max(1));
        let part = if seen.forgets_freely { 1 } else { PART };
        let is_small = part * u64::from(seen.ssthresh_packets) < burst_packets;
        let is_long = is_long(seen.min_rtt);
        // While a window is being cut it would go on falling.
        let is_open = seen.state == CongestionState::Open;
        let is_lone_kept_small = self.is_unfounded && is_lone && is_small && is_long && is_open;
        // A window that is twice what is under way would not grow.
        let is_used = u64::from(seen.cwnd_packets) < 2 * u64::from(seen.unacked_packets);
        let is_held = match self.cut {
            Some(WindowKind::CutHere) => held == Held::ByDevice,
            Some(_) => false,
            None => held != Held::No,
        };
        let is_bulk_kept_small =
            seen.forgets_freely && is_held && has_threshold && is_used && !is_lone && is_open;
        let is_early = self.early.observe(seen, cut);
        if !(is_early || is_lone_kept_small || is_bulk_kept_small) || seen.now < self.next_at {
            return;
        }
        self.is_unfounded = false;
        self.forgotten += 1;
        // A slow start that ended too early begins anew, which is no freer than it was.
        if seen.forgets_freely && !is_early {
            self.next_at = seen.now + FREE_PAUSE_ROUNDS * seen.rtt;
        } else {
            self.next_at = seen.now + self.pause;
            self.pause = (2 * self.pause).min(PAUSE_MAX);
        }
    }

    /// How many times it is to have been forgotten by now.
    pub(crate) fn forgotten(&self) -> u32 {
        self.forgotten
    }
}

/// At the first look: a connection that has lost nothing has not found a threshold itself.
fn is_inherited(seen: &Observation) -> bool {
    let has_lost = seen.retransmitted_packets > 0 || seen.lost_packets > 0 || seen.timeouts > 0;
    let is_marked = seen.marked_packets > 0;
    seen.ssthresh_packets < NO_THRESHOLD_PACKETS
        && !has_lost
        && !is_marked
        && seen.state == CongestionState::Open
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::QUIET;

    const OPEN: CongestionState = CongestionState::Open;
    const CWR: CongestionState = CongestionState::Cwr;

    const BURST: Observation =
        Observation { burst_bytes: 1 << 20, min_rtt: Some(Duration::from_millis(16)), ..QUIET };

    fn cut(kind: WindowKind) -> Option<Cut> {
        Some(Cut { kind, from_packets: 160, to_packets: 80 })
    }

    /// Looks as (second, threshold, state, cut), and how many times it was forgotten after each.
    fn check(looks: &[(u64, u32, CongestionState, Option<Cut>)], expected: &[u32]) {
        let mut threshold = Threshold::new();
        let found: Vec<u32> = looks
            .iter()
            .map(|&(second, ssthresh_packets, state, cut)| {
                let now = Instant::ZERO + Duration::from_secs(second);
                threshold.observe(&Observation { now, ssthresh_packets, state, ..BURST }, cut, Held::No);
                threshold.forgotten()
            })
            .collect();
        assert_eq!(found, expected, "{looks:?}");
    }

    #[test]
    fn of_a_cut_by_the_device_once_that_is_over() {
        let here = cut(WindowKind::CutHere);
        check(
            &[(0, u32::MAX, OPEN, None), (1, 80, CWR, here), (1, 80, CWR, None), (1, 80, OPEN, None)],
            &[0, 0, 0, 1],
        );
    }

    #[test]
    fn of_a_slow_start_that_ended_below_a_block_if_it_is_free() {
        let forgotten = |forgets_freely, lost| {
            let mut threshold = Threshold::new();
            for (second, ssthresh_packets, cut) in [(0, u32::MAX, lost), (1, u32::MAX, None), (2, 600, None)]
            {
                let now = Instant::ZERO + Duration::from_secs(second);
                let seen = Observation { now, ssthresh_packets, forgets_freely, has_company: true, ..BURST };
                threshold.observe(&seen, cut, Held::No);
            }
            threshold.forgotten()
        };
        assert_eq!((forgotten(true, None), forgotten(false, None)), (1, 0));
        assert_eq!(forgotten(true, cut(WindowKind::CutHere)), 1);
        assert_eq!(forgotten(true, cut(WindowKind::CutByLoss)), 0, "the path has lost something");
    }

    #[test]
    fn not_of_one_that_a_block_nearly_fits() {
        let here = cut(WindowKind::CutHere);
        check(&[(0, u32::MAX, OPEN, None), (1, 490, OPEN, here), (9, 490, OPEN, None)], &[0, 0, 0]);
    }

    #[test]
    fn not_of_a_cut_in_company_but_of_one_that_was_there() {
        let mut threshold = Threshold::new();
        let look = |threshold: &mut Threshold, second, ssthresh_packets, cut| {
            let now = Instant::ZERO + Duration::from_secs(second);
            let seen = Observation { now, ssthresh_packets, has_company: true, ..BURST };
            threshold.observe(&seen, cut, Held::No);
            threshold.forgotten()
        };
        assert_eq!(look(&mut threshold, 0, 12, None), 1);
        assert_eq!(look(&mut threshold, 1, u32::MAX, None), 1);
        assert_eq!(look(&mut threshold, 9, 80, cut(WindowKind::CutHere)), 1);
    }

    #[test]
    fn not_on_a_short_path() {
        let mut threshold = Threshold::new();
        for second in 0..9 {
            let now = Instant::ZERO + Duration::from_secs(second);
            let min_rtt = Some(Duration::from_micros(300));
            let seen = Observation { now, min_rtt, ssthresh_packets: 80, ..BURST };
            threshold.observe(&seen, cut(WindowKind::CutHere), Held::No);
        }
        assert_eq!(threshold.forgotten(), 0);
    }

    #[test]
    fn never_of_a_loss_also_if_one_follows() {
        let (here, loss) = (cut(WindowKind::CutHere), cut(WindowKind::CutByLoss));
        let begin = (0, u32::MAX, OPEN, None);
        check(&[begin, (1, 80, OPEN, loss), (2, 80, OPEN, None)], &[0, 0, 0]);
        check(&[begin, (1, 80, CWR, here), (1, 60, OPEN, loss), (2, 60, OPEN, None)], &[0, 0, 0, 0]);
    }

    #[test]
    fn more_and_more_rarely() {
        let here = cut(WindowKind::CutHere);
        let looks: Vec<_> = (0..64).map(|second| (second, 80, OPEN, here.filter(|_| second > 0))).collect();
        let mut threshold = Threshold::new();
        threshold.is_known = true;
        let mut at = Vec::new();
        for (second, ssthresh_packets, state, cut) in looks {
            let before = threshold.forgotten();
            let now = Instant::ZERO + Duration::from_secs(second);
            threshold.observe(&Observation { now, ssthresh_packets, state, ..BURST }, cut, Held::No);
            if threshold.forgotten() > before {
                at.push(second);
            }
        }
        assert_eq!(at, [1, 2, 4, 8, 16, 32]);
    }

    /// How often it is forgotten in ten seconds of looks, ten each second, at what a cut at the first has left, if there was one.
    fn forgotten_after(kind: impl Into<Option<WindowKind>>, seen: Observation, held: Held) -> u32 {
        let cut = kind.into().and_then(cut);
        let mut threshold = Threshold::new();
        threshold.is_known = true;
        for look in 0..100 {
            let now = Instant::ZERO + Duration::from_millis(look * 100);
            let cut = cut.filter(|_| look == 0);
            threshold.observe(&Observation { now, ssthresh_packets: 700, ..seen }, cut, held);
        }
        threshold.forgotten()
    }

    #[test]
    fn of_bulk_whose_device_is_known_if_it_is_free() {
        let (here, loss) = (WindowKind::CutHere, WindowKind::CutByLoss);
        let bulk = Observation {
            backlog_bytes: 64 << 20,
            burst_bytes: 64 << 20,
            cwnd_packets: 900,
            unacked_packets: 880,
            rtt: Duration::from_millis(16),
            has_company: true,
            forgets_freely: true,
            ..BURST
        };
        assert_eq!(
            forgotten_after(here, bulk, Held::ByDevice),
            50,
            "a look every 100 ms, and a pause of 128"
        );
        assert_eq!(forgotten_after(here, bulk, Held::ByPart), 0, "it is what holds the bulk back");
        assert_eq!(forgotten_after(loss, bulk, Held::ByDevice), 0, "the path was full");
        assert_eq!(forgotten_after(None, bulk, Held::ByPart), 50, "what HyStart found was its part");
        assert_eq!(forgotten_after(None, bulk, Held::No), 0, "it may have found the line");
        let paced = Observation { forgets_freely: false, ..bulk };
        assert_eq!(forgotten_after(here, paced, Held::ByDevice), 0, "that costs more than it brings");
        let large = Observation { cwnd_packets: 1800, ..bulk };
        assert_eq!(forgotten_after(here, large, Held::ByDevice), 0, "it would not grow");
    }

    #[test]
    fn of_a_block_that_does_not_fit_if_it_is_free() {
        let here = WindowKind::CutHere;
        let lone = Observation { burst_bytes: 2 << 20, backlog_bytes: 1 << 20, ..BURST };
        assert_eq!(forgotten_after(here, Observation { forgets_freely: true, ..lone }, Held::No), 1);
        assert_eq!(forgotten_after(here, lone, Held::No), 0, "half of it fits, and it would be paced");
        let company = Observation { forgets_freely: true, has_company: true, ..lone };
        assert_eq!(forgotten_after(here, company, Held::No), 1);
    }

    #[test]
    fn of_one_that_was_there_from_the_beginning() {
        check(&[(0, 12, OPEN, None), (1, 12, OPEN, None)], &[1, 1]);
        // It found that one itself.
        check(&[(0, u32::MAX, OPEN, None), (1, 300, OPEN, None)], &[0, 0]);
    }

    #[test]
    fn of_a_slow_start_that_ended_too_early_no_more_often_for_being_free() {
        let rtt = Duration::from_millis(100);
        let seconds = |forgets_freely| {
            let mut threshold = Threshold::new();
            threshold.is_known = true;
            let mut forgets = |round: u32| {
                let before = threshold.forgotten();
                let packets = (0..round).fold(1000, |packets, _| packets * 51 / 50);
                let seen = Observation {
                    now: Instant::ZERO + round * rtt,
                    rtt,
                    min_rtt: Some(rtt),
                    ssthresh_packets: 1000,
                    cwnd_packets: packets,
                    unacked_packets: packets,
                    backlog_bytes: 64 << 20,
                    burst_bytes: 64 << 20,
                    forgets_freely,
                    ..BURST
                };
                threshold.observe(&seen, None, Held::No);
                threshold.forgotten() > before
            };
            (0..200).filter(|round| forgets(*round)).map(|round| round / 10).collect::<Vec<_>>()
        };
        assert_eq!(seconds(true), seconds(false));
        assert_eq!(seconds(true).len(), 5, "pauses of 1, 2, 4 and 8 seconds: {:?}", seconds(true));
    }
}
