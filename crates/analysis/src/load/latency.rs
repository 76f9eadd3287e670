//! Latency of requests: percentiles over the table `io`.

use event::Op;
use serde::Serialize;
use tables::Ios;

use crate::Span;

/// Latency of the successful requests issued in a window, from issue to completion at the caller.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Latency {
    /// Requests counted.
    pub count: u64,
    /// Smallest.
    pub min_s: f64,
    /// Mean.
    pub mean_s: f64,
    /// Median.
    pub p50_s: f64,
    /// 90th percentile.
    pub p90_s: f64,
    /// 99th percentile.
    pub p99_s: f64,
    /// 99.9th percentile.
    pub p999_s: f64,
    /// Largest.
    pub max_s: f64,
}

/// Latency of one kind of request; `None` if the window has none.
pub fn of(io: &Ios, op: Op, window: Span) -> Option<Latency> {
    let wanted = |row: &usize| {
        let issued = io.issued_t_ns[*row];
        io.op[*row] == op && io.status[*row] == 0 && (window.start_ns..window.end_ns).contains(&issued)
    };
    let rows = (0..io.op.len()).filter(wanted);
    let mut ns: Vec<u64> =
        rows.map(|row| io.completed_t_ns[row].saturating_sub(io.issued_t_ns[row])).collect();
    ns.sort_unstable();
    let s = |ns: u64| ns as f64 / 1e9;
    Some(Latency {
        count: ns.len() as u64,
        min_s: s(*ns.first()?),
        mean_s: ns.iter().map(|ns| *ns as f64).sum::<f64>() / ns.len() as f64 / 1e9,
        p50_s: s(percentile(&ns, 0.5)?),
        p90_s: s(percentile(&ns, 0.9)?),
        p99_s: s(percentile(&ns, 0.99)?),
        p999_s: s(percentile(&ns, 0.999)?),
        max_s: s(*ns.last()?),
    })
}

/// Median latency in each of `count` stretches of a window, in order; stretches without requests are left out.
pub(crate) fn stretches(io: &Ios, op: Op, window: Span, count: usize) -> Vec<f64> {
    let step_ns = window.end_ns.saturating_sub(window.start_ns) / count.max(1) as u64;
    let stretch = |n: u64| {
        let start_ns = window.start_ns + n * step_ns;
        of(io, op, Span { start_ns, end_ns: start_ns + step_ns }).map(|latency| latency.p50_s)
    };
    (0..count as u64).filter_map(stretch).collect()
}

/// Requests of one kind that ended well in a window, per second; `None` if there were none.
pub fn calls_per_s(io: &Ios, op: Op, window: Span) -> Option<f64> {
    let ended = |row: &usize| {
        let completed = io.completed_t_ns[*row];
        io.op[*row] == op && io.status[*row] == 0 && (window.start_ns..window.end_ns).contains(&completed)
    };
    let count = (0..io.op.len()).filter(ended).count();
    (count > 0 && window.length_s() > 0.0).then(|| count as f64 / window.length_s())
}

/// The smallest value that `share` of the values do not exceed (nearest rank). `sorted` is in order.
pub(crate) fn percentile(sorted: &[u64], share: f64) -> Option<u64> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use event::{Instant, Io};
    use tables::Row;

    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let mut io = Ios::default();
        for i in 1..=1000u64 {
            let (issued, completed) = (Instant::from_nanos(i), Instant::from_nanos(i + i * 1_000_000));
            Io { issued, completed, op: Op::Read, offset_bytes: 0, len_bytes: 4096, status: 0 }.push(&mut io);
            Io { issued, completed: issued, op: Op::Write, offset_bytes: 0, len_bytes: 4096, status: 0 }
                .push(&mut io);
            Io { issued, completed: issued, op: Op::Read, offset_bytes: 0, len_bytes: 4096, status: 2 }
                .push(&mut io);
        }
        let all = Span { start_ns: 0, end_ns: 2000 };
        let half = Span { start_ns: 0, end_ns: 500_000_000 + 500 };
        assert!((calls_per_s(&io, Op::Read, half).unwrap() - 499.0 / half.length_s()).abs() < 1e-9);
        assert_eq!(calls_per_s(&io, Op::Read, Span { start_ns: 0, end_ns: 1 }), None);
        let latency = of(&io, Op::Read, all).unwrap();
        assert_eq!((latency.count, latency.p50_s, latency.p99_s, latency.p999_s), (1000, 0.5, 0.99, 0.999));
        assert_eq!((latency.min_s, latency.max_s), (0.001, 1.0));
        assert!((latency.mean_s - 0.5005).abs() < 1e-9);
        assert_eq!(of(&io, Op::Read, Span { start_ns: 1001, end_ns: 2000 }), None);
        assert_eq!(of(&io, Op::Read, Span { start_ns: 7, end_ns: 8 }).unwrap().p999_s, 0.007);
    }
}
