//! Limits of a host on its TCP before a stream begins; each end reports its own.

use std::collections::BTreeSet;

use diagnosis::remedy::sysctl;
use net::{scheduling, tcp};

/// Upper limit of a buffer size in the kernel, in bytes.
const BUFFER_MAX_BYTES: u64 = i32::MAX as u64;

/// Largest window of TCP in bytes: 65 535 × 2^14 (RFC 7323, section 2.3).
pub(crate) const WINDOW_MAX_BYTES: u64 = 65_535 << 14;

/// `net.ipv4.tcp_rmem`, `tcp_wmem` and `tcp_mem`, and the CPUs that a process may use; 0 if not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct HostLimits {
    /// Smallest, first and largest receive buffer.
    pub(crate) receive_bytes: [u64; 3],
    /// Smallest, first and largest send buffer.
    pub(crate) send_bytes: [u64; 3],
    /// Memory of all TCP: the low mark, the pressure mark and the maximum.
    pub(crate) memory_pages: [u64; 3],
    pub(crate) page_bytes: u64,
    /// CPUs shared by the threads of a run.
    pub(crate) cpus: u64,
}

impl HostLimits {
    /// Fields on the wire.
    pub(crate) const WORDS: usize = 11;

    /// Limits of this host, for threads pinned to `pins`, if any.
    pub(crate) fn here(pins: &[usize]) -> HostLimits {
        let cpus = match pins.iter().collect::<BTreeSet<_>>().len() {
            0 => scheduling::allowed_cpus().map_or(0, |cpus| cpus.len()),
            pinned => pinned,
        };
        HostLimits {
            receive_bytes: tcp::limits("tcp_rmem").unwrap_or_default(),
            send_bytes: tcp::limits("tcp_wmem").unwrap_or_default(),
            memory_pages: tcp::limits("tcp_mem").unwrap_or_default(),
            page_bytes: tcp::page_bytes().unwrap_or_default(),
            cpus: cpus as u64,
        }
    }

    /// Memory pressure of TCP in bytes; 0 if not known.
    pub(crate) fn pressure_bytes(&self) -> u64 {
        self.memory_pages[1].saturating_mul(self.page_bytes)
    }

    /// Command for a receive buffer with room for a window of `window_bytes`: twice that.
    pub(crate) fn receive_command(&self, window_bytes: u64) -> String {
        buffer_command("tcp_rmem", self.receive_bytes, window_bytes)
    }

    /// Command for a send buffer with room for a window of `window_bytes`.
    pub(crate) fn send_command(&self, window_bytes: u64) -> String {
        buffer_command("tcp_wmem", self.send_bytes, window_bytes)
    }

    /// Command for memory of all TCP with room for windows of `window_bytes` in sum.
    pub(crate) fn memory_command(&self, window_bytes: u64) -> String {
        let pages = window_bytes.saturating_mul(2).next_power_of_two() / self.page_bytes.max(1);
        sysctl::tcp_memory(pages)
    }

    pub(crate) fn words(&self) -> [u64; HostLimits::WORDS] {
        let [a, b, c] = self.receive_bytes;
        let [d, e, f] = self.send_bytes;
        let [g, h, i] = self.memory_pages;
        [a, b, c, d, e, f, g, h, i, self.page_bytes, self.cpus]
    }

    pub(crate) fn from_words(words: [u64; HostLimits::WORDS]) -> HostLimits {
        let [a, b, c, d, e, f, g, h, i, page_bytes, cpus] = words;
        HostLimits {
            receive_bytes: [a, b, c],
            send_bytes: [d, e, f],
            memory_pages: [g, h, i],
            page_bytes,
            cpus,
        }
    }
}

fn buffer_command(name: &str, [least, first, _]: [u64; 3], window_bytes: u64) -> String {
    let most = window_bytes.saturating_mul(2).min(BUFFER_MAX_BYTES).next_power_of_two().min(BUFFER_MAX_BYTES);
    sysctl::tcp_buffer(name, [least, first], most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_change_the_binding_value_alone() {
        let limits = HostLimits {
            receive_bytes: [4096, 131_072, 6_291_456],
            send_bytes: [4096, 16_384, 4_194_304],
            memory_pages: [3, 4, 6],
            page_bytes: 4096,
            cpus: 1,
        };
        for (line, expected) in [
            (limits.receive_command(12_500_000), "tcp_rmem=\"4096 131072 33554432\""),
            (limits.send_command(1 << 20), "tcp_wmem=\"4096 16384 2097152\""),
            (limits.send_command(1 << 30), "tcp_wmem=\"4096 16384 2147483647\""),
            (limits.send_command(u64::MAX), "tcp_wmem=\"4096 16384 2147483647\""),
            (limits.memory_command(1 << 29), "tcp_mem=\"196608 262144 393216\""),
        ] {
            assert_eq!(line, format!("sysctl -w net.ipv4.{expected}"));
        }
        assert_eq!(limits.pressure_bytes(), 16_384);
    }
}
