//! Header and data digests of a connection: negotiated in its login, or learned from the positions of several headers.
//!
//! The position of the next header shows the length of a PDU's digests, which excludes some of the four combinations: behind
//! a PDU without data 0 or 4 bytes decide on the header digest alone; behind one with data 0 and 8 bytes decide on both, 4
//! bytes leave two combinations. No single header decides, since data may look like one.

use wire::iscsi::padding;

/// Digests of a connection, as far as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Digests {
    /// The combination that a login negotiated: bit 0 of the number header, bit 1 data digests.
    negotiated: Option<u8>,
    /// Headers that fit each combination.
    fitting: [u32; 4],
    /// Headers in a row that were not where they had to be.
    missed: u8,
}

/// Length of a digest.
pub(crate) const DIGEST_LEN: usize = 4;
/// Most bytes of digests of a PDU.
pub(super) const DIGESTS_MAX: usize = 2 * DIGEST_LEN;
/// Headers by which one combination must be ahead to exclude another one. A false header at one of the three positions
/// behind a PDU is rare; three that agree are none.
const AGREEING: u32 = 3;
/// Missed headers in a row after which the learned combination is forgotten.
const MISSED_MAX: u8 = 3;

/// Longest distance of two headers from which the length of the PDUs between follows: a few times that distance other
/// lengths divide it too.
const MANY_MAX: u64 = 8 << 20;
/// A visible PDU, whose digests the position of a later header tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Anchor {
    pub(super) data_len: usize,
    pub(super) start: u64,
    /// End without any digests.
    pub(super) end: u64,
    /// No inferred PDU is after it.
    pub(super) is_last: bool,
}

impl Digests {
    /// The combination that a login negotiated.
    pub(super) fn negotiated(header: bool, data: bool) -> Self {
        Self { negotiated: Some(u8::from(header) | u8::from(data) << 1), ..Self::default() }
    }

    /// Presence of header and data digest; `None` while more than one combination is possible.
    pub(crate) fn known(self) -> Option<(bool, bool)> {
        let mut possible = self.possible();
        let found = possible.next().filter(|_| possible.next().is_none())?;
        Some((found & 1 == 1, found & 2 == 2))
    }

    /// Combinations that are still possible.
    fn possible(self) -> impl Iterator<Item = u8> {
        let most = self.fitting.iter().copied().max().unwrap_or(0);
        (0..4).filter(move |n| match self.negotiated {
            Some(negotiated) => *n == negotiated,
            None => self.fitting[usize::from(*n)] + AGREEING > most,
        })
    }

    /// The combination that fits most headers; if several do, the one with the fewest digests.
    pub(super) fn likeliest(self) -> (bool, bool) {
        let most = self.fitting.iter().copied().max().unwrap_or(0);
        let found = self.negotiated.or_else(|| (0..4).find(|n| self.fitting[usize::from(*n)] == most));
        found.map_or((false, false), |n| (n & 1 == 1, n & 2 == 2))
    }

    /// Bytes of the digests of a PDU in that combination.
    pub(super) fn likely_len(self, data_len: usize) -> usize {
        let (header, data) = self.likeliest();
        extra(u8::from(header) | u8::from(data) << 1, data_len)
    }

    /// Bytes of the digests of a PDU, if all possible combinations agree.
    pub(super) fn len(self, data_len: usize) -> Option<usize> {
        let mut lens = self.possible().map(|n| extra(n, data_len));
        let first = lens.next()?;
        lens.all(|len| len == first).then_some(first)
    }

    /// Bytes of the fewest possible digests.
    pub(super) fn least(self, data_len: usize) -> usize {
        self.possible().map(|n| extra(n, data_len)).min().unwrap_or(0)
    }

    /// True if headers are to be learned from.
    pub(super) fn are_learned(self) -> bool {
        self.negotiated.is_none()
    }

    /// Counts a header behind a PDU with `data_len` bytes of data and `digests_len` bytes of digests.
    pub(super) fn learn(&mut self, data_len: usize, digests_len: usize) {
        self.missed = 0;
        for (n, fitting) in (0..).zip(&mut self.fitting) {
            *fitting = fitting.saturating_add(u32::from(extra(n, data_len) == digests_len));
        }
    }

    /// Counts a header that was not where it had to be.
    pub(super) fn miss(&mut self) {
        self.missed += 1;
        if self.missed >= MISSED_MAX {
            (self.missed, self.fitting) = (0, [0; 4]);
        }
    }
}

impl Anchor {
    /// Length of its digests if a header begins at `start`.
    pub(super) fn digests_len(self, start: u64) -> Option<usize> {
        let len = start.checked_sub(self.end).filter(|_| self.is_last)? as usize;
        (len <= DIGESTS_MAX && len.is_multiple_of(DIGEST_LEN)).then_some(len)
    }

    /// Length of the digests of each PDU if a header begins at `start` behind several PDUs like this one: the length of
    /// one divides the distance.
    pub(super) fn digests_of_many(self, start: u64) -> Option<usize> {
        let distance =
            start.checked_sub(self.start).filter(|distance| *distance < MANY_MAX && self.data_len > 0)?;
        let mut lens = (0..=DIGESTS_MAX).step_by(DIGEST_LEN);
        let divides = |len: &usize| distance.is_multiple_of(self.end - self.start + *len as u64);
        let found = lens.find(divides);
        found.filter(|_| !lens.any(|len| divides(&len)))
    }
}

/// Bytes after the basic header of a PDU with these lengths, without digests.
pub(super) fn bare_len(ahs_len: usize, data_len: usize) -> usize {
    ahs_len + data_len + padding(data_len)
}

/// Digest bytes of a PDU in combination `n`.
fn extra(n: u8, data_len: usize) -> usize {
    let header = usize::from(n & 1);
    let data = usize::from(n >> 1 & 1 == 1 && data_len > 0);
    (header + data) * DIGEST_LEN
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [(bool, bool); 4] = [(false, false), (true, false), (false, true), (true, true)];

    #[test]
    fn one_header_decides_nothing_and_three_do() {
        let mut digests = Digests::default();
        digests.learn(0, 4);
        digests.learn(0, 4);
        assert_eq!((digests.known(), digests.len(0), digests.least(0)), (None, None, 0));
        digests.learn(0, 4);
        assert_eq!((digests.len(0), digests.len(512), digests.least(512)), (Some(4), None, 4));
        assert_eq!(digests.known(), None, "nothing of data digests");
        (0..3).for_each(|_| digests.learn(512, 4));
        assert_eq!((digests.known(), digests.len(512)), (Some((true, false)), Some(4)));
    }

    #[test]
    fn a_false_header_among_others_changes_nothing() {
        for (header, data) in ALL {
            let mut digests = Digests::default();
            let len =
                |data_len: usize| DIGEST_LEN * (usize::from(header) + usize::from(data && data_len > 0));
            for n in 0..8 {
                digests.learn(0, if n == 2 { DIGEST_LEN - len(0) } else { len(0) });
                digests.learn(512, if n == 1 { (len(512) + DIGEST_LEN) % 12 } else { len(512) });
            }
            assert_eq!(digests.known(), Some((header, data)));
        }
    }

    #[test]
    fn a_wrong_combination_is_forgotten() {
        let mut digests = Digests::default();
        (0..3).for_each(|_| digests.learn(512, 8));
        assert_eq!(digests.known(), Some((true, true)));
        (0..2).for_each(|_| digests.miss());
        assert_eq!(digests.len(512), Some(8));
        digests.miss();
        assert_eq!(digests.known(), None);
    }

    #[test]
    fn pdus_of_one_length_tell_their_digests() {
        // Eight PDUs of 8 KiB, with digests of 4 bytes.
        let anchor = Anchor { data_len: 8192, start: 100, end: 100 + 8240, is_last: false };
        assert_eq!(anchor.digests_of_many(100 + 8 * 8244), Some(4));
        assert_eq!((anchor.digests_of_many(100 + 8 * 8245), anchor.digests_len(100 + 8244)), (None, None));
        assert_eq!(anchor.digests_of_many(100 + 8240 * 2061), None, "8240 and 8244 divide it");
        let next = Anchor { is_last: true, ..anchor };
        assert_eq!(
            [8240, 8244, 8246, 8252].map(|n| next.digests_len(100 + n)),
            [Some(0), Some(4), None, None]
        );
    }

    #[test]
    fn a_login_is_certain() {
        for (header, data) in ALL {
            let mut digests = Digests::negotiated(header, data);
            (0..9).for_each(|_| digests.learn(0, 8));
            assert_eq!(digests.known(), Some((header, data)));
        }
        assert_eq!(Digests::negotiated(true, true).len(1), Some(8));
        assert_eq!(Digests::negotiated(true, true).len(0), Some(4));
        assert_eq!((bare_len(0, 513), bare_len(8, 1)), (516, 12));
    }
}
