//! The largest value of the last so many time units, from one value per unit.

/// Keeps the maximum of the last `N` slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MaxFilter<const N: usize> {
    slots: [u64; N],
    at: usize,
}

impl<const N: usize> Default for MaxFilter<N> {
    fn default() -> MaxFilter<N> {
        MaxFilter::new()
    }
}

impl<const N: usize> MaxFilter<N> {
    pub(crate) fn new() -> MaxFilter<N> {
        MaxFilter { slots: [0; N], at: 0 }
    }

    /// With so much in every slot.
    pub(crate) fn full_of(value: u64) -> MaxFilter<N> {
        MaxFilter { slots: [value; N], at: 0 }
    }

    /// Adds a value to the present slot.
    pub(crate) fn add(&mut self, value: u64) {
        self.slots[self.at] = self.slots[self.at].max(value);
    }

    /// Begins the next slot and forgets the oldest.
    pub(crate) fn advance(&mut self) {
        self.at = (self.at + 1) % N;
        self.slots[self.at] = 0;
    }

    pub(crate) fn max(&self) -> u64 {
        self.slots.iter().copied().max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgets_after_n_slots() {
        let mut filter = MaxFilter::<3>::new();
        filter.add(9);
        filter.add(5);
        for expected in [9, 9, 9, 4] {
            assert_eq!(filter.max(), expected);
            filter.advance();
            filter.add(4);
        }
    }
}
