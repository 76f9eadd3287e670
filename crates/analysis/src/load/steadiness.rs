//! Steadiness of arrivals: variation between the seconds of a window.
//!
//! A sawtooth of the congestion window shows here as in a drawing of the rate. The part of single blocks is small if a
//! second has many of them.

use super::arrivals::Arrivals;
use crate::Span;

/// Least number of seconds for a variation.
const LEAST_SECONDS: f64 = 3.0;

/// Standard deviation of the rates of a window's seconds, divided by their mean; `None` if the window has too few, or
/// samples do not cover it.
pub(crate) fn variation(arrivals: &Arrivals, window: Span) -> Option<f64> {
    // The same condition as for the figure of the whole window, whose ends samples may miss by a little.
    arrivals.over(window)?;
    let samples = arrivals.counter().span()?;
    let (start_ns, end_ns) =
        (window.start_ns.max(samples.start_ns), window.end_ns.min(samples.end_ns).max(samples.start_ns));
    // Windows are a few nanoseconds longer or shorter than they were written.
    let seconds = (window.length_s() + 1e-3).floor();
    if seconds < LEAST_SECONDS {
        return None;
    }
    // As many equal parts as there are whole seconds, so that none of them is cut short.
    let part = |n: f64| start_ns + ((end_ns - start_ns) as f64 * n / seconds) as u64;
    let rates: Vec<f64> = (0..seconds as u64)
        .map(|n| Span { start_ns: part(n as f64), end_ns: part(n as f64 + 1.0) })
        .map(|span| arrivals.counter().rate(span))
        .collect();
    let mean = rates.iter().sum::<f64>() / seconds;
    let square = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / seconds;
    (mean > 0.0).then(|| square.sqrt() / mean)
}

#[cfg(test)]
mod tests {
    use event::Host;
    use tables::manifest::Load;
    use tables::{Row, Sockets};

    use super::*;
    use crate::tcp::sockets::tests::sample;

    const S: u64 = 1_000_000_000;

    /// A read that receives so many bytes in the n-th hundredth of a second.
    fn arrivals(bytes: impl Fn(u64) -> u64) -> Arrivals {
        let mut table = Sockets::default();
        let mut sum = 0;
        for n in 0..=800u64 {
            sample(S + n * S / 100, Host::Near, sum).push(&mut table);
            sum += bytes(n);
        }
        let load = Load { op: "read".to_owned(), t_start_ns: S, t_end_ns: 9 * S, ..Load::default() };
        Arrivals::of(&load, Some(&table), None).unwrap()
    }

    const WINDOW: Span = Span { start_ns: 2 * S, end_ns: 8 * S };

    #[test]
    fn what_flows_evenly_has_none_and_a_saw_has_much() {
        assert!(variation(&arrivals(|_| 100_000), WINDOW).unwrap() < 1e-9);
        // From half to all of it and back at once, every three seconds.
        let saw = variation(&arrivals(|n| 150_000 + n % 300 * 500), WINDOW).unwrap();
        assert!((saw - 0.1814).abs() < 0.002, "{saw}");
        // A block every 41 ms.
        let is_due = |n: u64| (n + 1) * 10 / 41 > n * 10 / 41;
        let blocks = variation(&arrivals(|n| if is_due(n) { 1 << 20 } else { 0 }), WINDOW).unwrap();
        assert!((0.001..0.02).contains(&blocks), "{blocks}");
    }

    #[test]
    fn without_enough_seconds_there_is_no_figure() {
        let steady = arrivals(|_| 100_000);
        assert_eq!(variation(&steady, Span { start_ns: 2 * S, end_ns: 5 * S - S / 10 }), None, "too short");
        assert!(variation(&steady, Span { start_ns: 2 * S, end_ns: 5 * S - 1 }).is_some());
        assert_eq!(variation(&steady, Span { start_ns: 5 * S, end_ns: 12 * S }), None, "not covered");
        assert_eq!(variation(&arrivals(|_| 0), WINDOW), None, "nothing came");
        let almost = Span { start_ns: 5 * S, end_ns: 9 * S + S / 20 };
        assert!(variation(&steady, almost).unwrap() < 1e-9, "an end that samples miss");
    }
}
