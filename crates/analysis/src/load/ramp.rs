//! Time that a load takes to fill its line.

use std::time::Duration;

use super::arrivals::Arrivals;
use crate::Span;

/// The line counts as full at this share of its goodput.
pub const FULL_SHARE: f64 = 0.95;
/// The rate is taken over at least this long.
const LEAST_WINDOW: Duration = Duration::from_millis(100);
/// The window slides by this part of its length.
const STEPS_PER_WINDOW: u64 = 20;

/// Seconds from the beginning of the load until the rate over the last max(100 ms, 2 RTT) first reaches
/// [`FULL_SHARE`] of the goodput; `None` if it never does before `end_ns`.
pub fn ramp_s(arrivals: &Arrivals, load: Span, rtt: Duration, goodput_bits_per_s: f64) -> Option<f64> {
    let window_ns = u64::try_from(LEAST_WINDOW.max(rtt * 2).as_nanos()).ok()?;
    let last_ns = load.end_ns.min(arrivals.counter().span()?.end_ns);
    let mut start_ns = load.start_ns;
    loop {
        let end_ns = start_ns.checked_add(window_ns).filter(|end| *end <= last_ns)?;
        if arrivals.counter().rate(Span { start_ns, end_ns }) >= FULL_SHARE * goodput_bits_per_s {
            return Some((end_ns - load.start_ns) as f64 / 1e9);
        }
        start_ns += (window_ns / STEPS_PER_WINDOW).max(1);
    }
}

#[cfg(test)]
mod tests {
    use event::Host;
    use tables::manifest::Load;
    use tables::{Row, Sockets};

    use super::*;
    use crate::tcp::sockets::tests::sample;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_moment_the_line_is_full() {
        // Nothing for a second, then 1 MB every 10 ms: 800 Mb/s.
        let mut table = Sockets::default();
        for i in 0..=300u64 {
            sample(i * 10 * MS, Host::Near, i.saturating_sub(100) * 1_000_000).push(&mut table);
        }
        let load = Load { op: "read".to_owned(), ..Load::default() };
        let arrivals = Arrivals::of(&load, Some(&table), None).unwrap();
        let span = Span { start_ns: 0, end_ns: 3_000 * MS };
        let ramp = |rtt_ms, goodput| ramp_s(&arrivals, span, Duration::from_millis(rtt_ms), goodput);
        assert_eq!(ramp(0, 800e6), Some(1.095));
        assert_eq!(ramp(500, 800e6), Some(1.95));
        assert_eq!(ramp(0, 900e6), None);
    }
}
