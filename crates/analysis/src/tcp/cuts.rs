//! Number of congestion window cuts of a connection, by reason. `event::Look` derives the reason from two samples.

use event::{Cut, Look};
use serde::Serialize;
use tables::Sockets;

/// Number of window cuts, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Cuts {
    /// By the sending host's own device.
    pub local: u64,
    /// Cuts by ECN marks of the path.
    pub mark: u64,
    /// Cuts by losses on the path.
    pub loss: u64,
    /// Cuts by retransmission timeouts.
    pub timeout: u64,
    /// Cuts by disuse.
    pub idle_restart: u64,
}

impl Cuts {
    /// The cuts among the samples of one connection, `rows` of the table in order.
    pub fn among(table: &Sockets, rows: &[usize]) -> Cuts {
        let mut cuts = Cuts::default();
        let look = |row: usize| Look::from(&table.sample(row));
        for step in rows.windows(2) {
            cuts.add(look(step[1]).cut_since(&look(step[0])));
        }
        cuts
    }

    /// Counts one, if there was one.
    pub fn add(&mut self, cut: Option<Cut>) {
        match cut {
            None => {}
            Some(Cut::Local) => self.local += 1,
            Some(Cut::Mark) => self.mark += 1,
            Some(Cut::Loss) => self.loss += 1,
            Some(Cut::Timeout) => self.timeout += 1,
            Some(Cut::IdleRestart) => self.idle_restart += 1,
        }
    }

    /// Number of cuts of all reasons.
    pub fn total(&self) -> u64 {
        let Cuts { local, mark, loss, timeout, idle_restart } = self;
        local + mark + loss + timeout + idle_restart
    }
}

#[cfg(test)]
mod tests {
    use event::{Host, Instant, SocketSample};
    use tables::Row;

    use super::*;

    #[test]
    fn a_table_tells_what_its_samples_tell() {
        let sample = |at: u64, cwnd_packets, retransmitted_packets, timeouts| SocketSample {
            cwnd_packets,
            ssthresh_packets: 280,
            unacked_packets: cwnd_packets,
            retransmitted_packets,
            timeouts,
            ..SocketSample::new(Instant::from_nanos(at * 10_000_000), Host::Near, 0)
        };
        let samples = [
            sample(0, 400, 0, 0),
            sample(1, 280, 0, 0),
            sample(2, 400, 0, 0),
            sample(3, 282, 1, 0),
            sample(4, 10, 5, 1),
        ];
        let mut table = Sockets::default();
        samples.iter().for_each(|sample| sample.push(&mut table));
        let cuts = Cuts::among(&table, &[0, 1, 2, 3, 4]);
        assert_eq!(cuts, Cuts { local: 1, loss: 1, timeout: 1, ..Cuts::default() });
        assert_eq!(cuts.total(), 3);
    }
}
