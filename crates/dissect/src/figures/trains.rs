//! Rate of packet trains: packets of one direction that follow each other without a pause.
//!
//! A sender releases data in bursts: a window after an acknowledgement, the answer to a command. Behind the narrowest
//! link the packets of a burst are as far apart as that link takes to send them, whatever keeps the mean rate of the
//! connection below it (packet dispersion: Dovrolis, Ramanathan, Moore, "What do packet dispersion techniques
//! measure?", INFOCOM 2001). A tap beside the receiver shows the packets themselves, one beside the sender their
//! acknowledgements. A sender that paces itself spaces its trains: their rate is a lower bound of the line's.

use serde::Serialize;

use crate::figures::distribution::Distribution;

/// Packets of a train, the first one included. A longer train is several.
const TRAIN_MIN: u32 = 3;
const TRAIN_MAX: u32 = 32;
/// Minimum duration of a train in ns that measures a rate. Interrupt moderation of network cards holds packets for up
/// to about 100 µs; a shorter train bounds the rate from below.
const MEASURED_NS: u64 = 150_000;
/// Pause in ns that ends a train: an eighth of a round trip, within these limits.
const PAUSE_NS: [u64; 2] = [200_000, 20_000_000];
/// Bytes of trains that are needed for a rate.
const BYTES_MIN: u64 = 64 << 10;
/// Quantile of the rates, weighted by bytes, that is the line's: slower trains had gaps of their sender.
const LINE_QUANTILE: f64 = 0.75;
/// Ratio of the median to that quantile from which on the rate is one of the line.
const EVEN: f64 = 0.7;
/// Unit of the weights in bytes.
const WEIGHT: u64 = 1 << 10;

/// Trains of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct PacketTrains {
    begin_ns: u64,
    end_ns: u64,
    packets: u32,
    /// Bytes behind the first packet.
    bytes: u64,
    /// Bytes in trains that measure a rate.
    measured: u64,
    /// Rates in bytes per second, weighted by bytes.
    rates: Distribution,
    /// Largest rate in bytes per second that a short train shows at least.
    short_max: u64,
}

/// Rate of the packet trains of a direction.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct TrainSummary {
    /// Rate of the trains; a lower bound if the trains are too short or too uneven to measure the line.
    pub bytes_per_s: f64,
    /// True if that is the rate of the line.
    pub is_line: bool,
}

impl PacketTrains {
    /// Takes `bytes` that pass the tap at `t_ns`; `rtt_ns` is the fastest round trip, 0 if unknown.
    pub(crate) fn add(&mut self, t_ns: u64, bytes: u64, rtt_ns: u64) {
        let pause_ns = (rtt_ns / 8).clamp(PAUSE_NS[0], PAUSE_NS[1]);
        if self.packets == 0 || t_ns < self.end_ns || t_ns - self.end_ns > pause_ns {
            self.close();
            (self.begin_ns, self.bytes, self.packets) = (t_ns, 0, 0);
        } else {
            self.bytes += bytes;
        }
        self.packets += 1;
        self.end_ns = t_ns;
        if self.packets >= TRAIN_MAX {
            self.close();
            (self.begin_ns, self.bytes, self.packets) = (t_ns, 0, 1);
        }
    }

    /// Ends the present train.
    fn close(&mut self) {
        if self.packets < TRAIN_MIN {
            return;
        }
        let length_ns = self.end_ns - self.begin_ns;
        let rate = |ns: u64| (u128::from(self.bytes) * 1_000_000_000 / u128::from(ns)) as u64;
        if length_ns >= MEASURED_NS {
            self.rates.add_many(rate(length_ns), self.bytes / WEIGHT + 1);
            self.measured += self.bytes;
        } else {
            self.short_max = self.short_max.max(rate(MEASURED_NS));
        }
    }

    /// Summary; `None` without a train.
    pub(crate) fn summary(&self) -> Option<TrainSummary> {
        let measured = self.rates.quantile(LINE_QUANTILE).filter(|_| self.measured >= BYTES_MIN);
        let median = self.rates.quantile(0.5);
        let is_even = measured.zip(median).is_some_and(|(line, median)| median as f64 >= EVEN * line as f64);
        // Trains that are too short to be measured show a faster line than those that are not.
        let is_line = is_even && measured.is_some_and(|line| line >= self.short_max);
        let rate = match measured {
            Some(line) if is_line => line,
            _ => median.unwrap_or(0).max(self.short_max),
        };
        (rate > 0).then_some(TrainSummary { bytes_per_s: rate as f64, is_line })
    }
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
        assert_eq!(bursts(2, 10 * US), None);
        assert_eq!(bursts(1, 10 * US), None);
    }

    #[test]
    fn pauses_and_steps_back_are_in_no_train() {
        let mut trains = PacketTrains::default();
        for n in 0..1_000_u64 {
            trains.add(n * 30 * MS, 1448, 20 * MS);
            trains.add(n * 30 * MS - n % 2, 1448, 20 * MS);
        }
        assert_eq!(trains.summary(), None);
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
