//! Whether digests follow the headers and the data of a connection: what its login agreed on, or what fits.

use wire::iscsi::padding;

/// Which digests there are, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Digests {
    /// What is still possible: bit 0 none, 1 header alone, 2 data alone, 3 both.
    possible: u8,
}

impl Default for Digests {
    /// In mid-connection everything is possible.
    fn default() -> Self {
        Self { possible: 0b1111 }
    }
}

const CRC_LEN: usize = 4;

impl Digests {
    /// What a login agreed on.
    pub(super) fn agreed(header: bool, data: bool) -> Self {
        Self { possible: 1 << (u8::from(header) | u8::from(data) << 1) }
    }

    /// Header and data digest; `None` while more than one answer is possible.
    pub(super) fn known(self) -> Option<(bool, bool)> {
        match self.possible {
            0b0001 => Some((false, false)),
            0b0010 => Some((true, false)),
            0b0100 => Some((false, true)),
            0b1000 => Some((true, true)),
            _ => None,
        }
    }

    /// Bytes behind the basic header of a PDU with these lengths, taking the fewest digests that are possible.
    pub(super) fn body_len(self, ahs_len: usize, data_len: usize) -> usize {
        ahs_len + data_len + padding(data_len) + self.least(data_len)
    }

    /// Bytes of the fewest digests that are possible.
    pub(super) fn least(self, data_len: usize) -> usize {
        (0..4).filter(|n| self.possible >> n & 1 != 0).map(|n| extra(n, data_len)).min().unwrap_or(0)
    }

    /// A PDU with so much data had so many bytes of digests. Whether that is possible.
    pub(super) fn learn(&mut self, data_len: usize, digests_len: usize) -> bool {
        let fits = (0..4).filter(|n| self.possible >> n & 1 != 0 && extra(*n, data_len) == digests_len);
        let possible = fits.fold(0, |mask, n| mask | 1 << n);
        if possible != 0 {
            self.possible = possible;
        }
        possible != 0
    }
}

/// Digest bytes of a PDU in case `n`.
fn extra(n: u8, data_len: usize) -> usize {
    let header = usize::from(n & 1);
    let data = usize::from(n >> 1 & 1 == 1 && data_len > 0);
    (header + data) * CRC_LEN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_remains() {
        let mut digests = Digests::default();
        assert_eq!(digests.body_len(0, 513), 516);
        assert!(digests.learn(512, 4), "one of the two");
        assert_eq!(digests.known(), None);
        assert_eq!(digests.body_len(0, 512), 516);
        assert!(digests.learn(0, 4));
        assert_eq!(digests.known(), Some((true, false)));
        assert!(!digests.learn(0, 8), "it cannot be later than that");
        for (header, data) in [(false, false), (true, false), (false, true), (true, true)] {
            assert_eq!(Digests::agreed(header, data).known(), Some((header, data)));
        }
        assert_eq!(Digests::agreed(true, true).body_len(8, 1), 8 + 4 + 8);
        assert_eq!(Digests::agreed(true, true).body_len(0, 0), 4);
    }
}
