//! How busy others keep the machine meanwhile: all processors' busy time less that of this process.

use std::fs;
use std::time::Duration;

use event::Instant;
use net::clock;

/// The kernel counts busy time in hundredths of a second for users, whatever its own tick (USER_HZ, proc_stat(5)).
const TICK: Duration = Duration::from_millis(10);

/// Busy time from a moment on.
pub(super) struct Meter {
    since: Instant,
    busy: Option<Duration>,
    own_ns: u64,
}

impl Meter {
    pub(super) fn start() -> Meter {
        Meter { since: clock::now(), busy: busy(), own_ns: clock::process_cpu_ns() }
    }

    /// Processors that others kept busy; none if the kernel does not tell.
    pub(super) fn others(&self) -> f64 {
        let elapsed = clock::now().since(self.since).as_secs_f64();
        let all = busy().zip(self.busy).map_or(0.0, |(now, then)| now.saturating_sub(then).as_secs_f64());
        let own = Duration::from_nanos(clock::process_cpu_ns() - self.own_ns).as_secs_f64();
        ((all - own) / elapsed).max(0.0)
    }
}

fn busy() -> Option<Duration> {
    busy_in(&fs::read_to_string("/proc/stat").ok()?)
}

/// The first line: user, nice, system, idle, iowait, irq, softirq, steal; guests are part of user.
fn busy_in(stat: &str) -> Option<Duration> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u32> = fields.split_whitespace().take(8).map_while(|field| field.parse().ok()).collect();
    (ticks.len() == 8).then(|| TICK * [0, 1, 2, 5, 6, 7].map(|at| ticks[at]).iter().sum::<u32>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_are_not_busy() {
        let stat = "cpu  100 20 3 99999 88888 4 5 6 7 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(busy_in(stat), Some(138 * TICK));
        for broken in ["", "cpu 1 2 3", "cpu a b c d e f g h", "intr 1 2 3 4 5 6 7 8"] {
            assert_eq!(busy_in(broken), None, "{broken:?}");
        }
        assert!(busy().is_some(), "this machine tells");
    }
}
