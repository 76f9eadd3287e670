//! Places of statuses in the target's stream: one that TCP never got acknowledged has not arrived at the initiator.

/// Limit of places that are kept, the latest ones. More commands than that are hardly ever outstanding at once: the largest
/// command windows in use have 512.
const PLACES_MAX: usize = 1_024;
/// Memory of the places in bytes; a vector may be half empty.
pub(crate) const PLACES_HELD: usize = 2 * PLACES_MAX * size_of::<u64>();

/// Ends of the latest visible statuses in the target's stream.
#[derive(Clone, Debug, Default)]
pub(super) struct StatusPlaces {
    ends: Vec<u64>,
    /// Place of the next one once all are in use.
    next: usize,
}

impl StatusPlaces {
    /// Takes the position behind a status.
    pub(super) fn add(&mut self, end: u64) {
        if self.ends.len() < PLACES_MAX {
            return self.ends.push(end);
        }
        self.ends[self.next] = end;
        self.next = (self.next + 1) % PLACES_MAX;
    }

    /// Number of statuses that end behind `acked`.
    pub(super) fn behind(&self, acked: u64) -> u64 {
        self.ends.iter().filter(|end| **end > acked).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_places_are_kept() {
        let mut places = StatusPlaces::default();
        (1..=3_000).for_each(|end| places.add(end));
        assert_eq!((places.behind(2_990), places.behind(3_000)), (10, 0));
        assert_eq!((places.behind(0), places.ends.len()), (PLACES_MAX as u64, PLACES_MAX));
    }
}
