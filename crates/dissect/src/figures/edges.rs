//! Right edges that a receive window or a command window had in the last round trip.
//!
//! A segment or command was permitted by the advertisement that had reached its sender. A tap far from the sender has
//! seen that advertisement up to a round trip earlier.

/// Advertisements that are remembered. They are at least an eighth of a round trip apart, so the ninth last is as old
/// as the round trip.
const EDGES: usize = 12;

/// The last advertised right edges of one window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EdgeHistory {
    /// Time of the advertisement in ns and right edge, the oldest first.
    edges: [(u64, u64); EDGES],
    count: usize,
}

impl EdgeHistory {
    /// Adds an advertisement of everything before `edge`. It replaces the last one if that follows its predecessor by
    /// less than `apart_ns`.
    pub(crate) fn add(&mut self, t_ns: u64, edge: u64, apart_ns: u64) {
        let known = &mut self.edges[..self.count];
        // A window that shrinks revokes no permission: the sender may have used it.
        let edge = known.last().map_or(edge, |(_, before)| edge.max(*before));
        let is_close = known.len() > 1 && t_ns.saturating_sub(known[known.len() - 2].0) < apart_ns;
        match known.last_mut() {
            Some(last) if is_close => *last = (last.0.max(t_ns), edge),
            _ if self.count == EDGES => {
                self.edges.rotate_left(1);
                self.edges[EDGES - 1] = (t_ns, edge);
            }
            _ => {
                self.edges[self.count] = (t_ns, edge);
                self.count += 1;
            }
        }
    }

    /// Time in ns since which more than `edge` is permitted, limited by the history; `None` if it is not permitted.
    pub(crate) fn since(&self, edge: u64) -> Option<u64> {
        self.edges[..self.count].iter().find(|(_, known)| *known > edge).map(|(since_ns, _)| *since_ns)
    }

    /// Right edge at a time; `None` before the history begins.
    pub(crate) fn at(&self, t_ns: u64) -> Option<u64> {
        let known = self.edges[..self.count].iter().rev();
        known.into_iter().find(|(since_ns, _)| *since_ns <= t_ns).map(|(_, edge)| *edge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edge_at_an_earlier_time() {
        let mut edges = EdgeHistory::default();
        assert_eq!(edges.at(5), None);
        for t_ns in 1..=100 {
            edges.add(t_ns, t_ns * 10, 8);
        }
        assert_eq!(edges.at(100), Some(1_000));
        let found = edges.at(36).expect("within eight times eight");
        assert!((260..=360).contains(&found), "{found}");
        assert_eq!(edges.at(1), None, "too long ago");
        assert_eq!((edges.since(1_000), edges.since(999)), (None, Some(100)));
        edges.add(101, 5, 0);
        assert_eq!(edges.at(101), Some(1_000), "nothing is taken back");
    }
}
