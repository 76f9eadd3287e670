//! Share of packets that random loss takes, and the losses that it explains.

/// Variance of losses over their mean: that of Gilbert-Elliott losses in bursts of eight packets is 15.
const BURSTINESS: u64 = 16;
/// Standard deviations above the mean that random loss reaches.
const DEVIATIONS: u64 = 4;
const MILLION: u64 = 1_000_000;

/// Estimated share of packets that random loss takes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) struct LossShare {
    ppm: u64,
}

impl LossShare {
    /// So many of a million.
    pub(crate) fn from_ppm(ppm: u32) -> LossShare {
        LossShare { ppm: ppm.into() }
    }

    /// Packets lost of a million.
    pub(crate) fn ppm(self) -> u32 {
        u32::try_from(self.ppm).unwrap_or(u32::MAX)
    }

    /// The share of so many lost besides so many delivered.
    pub(crate) fn new(delivered_packets: u64, lost_packets: u64) -> LossShare {
        if lost_packets == 0 {
            return LossShare::default();
        }
        let ppm = (2 * lost_packets + 1) * (MILLION / 2) / (delivered_packets + 1);
        LossShare { ppm: ppm.min(MILLION) }
    }

    /// The same with the losses that it may have been by chance: the mean of a few losses is uncertain.
    pub(crate) fn upper(delivered_packets: u64, lost_packets: u64) -> LossShare {
        LossShare::new(delivered_packets, lost_packets + 2 * (BURSTINESS * lost_packets).isqrt())
    }

    /// Mean losses among so many packets.
    pub(crate) fn mean(self, packets: u64) -> u64 {
        packets.saturating_mul(self.ppm) / MILLION
    }

    /// Losses that chance explains among so many packets: the mean and four standard deviations of bursts.
    pub(crate) fn expected(self, packets: u64) -> u64 {
        let millionths = packets.saturating_mul(self.ppm);
        let variance = millionths.saturating_mul(BURSTINESS) / MILLION;
        millionths / MILLION + DEVIATIONS * variance.isqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_percent_explain_bursts_and_not_a_third_of_a_large_round() {
        let share = LossShare::new(100_000, 5_000);
        assert_eq!(share.expected(8_600), 430 + 4 * 82);
        assert_eq!(share.expected(0), 0);
        assert_eq!(LossShare::default().expected(u64::MAX), 0);
        assert_eq!(LossShare::new(0, 5).expected(7), 7 + 4 * 10, "all are lost");
        assert_eq!(LossShare::upper(10_000, 4), LossShare::new(10_000, 4 + 16), "few losses are uncertain");
        assert_eq!(LossShare::upper(10_000, 0), LossShare::default());
    }
}
