//! Command window: MaxCmdSN against CmdSN, RFC 7143 section 4.2.2.1.

use serde::Serialize;

use crate::figures::edges::EdgeHistory;
use crate::serial;

/// Command window of a session, as one of its connections shows it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CommandWindow {
    /// CmdSN after the last permitted one.
    limit: Option<u64>,
    /// Limits of the last round trip.
    limits: EdgeHistory,
    /// CmdSN after the last one sent.
    next: Option<u64>,
    closed_since_ns: Option<u64>,
    first_ns: Option<u64>,
    last_ns: u64,
    closed_ns: u64,
    /// Time in ns that nobody watched.
    unwatched_ns: u64,
    closed: u64,
    least_open: Option<u64>,
    largest: u64,
}

/// Summary of the command window.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct CommandWindowSummary {
    /// Largest window in commands: MaxCmdSN - ExpCmdSN + 1.
    pub largest: u64,
    /// Smallest number of commands permitted after a command was sent.
    pub least_open: u64,
    /// Number of times that no further command was permitted.
    pub closed: u64,
    /// Share of time in which no further command was permitted.
    pub closed_share: f64,
}

/// Upper limit of a window in commands; a larger difference is a misread header.
const WINDOW_MAX: u64 = 1 << 24;

impl CommandWindow {
    /// Takes the CmdSN of a request that is not marked immediate.
    pub(crate) fn sent(&mut self, t_ns: u64, cmd_sn: u32) {
        let reference = self.next.or(self.limit);
        let sn = reference.map_or_else(|| serial::first(cmd_sn), |reference| serial::near(reference, cmd_sn));
        if self.next.is_none_or(|next| sn >= next && sn - next < WINDOW_MAX) {
            self.next = Some(sn + 1);
            if let Some(limit) = self.limit {
                let open = limit.saturating_sub(sn + 1);
                self.least_open = Some(self.least_open.map_or(open, |least| least.min(open)));
            }
        }
        self.update(t_ns);
    }

    /// Takes an advertisement of the target; `rtt_ns` is the fastest round trip from the tap to the initiator.
    pub(crate) fn advertise(&mut self, t_ns: u64, exp_cmd_sn: u32, max_cmd_sn: u32, rtt_ns: u64) {
        let reference = self.limit.or(self.next).unwrap_or_else(|| serial::first(max_cmd_sn));
        let (limit, expected) =
            (serial::near(reference, max_cmd_sn) + 1, serial::near(reference, exp_cmd_sn));
        let size = limit.saturating_sub(expected);
        if size > WINDOW_MAX {
            return;
        }
        self.largest = self.largest.max(size);
        self.limit = self.limit.max(Some(limit));
        self.limits.add(t_ns, limit, rtt_ns / 8);
        self.update(t_ns);
    }

    /// Time in ns before which no further command can arrive, because the initiator knows of no room for one. An
    /// advertisement reaches the initiator and the command returns within `rtt_ns`. `u64::MAX` without room.
    pub(crate) fn closed_until_ns(&self, rtt_ns: u64) -> u64 {
        let Some((next, _)) = self.next.zip(self.limit) else { return 0 };
        self.limits.since(next).map_or(u64::MAX, |since_ns| since_ns.saturating_add(rtt_ns))
    }

    fn update(&mut self, t_ns: u64) {
        self.first_ns.get_or_insert(t_ns);
        self.last_ns = self.last_ns.max(t_ns);
        let (Some(limit), Some(next)) = (self.limit, self.next) else { return };
        match (next >= limit, self.closed_since_ns) {
            (true, None) => {
                self.closed += 1;
                self.closed_since_ns = Some(t_ns);
            }
            (false, Some(since)) => {
                self.closed_ns += t_ns.saturating_sub(since);
                self.closed_since_ns = None;
            }
            _ => {}
        }
    }

    /// Leaves out the time between two moments, which nobody watched.
    pub(crate) fn skip(&mut self, from_ns: u64, to_ns: u64) {
        if self.first_ns.is_none() {
            return;
        }
        self.update(from_ns);
        if let Some(since_ns) = &mut self.closed_since_ns {
            self.closed_ns += from_ns.saturating_sub(*since_ns);
            *since_ns = to_ns.max(*since_ns);
        }
        self.unwatched_ns += to_ns.saturating_sub(from_ns);
        self.last_ns = self.last_ns.max(to_ns);
    }

    /// Summary; `None` unless a command was sent into an advertised window.
    pub(crate) fn summary(&self) -> Option<CommandWindowSummary> {
        let length_ns = self.last_ns.saturating_sub(self.first_ns?).saturating_sub(self.unwatched_ns);
        let open_end = self.closed_since_ns.map_or(0, |since| self.last_ns.saturating_sub(since));
        let closed_ns = self.closed_ns + open_end;
        Some(CommandWindowSummary {
            largest: self.largest,
            least_open: self.least_open?,
            closed: self.closed,
            closed_share: if length_ns == 0 { 0.0 } else { closed_ns as f64 / length_ns as f64 },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_time_is_from_the_last_command_to_the_next_window() {
        let mut window = CommandWindow::default();
        window.advertise(0, 0xffff_fffe, 0xffff_ffff, 0);
        window.sent(100, 0xffff_fffe);
        assert_eq!(window.summary().unwrap().closed, 0);
        window.sent(200, 0xffff_ffff);
        window.advertise(600, 0, 1, 0);
        window.sent(800, 0);
        window.advertise(1000, 0, 1, 0);
        let used = window.summary().unwrap();
        assert_eq!((used.largest, used.least_open, used.closed, used.closed_share), (2, 0, 1, 0.4));
    }

    #[test]
    fn time_that_nobody_watched_is_neither_open_nor_closed() {
        let mut window = CommandWindow::default();
        window.skip(0, 50);
        window.advertise(100, 1, 1, 0);
        window.sent(200, 1);
        window.skip(300, 90_000);
        window.advertise(90_100, 2, 3, 0);
        window.sent(90_300, 2);
        let used = window.summary().unwrap();
        assert_eq!((used.closed, used.closed_share), (1, 0.4), "200 of 500");
    }

    #[test]
    fn a_window_is_open_when_its_initiator_knows() {
        let mut window = CommandWindow::default();
        assert_eq!(window.closed_until_ns(800), 0, "unknown");
        window.advertise(0, 1, 2, 800);
        window.sent(1_000, 1);
        assert_eq!(window.closed_until_ns(800), 800, "room for two was advertised long ago");
        window.sent(1_010, 2);
        assert_eq!(window.closed_until_ns(800), u64::MAX);
        window.advertise(1_020, 2, 3, 800);
        window.advertise(1_200, 3, 4, 800);
        assert_eq!(window.closed_until_ns(800), 1_820, "a command that fits passes here a round trip later");
        window.sent(1_820, 3);
        assert_eq!(window.closed_until_ns(800), 2_000);
    }

    #[test]
    fn nonsense_is_no_window() {
        let mut window = CommandWindow::default();
        assert_eq!(window.summary(), None);
        window.advertise(0, 5, 0x4000_0000, 0);
        window.sent(1, 5);
        assert_eq!(window.summary(), None);
    }
}
