//! TCP goodput of a line, computed: the reference for throughput.
//!
//! The line counts IP bytes plus 38 bytes of Ethernet per MTU-sized packet; a segment carries the MTU less IPv4 (20) or
//! IPv6 (40), TCP (20) and its timestamps (12). 1 Gb/s at MTU 1500 gives 941.48 Mb/s over IPv4.

use std::time::Duration;

use tables::manifest::{Cell, Path};

/// Ethernet's share of every packet: header 14, check sequence 4, preamble 8, gap 12.
pub const ETHERNET_BYTES: u32 = 38;
/// Headers inside the MTU: IPv4 20, TCP 20, timestamps 12.
pub const HEADER_BYTES: u32 = 52;
/// Length of the IPv6 header less that of IPv4.
const IPV6_BYTES: u32 = 20;

/// TCP payload that a path carries, bits per second; `None` if it has no rate or no room for payload.
pub fn goodput_bits_per_s(path: &Path) -> Option<f64> {
    let headers = HEADER_BYTES + if path.ipv6 { IPV6_BYTES } else { 0 };
    let payload = path.mtu.checked_sub(headers).filter(|bytes| *bytes > 0)?;
    let packet = path.mtu.checked_add(ETHERNET_BYTES)?;
    let goodput = path.rate_bits_per_s as f64 * f64::from(payload) / f64::from(packet);
    (goodput > 0.0).then_some(goodput)
}

/// Time in which a path carries so much payload.
pub fn serialisation_s(path: &Path, payload_bytes: u64) -> Option<f64> {
    Some(payload_bytes as f64 * 8.0 / goodput_bits_per_s(path)?)
}

/// Both ways of propagation, without waiting or serialisation.
pub fn rtt(path: &Path) -> Duration {
    Duration::from_nanos(path.delay_ns.saturating_mul(2))
}

/// Round trip of a cell's path in nanoseconds; 0 without a document of the emulator.
pub(crate) fn rtt_of(cell: &Cell) -> u64 {
    let path = cell.wan().ok().flatten().map(|wan| wan.path);
    path.map_or(0, |path| path.delay_ns.saturating_mul(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_the_contract() {
        let gigabit = Path { rate_bits_per_s: 1_000_000_000, ..Path::default() };
        assert_eq!(goodput_bits_per_s(&gigabit).unwrap().round(), 941_482_445.0);
        assert_eq!((serialisation_s(&gigabit, 1 << 20).unwrap() * 1e6).round(), 8_910.0);
        let jumbo = Path { mtu: 9000, ipv6: true, ..gigabit };
        assert_eq!(goodput_bits_per_s(&jumbo).unwrap().round(), 987_829_166.0);
        assert_eq!(goodput_bits_per_s(&Path { rate_bits_per_s: 0, ..gigabit }), None);
        assert_eq!(goodput_bits_per_s(&Path { mtu: 52, ..gigabit }), None);
    }
}
