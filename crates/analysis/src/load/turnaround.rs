//! Turnaround of a request: its latency in round trips, and the excess over the one necessary round trip.

use serde::Serialize;
use tables::Sockets;
use tables::manifest::{Load, Path};

use super::latency::Latency;
use crate::path::line;

/// Median latency held against the path.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Turnaround {
    /// The round trip it is held against: the smallest that TCP saw.
    pub base_rtt_s: f64,
    /// Median latency in round trips.
    pub round_trips: f64,
    /// Median latency less one round trip; 0 if it is shorter.
    pub excess_s: f64,
    /// Time the line needs for the block's bytes; `None` if the line has no rate.
    pub serialisation_s: Option<f64>,
    /// The excess in such times: 1 is a request that costs one round trip and its own bytes.
    pub excess_in_serialisations: Option<f64>,
}

/// Base RTT: the load's own figure, else the smallest of the table `sockets`, else that of the path.
pub fn base_rtt_s(load: &Load, sockets: Option<&Sockets>, path: &Path) -> Option<f64> {
    let smallest = || sockets?.min_rtt_ns.iter().copied().filter(|ns| plausible(*ns as f64)).min();
    let said = load.base_rtt_ns.filter(|ns| plausible(*ns));
    let path = line::rtt(path).as_nanos() as f64;
    said.or_else(|| smallest().map(|ns| ns as f64)).or((path > 0.0).then_some(path)).map(|ns| ns / 1e9)
}

/// Holds a median latency against a round trip; `None` without one.
pub fn of(latency: &Latency, block_bytes: Option<u64>, base_rtt_s: f64, path: &Path) -> Option<Turnaround> {
    if base_rtt_s <= 0.0 {
        return None;
    }
    let excess_s = (latency.p50_s - base_rtt_s).max(0.0);
    let serialisation_s = block_bytes.and_then(|bytes| line::serialisation_s(path, bytes));
    Some(Turnaround {
        base_rtt_s,
        round_trips: latency.p50_s / base_rtt_s,
        excess_s,
        serialisation_s,
        excess_in_serialisations: serialisation_s.map(|s| excess_s / s),
    })
}

/// False for the kernel's values before the first round-trip sample: 0, or the largest 32-bit number of microseconds.
fn plausible(rtt_ns: f64) -> bool {
    rtt_ns > 0.0 && rtt_ns < f64::from(u32::MAX) * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_of_one_round_trip_and_its_bytes() {
        let path = Path { delay_ns: 8_000_000, rate_bits_per_s: 1_000_000_000, ..Path::default() };
        let latency = Latency { p50_s: 0.016 + 0.00891, ..Latency::default() };
        let load = Load::default();
        let rtt = base_rtt_s(&load, None, &path).unwrap();
        let turnaround = of(&latency, Some(1 << 20), rtt, &path).unwrap();
        assert!((turnaround.excess_in_serialisations.unwrap() - 1.0).abs() < 1e-3, "{turnaround:?}");
        assert!((turnaround.round_trips - 1.557).abs() < 1e-3);
        let measured = Load { base_rtt_ns: Some(20e6), ..Load::default() };
        assert_eq!(base_rtt_s(&measured, None, &path), Some(0.02));
        assert_eq!(base_rtt_s(&load, None, &Path::default()), None);
    }
}
