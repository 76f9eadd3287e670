//! What the sender of payload tells of its window: that it was cut, and once it has been stable the limit, the
//! largest window without a cut.
//!
//! At most one word per round trip and ten per second; a cut that comes sooner is told when its time has come. A window
//! that nobody fills says nothing of the path and is not told. Decides nothing; who is told is the caller's business.

use core::time::Duration;

use event::{Instant, WindowKind, WindowNotice};

use crate::measure::cuts::Cuts;
use crate::policy::Observation;

/// Least time between two notices.
const GAP_MIN: Duration = Duration::from_millis(100);
/// A window is stable when it has kept to a sixteenth for so many round trips, and for so long.
const STABLE_ROUNDS: u32 = 16;
const STABLE_MIN: Duration = Duration::from_millis(500);
const STABLE_PART: u32 = 16;
/// A window that was cut was too large by this part of it: what a device takes of a burst differs from burst to burst, here by a
/// tenth (`farlun lab control`, a ring of 256: windows of 295 to 324 packets were cut one after the other).
const EXCESS_PART: u32 = 16;

/// See the file's beginning.
#[derive(Clone, Debug, Default)]
pub struct Monitor {
    cuts: Cuts,
    /// The largest window without a cut, as the last cut has shown.
    limit_packets: Option<u32>,
    level: Option<Level>,
    told: Option<WindowNotice>,
    waiting: Option<WindowNotice>,
    next_at: Instant,
}

/// A window that keeps about its size.
#[derive(Clone, Copy, Debug)]
struct Level {
    since: Instant,
    cwnd_packets: u32,
    /// The most that was under way.
    used_packets: u32,
}

impl Monitor {
    /// A monitor that has seen nothing.
    pub fn new() -> Monitor {
        Monitor::default()
    }

    /// Takes a look; what is to be told now, if anything.
    pub fn observe(&mut self, seen: &Observation) -> Option<WindowNotice> {
        let notice = |kind, cwnd_packets| WindowNotice { kind, cwnd_packets, mss_bytes: seen.mss_bytes };
        if let Some(cut) = self.cuts.observe(seen) {
            if cut.kind == WindowKind::CutHere {
                let good = cut.from_packets - cut.from_packets.div_ceil(EXCESS_PART);
                self.limit_packets = Some(good.max(cut.to_packets));
            }
            self.level = None;
            self.waiting = Some(notice(cut.kind, cut.to_packets));
        } else if let Some(cwnd_packets) = self.stable(seen) {
            let limit =
                notice(WindowKind::Limit, self.limit_packets.unwrap_or(cwnd_packets).max(cwnd_packets));
            let is_new = self.told.is_none_or(|told| {
                told.kind != WindowKind::Limit
                    || told.cwnd_packets.abs_diff(limit.cwnd_packets) > limit.cwnd_packets / STABLE_PART
            });
            if is_new && self.waiting.is_none() {
                self.waiting = Some(limit);
            }
        }
        if seen.now < self.next_at {
            return None;
        }
        let told = self.waiting.take()?;
        self.told = Some(told);
        self.next_at = seen.now + seen.rtt.max(GAP_MIN);
        Some(told)
    }

    /// The window, if it is stable and used.
    fn stable(&mut self, seen: &Observation) -> Option<u32> {
        let cwnd_packets = seen.cwnd_packets;
        let fresh = Level { since: seen.now, cwnd_packets, used_packets: 0 };
        let level = self.level.get_or_insert(fresh);
        if cwnd_packets.abs_diff(level.cwnd_packets) > level.cwnd_packets / STABLE_PART {
            *level = fresh;
        }
        level.used_packets = level.used_packets.max(seen.unacked_packets);
        let is_long = seen.now.since(level.since) >= (seen.rtt * STABLE_ROUNDS).max(STABLE_MIN);
        (is_long && level.used_packets >= cwnd_packets / 2).then_some(cwnd_packets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::QUIET;

    const RTT: Duration = Duration::from_millis(32);
    const UNLUCKY: u32 = 97;

    /// A sender whose device lets bursts of 300 packets pass, and larger ones mostly; its window grows by one each round trip
    /// and falls by half, as Reno's does, and what it sends at most is what the receiver asks for.
    struct Sender {
        monitor: Monitor,
        seen: Observation,
        told: Vec<(u64, WindowNotice)>,
        asked_packets: u32,
        /// So much more passes, but for one time in [`UNLUCKY`].
        luck_packets: u32,
        round: u32,
    }

    impl Sender {
        fn new() -> Sender {
            let seen = Observation { rtt: RTT, cwnd_packets: 250, mss_bytes: 1448, ..QUIET };
            Sender {
                monitor: Monitor::new(),
                seen,
                told: Vec::new(),
                asked_packets: u32::MAX,
                luck_packets: 0,
                round: 0,
            }
        }

        /// Round trips; `listens` is a receiver that asks for what it was told.
        fn rounds(&mut self, rounds: u32, listens: bool) {
            for _ in 0..rounds {
                let seen = &mut self.seen;
                seen.now += RTT;
                seen.unacked_packets = seen.cwnd_packets.min(self.asked_packets);
                self.round += 1;
                let luck_packets = if self.round.is_multiple_of(UNLUCKY) { 0 } else { self.luck_packets };
                if seen.unacked_packets > 300 + luck_packets {
                    seen.ssthresh_packets = seen.cwnd_packets / 2;
                    seen.cwnd_packets /= 2;
                } else if seen.unacked_packets == seen.cwnd_packets {
                    seen.cwnd_packets += 1;
                }
                if let Some(notice) = self.monitor.observe(seen) {
                    self.told.push((seen.now.as_nanos() / 1_000_000, notice));
                    if listens {
                        self.asked_packets = notice.cwnd_packets;
                    }
                }
            }
        }
    }

    #[test]
    fn a_sawtooth_is_told_cut_by_cut() {
        let mut sender = Sender::new();
        sender.rounds(500, false);
        let cuts = sender.told.iter().filter(|(_, notice)| notice.kind == WindowKind::CutHere);
        assert!(cuts.clone().count() >= 3, "{:?}", sender.told);
        assert!(cuts.clone().all(|(_, notice)| notice.cwnd_packets == 150), "{:?}", sender.told);
    }

    #[test]
    fn who_listens_gets_the_limit_and_then_there_are_no_cuts() {
        let mut sender = Sender::new();
        sender.rounds(100, true);
        let kinds: Vec<WindowKind> = sender.told.iter().map(|(_, notice)| notice.kind).collect();
        assert!(kinds.contains(&WindowKind::Limit), "{kinds:?}");
        sender.rounds(400, true);
        let told = sender.told.len();
        sender.rounds(1000, true);
        assert_eq!(sender.told.len(), told, "nothing happens any more: {:?}", sender.told);
        assert!((270..=300).contains(&sender.asked_packets), "{}", sender.asked_packets);
    }

    #[test]
    fn a_device_that_takes_now_more_and_now_less_is_soon_known() {
        for luck_packets in [0, 10, 20, 30, 40] {
            let mut sender = Sender { luck_packets, ..Sender::new() };
            sender.seen.cwnd_packets = 700;
            sender.rounds(3000, true);
            let cuts = sender.told.iter().filter(|(_, notice)| notice.kind == WindowKind::CutHere).count();
            assert!(cuts <= 4, "{luck_packets}: {:?}", sender.told);
            assert!(sender.asked_packets >= 270, "{luck_packets}: {}", sender.asked_packets);
        }
    }

    #[test]
    fn no_more_than_ten_a_second() {
        let mut monitor = Monitor::new();
        let mut told = 0;
        let mut seen = Observation { rtt: Duration::from_millis(1), unacked_packets: 9, ..QUIET };
        for step in 0..1000u32 {
            seen.now += Duration::from_millis(2);
            seen.cwnd_packets = 400 - step % 2 * 200;
            seen.ssthresh_packets = 201 + step % 2 - step % 4 / 2;
            told += u32::from(monitor.observe(&seen).is_some());
        }
        assert!((15..=20).contains(&told), "{told} in two seconds");
    }

    #[test]
    fn a_window_that_nobody_fills_is_not_told() {
        let mut monitor = Monitor::new();
        let mut seen = Observation { rtt: RTT, cwnd_packets: 10, unacked_packets: 1, ..QUIET };
        for _ in 0..1000 {
            seen.now += RTT;
            assert_eq!(monitor.observe(&seen), None);
        }
    }
}
