//! Right edges that a receive window or a command window had in the last round trip.
//!
//! A segment or command was permitted by the advertisement that had reached its sender. A tap far from the sender has
//! seen that advertisement up to a round trip earlier.

/// Advertisements that are remembered. They are at least an eighth of a round trip apart, so the ninth last is as old
/// as the round trip.
const EDGES: usize = 12;

/// The last advertisements of one window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct History<T> {
    /// Time of the advertisement in ns, and the advertisement, the oldest first.
    known: [(u64, T); EDGES],
    count: usize,
}

impl<T: Copy + Default> Default for History<T> {
    fn default() -> Self {
        Self { known: [(0, T::default()); EDGES], count: 0 }
    }
}

impl<T: Copy> History<T> {
    /// Adds an advertisement. It replaces the last one if that follows its predecessor by less than `apart_ns`; then
    /// `merge` makes one of the two.
    pub(crate) fn add(&mut self, t_ns: u64, new: T, apart_ns: u64, merge: impl Fn(T, T) -> T) {
        let known = &mut self.known[..self.count];
        let is_close = known.len() > 1 && t_ns.saturating_sub(known[known.len() - 2].0) < apart_ns;
        match known.last_mut() {
            Some(last) if is_close => *last = (last.0.max(t_ns), merge(last.1, new)),
            _ if self.count == EDGES => {
                self.known.rotate_left(1);
                self.known[EDGES - 1] = (t_ns, new);
            }
            _ => {
                self.known[self.count] = (t_ns, new);
                self.count += 1;
            }
        }
    }

    /// Advertisements up to a time, the oldest first.
    pub(crate) fn until(&self, t_ns: u64) -> impl Iterator<Item = T> {
        self.known[..self.count]
            .iter()
            .take_while(move |(since_ns, _)| *since_ns <= t_ns)
            .map(|(_, known)| *known)
    }
}

/// The last advertised right edges of one window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EdgeHistory(History<u64>);

impl EdgeHistory {
    /// Adds an advertisement of everything before `edge`, see [`History::add`].
    pub(crate) fn add(&mut self, t_ns: u64, edge: u64, apart_ns: u64) {
        // A window that shrinks revokes no permission: the sender may have used it.
        let edge = self.0.until(u64::MAX).fold(edge, u64::max);
        self.0.add(t_ns, edge, apart_ns, |_, new| new);
    }

    /// Time in ns since which more than `edge` is permitted, limited by the history; `None` if it is not permitted.
    pub(crate) fn since(&self, edge: u64) -> Option<u64> {
        let known = &self.0.known[..self.0.count];
        known.iter().find(|(_, known)| *known > edge).map(|(since_ns, _)| *since_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edge_at_an_earlier_time() {
        let mut edges = EdgeHistory::default();
        let at = |edges: &EdgeHistory, t_ns| edges.0.until(t_ns).last();
        assert_eq!(at(&edges, 5), None);
        for t_ns in 1..=100 {
            edges.add(t_ns, t_ns * 10, 8);
        }
        assert_eq!(at(&edges, 100), Some(1_000));
        let found = at(&edges, 36).expect("within eight times eight");
        assert!((260..=360).contains(&found), "{found}");
        assert_eq!(at(&edges, 1), None, "too long ago");
        assert_eq!((edges.since(1_000), edges.since(999)), (None, Some(100)));
        edges.add(101, 5, 0);
        assert_eq!(at(&edges, 101), Some(1_000), "nothing is taken back");
    }
}
