//! Accounting of packets: each packet of a run at both taps of its path, from the table `packets`.
//!
//! The path numbers each direction's packets as it takes them from their senders. Each has a row with its delivery or
//! its drop: a number without a row is an unaccounted packet. Packets still on the path at its end are not missing, if
//! that was after the load.

use std::path::Path;

use event::{Direction, Fate, Packet};
use tables::{Packets, TableError};

use crate::Span;

/// Columns that are needed here.
const COLUMNS: [&str; 5] = ["ingress_t_ns", "egress_t_ns", "direction", "number", "fate"];

/// Counts of one direction.
#[derive(Clone, Copy, Default, Debug)]
struct Way {
    /// The highest number that has a row.
    highest: u64,
    /// Rows of numbered packets, without duplicates, and the sum of their numbers.
    rows: u64,
    sum: u128,
    /// Packets that the emulator or a device lost, or that passed no second tap though they should have.
    lost: u64,
    /// Arrival of the last packet.
    last_ns: u64,
}

/// Unaccounted packets of a path, both directions together; `None` without a table, or if it ends before the load in a
/// direction.
pub fn unaccounted(dir: &Path, load: Span) -> Result<Option<u64>, TableError> {
    let mut ways = [Way::default(); 2];
    let walked = tables::read_pieces::<Packet>(dir, Some(&COLUMNS), |packets| {
        for row in 0..packets.number.len() {
            ways[usize::from(packets.direction[row] == Direction::FarToNear)].add(&packets, row);
        }
    })?;
    let is_whole = walked && ways.iter().all(|way| way.last_ns >= load.end_ns);
    Ok(is_whole.then(|| ways.iter().map(|way| way.missing() + way.lost).sum()))
}

impl Way {
    fn add(&mut self, packets: &Packets, row: usize) {
        let (came_ns, number) = (packets.ingress_t_ns[row], packets.number[row]);
        self.last_ns = self.last_ns.max(came_ns);
        match packets.fate[row] {
            Fate::Duplicate => return,
            Fate::Delivered if packets.egress_t_ns[row] < came_ns => self.lost += 1,
            Fate::NoBuffer | Fate::DeviceRefused => self.lost += 1,
            Fate::Delivered | Fate::QueueFull | Fate::Lost | Fate::Policed | Fate::LineDown | Fate::Seen => {}
        }
        // The path does not number packets that it had no memory for; those are counted as lost.
        if number > 0 {
            self.highest = self.highest.max(number);
            self.rows += 1;
            self.sum += u128::from(number);
        }
    }

    /// Numbers up to the highest that have no row; at least one if others have two in their place.
    fn missing(&self) -> u64 {
        let whole = u128::from(self.highest) * (u128::from(self.highest) + 1) / 2;
        self.highest.abs_diff(self.rows).max(u64::from(self.sum != whole))
    }
}

#[cfg(test)]
mod tests {
    use event::{Instant, Sink};
    use tables::Recorder;

    use super::*;

    const LOAD: Span = Span { start_ns: 0, end_ns: 9_000 };

    fn packet(number: u64, direction: Direction) -> Packet {
        let came = Instant::from_nanos(number * 1_000);
        Packet {
            ingress: came,
            scheduled: came,
            egress: Instant::from_nanos(number * 1_000 + 50),
            direction,
            number,
            fate: Fate::Delivered,
            ip_bytes: 9_000,
            segments: 1,
            src_host: 0,
            dst_host: 100,
            tcp: None,
            unseen_ns: 0,
        }
    }

    /// Ten packets each way; `change` alters the outcome of the outgoing ones.
    fn check(change: impl Fn(&mut Vec<Packet>), expected: Option<u64>) {
        let temp = tempfile::tempdir().unwrap();
        let mut out: Vec<Packet> = (1..=10).map(|n| packet(n, Direction::NearToFar)).collect();
        change(&mut out);
        let mut table = Recorder::create(temp.path().join("packets.parquet")).unwrap();
        out.iter().for_each(|packet| table.record(packet));
        (1..=10).for_each(|n| table.record(&packet(n, Direction::FarToNear)));
        table.finish().unwrap();
        assert_eq!(unaccounted(temp.path(), LOAD).unwrap(), expected);
    }

    #[test]
    fn every_number_has_a_row() {
        check(|_| (), Some(0));
        check(|out| out.swap(2, 5), Some(0));
        check(|out| out[4].fate = Fate::QueueFull, Some(0));
        check(
            |out| out.extend([Packet { fate: Fate::Duplicate, ..packet(10, Direction::NearToFar) }]),
            Some(0),
        );
    }

    #[test]
    fn what_has_none_is_missed() {
        check(|out| out.retain(|packet| packet.number != 5), Some(1));
        check(|out| out[4] = packet(4, Direction::NearToFar), Some(1));
        check(|out| out[4].fate = Fate::DeviceRefused, Some(1));
        let refused = Packet { fate: Fate::NoBuffer, ..packet(0, Direction::NearToFar) };
        check(|out| out.extend([refused]), Some(1));
        check(|out| out[4].egress = Instant::ZERO, Some(1));
        check(|out| out.truncate(8), None);
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(unaccounted(empty.path(), LOAD).unwrap(), None, "without a table nobody knows");
    }
}
