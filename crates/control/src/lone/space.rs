//! How fast the data of a lone request are handed to TCP, so that a burst does not overflow the sender's own device
//! or the first queue it meets.
//!
//! A sender that is asked for a megabyte after a pause has the whole window at once and sends it at the speed of the
//! host. A network card with a ring of 256 packets refuses what is too much, the window is cut although nothing was
//! lost, and since such a sender hardly ever fills its window it stays cut. TCP's own pacing is no cure: its rate is the
//! window over the round trip, and what was cut is then slow as well. So the data are handed to it a little faster than
//! the line carries them, and nothing else is paced.
//!
//! The line is found by the trains themselves: while packets arrive as fast as they were handed over it may be faster,
//! and the next train is; when they arrive slower, they arrive as fast as the line carries them. Trains of a sender in
//! bulk tell as well.

use core::time::Duration;

use event::{Instant, WindowKind};

use crate::bulk::cap::is_long;
use crate::bulk::wary::window_rate;
use crate::lone::crowd::Arrived;
use crate::measure::cuts::Cut;
use crate::measure::train::{Measured, Train};
use crate::policy::Observation;

/// The most that is handed over at one time: 68 packets, where the smallest ring that cards have is 80; on a fast line what
/// it carries in a quarter of a millisecond, since nobody wakes up more often than that. A shorter burst needs no spacing.
pub(crate) const BURST_DEPTH_BYTES: u64 = 96 << 10;
const DEPTHS_PER_S: u64 = 4000;
/// Of bulk that is paced by hand all together hand over at one time what goes out in such a part of a second: 43 packets at
/// 1 Gb/s. A processor that is not busy is seldom later, and a ring of 80 has room for what windows let out beside it. Each
/// may have more of its part to catch up with.
const BULK_DEPTHS_PER_S: u64 = 1800;
const PART_DEPTHS_PER_S: u64 = 500;
const BULK_DEPTH_MIN_BYTES: u64 = 12 << 10;
/// Of what is handed over the kernel holds as much as goes out in such a part of a second, and this at least.
const HELD_PER_S: u64 = 6000;
const HELD_MIN_BYTES: u64 = 6 << 10;
/// Less than this part of a bucket is not worth a wake-up.
const LEAST_PART: u64 = 3;
/// Nor is more than this awaited where another bucket follows that all share: so much as comes together in such a part of a
/// second, and this at least. While they wait that one runs over.
const LEAST_PER_S: u64 = 9000;
const LEAST_BYTES: u64 = 6 << 10;
/// A device that was full all the same has less room: half of it, and half of that. It may have stood still, so after so long
/// that is forgotten.
const HALVINGS_MAX: u32 = 2;
const HALVED_LASTS: Duration = Duration::from_secs(320);
/// Of the rate at which a train was handed over, so much has to arrive for it to have kept up.
const KEPT_UP_PERCENT: u64 = 97;
/// The next train's rate in percent: of the last while the line is not found; of those of late after that, and at the line, of
/// which so much has to be missing that it shows. At the line the device has 36 packets of 1 MiB in the end.
pub(crate) const GROW_PERCENT: u64 = 140;
const FEEL_PERCENT: u64 = 112;
pub(crate) const LINE_PERCENT: u64 = 105;
/// Of the rate at which the device was full all the same.
const CUT_PERCENT: u64 = 80;
/// While nothing is known: the window over the round trip, in percent, and at least this. Most lines are faster, and on
/// those that are not nobody waits for more than without spacing.
const WINDOW_PERCENT: u64 = 120;
pub(crate) const START_BYTES_PER_S: u64 = 32 << 20;
/// For so long, and a round trip, trains are those of what was held back.
const SPACED_LASTS: Duration = Duration::from_millis(20);
/// How soon to look while packets of a burst are under way, in parts of the round trip.
const LOOKS_PER_RTT: u32 = 8;
const LOOK_MIN: Duration = Duration::from_millis(1);
const LOOK_MAX: Duration = Duration::from_millis(3);

/// See the file's beginning.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    train: Train,
    /// The rates of the last trains, the latest first; 0 where there was none.
    arrived: [u64; 5],
    last: Arrived,
    bytes_per_s: u64,
    before_bytes_per_s: u64,
    /// The line has been found once.
    is_found: bool,
    /// The device has been full.
    was_refused: bool,
    /// How many times the device was full though the line had been found, and until when the last of these counts.
    halvings: u32,
    halved_until: Instant,
    min_rtt: Option<Duration>,
    has_bursts: bool,
    /// When something was held back last.
    spaced_at: Instant,
}

/// The most of what is paced by hand that is handed over at one time at such a rate.
pub(crate) fn bulk_depth_bytes(bytes_per_s: u64) -> u64 {
    (bytes_per_s / BULK_DEPTHS_PER_S).max(BULK_DEPTH_MIN_BYTES)
}

/// The same of one of several who together hand over no more than that at one time.
pub(crate) fn part_depth_bytes(bytes_per_s: u64) -> u64 {
    (bytes_per_s / PART_DEPTHS_PER_S).max(2 * BULK_DEPTH_MIN_BYTES)
}

/// Of what is handed over at such a rate and so much at one time, what the kernel may hold: that is sent as soon as the
/// window lets it.
pub(crate) fn held_bytes(bytes_per_s: u64, depth_bytes: u64) -> u64 {
    (bytes_per_s / HELD_PER_S).max(HELD_MIN_BYTES).min(depth_bytes / 2)
}

/// What has to be in a bucket of such a depth for anything to be handed over, unless less is all that there is;
/// `bytes_per_s` is its rate if another bucket follows that all share.
pub fn worth_bytes(depth_bytes: u64, bytes_per_s: Option<u64>) -> u64 {
    let part = depth_bytes / LEAST_PART;
    bytes_per_s.map_or(part, |rate| part.min((rate / LEAST_PER_S).max(LEAST_BYTES)))
}

impl Space {
    pub(crate) fn new() -> Space {
        Space {
            train: Train::default(),
            arrived: [0; 5],
            last: Arrived::default(),
            bytes_per_s: START_BYTES_PER_S,
            before_bytes_per_s: 0,
            is_found: false,
            was_refused: false,
            halvings: 0,
            halved_until: Instant::ZERO,
            min_rtt: None,
            has_bursts: false,
            spaced_at: Instant::ZERO,
        }
    }

    /// Takes what was seen, and the cut if there was one.
    pub(crate) fn observe(&mut self, seen: &Observation, cut: Option<Cut>) {
        self.min_rtt = seen.min_rtt.or(self.min_rtt);
        self.has_bursts |= seen.burst_bytes >= BURST_DEPTH_BYTES;
        let train = self.train.observe(seen);
        if seen.was_spaced {
            self.spaced_at = seen.now;
        }
        // What arrives slower than before says nothing, unless there was more to hand over all the while.
        let was_spaced = seen.now <= self.spaced_at + seen.rtt + SPACED_LASTS;
        let gap_max = 2 * self.look_again().unwrap_or(LOOK_MAX);
        let is_honest = |train: &Measured| was_spaced && train.longest_gap <= gap_max;
        if let Some(train) = train.filter(|train| is_honest(train) || train.bytes_per_s > self.typical()) {
            self.learn(train.bytes_per_s, seen);
        }
        // What overflowed is the device, or the first queue on the way.
        let is_too_fast = cut.is_some_and(|cut| match cut.kind {
            WindowKind::CutHere => true,
            WindowKind::CutByLoss => was_spaced,
            _ => false,
        });
        self.was_refused |= cut.is_some_and(|cut| cut.kind == WindowKind::CutHere);
        // While the line is looked for, what went out was too fast and not too much at one time.
        if self.is_found && was_spaced && cut.is_some_and(|cut| cut.kind == WindowKind::CutHere) {
            self.halvings = (self.halvings + 1).min(HALVINGS_MAX);
            self.halved_until = seen.now + HALVED_LASTS;
        } else if self.halvings > 0 && seen.now >= self.halved_until {
            self.halvings -= 1;
            self.halved_until = seen.now + HALVED_LASTS;
        }
        if is_too_fast && self.typical() > 0 {
            self.is_found = true;
            self.before_bytes_per_s = self.bytes_per_s;
            self.bytes_per_s = (self.bytes_per_s / 100 * CUT_PERCENT).max(self.typical() / 2);
        }
        if self.typical() == 0 {
            let rtt_ns = self.min_rtt.unwrap_or(seen.rtt).as_nanos();
            let window = (window_rate(seen, rtt_ns) / 100).saturating_mul(WINDOW_PERCENT);
            self.bytes_per_s = window.max(START_BYTES_PER_S);
        }
    }

    /// Takes the rate of a train. The rate that it was to be handed over at is the present one, or in part the one
    /// before; whoever woke up late was slower than that, and then the line is not to blame.
    fn learn(&mut self, rate: u64, seen: &Observation) {
        let real = if seen.handed_bytes_per_s == 0 { u64::MAX } else { seen.handed_bytes_per_s };
        let handed_over = self.bytes_per_s.min(self.before_bytes_per_s).min(real);
        let has_kept_up = rate >= handed_over / 100 * KEPT_UP_PERCENT;
        self.is_found |= !has_kept_up;
        self.last =
            Arrived { trains: self.last.trains.wrapping_add(1), bytes_per_s: rate, is_line: !has_kept_up };
        self.arrived.rotate_right(1);
        self.arrived[0] = rate;
        self.before_bytes_per_s = self.bytes_per_s;
        self.bytes_per_s = match (has_kept_up, self.is_found) {
            (true, false) => self.bytes_per_s.max(rate / 100 * GROW_PERCENT),
            (true, true) => self.bytes_per_s.max(self.typical() / 100 * self.feel_percent()),
            (false, _) => (self.typical() / 100 * LINE_PERCENT).max(self.least(seen)),
        };
    }

    /// What is beyond the line waits in the device, and one that has been full is not to be full again.
    fn feel_percent(&self) -> u64 {
        if self.was_refused { LINE_PERCENT } else { FEEL_PERCENT }
    }

    /// What was handed over too slowly arrives too slowly, so there is an end to that: what TCP's window alone would send,
    /// as long as that is not much.
    fn least(&self, seen: &Observation) -> u64 {
        window_rate(seen, self.min_rtt.unwrap_or(seen.rtt).as_nanos()).min(START_BYTES_PER_S)
    }

    /// The median of the last trains: acknowledgements that come in bunches make single ones too fast.
    fn typical(&self) -> u64 {
        let mut rates = self.arrived;
        rates.sort_unstable();
        let count = rates.iter().filter(|rate| **rate > 0).count();
        rates[rates.len() - 1 - count / 2]
    }

    /// The rate at which a burst is handed over.
    pub(crate) fn bytes_per_s(&self) -> Option<u64> {
        (self.has_bursts && is_long(self.min_rtt)).then_some(self.bytes_per_s)
    }

    /// What the line carries, once that is found.
    pub(crate) fn line(&self) -> Option<u64> {
        self.is_found.then(|| self.typical()).filter(|rate| *rate > 0)
    }

    /// The last train.
    pub(crate) fn arrived(&self) -> Option<Arrived> {
        (self.last.trains > 0).then_some(self.last)
    }

    /// The most that is handed over at one time.
    pub(crate) fn depth_bytes(&self) -> u64 {
        BURST_DEPTH_BYTES.max(self.bytes_per_s / DEPTHS_PER_S) >> self.halvings
    }

    /// What the kernel may hold of a burst. A device that was full is not to be sent what it lets out beside the rate.
    pub(crate) fn held_bytes(&self) -> Option<u64> {
        let rate = self.bytes_per_s().filter(|_| self.was_refused)?;
        Some(held_bytes(rate, self.depth_bytes()))
    }

    /// How soon to look again, if there are bursts to be measured.
    pub(crate) fn look_again(&self) -> Option<Duration> {
        self.bytes_per_s()?;
        Some((self.min_rtt? / LOOKS_PER_RTT).clamp(LOOK_MIN, LOOK_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::QUIET;

    const LINE: u64 = 117_000_000;
    const MSS: u64 = 1448;

    /// Sends lone megabytes over a line behind a ring of so many packets; the most that waited in the ring for each.
    fn bursts(rtt: Duration, count: usize) -> Vec<u64> {
        let mut space = Space::new();
        let (mut now, mut delivered) = (Instant::ZERO, 0u64);
        let mut cwnd = 320u64;
        (0..count)
            .map(|_| {
                let packets = 724.min(cwnd);
                let rate = space.bytes_per_s().unwrap_or(u64::MAX);
                // What arrives at the ring and leaves it at the line's rate.
                let spaced = rate.min(10 * LINE);
                let waiting = packets - packets * LINE.min(spaced) / spaced;
                let arrives = spaced.min(LINE);
                let begin = now + rtt;
                for _ in 0..2000 {
                    now += Duration::from_millis(1);
                    let gone_ns = now.since(begin).as_nanos() as u64;
                    let arrived = (gone_ns * arrives / MSS / 1_000_000_000).min(packets);
                    space.observe(
                        &Observation {
                            now,
                            rtt,
                            min_rtt: Some(rtt),
                            delivered_packets: (delivered + arrived) as u32,
                            unacked_packets: (packets - arrived) as u32,
                            cwnd_packets: cwnd as u32,
                            burst_bytes: 1 << 20,
                            was_spaced: true,
                            ..QUIET
                        },
                        None,
                    );
                    if arrived == packets {
                        break;
                    }
                }
                now += Duration::from_millis(3);
                space.observe(
                    &Observation {
                        now,
                        rtt,
                        min_rtt: Some(rtt),
                        delivered_packets: (delivered + packets) as u32,
                        cwnd_packets: cwnd as u32,
                        burst_bytes: 1 << 20,
                        ..QUIET
                    },
                    None,
                );
                delivered += packets;
                cwnd = (2 * cwnd).min(1448);
                waiting
            })
            .collect()
    }

    #[test]
    fn the_line_is_found_and_a_short_ring_does_not_overflow() {
        for ms in [8, 16, 32, 64, 200] {
            let waited = bursts(Duration::from_millis(ms), 60);
            assert!(waited.iter().skip(1).all(|packets| *packets < 256), "{ms} ms: {waited:?}");
            let end = &waited[40..];
            assert!(end.iter().all(|packets| *packets < 100), "{ms} ms, at the end: {waited:?}");
            assert!(end.iter().all(|packets| *packets > 10), "a little faster than the line: {waited:?}");
        }
    }

    #[test]
    fn late_wake_ups_do_not_make_it_slower_and_slower() {
        let rtt = Duration::from_millis(50);
        let mut space = Space::new();
        // Each train arrives at half the rate that it was to have.
        for round in 0..100 {
            let rate = space.bytes_per_s / 2;
            for ms in 0..=30u64 {
                let arrived = (rate * ms / MSS / 1000) as u32;
                space.observe(
                    &Observation {
                        now: Instant::ZERO + rtt * round + Duration::from_millis(ms),
                        rtt,
                        min_rtt: Some(rtt),
                        delivered_packets: arrived,
                        unacked_packets: u32::from(ms < 30),
                        cwnd_packets: 2000,
                        burst_bytes: 1 << 20,
                        was_spaced: true,
                        ..QUIET
                    },
                    None,
                );
            }
        }
        assert_eq!(space.bytes_per_s, START_BYTES_PER_S);
    }

    #[test]
    fn a_loss_while_something_was_spaced_makes_it_slower() {
        let rtt = Duration::from_millis(50);
        let lost = Some(Cut { kind: WindowKind::CutByLoss, from_packets: 400, to_packets: 280 });
        for (was_spaced, expected) in [(true, LINE / 100 * CUT_PERCENT), (false, LINE)] {
            let mut space = Space { arrived: [LINE; 5], bytes_per_s: LINE, ..Space::new() };
            let now = Instant::ZERO + Duration::from_secs(1);
            space.observe(&Observation { now, rtt, min_rtt: Some(rtt), was_spaced, ..QUIET }, lost);
            assert_eq!(space.bytes_per_s, expected);
        }
    }

    #[test]
    fn a_device_that_was_full_once_has_its_room_again_later() {
        let full = Cut { kind: WindowKind::CutHere, from_packets: 400, to_packets: 280 };
        let mut space = Space { arrived: [LINE; 5], bytes_per_s: LINE, is_found: true, ..Space::new() };
        let mut depth_at = |s, cut| {
            let (now, rtt) = (Instant::ZERO + Duration::from_secs(s), Duration::from_millis(50));
            space.observe(&Observation { now, rtt, min_rtt: Some(rtt), was_spaced: true, ..QUIET }, cut);
            space.depth_bytes() >> 10
        };
        let cuts = [1, 2, 3].map(|s| depth_at(s, Some(full)));
        assert_eq!((cuts, depth_at(322, None)), ([48, 24, 24], 24), "half of it, and half of that");
        assert_eq!((depth_at(323, None), depth_at(642, None), depth_at(643, None)), (48, 48, 96));
    }

    #[test]
    fn small_requests_and_short_paths_are_not_spaced() {
        let mut space = Space::new();
        let long = Duration::from_millis(50);
        let small =
            Observation { rtt: long, min_rtt: Some(long), burst_bytes: 65_536, cwnd_packets: 10, ..QUIET };
        space.observe(&small, None);
        assert_eq!(space.bytes_per_s(), None);
        space.observe(&Observation { burst_bytes: 1 << 20, ..small }, None);
        assert!(space.bytes_per_s().is_some());
        space.observe(&Observation { min_rtt: Some(Duration::from_micros(90)), ..small }, None);
        assert_eq!(space.bytes_per_s(), None);
    }
}
