//! Up to where a receiver would take bytes, or a target commands, a little while ago: what is sent was allowed by the
//! announcement that had reached its sender by then, which a tap far from it has seen a round trip before.

/// Announcements that are remembered; a ninth is as old as the round trip at least.
const EDGES: usize = 12;

/// The last announcements of one receiver.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Edges {
    /// When, and up to where; the oldest first.
    edges: [(u64, u64); EDGES],
    count: usize,
}

impl Edges {
    /// Everything before `edge` is allowed now; what comes less than `apart_ns` after the last one is it, gone on.
    pub(super) fn add(&mut self, t_ns: u64, edge: u64, apart_ns: u64) {
        let known = &mut self.edges[..self.count];
        // A window that shrinks takes nothing back.
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

    /// Since when more than `edge` is allowed, as far back as is remembered; `None` if it is not.
    pub(super) fn since(&self, edge: u64) -> Option<u64> {
        self.edges[..self.count].iter().find(|(_, known)| *known > edge).map(|(since_ns, _)| *since_ns)
    }

    /// What was allowed at a time; `None` if that is longer ago than is remembered.
    pub(super) fn at(&self, t_ns: u64) -> Option<u64> {
        let known = self.edges[..self.count].iter().rev();
        known.into_iter().find(|(since_ns, _)| *since_ns <= t_ns).map(|(_, edge)| *edge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_had_come_by_then() {
        let mut edges = Edges::default();
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
