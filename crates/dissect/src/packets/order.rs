//! Order of a capture's packets by their stamps.

use std::collections::HashMap;

use serde::Serialize;

use super::window::{LATE_MAX_NS, Position};

/// TCP packets out of the order of their stamps.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct OrderSummary {
    /// Packets that stand behind a later one of their interface, and were put back in order.
    pub late: u64,
    /// Largest number of places by which such a packet stands too late.
    pub most_places: u64,
    /// Longest time by which its stamp is before that of an earlier packet.
    pub most_s: f64,
    /// Packets that stand still further away and stay in the order of the file: the clock was set back, or stamps are wrong.
    pub beyond: u64,
}

/// Counts of disorder.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// Highest stamp of each interface in ns.
    highest: HashMap<u32, u64>,
    /// Interface of the last packet and its highest stamp; the next packet usually has the same.
    last: (u32, u64),
    counts: OrderSummary,
    most_ns: u64,
}

impl Order {
    /// Takes a packet in the order of the file.
    pub(crate) fn observe(&mut self, interface: u32, t_ns: u64, position: Position) {
        if self.last.0 != interface {
            self.highest.insert(self.last.0, self.last.1);
            self.last = (interface, self.highest.get(&interface).copied().unwrap_or(0));
        }
        let highest = &mut self.last.1;
        if t_ns >= *highest {
            *highest = t_ns;
            return;
        }
        let late_ns = *highest - t_ns;
        match position {
            Position::Behind(places) => {
                self.counts.late += 1;
                self.counts.most_places = self.counts.most_places.max(places as u64);
                self.most_ns = self.most_ns.max(late_ns);
            }
            Position::Beyond => {
                self.counts.beyond += 1;
                // Another clock: its stamps are compared with each other from now on.
                if late_ns > LATE_MAX_NS {
                    *highest = t_ns;
                }
            }
        }
    }

    /// Counts of the whole capture.
    pub(crate) fn finish(self) -> OrderSummary {
        OrderSummary { most_s: self.most_ns as f64 / 1e9, ..self.counts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_have_an_order_of_their_own() {
        let mut order = Order::default();
        let behind = Position::Behind;
        for (interface, t_ns, position) in [
            (0, 100, behind(0)),
            (1, 50, behind(1)),
            (0, 90, behind(2)),
            (1, 60, behind(3)),
            (0, 110, behind(0)),
        ] {
            order.observe(interface, t_ns, position);
        }
        let expected = OrderSummary { late: 1, most_places: 2, most_s: 1e-8, beyond: 0 };
        assert_eq!(order.finish(), expected);
    }

    #[test]
    fn a_clock_that_is_set_back_is_counted_once() {
        let mut order = Order::default();
        for t_ns in (0..10).chain(0..10) {
            let position = if t_ns == 0 { Position::Beyond } else { Position::Behind(0) };
            order.observe(0, t_ns * LATE_MAX_NS / 2, position);
        }
        let counts = order.finish();
        assert_eq!((counts.late, counts.beyond), (0, 1));
    }
}
