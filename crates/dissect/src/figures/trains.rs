//! Rate of packet trains: packets of one direction that follow each other without a pause.
//!
//! A sender releases data in bursts: a window after an acknowledgement, the answer to a command. Behind the narrowest
//! link the packets of a burst are as far apart as that link takes to send them, whatever keeps the mean rate of the
//! connection below it (packet dispersion: Dovrolis, Ramanathan, Moore, "What do packet dispersion techniques
//! measure?", INFOCOM 2001). A tap beside the receiver shows the packets themselves, one beside the sender their
//! acknowledgements.
//!
//! A sender that paces itself, or that is clocked by acknowledgements, spaces its packets more widely. TCP does so in
//! groups of segments (Linux: two at least, and a millisecond's worth), so that some stretches are faster than most, or
//! most of a stretch is one gap. On a line all stretches take the same, and each gap is as long as its packet.
//!
//! Paced groups that offload or the network has merged look as even as a line. Then the rate itself decides: Linux paces
//! by twice the congestion window a round trip at most, and does not let that window grow beyond twice the data in
//! flight. Trains that are faster are those of a line. Slower ones are, if they are long.

use serde::Serialize;

use crate::figures::distribution::Distribution;

/// Minimum duration of a stretch in ns. Interrupt moderation of network cards holds packets for up to about 100 µs;
/// shorter stretches bound the rate from below.
const MEASURED_NS: u64 = 150_000;
/// Pause in ns that ends a train: an eighth of a round trip, within these limits.
const PAUSE_NS: [u64; 2] = [200_000, 20_000_000];
/// Bytes of stretches that are needed for a rate.
const BYTES_MIN: u64 = 64 << 10;
/// Quantiles of the rates of stretches, weighted by bytes, and the ratios to the median within which all of them are that of
/// one line. Beyond the last are packets that the tap's host held up.
const SLOW: (f64, f64) = (0.25, 0.75);
const FAST: (f64, f64) = (0.98, 1.3);
/// Share of the bytes in uneven stretches up to which they are an exception, as for the slow ones.
const UNEVEN_MAX: f64 = 0.25;
/// Ratio of a gap to the time of its packet at the stretch's mean rate from which on a group of packets ended before it.
const GAP: f64 = 1.5;
/// Time in ns by which interrupt moderation of network cards displaces a packet.
const MODERATION_NS: u64 = 100_000;
/// Stretches of a train, on average, from which on evenness shows a line: three intervals between groups at least.
const LONG: u64 = 4;
/// Fastest pacing as a multiple of the data in flight in a round trip: `tcp_pacing_ss_ratio` is 200 %, and a congestion
/// window of which less than half is used does not grow (Linux, `tcp_is_cwnd_limited`). BBR's startup gain is 2.89.
const PACING_MAX: u64 = 4;
/// Initial congestion window in bytes: ten segments of Ethernet (RFC 6928).
const INITIAL_WINDOW: u64 = 10 * 1460;
/// Unit of the weights in bytes.
const WEIGHT: u64 = 1 << 10;

/// Trains of a direction's packets, and of their acknowledgements.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathTrains {
    /// Fastest round trip between both ends, in ns; 0 if unknown.
    rtt_ns: u64,
    packets: PacketTrains,
    acknowledgements: PacketTrains,
}

impl PathTrains {
    /// Takes `bytes` of new data at `t_ns`.
    pub(crate) fn data(&mut self, t_ns: u64, bytes: u64, rtt_ns: u64) {
        self.rtt_ns = rtt_ns;
        self.packets.add(t_ns, bytes, rtt_ns);
    }

    /// Takes an acknowledgement of `bytes` at `t_ns`.
    pub(crate) fn acknowledged(&mut self, t_ns: u64, bytes: u64) {
        if bytes > 0 {
            self.acknowledgements.add(t_ns, bytes, self.rtt_ns);
        }
    }

    /// Fastest round trip between both ends when the last data passed, in ns; 0 if unknown.
    pub(crate) fn rtt_ns(&self) -> u64 {
        self.rtt_ns
    }

    /// Trains behind the path; the tap `is_behind` it if it is beside the receiver.
    pub(crate) fn summary(&self, is_behind: bool) -> Option<TrainSummary> {
        if is_behind { self.packets.summary() } else { self.acknowledgements.measured_summary() }
    }
}

/// Stretches of trains: the fewest packets that take long enough to measure a rate.
#[derive(Clone, Debug, Default)]
struct PacketTrains {
    /// Time of the last packet in ns; `None` before the first.
    last_ns: Option<u64>,
    stretch: Stretch,
    /// Rates in bytes per second, weighted by bytes.
    rates: Distribution,
    /// Bytes in these, and the part of them in uneven stretches.
    measured: u64,
    uneven: u64,
    /// Number of measured stretches, and of trains with one.
    stretches: u64,
    trains: u64,
    /// The least rates of stretches that are too short, and their bytes.
    short: Distribution,
    short_bytes: u64,
    round_trips: RoundTrips,
}

/// A stretch of a train.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    /// Time of its first packet in ns, and the bytes behind that.
    begin_ns: u64,
    bytes: u64,
    /// Longest gap in ns, and the bytes of the packet behind it.
    gap_ns: u64,
    gap_bytes: u64,
    /// True if it begins where another one of its train ended.
    continues: bool,
}

impl Stretch {
    fn new(begin_ns: u64, continues: bool) -> Self {
        Stretch { begin_ns, continues, ..Stretch::default() }
    }

    /// True if a gap is longer than its packet takes on a line of the stretch's rate.
    fn is_uneven(&self, length_ns: u64) -> bool {
        let share = self.gap_bytes as f64 / self.bytes as f64;
        self.gap_ns as f64 > GAP * share * length_ns as f64 + MODERATION_NS as f64
    }
}

/// Bytes of each round trip.
#[derive(Clone, Copy, Debug, Default)]
struct RoundTrips {
    begin_ns: u64,
    bytes: u64,
    max_bytes: u64,
    /// Fastest round trip in ns; 0 if unknown.
    rtt_ns: u64,
}

impl RoundTrips {
    fn add(&mut self, t_ns: u64, bytes: u64, rtt_ns: u64) {
        self.rtt_ns = rtt_ns;
        if t_ns.saturating_sub(self.begin_ns) > rtt_ns {
            (self.begin_ns, self.bytes) = (t_ns, 0);
        }
        self.bytes += bytes;
        self.max_bytes = self.max_bytes.max(self.bytes);
    }

    /// Rate in bytes per second above which no sender paces its packets; `None` without a round trip.
    fn pacing_max(&self) -> Option<u64> {
        let window = self.max_bytes.max(INITIAL_WINDOW);
        (self.rtt_ns > 0).then(|| rate(PACING_MAX.saturating_mul(window), self.rtt_ns))
    }
}

/// Rate of the packet trains of a direction.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct TrainSummary {
    /// Rate of the trains; a lower bound of the line's.
    pub bytes_per_s: f64,
    /// True if that is the rate of the line: all stretches have it.
    pub is_line: bool,
}

impl PacketTrains {
    /// Takes `bytes` that pass the tap at `t_ns`; `rtt_ns` is the fastest round trip, 0 if unknown.
    fn add(&mut self, t_ns: u64, bytes: u64, rtt_ns: u64) {
        let pause_ns = (rtt_ns / 8).clamp(PAUSE_NS[0], PAUSE_NS[1]);
        let gap_ns = self.last_ns.and_then(|last_ns| t_ns.checked_sub(last_ns));
        self.last_ns = Some(t_ns);
        self.round_trips.add(t_ns, bytes, rtt_ns);
        let Some(gap_ns) = gap_ns.filter(|gap_ns| *gap_ns <= pause_ns) else {
            self.end_short();
            self.stretch = Stretch::new(t_ns, false);
            return;
        };
        let stretch = &mut self.stretch;
        stretch.bytes += bytes;
        if gap_ns >= stretch.gap_ns {
            (stretch.gap_ns, stretch.gap_bytes) = (gap_ns, bytes);
        }
        let length_ns = t_ns - stretch.begin_ns;
        if length_ns >= MEASURED_NS {
            self.end_measured(length_ns);
            self.stretch = Stretch::new(t_ns, true);
        }
    }

    /// Ends a stretch of `length_ns`.
    fn end_measured(&mut self, length_ns: u64) {
        let stretch = self.stretch;
        self.rates.add_many(rate(stretch.bytes, length_ns), stretch.bytes / WEIGHT + 1);
        self.measured += stretch.bytes;
        self.stretches += 1;
        self.trains += u64::from(!stretch.continues);
        self.uneven += if stretch.is_uneven(length_ns) { stretch.bytes } else { 0 };
    }

    /// Ends a stretch that is too short to be measured.
    fn end_short(&mut self) {
        let bytes = self.stretch.bytes;
        if bytes > 0 {
            self.short.add_many(rate(bytes, MEASURED_NS), bytes / WEIGHT + 1);
            self.short_bytes += bytes;
        }
    }

    /// Summary without short stretches: a receiver that takes packets together acknowledges them faster than they came.
    fn measured_summary(&self) -> Option<TrainSummary> {
        let without = PacketTrains { short: Distribution::default(), short_bytes: 0, ..self.clone() };
        without.summary()
    }

    /// Summary; `None` without two packets that follow each other.
    fn summary(&self) -> Option<TrainSummary> {
        let of = |quantile| self.rates.quantile(quantile).unwrap_or(0) as f64;
        let (median, slow, fast) = (of(0.5), of(SLOW.0), of(FAST.0));
        // The least rate of most short ones, if they are not an exception.
        let short = self.short.quantile(0.5).filter(|_| self.short_bytes > self.measured / 4);
        let short = short.unwrap_or(0) as f64;
        let is_even = slow >= SLOW.1 * median
            && fast <= FAST.1 * median
            && self.uneven as f64 <= UNEVEN_MAX * self.measured as f64;
        let is_long = self.stretches >= LONG * self.trains;
        let is_unpaced = is_long || self.round_trips.pacing_max().is_some_and(|most| median > most as f64);
        let is_line = self.measured >= BYTES_MIN && is_even && is_unpaced && short <= FAST.1 * median;
        let bytes_per_s = if is_line { median } else { median.max(short) };
        (bytes_per_s > 0.0).then_some(TrainSummary { bytes_per_s, is_line })
    }
}

/// Rate in bytes per second of `bytes` in `ns`.
fn rate(bytes: u64, ns: u64) -> u64 {
    u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(ns.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const US: u64 = 1_000;

    /// Bursts of `packets` of 1448 bytes, `apart_ns` apart, one burst each 20 ms.
    fn bursts(packets: u64, apart_ns: u64) -> Option<TrainSummary> {
        let mut trains = PacketTrains::default();
        for burst in 0..200 {
            for n in 0..packets {
                trains.add(burst * 20 * MS + n * apart_ns, 1448, 20 * MS);
            }
        }
        trains.summary()
    }

    #[track_caller]
    fn near(found: Option<TrainSummary>, bytes_per_s: f64, is_line: bool) {
        let found = found.expect("trains");
        assert!((found.bytes_per_s / bytes_per_s - 1.0).abs() < 0.04, "{found:?}");
        assert_eq!(found.is_line, is_line, "{found:?}");
    }

    #[test]
    fn bursts_show_the_line_whatever_the_mean_rate_is() {
        near(bursts(20, 120 * US), 1448.0 / 120e-6, true);
        near(bursts(100, 12 * US), 1448.0 / 12e-6, true);
        near(bursts(3, 120 * US), 1448.0 / 120e-6, true);
    }

    #[test]
    fn short_trains_that_a_sender_may_have_paced_show_no_line() {
        near(bursts(3, 900 * US), 1448.0 / 900e-6, false);
        near(bursts(20, 900 * US), 1448.0 / 900e-6, true);
    }

    #[test]
    fn pairs_of_packets_show_no_line() {
        let mut pairs = PacketTrains::default();
        for pair in 0..4_000 {
            (0..2).for_each(|n| pairs.add(pair * MS + n * 12 * US, 1448, 20 * MS));
        }
        near(pairs.summary(), 2.0 * 1448.0 / 1e-3, false);
    }

    #[test]
    fn short_trains_bound_the_rate_from_below() {
        near(bursts(3, 10 * US), 2.0 * 1448.0 / 150e-6, false);
        near(bursts(2, 10 * US), 1448.0 / 150e-6, false);
        assert_eq!(bursts(1, 10 * US), None);
    }

    #[test]
    fn pauses_and_steps_back_are_in_no_train() {
        let mut trains = PacketTrains::default();
        for n in 1..1_000_u64 {
            trains.add(n * 30 * MS, 1448, 20 * MS);
            trains.add(n * 30 * MS - 1, 1448, 20 * MS);
        }
        assert_eq!(trains.summary(), None);
    }

    #[test]
    fn groups_of_packets_that_are_paced_show_no_line() {
        let mut paced = PacketTrains::default();
        for group in 0..4_000 {
            (0..4).for_each(|n| paced.add(group * MS + n * 100 * US, 1448, 20 * MS));
        }
        let paced = paced.summary().expect("trains");
        assert!(!paced.is_line, "{paced:?}");
        assert!(paced.bytes_per_s < 1.04 * 1448.0 / 100e-6, "{paced:?}");
    }

    #[test]
    fn trains_of_many_rates_show_no_line() {
        let mut trains = PacketTrains::default();
        for burst in 0..200_u64 {
            let apart_ns = [12, 40, 120][burst as usize % 3] * US;
            (0..20).for_each(|n| trains.add(burst * 20 * MS + n * apart_ns, 1448, 20 * MS));
        }
        assert!(trains.summary().is_some_and(|found| !found.is_line));
    }
}
