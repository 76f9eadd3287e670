//! Memory that this machine could still give.

use std::fs;

/// Memory that is available without swapping; `None` if the kernel does not report it.
pub(crate) fn available_bytes() -> Option<u64> {
    available_in(&fs::read_to_string("/proc/meminfo").ok()?)
}

/// The field MemAvailable of proc_meminfo(5), in KiB.
fn available_in(table: &str) -> Option<u64> {
    let line = table.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_available_is_read_in_bytes() {
        let table = "MemTotal:        8000000 kB\nMemFree:           10000 kB\nMemAvailable:    4000000 kB\n";
        assert_eq!(available_in(table), Some(4_096_000_000));
        for broken in
            ["", "MemAvailable: many kB", "MemAvailable: 12", "MemAvailable: 99999999999999999999 kB"]
        {
            assert_eq!(available_in(broken), None, "{broken:?}");
        }
        assert!(available_bytes().is_some_and(|bytes| bytes > 1 << 20), "this machine tells");
    }
}
