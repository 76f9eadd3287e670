//! Cumulative counters, read between their samples. Values between two samples are interpolated.

use event::{Host, Op};
use tables::{Ios, Sockets};

use crate::Span;

/// The sum of one counter over all connections of one host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counter {
    /// Per connection: (time, bytes so far), in order of time.
    tracks: Vec<Vec<(u64, u64)>>,
}

impl Counter {
    /// Application payload that `host` has received, from the table `sockets`.
    pub(crate) fn received(sockets: &Sockets, host: Host) -> Counter {
        let mut numbers: Vec<u32> = Vec::new();
        let mut tracks: Vec<Vec<(u64, u64)>> = Vec::new();
        for row in (0..sockets.t_ns.len()).filter(|row| sockets.host[*row] == host) {
            let number = sockets.connection[row];
            let place = numbers.iter().position(|n| *n == number).unwrap_or_else(|| {
                numbers.push(number);
                tracks.push(Vec::new());
                numbers.len() - 1
            });
            tracks[place].push((sockets.t_ns[row], sockets.app_rx_bytes[row]));
        }
        tracks.iter_mut().for_each(|track| track.sort_unstable());
        Counter { tracks }
    }

    /// Bytes of requests that ended well, from the table `io`.
    pub(crate) fn completed(io: &Ios, op: Op) -> Counter {
        let wanted = |row: &usize| io.op[*row] == op && io.status[*row] == 0;
        let rows = (0..io.op.len()).filter(wanted);
        let mut done: Vec<(u64, u64)> =
            rows.map(|row| (io.completed_t_ns[row], u64::from(io.len_bytes[row]))).collect();
        done.sort_unstable();
        let mut total = 0;
        for (_, bytes) in &mut done {
            total += *bytes;
            *bytes = total;
        }
        Counter { tracks: vec![done] }
    }

    /// From the first sample to the last; `None` without two of them.
    pub(crate) fn span(&self) -> Option<Span> {
        let start_ns = self.tracks.iter().filter_map(|t| t.first()).map(|(t, _)| *t).min()?;
        let end_ns = self.tracks.iter().filter_map(|t| t.last()).map(|(t, _)| *t).max()?;
        (start_ns < end_ns).then_some(Span { start_ns, end_ns })
    }

    /// Bytes at a time; a connection keeps its first value before its first sample and its last after.
    pub(crate) fn at(&self, t_ns: u64) -> f64 {
        self.tracks.iter().map(|track| interpolate(track, t_ns)).sum()
    }

    /// Bits per second between two times; 0 if they are equal.
    pub(crate) fn rate(&self, span: Span) -> f64 {
        match span.length_s() {
            length if length > 0.0 => (self.at(span.end_ns) - self.at(span.start_ns)).max(0.0) * 8.0 / length,
            _ => 0.0,
        }
    }
}

fn interpolate(track: &[(u64, u64)], t_ns: u64) -> f64 {
    let after = track.partition_point(|(t, _)| *t <= t_ns);
    match (after.checked_sub(1).map(|i| track[i]), track.get(after)) {
        (None, None) => 0.0,
        (Some((_, bytes)), None) => bytes as f64,
        (None, Some((_, bytes))) => *bytes as f64,
        (Some((t0, b0)), Some((t1, b1))) => {
            let share = (t_ns - t0) as f64 / (t1 - t0) as f64;
            b0 as f64 + share * (*b1 as f64 - b0 as f64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_samples_it_is_interpolated_and_outside_it_stays() {
        let counter =
            Counter { tracks: vec![vec![(10, 0), (20, 100), (20, 110), (40, 150)], vec![(30, 7)], vec![]] };
        for (t, bytes) in [(0, 7.0), (10, 7.0), (15, 57.0), (20, 117.0), (30, 137.0), (99, 157.0)] {
            assert_eq!(counter.at(t), bytes, "at {t}");
        }
        assert_eq!(counter.span(), Some(Span { start_ns: 10, end_ns: 40 }));
        assert_eq!(counter.rate(Span { start_ns: 20, end_ns: 20 }), 0.0);
    }
}
