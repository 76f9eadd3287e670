//! Rate of packet trains: packets of one direction that follow each other without a pause.
//!
//! A sender releases data in bursts: a window after an acknowledgement, the answer to a command. Behind the narrowest
//! link the packets of a burst are as far apart as that link takes to send them, whatever keeps the mean rate of the
//! connection below it (packet dispersion: Dovrolis, Ramanathan, Moore, "What do packet dispersion techniques
//! measure?", INFOCOM 2001). A tap beside the receiver shows the packets themselves, one beside the sender their
//! acknowledgements.
//!
//! A sender that paces itself, or that is clocked by acknowledgements, spaces its packets more widely. TCP does so in
//! groups of segments (Linux: two at least), so that some stretches of its trains are faster than most. On a line all
//! stretches take the same.

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
    /// Begin of the present stretch in ns, and the bytes behind its first packet.
    begin_ns: u64,
    bytes: u64,
    /// Rates in bytes per second, weighted by bytes.
    rates: Distribution,
    /// Bytes in these.
    measured: u64,
    /// The least rates of stretches that are too short, and their bytes.
    short: Distribution,
    short_bytes: u64,
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
        if gap_ns.is_none_or(|gap_ns| gap_ns > pause_ns) {
            self.end_short();
            (self.begin_ns, self.bytes) = (t_ns, 0);
            return;
        }
        self.bytes += bytes;
        let length_ns = t_ns - self.begin_ns;
        if length_ns >= MEASURED_NS {
            self.rates.add_many(rate(self.bytes, length_ns), self.bytes / WEIGHT + 1);
            self.measured += self.bytes;
            (self.begin_ns, self.bytes) = (t_ns, 0);
        }
    }

    /// Ends a stretch that is too short to be measured.
    fn end_short(&mut self) {
        if self.bytes > 0 {
            self.short.add_many(rate(self.bytes, MEASURED_NS), self.bytes / WEIGHT + 1);
            self.short_bytes += self.bytes;
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
        let is_even = slow >= SLOW.1 * median && fast <= FAST.1 * median;
        let is_line = self.measured >= BYTES_MIN && is_even && short <= FAST.1 * median;
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
