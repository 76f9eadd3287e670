//! Range of sequence numbers that a direction used in the capture: it identifies a connection seen at several taps.

/// Range of sequence numbers of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SequenceSpan {
    /// First sequence number; `None` without a packet.
    pub(crate) first_seq: Option<u32>,
    /// Length of the range.
    pub(crate) len: u64,
    /// True if the range begins with the connection's SYN.
    pub(crate) syn: bool,
}

impl SequenceSpan {
    /// True if a sequence number is within the range.
    pub(crate) fn contains(&self, seq: u32) -> bool {
        self.first_seq.is_some_and(|first| u64::from(seq.wrapping_sub(first)) <= self.len)
    }

    /// True if both may belong to one connection; `None` if one is empty.
    pub(crate) fn fits(&self, other: &SequenceSpan) -> Option<bool> {
        let (own, others) = (self.first_seq?, other.first_seq?);
        if self.syn && other.syn {
            return Some(own == others);
        }
        let behind = |from: u32, to: u32| u64::from(to.wrapping_sub(from));
        Some(behind(own, others) <= self.len || behind(others, own) <= other.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(first_seq: u32, len: u64, syn: bool) -> SequenceSpan {
        SequenceSpan { first_seq: Some(first_seq), len, syn }
    }

    #[test]
    fn spans_overlap_also_over_the_wrap() {
        let check = |one: SequenceSpan, other: SequenceSpan, expected| {
            assert_eq!([one.fits(&other), other.fits(&one)], [expected; 2], "{one:?} {other:?}");
        };
        check(span(10, 100, true), span(10, 5, true), Some(true));
        check(span(10, 100, true), span(11, 5, true), Some(false));
        check(span(10, 100, true), span(50, 500, false), Some(true));
        check(span(10, 100, true), span(111, 500, false), Some(false));
        check(span(u32::MAX - 5, 100, false), span(20, 10, false), Some(true));
        check(span(0, 1 << 40, false), span(1 << 31, 0, false), Some(true));
        check(span(0, 10, false), SequenceSpan::default(), None);
        let wrapped = span(u32::MAX - 5, 100, false);
        assert!(wrapped.contains(20) && !wrapped.contains(200) && !SequenceSpan::default().contains(0));
    }
}
