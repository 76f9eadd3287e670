//! Rounds of slow start: round trips of a burst in each of which a direction carries more than in the one before.
//!
//! A congestion window that begins small, at the begin of a connection or after a pause (RFC 5681 section 4.1, RFC 2861),
//! grows by up to its size in each round trip. Flight is no measure of it at a tap beside the receiver; bytes per round
//! trip are the same at every tap.

use serde::Serialize;

/// Ratio of the bytes of a round to those of the one before that is growth: that of the slowest slow start, the conservative
/// one of HyStart++ (RFC 9406 section 4.2: a quarter). Congestion avoidance grows by one segment, which is less from four
/// segments on.
const GROWS: f64 = 1.25;
/// Rounds of growth of a burst that are slow start: HyStart++ needs as many to compare round trips (RFC 9406 section 4.2), and
/// one may be the end of a shorter request.
const ROUNDS_MIN: u64 = 2;

/// Slow starts of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SlowStarts {
    /// Last data in ns.
    last_ns: Option<u64>,
    /// Begin of the present round in ns, and its bytes.
    round_ns: u64,
    bytes: u64,
    /// Bytes of the round before.
    before: u64,
    /// Rounds of growth of this burst, and their length and bytes; the last one is not among them.
    growing: Option<Growth>,
    total: Growth,
    count: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Growth {
    rounds: u64,
    ns: u64,
    bytes: u64,
}

/// Slow starts of a direction.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct SlowStartSummary {
    /// Bursts that began with a growing rate.
    pub count: u64,
    /// Time of their rounds of growth.
    pub length_s: f64,
    /// Bytes in these.
    pub bytes: u64,
}

impl SlowStarts {
    /// Takes `bytes` of new data that pass at `t_ns`; `rtt_ns` is the fastest round trip between both ends.
    pub(crate) fn add(&mut self, t_ns: u64, bytes: u64, rtt_ns: u64) {
        if rtt_ns == 0 {
            return;
        }
        let gap_ns = self.last_ns.map(|last_ns| t_ns.saturating_sub(last_ns));
        self.last_ns = Some(t_ns);
        // Rounds of slow start are a round trip apart from begin to begin; a pause of a round trip is the caller's.
        if gap_ns.is_none_or(|gap_ns| gap_ns >= rtt_ns) {
            self.end();
            (self.round_ns, self.bytes, self.before) = (t_ns, 0, 0);
            self.growing = Some(Growth::default());
        }
        let passed_ns = t_ns.saturating_sub(self.round_ns);
        if passed_ns >= rtt_ns {
            self.end_round(rtt_ns);
        }
        // Without a pause two round trips pass only where the fastest one became shorter: these rounds were none.
        if passed_ns >= rtt_ns.saturating_mul(2) {
            self.end();
            (self.round_ns, self.bytes, self.before) = (t_ns, 0, 0);
        }
        self.bytes += bytes;
    }

    fn end_round(&mut self, rtt_ns: u64) {
        let is_first = self.before == 0;
        let grows = self.bytes as f64 >= GROWS * self.before as f64;
        if let Some(growing) = &mut self.growing {
            if grows && !is_first {
                growing.rounds += 1;
                growing.ns += rtt_ns;
                growing.bytes += self.before;
            } else if !grows {
                self.end();
            }
        }
        self.round_ns = self.round_ns.saturating_add(rtt_ns);
        (self.before, self.bytes) = (self.bytes, 0);
    }

    /// Ends the growth of a burst.
    fn end(&mut self) {
        let Some(growth) = self.growing.take().filter(|growth| growth.rounds >= ROUNDS_MIN) else { return };
        self.count += 1;
        self.total.ns += growth.ns;
        self.total.bytes += growth.bytes;
    }

    /// Summary.
    pub(crate) fn summary(mut self) -> SlowStartSummary {
        self.end();
        SlowStartSummary { count: self.count, length_s: self.total.ns as f64 / 1e9, bytes: self.total.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Rounds of 20 ms with these numbers of packets, from `begin_ns` on.
    fn burst(starts: &mut SlowStarts, begin_ns: u64, rounds: &[u64]) {
        for (round, packets) in rounds.iter().enumerate() {
            for n in 0..*packets {
                starts.add(begin_ns + round as u64 * 20 * MS + n * 10_000, 1_000, 20 * MS);
            }
        }
    }

    #[test]
    fn every_burst_that_begins_slowly_counts() {
        let mut starts = SlowStarts::default();
        (0..3).for_each(|n| burst(&mut starts, n * 500 * MS, &[10, 20, 40, 80, 80, 80, 30]));
        let found = starts.summary();
        assert_eq!((found.count, found.bytes), (3, 3 * 70_000));
        assert!((found.length_s - 3.0 * 0.06).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn a_round_trip_that_shrinks_ends_a_burst_at_once() {
        let mut starts = SlowStarts::default();
        starts.add(0, 1_000, u64::MAX / 8);
        starts.add(u64::MAX / 8 - 1, 1_000, u64::MAX / 8);
        starts.add(u64::MAX / 8 - 1, 1_000, 1);
        assert_eq!(starts.summary(), SlowStartSummary::default());
    }

    #[test]
    fn an_even_burst_is_none() {
        let mut starts = SlowStarts::default();
        (0..3).for_each(|n| burst(&mut starts, n * 500 * MS, &[80, 80, 80, 30]));
        // A rate that grows later has another reason.
        burst(&mut starts, 5_000 * MS, &[80, 80, 20, 40, 80]);
        assert_eq!(starts.summary(), SlowStartSummary::default());
    }
}
