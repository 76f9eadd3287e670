//! Parts of a line, or of what a device takes, by weight (max-min): what somebody does not use is shared among the others.
//!
//! To who uses less than its part the others leave twice what it does, so a newcomer doubles each round trip until it has its
//! part, and somebody whose own path is slower does not keep others from the rest.

use crate::bulk::cap::PACED_MIN;
use crate::sharing::share::Claim;

/// Who uses less than its part is left so many times what it does use, and may grow.
const GROWTH: u64 = 2;
/// Who uses nothing of its part of a ring begins with one of so many of it, which the others leave to it.
const FIRST_SHARE: u64 = 16;
/// Beyond its part, so that a line that has become faster is found.
const HEADROOM_PERCENT: u64 = 104;

/// Those whose rate is known, of some.
pub(crate) fn counted(claims: &[Claim], is_meant: impl Fn(&Claim) -> bool) -> Vec<Counted> {
    claims.iter().filter(|claim| is_meant(claim)).filter_map(Counted::of).collect()
}

/// What each may send, given what those may that were counted.
pub(crate) fn of_counted(
    claims: &[Claim],
    is_meant: impl Fn(&Claim) -> bool,
    mut granted: impl Iterator<Item = u64>,
) -> Vec<Option<u64>> {
    let is_counted = |claim: &Claim| is_meant(claim) && claim.rate_bytes_per_s.is_some();
    claims.iter().map(|claim| if is_counted(claim) { granted.next() } else { None }).collect()
}

pub(crate) fn sum(counted: &[Counted]) -> u64 {
    counted.iter().map(|sender| sender.rate_bytes_per_s).sum()
}

/// A sender whose rate is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pub(crate) owner: usize,
    pub(crate) weight: u64,
    pub(crate) rate_bytes_per_s: u64,
    had_queue: bool,
}

impl Counted {
    fn of(claim: &Claim) -> Option<Counted> {
        let rate_bytes_per_s = claim.rate_bytes_per_s?;
        let Claim { owner, weight, had_queue, .. } = *claim;
        Some(Counted { owner, weight: weight.max(1).into(), rate_bytes_per_s, had_queue })
    }

    /// What it may use a round trip from now.
    fn grown(&self) -> u64 {
        self.rate_bytes_per_s.saturating_mul(GROWTH)
    }

    /// What others leave to it of a part of a line that is more: it pushes in where it has none yet.
    pub(crate) fn left_of_line(&self, _part: u64) -> u64 {
        self.grown()
    }

    /// The same of a ring, where nobody who comes is to wait for what others leave in the bucket that all share.
    pub(crate) fn left_of_ring(&self, part: u64) -> u64 {
        self.grown().max(part / FIRST_SHARE)
    }

    /// What it may send at most if this is its part of a ring, which has no room for what others use of it.
    pub(crate) fn of_ring(&self, part: u64) -> u64 {
        part.min(self.left_of_ring(part)).max(PACED_MIN)
    }

    /// What it may send at most if this is its part of a line.
    pub(crate) fn of_line(&self, part: u64) -> u64 {
        let part = (part / 100).saturating_mul(HEADROOM_PERCENT);
        let grown = if self.had_queue { 0 } else { self.grown() };
        part.max(grown).max(PACED_MIN)
    }
}

/// Parts of a line by weight; what somebody cannot use goes to the others.
pub(crate) fn parts(line: u64, senders: &[Counted], left_of: impl Fn(&Counted, u64) -> u64) -> Vec<u64> {
    let mut parts = vec![0; senders.len()];
    let mut open: Vec<usize> = (0..senders.len()).collect();
    let mut left = line;
    while !open.is_empty() {
        let weights: u64 = open.iter().map(|n| senders[*n].weight).sum();
        let all = left;
        let part = |n: usize| {
            let part = u128::from(all) * u128::from(senders[n].weight) / u128::from(weights);
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        let (modest, rest): (Vec<usize>, Vec<usize>) =
            open.iter().partition(|n| left_of(&senders[**n], part(**n)) < part(**n));
        if modest.is_empty() {
            rest.iter().for_each(|n| parts[*n] = part(*n));
            break;
        }
        for n in modest {
            parts[n] = part(n);
            left = left.saturating_sub(left_of(&senders[n], part(n)));
        }
        open = rest;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{LINE, claim};

    #[test]
    fn a_small_window_is_not_starved_and_the_others_have_the_rest() {
        let claims = [claim(1, 3_000_000), claim(1, 57_000_000), claim(1, 57_000_000)];
        let parts = parts(LINE, &counted(&claims, |_| true), Counted::left_of_line);
        assert_eq!(parts[0], LINE / 3, "it may have its part at any time");
        let rest = (LINE - 6_000_000) / 2;
        assert_eq!(parts[1..], [rest, rest]);
    }

    #[test]
    fn lines_that_are_not_shared_are_not_throttled() {
        let (fast, slow) = (claim(1, 1_000_000_000), claim(1, 10_000_000));
        let parts = parts(1_010_000_000, &counted(&[fast, slow], |_| true), Counted::left_of_line);
        assert!(parts[0] >= 990_000_000 / 100 * 99 && parts[1] > 10_000_000, "{parts:?}");
    }

    #[test]
    fn weights_divide_small_lines_as_well() {
        let weights = [65_536, 32_768, 32_768, 21_845];
        let claims = weights.map(|weight| claim(weight, 1 << 30));
        let parts = parts(1 << 20, &counted(&claims, |_| true), Counted::left_of_line);
        let all: u32 = weights.iter().sum();
        for (part, weight) in parts.iter().zip(weights) {
            let expected = (1 << 20) * u64::from(weight) / u64::from(all);
            assert!(part.abs_diff(expected) <= 1, "{parts:?}");
        }
    }
}
