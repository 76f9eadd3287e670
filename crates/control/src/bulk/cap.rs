//! The cap of the pacing rate of a sender in bulk, from the delivered rate and the round trip alone.
//!
//! A sender with a lot to send is paced from the beginning, without a cap: Linux then spreads its window over the round
//! trip, and HyStart no longer takes a burst of ACKs for a full pipe (it halves its threshold for unpaced senders),
//! which is what leaves CUBIC far below the line for a minute on a path of 500 ms. As soon as a queue stands the line is
//! known (it delivers what it can), and the cap follows it: a little above while the round trip shows no queue, and as
//! far below as drains a queue in a few round trips while it does. If a little above makes no queue, the line is faster
//! than we thought, and the cap is lifted. A queue too small to show in the round trip before it overflows shows as
//! loss: when a round loses more than chance would take, the cap is what was delivered, and from there it feels its way
//! (`wary.rs`). If the queue stays although we slowed down, others are filling it, and the cap is lifted so that they do
//! not take our share, up to half of the line (`beside.rs`). A newcomer that has been told its part of the line follows no
//! queue for a while, unless it is as long as the path (`newcomer.rs`), nor does one whose data are handed over until it
//! has half of it. Paths shorter than a millisecond are not paced: their windows are small and the timers would cost more
//! than they give.

use core::time::Duration;

use event::{CongestionState, Instant, WindowKind};

use crate::bulk::beside::Beside;
use crate::bulk::newcomer::{Newcomer, Pace};
use crate::bulk::wary::{Round, Wary, open_rate, window_rate};
use crate::loss::share::LossShare;
use crate::measure::counter::Counter;
use crate::measure::cuts::Cut;
use crate::measure::max_filter::MaxFilter;
use crate::measure::product::{Product, RATE_MIN_TIME};
use crate::measure::unqueued::{SMALL_QUEUE_SHARE, Unqueued, has_queue, has_small_queue};
use crate::policy::{Observation, UNCAPPED};
use crate::sharing::claimant::{Claimant, Queue};
use crate::sharing::share::{Claim, Handed};
use crate::window::threshold::NO_THRESHOLD_PACKETS;

/// A sender that has had no more than this to send since it last had nothing is left uncapped, so that a lone request goes
/// out at once.
pub const BULK_BYTES: u64 = 2 << 20;
/// On shorter paths nothing is paced, spaced or shared.
const LONG_MIN_RTT: Duration = Duration::from_millis(1);
/// Least cap, in bytes per second: below it one packet would wait for many round trips.
pub(crate) const PACED_MIN: u64 = 1 << 17;
/// How soon to look again while a window doubles every round trip, at the soonest.
const LOOK_SOON: Duration = Duration::from_millis(2);
/// And otherwise.
const LOOK_LATER: Duration = Duration::from_millis(20);
/// Without a queue so much of what is delivered is to go out.
const ABOVE_PERCENT: u64 = 105;
/// The kernel sends less than it is told, at 1 GB/s by up to an eighth: so it is told more. What it sent most of in the last
/// rounds counts, since in others it may have stood still; less than this it sent for another reason.
const SENT_LEAST_PERMILLE: u64 = 800;
const SENT_ROUNDS: usize = 3;
/// BBR looks for a faster line by being a quarter faster than the line now and then: where it never is, it takes less and
/// less for the line. At its start it is faster by 2.9, until what arrives has not become more for three rounds with enough to
/// send; if what is sent comes from elsewhere there is never enough for that, and it stays so for ever, with a fifth lost. So
/// at its start it is capped like others. It has left it when it has a threshold, which it does not use: Linux sets that to what
/// it takes for the product, then and never again (`bbr_check_drain` in net/ipv4/tcp_bbr.c).
const PROBING_PERCENT: u64 = 130;
/// So much of what is delivered goes out while it is a newcomer beside others, who give way as it grows.
const NEWCOMER_PERCENT: u64 = 125;
/// From a round trip of so many times the least on newcomers drain the queue as well.
const NEWCOMER_RTTS: u32 = 2;
/// Rounds a little above the line without any queue after which it is no longer the line.
const FREE_ROUNDS: u32 = 6;
/// Rounds with a standing queue after which it is others who fill it.
const CROWDED_ROUNDS: u32 = 20;
/// Rounds without a cap after that; and so many times as long each time that they are found again within so many rounds, up to
/// a most, since a window does not grow while they are looked for.
const OPEN_ROUNDS: u32 = 16;
const OPEN_TIMES: u32 = 4;
const OPEN_MOST: Duration = Duration::from_secs(10);
const AGAIN_ROUNDS: u32 = 64;
/// Beside others who fill the queue nobody keeps more than one in so many parts of the line. Whoever is paced loses less in a
/// full queue than those whose packets come in bursts, and is cut more rarely: they were cut nine times as often.
const BESIDE_PARTS: u64 = 2;
/// So much of what is delivered goes out while they are looked for.
const SLOWER_PERCENT: u64 = 75;
/// Of the packets of a round, one in so many lost is an overflow and not chance; and at least so many.
const OVERFLOW_SHARE: u64 = 50;
const OVERFLOW_PACKETS: u64 = 16;

/// See the file's beginning.
#[derive(Clone, Debug)]
pub(crate) struct Cap {
    /// Rate of what this end sends, by the kernel's account.
    delivered: MaxFilter<10>,
    /// Packets that had arrived at the last look, and bytes since the first, each packet counted as a full one: so does the
    /// kernel, whose rates and pace are compared with this.
    arrived_packets: Option<u32>,
    arrived_bytes: u64,
    /// The same to the byte, for what is handed over by hand: where blocks and their headers go out in portions not every
    /// packet is full, and they came to 2.5 % too much.
    exact_bytes: u64,
    counter: Counter,
    claimant: Claimant,
    unqueued: Unqueued,
    handed: Option<Handed>,
    /// For how long it was without a cap last since others fill the queue, and until when.
    open_for: Duration,
    open_until: Instant,
    /// What the line carries beside them.
    beside: Beside,
    newcomer: Newcomer,
    /// How fast it goes on as one.
    newcomer_pace: Option<Pace>,
    round_ends: Instant,
    /// What the present round began with.
    outgoing: Outgoing,
    /// What went out of what was told, in the last rounds.
    sent_permille: MaxFilter<SENT_ROUNDS>,
    /// The round trip at the end of the last round.
    round_rtt: Duration,
    /// Packets sent again, until the present round began and until now.
    lost_before: u64,
    lost: u64,
    /// Cap of a rate-based sender in percent of the delivered rate.
    probing_percent: u64,
    /// More than random loss explains was lost since the present round began.
    has_lost: bool,
    /// What has to be sent at one time for pacing to begin.
    paced_from_bytes: u64,
    is_paced: bool,
    /// Its congestion control has a cap of its own, and has left its start, where it is far too fast.
    has_left_start: bool,
    /// The device has refused something since the present round began.
    has_filled_device: bool,
    /// What its window was last cut for was a device that was full, and not a path.
    is_device_full: bool,
    /// There has been a lot to send.
    was_bulk: bool,
    /// There is a lot to send.
    is_bulk: bool,
    stage: Stage,
}

/// What had gone out when a round began, and how much was to go out in it.
#[derive(Clone, Copy, Default, Debug)]
struct Outgoing {
    begun: Instant,
    bytes: u64,
    /// `None` if there was no cap, or less was to go out than it let.
    told_bytes_per_s: Option<u64>,
}

/// What is known from elsewhere.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Elsewhere {
    /// What the line carries, if that is known of trains.
    pub(crate) line_bytes_per_s: Option<u64>,
    /// What the sender may use of it, beside others.
    pub(crate) part_bytes_per_s: Option<u64>,
    /// Share of packets that random loss takes.
    pub(crate) random_loss: LossShare,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The window is growing: paced, no cap.
    Ramp,
    /// The line is known.
    Capped { bytes_per_s: u64, rounds_with_queue: u32, rounds_without: u32 },
    /// The queue is small, and overflowed: known to be so for some more rounds.
    Wary(Wary),
    /// Others crowd the queue: no cap until it is time to look for them again.
    Crowded { rounds_without: u32 },
}

impl Cap {
    /// A cap of a sender that is paced once it had so much to send at one time.
    pub(crate) fn new(paced_from_bytes: u64) -> Cap {
        Cap {
            delivered: MaxFilter::new(),
            arrived_packets: None,
            arrived_bytes: 0,
            exact_bytes: 0,
            counter: Counter::default(),
            claimant: Claimant::default(),
            unqueued: Unqueued::default(),
            handed: None,
            open_for: Duration::ZERO,
            open_until: Instant::ZERO,
            beside: Beside::default(),
            newcomer: Newcomer::default(),
            newcomer_pace: None,
            round_ends: Instant::ZERO,
            outgoing: Outgoing::default(),
            sent_permille: MaxFilter::full_of(1000),
            round_rtt: Duration::ZERO,
            lost_before: 0,
            lost: 0,
            has_lost: false,
            probing_percent: PROBING_PERCENT,
            paced_from_bytes,
            is_paced: false,
            has_left_start: false,
            has_filled_device: false,
            is_device_full: false,
            was_bulk: false,
            is_bulk: false,
            stage: Stage::Ramp,
        }
    }

    /// Takes what was seen, after the product has, and the cut of the window if there was one.
    pub(crate) fn observe(
        &mut self,
        seen: &Observation,
        product: &Product,
        cut: Option<Cut>,
        Elsewhere { line_bytes_per_s, part_bytes_per_s, random_loss }: Elsewhere,
    ) {
        let round_trips = (seen.rtt, product.min_rtt().unwrap_or(seen.rtt));
        let is_at_rest = seen.unacked_packets == 0;
        let min_rtt = self.unqueued.observe(seen.now, is_at_rest, seen.delivered_packets, round_trips);
        let path = Path { min_rtt, product_bytes: product.bytes() };
        self.has_left_start =
            seen.paces_itself && (self.has_left_start || seen.ssthresh_packets < NO_THRESHOLD_PACKETS);
        // What is held back here is there to be sent, although the kernel has nothing. And whoever is too fast for his own
        // application has filled the line before.
        let is_held = seen.paced_one_by_one && seen.was_spaced;
        let app_limited = seen.app_limited && !is_held && !(seen.paces_itself && self.is_bulk);
        // A rate that was limited by the application still shows what the path can carry at least.
        if !app_limited || seen.delivery_rate_bytes_per_s > self.delivered.max() {
            self.delivered.add(seen.delivery_rate_bytes_per_s);
        }
        // The end of what was bulk goes out as it did.
        self.is_bulk = seen.backlog_bytes >= BULK_BYTES || self.is_bulk && seen.backlog_bytes > 0;
        self.was_bulk |= self.is_bulk;
        self.is_paced |= self.was_bulk || seen.burst_bytes >= self.paced_from_bytes;
        let is_sending = self.was_bulk && self.delivered.max() > 0;
        self.newcomer.observe(self.delivered.max(), part_bytes_per_s.filter(|_| is_long(product.min_rtt())));
        // By hand it is handed over as it grows. And a queue of a whole product is to be drained by all.
        let is_paced_so = !seen.paced_one_by_one && seen.rtt < path.min_rtt * NEWCOMER_RTTS;
        self.newcomer_pace = self.newcomer.pace().filter(|_| is_paced_so);
        // A window that doubles makes a queue of a whole product within a round trip: no time to lose. The
        // delivery rate is that of a round trip ago, so the line is a little faster.
        if is_sending
            && matches!(self.stage, Stage::Ramp)
            && path.has_queue(seen.rtt)
            && self.newcomer_pace != Some(Pace::Window)
        {
            // While one that hands over by hand has less than half of its part, the queue is that of those whose part is
            // more, who give way. What the kernel lets out is a whole window.
            let has_little = part_bytes_per_s.is_some_and(|part| self.delivered.max() < part / 2);
            let is_of_others = has_little && seen.paced_one_by_one;
            self.stage = if is_of_others {
                self.open_until = seen.now + seen.rtt * OPEN_ROUNDS;
                Stage::Crowded { rounds_without: 0 }
            } else {
                self.capped(125, 0, 0)
            };
        }
        self.beside.observe(u64::from(seen.unacked_packets) * u64::from(seen.mss_bytes), seen.rtt);
        self.lost = seen.retransmitted_packets.max(self.lost);
        // The queue may be that of our own device, which loses nothing and cuts the window all the same.
        let has_filled_device = cut.is_some_and(|cut| cut.kind == WindowKind::CutHere);
        self.has_filled_device |= has_filled_device;
        let expected = random_loss.expected(self.packets_of_round(seen));
        let has_lost = self.lost - self.lost_before >= path.overflow_packets(seen.mss_bytes) + expected;
        self.has_lost = has_lost;
        let has_overflowed = has_lost || has_filled_device;
        if has_overflowed {
            self.is_device_full = has_filled_device;
        }
        let is_unaware = match self.stage {
            Stage::Ramp => has_overflowed,
            // What is lost while a queue shows is that of before it was drained.
            Stage::Capped { .. } => has_filled_device || has_lost && !path.has_queue(seen.rtt),
            // Whoever fills it, the process that knows of all who go out here shares it.
            Stage::Crowded { .. } => has_filled_device && seen.paced_one_by_one,
            Stage::Wary(_) => false,
        };
        if is_sending && is_unaware {
            // At once: a second cut of the window costs more than the packets.
            self.stage = Stage::Wary(Wary::new(self.delivered.max()));
            self.beside.give_up();
            // What kept the kernel below what it was told may have been the device.
            self.sent_permille = MaxFilter::full_of(1000);
        }
        self.count(seen);
        let is_handed = seen.paced_one_by_one && is_long(product.min_rtt());
        let waits = seen.rtt.saturating_sub(path.min_rtt);
        if is_handed != self.handed.is_some() {
            // The two counts have nothing to do with each other.
            self.claimant = Claimant::default();
        }
        self.handed = is_handed.then_some(Handed { is_refused: has_filled_device });
        // What the device refuses says nothing of the line.
        let queue = match path.has_queue(seen.rtt) {
            _ if has_overflowed && !(is_handed && self.is_device_full) => Queue::Overflowed,
            true => Queue::Stands,
            false => Queue::Empty,
        };
        let times = (seen.rtt, self.counted_over(seen.rtt));
        let arrived_bytes = if is_handed { self.exact_bytes } else { self.arrived_bytes };
        self.claimant.observe(seen.now, arrived_bytes, times, (queue, waits));
        // A few milliseconds of acknowledgements that came together must not count for much.
        let rate = self.counter.rate(seen.now, self.arrived_bytes, RATE_MIN_TIME.max(path.min_rtt / 4));
        if let Stage::Wary(wary) = &mut self.stage {
            for rate in rate.into_iter().chain(line_bytes_per_s) {
                wary.learn(rate);
            }
            if path.has_small_queue(seen.rtt) {
                wary.give_way(self.delivered.max());
            }
        }
        if seen.now >= self.round_ends {
            let out_bytes = self.arrived_bytes + u64::from(seen.unacked_packets) * u64::from(seen.mss_bytes);
            if is_sending && !app_limited {
                self.learn_sent(seen, out_bytes, part_bytes_per_s);
                self.round(seen, path, has_lost || self.has_filled_device, part_bytes_per_s);
            }
            // While what overflowed is repaired nothing grows.
            let is_repairing = matches!(&self.stage, Stage::Wary(wary) if !wary.is_settled());
            if self.newcomer_pace.is_some() && !is_repairing {
                self.newcomer.round();
            }
            // With less than that to send it is not the kernel that keeps below it.
            let told_bytes_per_s =
                self.told_bytes_per_s().filter(|told| part_bytes_per_s.is_none_or(|part| part >= *told));
            self.outgoing = Outgoing { begun: seen.now, bytes: out_bytes, told_bytes_per_s };
            (self.lost_before, self.has_filled_device) = (self.lost, false);
            self.round_ends = seen.now + seen.rtt.max(Duration::from_millis(1));
        }
    }

    /// The cap; `None` while what is sent is better not paced.
    pub(crate) fn pacing_bytes_per_s(&self, product: &Product) -> Option<u64> {
        (self.is_paced && is_long(product.min_rtt())).then_some(match self.stage {
            Stage::Ramp => UNCAPPED,
            _ if self.has_left_start && self.is_bulk => {
                (self.delivered.max() / 100 * self.probing_percent).max(PACED_MIN)
            }
            // A lone request goes out as fast as the window lets it: the line's queue has room for it.
            _ => {
                self.told_bytes_per_s().filter(|_| self.is_bulk).map_or(UNCAPPED, |told| told.max(PACED_MIN))
            }
        })
    }

    /// Whether it goes on as a newcomer that the kernel paces.
    pub(crate) fn is_newcomer(&self) -> bool {
        self.newcomer_pace.is_some()
    }

    /// What to tell the kernel for what is meant to go out.
    fn told_bytes_per_s(&self) -> Option<u64> {
        let told = |bytes_per_s: u64| bytes_per_s / self.sent_permille.max() * 1000;
        match self.stage {
            Stage::Capped { bytes_per_s, .. } => Some(told(bytes_per_s)),
            // The ring of a device is full sooner than is measured.
            Stage::Wary(Wary { bytes_per_s, .. }) if self.handed.is_some() => Some(bytes_per_s),
            Stage::Wary(Wary { bytes_per_s, .. }) => Some(told(bytes_per_s)),
            Stage::Crowded { .. } if self.handed.is_none() => {
                let line = self.beside.line_bytes_per_s()?.max(self.delivered.max());
                Some(told(line / BESIDE_PARTS))
            }
            Stage::Ramp | Stage::Crowded { .. } => None,
        }
    }

    /// Whether there is a lot to send.
    pub(crate) fn is_bulk(&self) -> bool {
        self.is_bulk
    }

    /// Whether the device was full, so that its way is felt.
    pub(crate) fn is_wary_of_device(&self) -> bool {
        self.is_device_full && matches!(self.stage, Stage::Wary(_))
    }

    /// Caps a rate-based sender at so many percent of the delivered rate from now on.
    pub(crate) fn probe(&mut self, percent: u64) {
        self.probing_percent = percent;
    }

    /// Looks for the line anew: a rate-based congestion control begins with its start.
    pub(crate) fn restart(&mut self) {
        self.stage = Stage::Ramp;
    }

    /// Returns whether a queue of the path has overflowed since the present round began, by what was lost.
    pub(crate) fn has_lost(&self) -> bool {
        self.has_lost
    }

    /// The round trip without a queue.
    pub(crate) fn base_rtt(&self) -> Option<Duration> {
        self.unqueued.base_rtt()
    }

    /// What a sender in bulk claims of the line.
    pub(crate) fn claim(&self) -> Option<Claim> {
        self.is_bulk.then(|| Claim { handed: self.handed, ..self.claimant.claim() })
    }

    /// How its device has taken what was handed over, if it takes packets one by one.
    pub(crate) fn handed(&self) -> Option<Handed> {
        self.handed
    }

    /// What has arrived of what this end sends, to the byte.
    pub(crate) fn exact_bytes(&self) -> u64 {
        self.exact_bytes
    }

    /// What is handed over at its time arrives so, and does not come in bunches.
    fn counted_over(&self, rtt: Duration) -> Duration {
        if self.handed.is_some() { rtt } else { rtt.max(RATE_MIN_TIME) }
    }

    /// Packets that a round delivers at the largest delivery rate of late.
    fn packets_of_round(&self, seen: &Observation) -> u64 {
        let bytes = u128::from(self.delivered.max()) * seen.rtt.as_nanos() / 1_000_000_000;
        u64::try_from(bytes / u128::from(seen.mss_bytes.max(1))).unwrap_or(u64::MAX)
    }

    /// How soon to look again.
    pub(crate) fn look_again(&self, product: &Product) -> Duration {
        match self.stage {
            Stage::Ramp if self.is_bulk => {
                (product.min_rtt().unwrap_or_default() / 4).clamp(LOOK_SOON, LOOK_LATER)
            }
            _ => LOOK_LATER,
        }
    }

    fn capped(&self, percent: u64, rounds_with_queue: u32, rounds_without: u32) -> Stage {
        let bytes_per_s = self.delivered.max() / 100 * percent;
        Stage::Capped { bytes_per_s, rounds_with_queue, rounds_without }
    }

    /// Others fill the queue: no cap, and for longer if they were found just before.
    fn crowded(&mut self, seen: &Observation) -> Stage {
        let least = seen.rtt * OPEN_ROUNDS;
        let is_again = seen.now.since(self.open_until) < seen.rtt * AGAIN_ROUNDS;
        let longer = (self.open_for * OPEN_TIMES).min(OPEN_MOST);
        self.open_for = if is_again { longer.max(least) } else { least };
        self.open_until = seen.now + self.open_for;
        self.beside.end();
        Stage::Crowded { rounds_without: 0 }
    }

    /// Takes how much of what was told went out in this round, unless a window was too small for it, or the part of the line.
    fn learn_sent(&mut self, seen: &Observation, out_bytes: u64, part_bytes_per_s: Option<u64>) {
        let limit = open_rate(seen).min(part_bytes_per_s.unwrap_or(u64::MAX));
        let could = self.outgoing.told_bytes_per_s.is_some_and(|told| limit > told);
        let permille = self.outgoing.sent_permille(seen.now, out_bytes).filter(|_| could);
        if let Some(permille) = permille.filter(|permille| *permille >= SENT_LEAST_PERMILLE) {
            self.sent_permille.advance();
            self.sent_permille.add(permille.min(1000));
        }
    }

    fn round(&mut self, seen: &Observation, path: Path, has_overflowed: bool, part_bytes_per_s: Option<u64>) {
        let rtt = seen.rtt;
        self.stage = match self.stage {
            Stage::Ramp => Stage::Ramp,
            Stage::Capped { .. }
                if let Some(pace) = self.newcomer_pace
                    && (pace != Pace::Held || path.has_queue(rtt)) =>
            {
                self.beside.give_up();
                match pace {
                    Pace::Window => Stage::Ramp,
                    Pace::Careful => self.capped(NEWCOMER_PERCENT, 0, 0),
                    Pace::Held => self.capped(100, 0, 0),
                }
            }
            // What arrived when it overflowed was not the line, but what the others left of it.
            Stage::Wary(wary)
                if wary.is_settled() && matches!(self.newcomer_pace, Some(Pace::Window | Pace::Careful)) =>
            {
                self.capped(NEWCOMER_PERCENT, 0, 0)
            }
            Stage::Capped { rounds_with_queue: CROWDED_ROUNDS.., .. }
            | Stage::Wary(Wary { rounds_with_queue: CROWDED_ROUNDS.., .. }) => self.crowded(seen),
            // The ring of a device stays as short as it is.
            Stage::Wary(wary) if wary.is_over() && seen.paced_one_by_one => {
                Stage::Wary(wary.again(self.delivered.max()))
            }
            Stage::Wary(wary) if wary.is_over() => self.capped(100, 0, 0),
            Stage::Wary(wary) => Stage::Wary(wary.feel(Round {
                delivered_bytes_per_s: self.delivered.max(),
                has_overflowed,
                has_queue: path.has_small_queue(rtt),
                window_bytes_per_s: window_rate(seen, path.min_rtt.as_nanos()),
            })),
            Stage::Capped { rounds_without: FREE_ROUNDS.., .. } => Stage::Ramp,
            // Others are looked for: what one keeps to shows in the round trip if it is clearly less.
            Stage::Capped { bytes_per_s, rounds_with_queue, .. }
                if path.has_queue(rtt) && self.beside.is_slow() =>
            {
                Stage::Capped { bytes_per_s, rounds_with_queue: rounds_with_queue + 1, rounds_without: 0 }
            }
            // Slow enough to drain the queue in about four round trips; the line stays busy with it.
            Stage::Capped { rounds_with_queue, .. } if path.has_queue(rtt) => {
                let queue = rtt.saturating_sub(path.min_rtt);
                let excess = queue.as_nanos() * 25 / rtt.as_nanos().max(1);
                let percent = 100 - u64::try_from(excess).unwrap_or(25).min(25);
                self.capped(percent, rounds_with_queue + 1, 0)
            }
            // What is a little too much makes a queue that is none yet, and grows. One that only stands may be the path's.
            Stage::Capped { bytes_per_s, rounds_without, .. } => {
                // Who has most of the line empties the queue by slowing down. Until then it told the same.
                self.beside.end();
                let is_small = path.has_small_queue(rtt);
                let is_growing = is_small && rtt > self.round_rtt + path.min_rtt / SMALL_QUEUE_SHARE;
                let above = self.delivered.max() / 100 * ABOVE_PERCENT;
                // Who is held to less than that does not see what it would make.
                let is_held =
                    self.handed.is_none() && part_bytes_per_s.is_some_and(|part| part < bytes_per_s);
                let rounds_without = if is_small || is_held { 0 } else { rounds_without + 1 };
                let bytes_per_s = if is_growing { bytes_per_s } else { above };
                Stage::Capped { bytes_per_s, rounds_with_queue: 0, rounds_without }
            }
            // They have gone, and the next queue is our own.
            Stage::Crowded { rounds_without: CROWDED_ROUNDS.. } => {
                self.open_until = seen.now;
                self.beside.forget();
                Stage::Ramp
            }
            // What all hand over through a device is shared elsewhere.
            Stage::Crowded { .. } if seen.now >= self.open_until && self.handed.is_some() => {
                self.capped(100, 0, 0)
            }
            Stage::Crowded { .. } if seen.now >= self.open_until => {
                self.beside.begin();
                self.capped(SLOWER_PERCENT, 0, 0)
            }
            Stage::Crowded { rounds_without } => Stage::Crowded {
                rounds_without: if path.has_small_queue(rtt) { 0 } else { rounds_without + 1 },
            },
        };
        self.round_rtt = rtt;
        self.delivered.advance();
    }

    /// Takes how many packets have arrived.
    fn count(&mut self, seen: &Observation) {
        let before = self.arrived_packets.replace(seen.delivered_packets).unwrap_or(seen.delivered_packets);
        // It wraps; between two looks there are never so many.
        let packets = seen.delivered_packets.wrapping_sub(before) as i32;
        let bytes = i64::from(packets) * i64::from(seen.mss_bytes);
        self.arrived_bytes = self.arrived_bytes.saturating_add_signed(bytes);
        // While something is missing what arrives behind it is not acknowledged, but by packets.
        let is_whole = matches!(seen.state, CongestionState::Open | CongestionState::Cwr);
        self.exact_bytes = if is_whole {
            self.exact_bytes.max(seen.moved_bytes.saturating_sub(seen.received_bytes))
        } else {
            self.exact_bytes.saturating_add_signed(bytes)
        };
    }
}

impl Outgoing {
    /// How much of what was told has gone out, now that `bytes` have.
    fn sent_permille(self, now: Instant, bytes: u64) -> Option<u64> {
        let told_bytes =
            u128::from(self.told_bytes_per_s?) * now.since(self.begun).as_nanos() / 1_000_000_000;
        let permille = u128::from(bytes.saturating_sub(self.bytes)) * 1000 / told_bytes.max(1);
        u64::try_from(permille).ok()
    }
}

/// Whether a path of such a round trip is known to be long enough for anything to be paced, spaced or shared.
pub(crate) fn is_long(min_rtt: Option<Duration>) -> bool {
    min_rtt.is_some_and(|rtt| rtt >= LONG_MIN_RTT)
}

/// What is known of the path besides its rate.
#[derive(Clone, Copy, Debug)]
struct Path {
    /// Without a queue.
    min_rtt: Duration,
    product_bytes: u64,
}

impl Path {
    fn has_queue(self, rtt: Duration) -> bool {
        has_queue(rtt, self.min_rtt)
    }

    fn has_small_queue(self, rtt: Duration) -> bool {
        has_small_queue(rtt, self.min_rtt)
    }

    /// Packets lost in a round from which on a queue must have overflowed.
    fn overflow_packets(self, mss_bytes: u32) -> u64 {
        let of_round = self.product_bytes / u64::from(mss_bytes.max(1));
        OVERFLOW_PACKETS.max(of_round / OVERFLOW_SHARE)
    }
}

#[cfg(test)]
mod tests;
