//! The policy `bdp`: follow the measured bandwidth-delay product.
//!
//! *Outstanding.* Requests keep twice the measured product under way, and four times while it still
//! grows, so that a window which doubles every round trip is never short of data. What is too much waits
//! at the sender, not in the network. The rate is measured over whole round trips: what an application
//! reads at one go after a pause was not carried that fast.
//!
//! *Pacing.* A sender with a lot to send is paced from the beginning, without a cap: Linux then
//! spreads its window over the round trip, and HyStart no longer takes a burst of ACKs for a full pipe
//! (it halves its threshold for unpaced senders), which is what leaves CUBIC far below the line for a
//! minute on a path of 500 ms. As soon as a queue stands the line is known (it delivers what it can), and
//! the cap follows it: a little above while the round trip shows no queue, and as far below as drains a
//! queue in a few round trips while it does. If a little above makes no queue, the line is faster than we
//! thought, and the cap is lifted. A queue too small to show in the round trip before it overflows shows as loss:
//! when a round loses more than chance would take, the cap is what was delivered, and from there it feels its way,
//! since on a long path one more overflow costs CUBIC half a minute. While the queue overflows the line is busy, so what
//! arrives over some hundredths of a second then is what the line carries, and the cap stays a little below. If the queue stays although we slowed down, others are filling it, and
//! the cap is lifted so that they do not take our share. Paths shorter than a millisecond are not paced:
//! their windows are small and the timers would cost more than they give.

use core::time::Duration;

use event::Instant;

use crate::max_filter::MaxFilter;
use crate::policy::{Decision, Observation, Policy};

/// Least payload outstanding: also enough to keep a fast short line busy.
const OUTSTANDING_MIN_BYTES: u64 = 8 << 20;
/// Most payload outstanding.
const OUTSTANDING_MAX_BYTES: u64 = 1 << 30;
/// Least and most commands in the target's window.
const COMMANDS_MIN: u64 = 4096;
const COMMANDS_MAX: u64 = 65_535;
/// A sender with less than this to send is left unpaced, so that a lone request goes out at once.
const BULK_BYTES: u64 = 2 << 20;
/// Paths shorter than this are not paced.
const PACED_MIN_RTT: Duration = Duration::from_millis(1);
/// Least cap, in bytes per second: below it one packet would wait for many round trips.
const PACED_MIN: u64 = 1 << 17;
/// How soon to look again while a window doubles every round trip, at the soonest.
const LOOK_SOON: Duration = Duration::from_millis(2);
/// And otherwise.
const LOOK_LATER: Duration = Duration::from_millis(20);
/// Pacing without a cap.
const UNCAPPED: u64 = u64::MAX - 1;
/// Rounds a little above the line without a queue after which it is no longer the line.
const FREE_ROUNDS: u32 = 6;
/// Shortest time over which a rate is measured.
const RATE_MIN_TIME: Duration = Duration::from_millis(40);
/// Rounds with a standing queue after which it is others who fill it.
const CROWDED_ROUNDS: u32 = 20;
/// Of the packets of a round, one in so many lost is an overflow and not chance; and at least so many.
const OVERFLOW_SHARE: u64 = 50;
const OVERFLOW_PACKETS: u64 = 16;
/// A queue that is known to be small stands from here on: a part of the round trip, and a millisecond of noise.
const SMALL_QUEUE_SHARE: u32 = 400;
const SMALL_QUEUE_NOISE: Duration = Duration::from_millis(1);
/// Rounds after an overflow until its own queue and its repairs are over.
const SETTLING_ROUNDS: u32 = 4;
/// Rounds after an overflow in which the way is felt.
const WARY_ROUNDS: u32 = 200;
/// Rounds without a cap after that.
const OPEN_ROUNDS: u32 = 16;

/// See the file's beginning.
#[derive(Clone, Debug)]
pub struct Bdp {
    min_rtt: Option<Duration>,
    /// Rate of payload through this connection, both ways together.
    moved: MaxFilter<8>,
    moved_before: u64,
    measured_since: Option<(Instant, u64)>,
    /// Rate of what this end sends, by the kernel's account.
    delivered: MaxFilter<10>,
    /// When packets that have arrived were counted last, and how many.
    arrived: Option<(Instant, u32)>,
    request_bytes: u64,
    round_ends: Instant,
    /// Packets sent again, until the present round began and until now.
    lost_before: u64,
    lost: u64,
    /// There has been a lot to send.
    was_bulk: bool,
    /// There is a lot to send.
    is_bulk: bool,
    pace: Pace,
}

#[derive(Clone, Copy, Debug)]
enum Pace {
    /// The window is growing: paced, no cap.
    Ramp,
    /// The line is known.
    Capped { bytes_per_s: u64, rounds_with_queue: u32, rounds_without: u32 },
    /// The queue is small, and overflowed: known to be so for some more rounds.
    Wary(Wary),
    /// Others crowd the queue: no cap for a while.
    Crowded { rounds_left: u32 },
}

/// After an overflow.
#[derive(Clone, Copy, Debug)]
struct Wary {
    bytes_per_s: u64,
    /// What the line carried while its queue overflowed; 0 until that is known.
    line_bytes_per_s: u64,
    /// A queue has shown again: the line is known.
    is_found: bool,
    /// A queue has shown since the round began; it may be gone by its end.
    has_shown: bool,
    rounds_with_queue: u32,
    rounds_left: u32,
}

impl Default for Bdp {
    fn default() -> Bdp {
        Bdp::new()
    }
}

impl Bdp {
    /// A policy that knows nothing of its path yet.
    pub fn new() -> Bdp {
        Bdp {
            min_rtt: None,
            moved: MaxFilter::new(),
            moved_before: 0,
            measured_since: None,
            delivered: MaxFilter::new(),
            arrived: None,
            request_bytes: 0,
            round_ends: Instant::ZERO,
            lost_before: 0,
            lost: 0,
            was_bulk: false,
            is_bulk: false,
            pace: Pace::Ramp,
        }
    }

    /// The measured bandwidth-delay product.
    pub fn product_bytes(&self) -> u64 {
        let min_rtt_ns = self.min_rtt.unwrap_or_default().as_nanos();
        let bytes = u128::from(self.moved.max()) * min_rtt_ns / 1_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Whether a queue stands: a tenth of the path and a millisecond are noise.
    fn has_queue(&self, rtt: Duration) -> bool {
        let min_rtt = self.min_rtt.unwrap_or(rtt);
        rtt.saturating_sub(min_rtt) > min_rtt / 10 + Duration::from_millis(1)
    }

    /// Whether so much was lost since the round began that a queue must have overflowed.
    fn has_overflowed(&self, mss_bytes: u32) -> bool {
        let of_round = self.product_bytes() / u64::from(mss_bytes.max(1));
        self.lost - self.lost_before >= OVERFLOW_PACKETS.max(of_round / OVERFLOW_SHARE)
    }

    /// What the window alone would send, in bytes per second.
    fn window_rate(&self, seen: &Observation) -> u64 {
        let bytes = u128::from(seen.cwnd_packets) * u128::from(seen.mss_bytes) * 1_000_000_000;
        let rtt_ns = self.min_rtt.unwrap_or(seen.rtt).as_nanos().max(1);
        u64::try_from(bytes / rtt_ns).unwrap_or(u64::MAX)
    }

    /// Whether a queue stands that is known to be small.
    fn has_small_queue(&self, rtt: Duration) -> bool {
        let min_rtt = self.min_rtt.unwrap_or(rtt);
        rtt.saturating_sub(min_rtt) > min_rtt / SMALL_QUEUE_SHARE + SMALL_QUEUE_NOISE
    }

    /// A round after an overflow. While the window is what limits, it may grow: its steps are small. When a queue
    /// shows again the line is known, and half a percent a round is what a small queue takes.
    fn feel(&self, seen: &Observation, wary: Wary, has_overflowed: bool) -> Wary {
        let delivered = self.delivered.max();
        let rounds_left = wary.rounds_left - 1;
        let is_settled = rounds_left + SETTLING_ROUNDS < WARY_ROUNDS;
        let has_queue = is_settled && (wary.has_shown || self.has_small_queue(seen.rtt));
        let is_found = wary.is_found || has_queue;
        let ceiling = delivered / 100 * 110;
        let mut line_bytes_per_s = wary.line_bytes_per_s;
        let (bytes_per_s, rounds_with_queue) = if is_settled && has_overflowed {
            line_bytes_per_s = line_bytes_per_s.min(delivered);
            (delivered / 100 * 97, wary.rounds_with_queue + 1)
        } else if has_queue {
            // What was taken for the line is more than it carries, or no queue would stand below it.
            line_bytes_per_s = line_bytes_per_s / 100 * 99;
            (delivered / 100 * 97, wary.rounds_with_queue + 1)
        } else if line_bytes_per_s > delivered / 2 {
            (line_bytes_per_s / 100 * 98, 0)
        } else if is_settled && !is_found && self.window_rate(seen) <= ceiling {
            (ceiling, 0)
        } else {
            (wary.bytes_per_s.max(delivered) / 1000 * 1005, 0)
        };
        Wary { bytes_per_s, line_bytes_per_s, is_found, has_shown: false, rounds_with_queue, rounds_left }
    }

    fn capped(&self, percent: u64, rounds_with_queue: u32, rounds_without: u32) -> Pace {
        let bytes_per_s = self.delivered.max() / 100 * percent;
        Pace::Capped { bytes_per_s, rounds_with_queue, rounds_without }
    }

    fn round(&mut self, seen: &Observation, has_overflowed: bool) {
        let rtt = seen.rtt;
        let has_queue = self.has_queue(rtt);
        self.pace = match self.pace {
            Pace::Ramp => Pace::Ramp,
            Pace::Capped { rounds_with_queue: CROWDED_ROUNDS.., .. }
            | Pace::Wary(Wary { rounds_with_queue: CROWDED_ROUNDS.., .. }) => {
                Pace::Crowded { rounds_left: OPEN_ROUNDS }
            }
            Pace::Wary(Wary { rounds_left: 0, .. }) => self.capped(100, 0, 0),
            Pace::Wary(wary) => Pace::Wary(self.feel(seen, wary, has_overflowed)),
            Pace::Capped { rounds_without: FREE_ROUNDS.., .. } => Pace::Ramp,
            // Slow enough to drain the queue in about four round trips; the line stays busy with it.
            Pace::Capped { rounds_with_queue, .. } if has_queue => {
                let queue = rtt.saturating_sub(self.min_rtt.unwrap_or(rtt));
                let excess = queue.as_nanos() * 25 / rtt.as_nanos().max(1);
                let percent = 100 - u64::try_from(excess).unwrap_or(25).min(25);
                self.capped(percent, rounds_with_queue + 1, 0)
            }
            Pace::Capped { rounds_without, .. } => self.capped(105, 0, rounds_without + 1),
            Pace::Crowded { rounds_left: 0 } => self.capped(100, 0, 0),
            Pace::Crowded { rounds_left } => Pace::Crowded { rounds_left: rounds_left - 1 },
        };
        self.delivered.advance();
    }

    /// Takes what has been moved; a rate is known after a round trip.
    fn measure(&mut self, now: Instant, moved_bytes: u64, rtt: Duration) {
        let (since, base) = *self.measured_since.get_or_insert((now, moved_bytes));
        let elapsed = now.since(since);
        if elapsed < rtt.max(RATE_MIN_TIME) {
            return;
        }
        let bytes = u128::from(moved_bytes.saturating_sub(base));
        let rate = u64::try_from(bytes * 1_000_000_000 / elapsed.as_nanos()).unwrap_or(u64::MAX);
        self.moved_before = self.moved.max();
        self.moved.advance();
        self.moved.add(rate);
        self.measured_since = Some((now, moved_bytes));
    }

    /// Takes how many packets have arrived; their rate is known after a while.
    fn count(&mut self, seen: &Observation) -> Option<u64> {
        let (since, base) = *self.arrived.get_or_insert((seen.now, seen.delivered_packets));
        let elapsed = seen.now.since(since);
        // A few milliseconds of acknowledgements that came together must not count for much.
        if elapsed < RATE_MIN_TIME.max(self.min_rtt.unwrap_or_default() / 4) {
            return None;
        }
        self.arrived = Some((seen.now, seen.delivered_packets));
        let bytes = u128::from(seen.delivered_packets.wrapping_sub(base)) * u128::from(seen.mss_bytes);
        u64::try_from(bytes * 1_000_000_000 / elapsed.as_nanos()).ok()
    }

    /// Whether the product was a good deal smaller a round ago.
    fn is_growing(&self) -> bool {
        self.moved.max() > self.moved_before + self.moved_before / 8
    }
}

impl Policy for Bdp {
    fn observe(&mut self, seen: &Observation) {
        self.min_rtt = seen.min_rtt.or(self.min_rtt);
        if seen.request_bytes > 0 {
            self.request_bytes = seen.request_bytes;
        }
        self.measure(seen.now, seen.moved_bytes, seen.rtt);
        // A rate that was limited by the application still shows what the path can carry at least.
        if !seen.app_limited || seen.delivery_rate_bytes_per_s > self.delivered.max() {
            self.delivered.add(seen.delivery_rate_bytes_per_s);
        }
        self.is_bulk = seen.backlog_bytes >= BULK_BYTES;
        self.was_bulk |= self.is_bulk;
        let is_sending = self.was_bulk && self.delivered.max() > 0;
        // A window that doubles makes a queue of a whole product within a round trip: no time to lose. The
        // delivery rate is that of a round trip ago, so the line is a little faster.
        if is_sending && matches!(self.pace, Pace::Ramp) && self.has_queue(seen.rtt) {
            self.pace = self.capped(125, 0, 0);
        }
        self.lost = seen.retransmitted_packets.max(self.lost);
        let has_overflowed = self.has_overflowed(seen.mss_bytes);
        let has_small_queue = self.has_small_queue(seen.rtt);
        if is_sending && has_overflowed && matches!(self.pace, Pace::Ramp) {
            // At once: a second cut of the window costs more than the packets.
            self.pace = Pace::Wary(Wary {
                bytes_per_s: self.delivered.max(),
                line_bytes_per_s: 0,
                is_found: false,
                has_shown: false,
                rounds_with_queue: 0,
                rounds_left: WARY_ROUNDS,
            });
        }
        // The line is busy while its queue overflows and until that has been repaired.
        if let Some(rate) = self.count(seen)
            && let Pace::Wary(wary) = &mut self.pace
            && wary.rounds_left + SETTLING_ROUNDS >= WARY_ROUNDS
            && rate > wary.line_bytes_per_s
        {
            wary.line_bytes_per_s = rate;
            wary.bytes_per_s = wary.bytes_per_s.max(rate / 100 * 98);
        }
        // A small queue leaves no time to wait for the end of the round.
        if let Pace::Wary(wary) = &mut self.pace
            && wary.rounds_left + SETTLING_ROUNDS < WARY_ROUNDS
            && has_small_queue
        {
            wary.has_shown = true;
            wary.bytes_per_s = wary.bytes_per_s.min(self.delivered.max() / 100 * 97);
        }
        if seen.now >= self.round_ends {
            if is_sending && !seen.app_limited {
                self.round(seen, has_overflowed);
            }
            self.lost_before = self.lost;
            self.round_ends = seen.now + seen.rtt.max(Duration::from_millis(1));
        }
    }

    fn decide(&self) -> Decision {
        let product = self.product_bytes();
        let commands = product.saturating_mul(2) / self.request_bytes.max(512);
        let is_long = self.min_rtt.is_some_and(|rtt| rtt >= PACED_MIN_RTT);
        Decision {
            outstanding_bytes: product
                .saturating_mul(if self.is_growing() { 4 } else { 2 })
                .clamp(OUTSTANDING_MIN_BYTES, OUTSTANDING_MAX_BYTES),
            command_window: commands.clamp(COMMANDS_MIN, COMMANDS_MAX) as u32,
            pacing_bytes_per_s: (self.was_bulk && is_long).then_some(match self.pace {
                Pace::Capped { bytes_per_s, .. } | Pace::Wary(Wary { bytes_per_s, .. }) if self.is_bulk => {
                    bytes_per_s.max(PACED_MIN)
                }
                // A lone request goes out as fast as the window lets it: the line's queue has room for it.
                _ => UNCAPPED,
            }),
            look_again: match self.pace {
                Pace::Ramp if self.was_bulk => {
                    (self.min_rtt.unwrap_or_default() / 4).clamp(LOOK_SOON, LOOK_LATER)
                }
                _ => LOOK_LATER,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: u64 = 117_000_000;
    const RTT: Duration = Duration::from_millis(100);

    /// A path whose sender doubles its rate every round trip until the line is full, then builds a queue
    /// with what it sends too much.
    struct Path {
        policy: Bdp,
        now: Instant,
        rate: u64,
        moved: u64,
        queue_bytes: u64,
        room_bytes: u64,
        lost: u64,
        arrived_bytes: u64,
        /// How much of the next arrivals is seen at every third look already.
        early_bytes: u64,
        others: bool,
    }

    impl Path {
        fn new() -> Path {
            Path {
                policy: Bdp::new(),
                now: Instant::ZERO,
                rate: 145_000,
                moved: 0,
                queue_bytes: 0,
                room_bytes: u64::MAX,
                lost: 0,
                arrived_bytes: 0,
                early_bytes: 0,
                others: false,
            }
        }

        fn rounds(&mut self, rounds: u32) -> Decision {
            for step in 0..rounds * 10 {
                let early_bytes = if step % 3 == 2 { self.early_bytes } else { 0 };
                self.now += RTT / 10;
                self.rate = (self.rate as f64 * 1.0718) as u64;
                let wanted = self.policy.decide().pacing_bytes_per_s.unwrap_or(UNCAPPED).min(self.rate);
                self.rate = self.rate.min(2 * LINE);
                let delivered = if self.queue_bytes > 0 { LINE } else { wanted.min(LINE) };
                self.queue_bytes = (self.queue_bytes + wanted / 100).saturating_sub(LINE / 100);
                if self.queue_bytes > self.room_bytes {
                    self.lost += (self.queue_bytes - self.room_bytes) / 1448;
                    self.queue_bytes = self.room_bytes;
                }
                if self.others {
                    self.queue_bytes = LINE / 10;
                }
                self.moved += delivered / 100;
                self.arrived_bytes += delivered / 100;
                let queueing = Duration::from_nanos(self.queue_bytes * 1_000_000_000 / LINE);
                self.policy.observe(&Observation {
                    now: self.now,
                    rtt: RTT + queueing,
                    min_rtt: Some(RTT),
                    moved_bytes: self.moved,
                    delivery_rate_bytes_per_s: delivered,
                    app_limited: false,
                    retransmitted_packets: self.lost,
                    delivered_packets: ((self.arrived_bytes + early_bytes) / 1448) as u32,
                    mss_bytes: 1448,
                    cwnd_packets: u32::MAX,
                    backlog_bytes: 64 << 20,
                    request_bytes: 1 << 20,
                });
            }
            self.policy.decide()
        }
    }

    #[test]
    fn outstanding_keeps_ahead_of_a_doubling_window() {
        let mut path = Path::new();
        for _ in 0..12 {
            let product = path.rate.min(LINE) / 10;
            assert!(path.rounds(1).outstanding_bytes >= 2 * product);
        }
        let end = path.rounds(20).outstanding_bytes;
        assert!((LINE / 10 * 19 / 10..LINE / 10 * 21 / 10).contains(&end), "{end}");
    }

    #[test]
    fn the_cap_finds_the_line_and_keeps_the_queue_short() {
        let mut path = Path::new();
        assert_eq!(path.rounds(5).pacing_bytes_per_s, Some(UNCAPPED), "no cap while it grows");
        path.rounds(200);
        let (mut least, mut most) = (u64::MAX, 0);
        for _ in 0..50 {
            let cap = path.rounds(1).pacing_bytes_per_s.unwrap();
            (least, most) = (least.min(cap), most.max(cap));
        }
        assert!(least >= LINE / 100 * 94 && most <= LINE / 100 * 106, "{least} {most}");
        assert!(path.queue_bytes < LINE / 10, "less than a round trip of queue");
    }

    #[test]
    fn after_a_small_queue_has_overflowed_it_does_not_again() {
        let mut path = Path::new();
        path.room_bytes = LINE / 160;
        path.rounds(12);
        let lost = path.lost;
        assert!(lost > 100, "doubling every round trip it must: {lost}");
        let caps: Vec<u64> = (0..60).map(|_| path.rounds(1).pacing_bytes_per_s.unwrap()).collect();
        assert!(path.lost - lost < lost, "{} and then {}", lost, path.lost - lost);
        let least = caps.iter().skip(4).min().unwrap();
        assert!((LINE / 100 * 95..LINE / 100 * 103).contains(least), "{caps:?}");
        // What the line carried while it overflowed is known within a few rounds, and not exceeded.
        let known = caps.iter().skip(4);
        assert!(known.clone().all(|cap| (LINE / 100 * 95..LINE).contains(cap)), "{caps:?}");
    }

    #[test]
    fn a_line_taken_for_more_than_it_is_comes_down_when_a_queue_shows() {
        let mut path = Path::new();
        path.room_bytes = LINE / 160;
        // Of what arrives a part is seen early: for a moment the line seems to carry four percent more.
        path.early_bytes = LINE / 25 * 4 / 100;
        path.rounds(11);
        // The window is cut.
        (path.rate, path.queue_bytes) = (LINE / 20, 0);
        let lost = path.lost;
        let cap = path.rounds(100).pacing_bytes_per_s.unwrap();
        assert!(path.lost - lost < 16, "another overflow: {lost} lost, then {} more", path.lost - lost);
        assert!((LINE / 100 * 93..=LINE).contains(&cap), "{cap}");
    }

    #[test]
    fn the_cap_is_lifted_when_others_fill_a_small_queue() {
        let mut path = Path::new();
        path.room_bytes = LINE / 160;
        path.rounds(30);
        path.others = true;
        let caps: Vec<_> = (0..60).map(|_| path.rounds(1).pacing_bytes_per_s.unwrap()).collect();
        assert!(caps.contains(&UNCAPPED), "{caps:?}");
    }

    #[test]
    fn a_packet_lost_by_chance_is_no_overflow() {
        let mut path = Path::new();
        for round in 0..9 {
            path.lost += 5;
            assert_eq!(path.rounds(1).pacing_bytes_per_s, Some(UNCAPPED), "{round}");
        }
    }

    #[test]
    fn the_cap_is_lifted_when_others_fill_the_queue() {
        let mut path = Path::new();
        path.rounds(60);
        path.others = true;
        let caps: Vec<_> = (0..60).map(|_| path.rounds(1).pacing_bytes_per_s.unwrap()).collect();
        assert!(caps.contains(&UNCAPPED), "{caps:?}");
    }

    #[test]
    fn a_lone_request_is_not_paced_and_a_short_path_never() {
        let mut policy = Bdp::new();
        let mut seen = Observation {
            now: Instant::ZERO,
            rtt: RTT,
            min_rtt: Some(RTT),
            moved_bytes: 0,
            delivery_rate_bytes_per_s: 1,
            app_limited: true,
            retransmitted_packets: 0,
            delivered_packets: 0,
            mss_bytes: 1448,
            cwnd_packets: u32::MAX,
            backlog_bytes: 1 << 20,
            request_bytes: 1 << 20,
        };
        policy.observe(&seen);
        assert_eq!(policy.decide().pacing_bytes_per_s, None);
        seen.backlog_bytes = 64 << 20;
        seen.min_rtt = Some(Duration::from_micros(100));
        policy.observe(&seen);
        assert_eq!(policy.decide().pacing_bytes_per_s, None);
    }

    #[test]
    fn the_command_window_follows_small_requests() {
        let mut path = Path::new();
        assert_eq!(path.rounds(60).command_window, 4096);
        path.policy.request_bytes = 4096;
        let window = path.policy.decide().command_window;
        assert!((5000..7000).contains(&window), "{window}");
    }
}
