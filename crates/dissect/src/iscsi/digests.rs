//! Header and data digests of a connection: negotiated in its login, or deduced from the positions of headers.

use wire::iscsi::padding;

/// Digests of a connection, as far as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digests {
    /// Combinations that are still possible: bit 0 none, 1 header digest, 2 data digest, 3 both.
    possible: u8,
}

impl Default for Digests {
    /// Every combination, as in mid-connection.
    fn default() -> Self {
        Self { possible: 0b1111 }
    }
}

const CRC_LEN: usize = 4;

impl Digests {
    /// The combination that a login negotiated.
    pub(super) fn negotiated(header: bool, data: bool) -> Self {
        Self { possible: 1 << (u8::from(header) | u8::from(data) << 1) }
    }

    /// Presence of header and data digest; `None` while more than one combination is possible.
    pub(crate) fn known(self) -> Option<(bool, bool)> {
        match self.possible {
            0b0001 => Some((false, false)),
            0b0010 => Some((true, false)),
            0b0100 => Some((false, true)),
            0b1000 => Some((true, true)),
            _ => None,
        }
    }

    /// Bytes after the basic header of a PDU with these lengths, with the fewest possible digests.
    pub(super) fn body_len(self, ahs_len: usize, data_len: usize) -> usize {
        ahs_len + data_len + padding(data_len) + self.least(data_len)
    }

    /// Bytes of the fewest possible digests.
    pub(super) fn least(self, data_len: usize) -> usize {
        (0..4).filter(|n| self.possible >> n & 1 != 0).map(|n| extra(n, data_len)).min().unwrap_or(0)
    }

    /// Keeps the combinations in which a PDU with `data_len` bytes has `digests_len` bytes of digests; false, without any
    /// change, if there is none.
    pub(super) fn learn(&mut self, data_len: usize, digests_len: usize) -> bool {
        let fits = (0..4).filter(|n| self.possible >> n & 1 != 0 && extra(*n, data_len) == digests_len);
        let possible = fits.fold(0, |mask, n| mask | 1 << n);
        if possible != 0 {
            self.possible = possible;
        }
        possible != 0
    }
}

/// Digest bytes of a PDU in combination `n`.
fn extra(n: u8, data_len: usize) -> usize {
    let header = usize::from(n & 1);
    let data = usize::from(n >> 1 & 1 == 1 && data_len > 0);
    (header + data) * CRC_LEN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_that_fit_remain() {
        let mut digests = Digests::default();
        assert_eq!(digests.body_len(0, 513), 516);
        assert!(digests.learn(512, 4), "one of the two");
        assert_eq!(digests.known(), None);
        assert_eq!(digests.body_len(0, 512), 516);
        assert!(digests.learn(0, 4));
        assert_eq!(digests.known(), Some((true, false)));
        assert!(!digests.learn(0, 8), "it cannot be later than that");
        for (header, data) in [(false, false), (true, false), (false, true), (true, true)] {
            assert_eq!(Digests::negotiated(header, data).known(), Some((header, data)));
        }
        assert_eq!(Digests::negotiated(true, true).body_len(8, 1), 8 + 4 + 8);
        assert_eq!(Digests::negotiated(true, true).body_len(0, 0), 4);
    }
}
