//! Gaps counted in classes, on a linear and on a logarithmic axis.

use serde::Serialize;

/// Classes of a linear axis.
const LINEAR: usize = 200;
/// Classes of each tenfold of a logarithmic one.
const PER_TENFOLD: usize = 20;
/// Upper end of the first class.
const LEAST_NS: f64 = 100.0;

/// Packets by the gap in front of them.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Histogram {
    /// Lower end of each class, in seconds.
    pub from_s: Vec<f64>,
    /// Packets in it.
    pub packets: Vec<u64>,
}

impl Histogram {
    /// Histogram of sorted gaps, each with its number of packets, in classes of one width from 0 to the 99th
    /// percentile. The last class has all larger ones.
    pub(super) fn linear(gaps: &[(u64, u32)], p99_ns: f64) -> Histogram {
        let width = (p99_ns * 1.02 / LINEAR as f64).max(1.0);
        let mut packets = vec![0; LINEAR + 1];
        for (gap_ns, segments) in gaps {
            packets[((*gap_ns as f64 / width) as usize).min(LINEAR)] += u64::from(*segments);
        }
        Histogram { from_s: (0..=LINEAR).map(|n| n as f64 * width / 1e9).collect(), packets }
    }

    /// Logarithmic histogram of the same gaps, with twenty classes per decade from 100 ns to the longest gap.
    pub(super) fn logarithmic(gaps: &[(u64, u32)]) -> Histogram {
        let class = |gap_ns: u64| match gap_ns as f64 {
            gap if gap < LEAST_NS => 0,
            gap => 1 + ((gap / LEAST_NS).log10() * PER_TENFOLD as f64) as usize,
        };
        let classes = gaps.last().map_or(0, |(longest, _)| class(*longest) + 1);
        let mut packets = vec![0; classes];
        gaps.iter().for_each(|(gap_ns, segments)| packets[class(*gap_ns)] += u64::from(*segments));
        let from = |n: usize| LEAST_NS * 10_f64.powf((n as f64 - 1.0) / PER_TENFOLD as f64) / 1e9;
        Histogram { from_s: (0..classes).map(from).collect(), packets }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_is_in_one_class() {
        let gaps = [(0, 3), (99, 1), (100, 2), (12_304, 40), (1_000_000, 1)];
        let log = Histogram::logarithmic(&gaps);
        assert_eq!((log.packets[0], log.packets[1], log.packets.iter().sum::<u64>()), (4, 2, 47));
        assert_eq!(log.packets.last(), Some(&1));
        let class = log.packets.iter().position(|n| *n == 40).unwrap();
        assert!(log.from_s[class] <= 12_304e-9 && log.from_s[class + 1] > 12_304e-9);
        let linear = Histogram::linear(&gaps, 12_304.0);
        assert_eq!((linear.packets.iter().sum::<u64>(), linear.packets.last()), (47, Some(&1)));
        assert_eq!(Histogram::logarithmic(&[]), Histogram::default());
    }
}
