//! Parts of a cell besides the sum: its sessions, and the connections of sessions with several; and the detail of their
//! drawings.

use super::rows::{Place, Rows};

/// Limit on separate sessions, and on connections of sessions with several; the rest are counted in the sum alone.
const MOST_SESSIONS: usize = 16;
const MOST_CONNECTIONS: usize = 16;
/// Least number of points of a useful line.
const LEAST_POINTS: usize = 45;

/// Parts besides the sum.
pub(in crate::layers) struct Parts {
    /// Sessions, the one with most rows first; empty with one session.
    pub(in crate::layers) sessions: Vec<u64>,
    /// Connections, those of the first session first.
    pub(in crate::layers) connections: Vec<Place>,
}

/// Points of a line of each part. The first view has half of the points; the others share the rest, and parts without
/// points are not drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::layers) struct Shares {
    first: usize,
    other: usize,
    /// Number of other parts that are drawn.
    others: usize,
    /// Position of the sum among the parts: first unless there are sessions.
    sum: usize,
    sessions: usize,
}

impl Parts {
    pub(in crate::layers) fn of(rows: &Rows<'_>) -> Parts {
        let sessions = if rows.sessions().len() > 1 { rows.sessions() } else { &[] };
        let of_session = rows.places().chunk_by(|a, b| a.session == b.session);
        let several = of_session.filter(|places| places.len() > 1).flatten();
        Parts {
            sessions: sessions.iter().take(MOST_SESSIONS).copied().collect(),
            connections: several.take(MOST_CONNECTIONS).copied().collect(),
        }
    }

    /// With room for so many points.
    pub(in crate::layers) fn shares(&self, points: usize) -> Shares {
        let all = 1 + self.sessions.len() + self.connections.len();
        Shares::new(points, all - 1, self.sessions.len())
    }
}

impl Shares {
    fn new(points: usize, others: usize, sessions: usize) -> Shares {
        let others = others.min(points / 2 / LEAST_POINTS);
        let (first, other) = match others {
            0 => (points, 0),
            _ => (points - points / 2, points / 2 / others),
        };
        Shares { first, other, others, sum: usize::from(sessions > 0), sessions }
    }

    /// Points of the sum.
    pub(in crate::layers) fn of_sum(self) -> usize {
        self.of(self.sum)
    }

    /// Points of the session of this number.
    pub(in crate::layers) fn of_session(self, number: usize) -> usize {
        // The sum comes behind the first session.
        self.of(if number == 0 { 0 } else { number + 1 })
    }

    /// Points of the connection of this number.
    pub(in crate::layers) fn of_connection(self, number: usize) -> usize {
        self.of(1 + self.sessions + number)
    }

    fn of(self, number: usize) -> usize {
        match number {
            0 => self.first,
            number if number <= self.others => self.other,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points of the sum, of each session and of each connection.
    fn shares(points: usize, sessions: usize, connections: usize) -> (usize, Vec<usize>, Vec<usize>) {
        let shares = Shares::new(points, sessions + connections, sessions);
        let of_sessions = (0..sessions).map(|number| shares.of_session(number)).collect();
        let of_connections = (0..connections).map(|number| shares.of_connection(number)).collect();
        (shares.of_sum(), of_sessions, of_connections)
    }

    #[test]
    fn what_is_seen_first_has_half_and_no_more_is_drawn_than_there_is_room_for() {
        assert_eq!(shares(600, 0, 0), (600, vec![], vec![]));
        assert_eq!(shares(600, 2, 0), (150, vec![300, 150], vec![]));
        assert_eq!(shares(600, 0, 2), (300, vec![], vec![150, 150]));
        assert_eq!(shares(200, 3, 2), (50, vec![100, 50, 0], vec![0, 0]));
        assert_eq!(shares(0, 2, 1), (0, vec![0, 0], vec![0]));
        for (points, sessions, connections) in [(1_500, 16, 16), (120, 16, 0), (500, 4, 8)] {
            let (sum, of_sessions, of_connections) = shares(points, sessions, connections);
            let drawn = sum + of_sessions.iter().sum::<usize>() + of_connections.iter().sum::<usize>();
            assert!(drawn <= points && drawn > points / 2, "{drawn} of {points}");
            assert!(sum > 0, "the sum is always drawn");
        }
    }
}
