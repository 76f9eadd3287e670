//! TCP connections whose packets the path has carried. They tell this path's connections from those of other paths,
//! which have the same addresses.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use event::{Direction, Packet};

/// A connection: host number and port of the near and of the far end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Connection {
    pub(crate) near: (u32, u16),
    pub(crate) far: (u32, u16),
}

/// Connections of a path so far.
#[derive(Debug, Default)]
pub(crate) struct Connections(Mutex<HashSet<Connection>>);

impl Connections {
    /// Adds the connections of a batch of packets.
    pub(crate) fn learn(&self, packets: &[Packet]) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut last = None;
        for connection in packets.iter().filter_map(Connection::of) {
            if last.replace(connection) != Some(connection) {
                known.insert(connection);
            }
        }
    }

    /// Brings `known` up to date; true if there were new ones. `learn` is blocked by the copy at most.
    pub(crate) fn update(&self, known: &mut Known) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let has_new = all.len() > known.0.len();
        if has_new {
            known.0.clone_from(&all);
        }
        has_new
    }
}

/// Copy of the connections at a time.
#[derive(Debug, Default)]
pub(crate) struct Known(HashSet<Connection>);

impl Known {
    /// Removes from `rows`, from index `first` on, the rows of these connections, in order.
    pub(crate) fn claim<R>(
        &self,
        rows: &mut Vec<R>,
        first: usize,
        of: impl Fn(&R) -> Option<Connection>,
    ) -> Vec<R> {
        rows.extract_if(first.., |row| of(row).is_none_or(|connection| self.0.contains(&connection)))
            .collect()
    }
}

impl Connection {
    fn of(packet: &Packet) -> Option<Connection> {
        let tcp = packet.tcp?;
        let (src, dst) = ((packet.src_host, tcp.src_port), (packet.dst_host, tcp.dst_port));
        Some(match packet.direction {
            Direction::NearToFar => Connection { near: src, far: dst },
            Direction::FarToNear => Connection { near: dst, far: src },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Fate, Instant, Tcp};

    fn packet(direction: Direction, src: (u32, u16), dst: (u32, u16)) -> Packet {
        let (src_port, dst_port) = (src.1, dst.1);
        Packet {
            ingress: Instant::ZERO,
            scheduled: Instant::ZERO,
            egress: Instant::ZERO,
            direction,
            number: 1,
            fate: Fate::Delivered,
            ip_bytes: 52,
            segments: 1,
            src_host: src.0,
            dst_host: dst.0,
            tcp: Some(Tcp { src_port, dst_port, seq: 0, ack: 0, payload_bytes: 0, flags: 0 }),
            unseen_ns: 0,
        }
    }

    #[test]
    fn rows_are_claimed_once_their_connection_has_sent_something() {
        let connections = Connections::default();
        let ours = Connection { near: (0, 40_000), far: (100, 3260) };
        let others = Connection { near: (1, 40_000), far: (100, 3260) };
        let mut rows = vec![Some(ours), None, Some(others), Some(ours)];
        let mut known = Known::default();
        assert!(!connections.update(&mut known));
        assert_eq!(known.claim(&mut rows, 0, |row| *row), [None], "what belongs to no connection is for all");
        let out = packet(Direction::NearToFar, ours.near, ours.far);
        let none = Packet { tcp: None, ..out };
        connections.learn(&[none]);
        assert!(!connections.update(&mut known));
        connections.learn(&[packet(Direction::FarToNear, ours.far, ours.near), out]);
        assert!(connections.update(&mut known) && !connections.update(&mut known));
        assert_eq!(known.claim(&mut rows, 2, |row| *row), [Some(ours)], "only the last");
        assert_eq!(known.claim(&mut rows, 0, |row| *row), [Some(ours)]);
        assert_eq!(rows, [Some(others)]);
    }
}
