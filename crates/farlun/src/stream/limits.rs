//! What a host allows its TCP, as it is before a stream begins: both ends say so, each of its own.

use std::collections::BTreeSet;

use net::{scheduling, tcp};

/// What the kernel takes as a size of a buffer.
const BUFFER_MAX_BYTES: u64 = i32::MAX as u64;

/// `net.ipv4.tcp_rmem`, `tcp_wmem` and `tcp_mem`, and the CPUs that a process may use; 0 where that is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Limits {
    /// The smallest, the first and the largest receive buffer.
    pub(super) receive_bytes: [u64; 3],
    /// The same of send buffers.
    pub(super) send_bytes: [u64; 3],
    /// What all of TCP may have: without a thought, from where on it is frugal, and at most.
    pub(super) memory_pages: [u64; 3],
    pub(super) page_bytes: u64,
    /// CPUs that the threads of a run share.
    pub(super) cpus: u64,
}

impl Limits {
    /// Fields on the wire.
    pub(super) const WORDS: usize = 11;

    /// Those of this host, for threads that are pinned to `pins` if there are any.
    pub(super) fn here(pins: &[usize]) -> Limits {
        let cpus = match pins.iter().collect::<BTreeSet<_>>().len() {
            0 => scheduling::allowed_cpus().map_or(0, |cpus| cpus.len()),
            pinned => pinned,
        };
        Limits {
            receive_bytes: tcp::limits("tcp_rmem").unwrap_or_default(),
            send_bytes: tcp::limits("tcp_wmem").unwrap_or_default(),
            memory_pages: tcp::limits("tcp_mem").unwrap_or_default(),
            page_bytes: tcp::page_bytes().unwrap_or_default(),
            cpus: cpus as u64,
        }
    }

    /// From where on TCP is frugal; 0 if that is not known.
    pub(super) fn pressure_bytes(&self) -> u64 {
        self.memory_pages[1].saturating_mul(self.page_bytes)
    }

    /// What to run there so that a window of `window_bytes` fits into a receive buffer: it takes twice that.
    pub(super) fn receive_line(&self, window_bytes: u64) -> String {
        buffer_line("tcp_rmem", self.receive_bytes, window_bytes)
    }

    /// The same for a send buffer.
    pub(super) fn send_line(&self, window_bytes: u64) -> String {
        buffer_line("tcp_wmem", self.send_bytes, window_bytes)
    }

    /// The same for the memory of all of TCP, of which `window_bytes` is the sum of all windows.
    pub(super) fn memory_line(&self, window_bytes: u64) -> String {
        let pages = window_bytes.saturating_mul(2).next_power_of_two() / self.page_bytes.max(1);
        // As the kernel itself relates the three.
        format!("sysctl -w net.ipv4.tcp_mem=\"{} {pages} {}\"", pages / 4 * 3, pages / 2 * 3)
    }

    pub(super) fn words(&self) -> [u64; Limits::WORDS] {
        let [a, b, c] = self.receive_bytes;
        let [d, e, f] = self.send_bytes;
        let [g, h, i] = self.memory_pages;
        [a, b, c, d, e, f, g, h, i, self.page_bytes, self.cpus]
    }

    pub(super) fn from_words(words: [u64; Limits::WORDS]) -> Limits {
        let [a, b, c, d, e, f, g, h, i, page_bytes, cpus] = words;
        Limits { receive_bytes: [a, b, c], send_bytes: [d, e, f], memory_pages: [g, h, i], page_bytes, cpus }
    }
}

fn buffer_line(name: &str, [least, first, _]: [u64; 3], window_bytes: u64) -> String {
    let most = window_bytes.saturating_mul(2).min(BUFFER_MAX_BYTES).next_power_of_two().min(BUFFER_MAX_BYTES);
    format!("sysctl -w net.ipv4.{name}=\"{least} {first} {most}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_change_what_binds_and_nothing_else() {
        let limits = Limits {
            receive_bytes: [4096, 131_072, 6_291_456],
            send_bytes: [4096, 16_384, 4_194_304],
            memory_pages: [3, 4, 6],
            page_bytes: 4096,
            cpus: 1,
        };
        for (line, expected) in [
            (limits.receive_line(12_500_000), "tcp_rmem=\"4096 131072 33554432\""),
            (limits.send_line(1 << 20), "tcp_wmem=\"4096 16384 2097152\""),
            (limits.send_line(1 << 30), "tcp_wmem=\"4096 16384 2147483647\""),
            (limits.send_line(u64::MAX), "tcp_wmem=\"4096 16384 2147483647\""),
            (limits.memory_line(1 << 29), "tcp_mem=\"196608 262144 393216\""),
        ] {
            assert_eq!(line, format!("sysctl -w net.ipv4.{expected}"));
        }
        assert_eq!(limits.pressure_bytes(), 16_384);
    }
}
