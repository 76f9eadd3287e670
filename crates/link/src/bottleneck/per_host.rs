//! The bottleneck that all share, or one for each host of the near end.

use core::time::Duration;

use event::Instant;

use crate::{Bottleneck, Dropped, Line, Packet, Stage};

/// Entry stage of a direction: one bottleneck, or one for each near host.
#[derive(Debug)]
pub struct Bottlenecks {
    /// By the number of the near host; one if all share it.
    all: Vec<Bottleneck>,
    /// True in the direction in which the near hosts send.
    of_sender: bool,
}

impl Bottlenecks {
    /// The bottlenecks of a line.
    pub fn of(line: &Line) -> Bottlenecks {
        let shared = [line.shape.rate];
        let rates = if line.own.rates.is_empty() { &shared[..] } else { &line.own.rates };
        let all = rates.iter().map(|rate| Bottleneck::new(*rate, line.limit_of(*rate))).collect();
        Bottlenecks { all, of_sender: line.own.of_sender }
    }

    /// Bytes on the wire of the packets that wait.
    pub fn waiting_bytes(&self) -> u64 {
        self.all.iter().map(Bottleneck::waiting_bytes).sum()
    }

    /// End of the last serialisation in progress; `None` while all wires are idle.
    pub fn busy_until(&self) -> Option<Instant> {
        self.all.iter().filter_map(Bottleneck::busy_until).max()
    }
}

impl Stage for Bottlenecks {
    fn push(&mut self, now: Instant, packet: Packet) -> Result<(), Dropped> {
        let host = if self.of_sender { packet.from } else { packet.to };
        let place = usize::from(host).min(self.all.len() - 1);
        self.all[place].push(now, packet)
    }

    fn next_at(&self) -> Option<Instant> {
        self.all.iter().filter_map(Bottleneck::next_at).min()
    }

    fn pop(&mut self, now: Instant) -> Option<(Instant, Packet)> {
        // In the order in which they left.
        let first =
            self.all.iter_mut().filter_map(|one| Some((one.left_at(now)?, one))).min_by_key(|one| one.0);
        first?.1.pop(now)
    }

    fn shortest(&self) -> Duration {
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Handle, Own, Shape};

    use event::{BitRate, Fate};

    const MS: u64 = 1_000_000;

    fn line(own: Own) -> Line {
        // 100 ms of queue.
        let shape = Shape { delay: Duration::ZERO, rate: BitRate(8_000_000), queue_bytes: 100_000 };
        Line { own, ..Line::plain(shape) }
    }

    fn packet(from: u8, to: u8) -> Packet {
        Packet { from, to, ..Packet::new(Handle(0), Instant::ZERO, 1_000, 1_000, 1) }
    }

    /// Departure times in milliseconds and hosts of packets that all arrive at once, for these pairs of sender and
    /// receiver.
    fn left(own: Own, hosts: &[(u8, u8)]) -> Vec<(u64, u8, u8)> {
        let mut stage = Bottlenecks::of(&line(own));
        for (from, to) in hosts {
            stage.push(Instant::ZERO, packet(*from, *to)).expect("there is room");
        }
        let mut left = Vec::new();
        while let Some(at) = stage.next_at() {
            while let Some((at, packet)) = stage.pop(at) {
                left.push((at.as_nanos() / MS, packet.from, packet.to));
            }
        }
        left
    }

    #[test]
    fn all_share_one_unless_each_near_host_has_its_own() {
        let hosts = [(0, 1), (1, 1), (0, 0), (1, 0)];
        assert_eq!(left(Own::default(), &hosts), [(1, 0, 1), (2, 1, 1), (3, 0, 0), (4, 1, 0)]);
        let rates = vec![BitRate(4_000_000), BitRate(1_000_000)];
        let own = |of_sender| Own { rates: rates.clone(), of_sender };
        assert_eq!(left(own(true), &hosts), [(2, 0, 1), (4, 0, 0), (8, 1, 1), (16, 1, 0)]);
        assert_eq!(left(own(false), &hosts), [(2, 0, 0), (4, 1, 0), (8, 0, 1), (16, 1, 1)]);
    }

    #[test]
    fn each_queue_drains_in_the_time_of_the_shared_one() {
        let own = Own { rates: vec![BitRate(4_000_000), BitRate(1_000_000)], of_sender: true };
        for (host, packets) in [(0, 51), (1, 13)] {
            let mut stage = Bottlenecks::of(&line(own.clone()));
            let mut push = || stage.push(Instant::ZERO, packet(host, 0));
            let taken = (0..200).map(|_| push()).take_while(Result::is_ok).count();
            assert_eq!(taken, packets, "what waits, and one on the wire");
            assert_eq!(push().expect_err("it is full").fate, Fate::QueueFull);
        }
    }
}
