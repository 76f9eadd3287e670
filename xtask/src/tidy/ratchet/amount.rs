//! Amounts: measured in a crate, or its bound in the table.

/// Density in tenths that every crate may have, with a row and without.
///
/// The bounded words are English, not errors: in well-kept code bases "what" alone stands up to 0.6 times in 1 000 words.
const DENSITY_FLOOR: u64 = 10;

/// A count of places, or of occurrences and their density.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::tidy) struct Amount {
    pub(super) count: u64,
    /// Occurrences per 1 000 words in tenths, rounded up; `None` if places are counted.
    pub(super) density: Option<u64>,
}

impl Amount {
    /// A number of places.
    pub(super) fn places(count: usize) -> Self {
        Self { count: count as u64, density: None }
    }

    /// Occurrences among `words` words.
    pub(super) fn occurrences(count: u64, words: u64) -> Self {
        let density = if words == 0 { 0 } else { (count * 10_000).div_ceil(words) };
        Self { count, density: Some(density) }
    }

    /// True if more was measured than `bound` allows. A density must rise by occurrences that were added: a deleted
    /// comment without such words raises it too, and is no offence.
    pub(super) fn is_over(self, bound: Self) -> bool {
        self.count > bound.count && self.density.is_none_or(|density| density > bound.limit())
    }

    /// True if `bound` is to be lowered. A density must have lost a tenth of its occurrences: the table does not change
    /// with every comment.
    pub(super) fn is_well_under(self, bound: Self) -> bool {
        match self.density {
            None => self.count < bound.count,
            Some(_) => bound.limit() > DENSITY_FLOOR && self.count * 10 <= bound.count * 9,
        }
    }

    /// The lower of a bound and a measurement; `None` if that needs no row.
    pub(super) fn lowered(self, bound: Self) -> Option<Self> {
        let count = self.count.min(bound.count);
        match self.density {
            None => (count > 0).then_some(Self { count, density: None }),
            Some(density) => {
                let density = density.min(bound.limit());
                (density > DENSITY_FLOOR).then_some(Self { count, density: Some(density) })
            }
        }
    }

    /// Density that a bound allows, in tenths.
    pub(super) fn limit(self) -> u64 {
        self.density.unwrap_or(0).max(DENSITY_FLOOR)
    }

    /// True if no row is needed to allow it.
    pub(super) fn needs_no_row(self) -> bool {
        self.count == 0 || self.density.is_some_and(|density| density <= DENSITY_FLOOR)
    }
}

/// Tenths as a decimal number.
pub(super) fn in_tenths(tenths: u64) -> String {
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Decimal number with one digit behind the point, in tenths.
pub(super) fn tenths(text: &str) -> Option<u64> {
    let (whole, digit) = text.split_once('.')?;
    let digit = Some(digit).filter(|digit| digit.len() == 1)?;
    Some(whole.parse::<u64>().ok()? * 10 + digit.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_over_and_under_by_one() {
        let bound = Amount::places(7);
        assert!(Amount::places(8).is_over(bound));
        assert!(!Amount::places(7).is_over(bound) && !Amount::places(7).is_well_under(bound));
        assert!(Amount::places(6).is_well_under(bound));
        assert!(Amount::places(1).is_over(Amount::default()), "without a row the bound is 0");
        assert_eq!(Amount::places(6).lowered(bound), Some(Amount::places(6)));
        assert_eq!(Amount::places(8).lowered(bound), Some(bound), "a bound never rises");
        assert_eq!(Amount::places(0).lowered(bound), None);
    }

    #[test]
    fn a_density_is_rounded_up() {
        assert_eq!(Amount::occurrences(193, 10_000).density, Some(193));
        assert_eq!(Amount::occurrences(1, 9_999).density, Some(2));
        assert_eq!(Amount::occurrences(0, 0).density, Some(0));
    }

    #[test]
    fn a_density_is_over_by_added_occurrences_alone() {
        let bound = Amount::occurrences(200, 10_000);
        assert!(Amount::occurrences(202, 10_000).is_over(bound));
        assert!(!Amount::occurrences(200, 9_000).is_over(bound), "words without them were deleted");
        assert!(!Amount::occurrences(240, 12_000).is_over(bound), "the text grew as it was");
        assert!(!Amount::occurrences(9, 10_000).is_over(Amount::default()), "below the floor");
        assert!(Amount::occurrences(11, 10_000).is_over(Amount::default()));
    }

    #[test]
    fn a_density_is_under_by_a_tenth_of_its_occurrences() {
        let bound = Amount::occurrences(200, 10_000);
        assert!(!Amount::occurrences(181, 10_000).is_well_under(bound));
        assert!(Amount::occurrences(180, 10_000).is_well_under(bound));
        assert!(!Amount::occurrences(200, 20_000).is_well_under(bound), "the text grew");
        assert!(
            !Amount::occurrences(0, 10_000).is_well_under(Amount::occurrences(9, 10_000)),
            "at the floor"
        );
    }

    #[test]
    fn a_lowered_density_allows_the_measurement_and_asks_for_no_more() {
        let bound = Amount::occurrences(200, 10_000);
        for (count, words) in [(150, 10_000), (150, 5_000), (250, 20_000), (5, 10_000), (200, 10_000)] {
            let measured = Amount::occurrences(count, words);
            let lowered = measured.lowered(bound).unwrap_or_default();
            assert!(lowered.count <= bound.count && lowered.limit() <= bound.limit());
            assert!(!measured.is_over(lowered), "{measured:?} {lowered:?}");
            assert!(!measured.is_well_under(lowered), "{measured:?} {lowered:?}");
        }
    }

    #[test]
    fn tenths_are_read_as_they_are_written() {
        assert_eq!(tenths("19.3"), Some(193));
        assert_eq!(in_tenths(193), "19.3");
        assert_eq!((tenths("19"), tenths("19.34"), tenths("a.1"), tenths("1.")), (None, None, None, None));
    }
}
