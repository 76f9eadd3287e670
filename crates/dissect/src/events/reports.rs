//! ICMP reports of segments that did not arrive. They are kept until the end of the capture, where every connection is known:
//! packets of TCP wait to be put in order, and a report may stand in front of its segment.

use std::collections::{HashMap, VecDeque};

use wire::inet::Unreachable;
use wire::inet::identity::digest;

/// Limit of reports that are kept: routers limit their rate (RFC 1812 section 4.3.2.8).
const REPORTS_MAX: usize = 4_096;
/// Reports among which copies are looked for.
const RECENT_MAX: usize = 16;
/// Limit of equal reports that are followed at each interface.
const SHOWN_MAX: usize = 4 * REPORTS_MAX;
/// Time in ns within which the same report is a copy, as of TCP packets.
const COPY_NS: u64 = 1_000_000;

/// Reports of one capture.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    pub(crate) kept: Vec<Report>,
    /// Interfaces, digests and times of the last ones.
    recent: VecDeque<(u32, u64, u64)>,
    /// Number of equal reports, by digest: at each interface, and at the one that shows most of them.
    shown: HashMap<(u64, u32), u32>,
    distinct: HashMap<u64, u32>,
}

/// A report and its packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub(crate) unreachable: Unreachable,
    /// Number in its file.
    pub(crate) in_file: u64,
    pub(crate) t_ns: u64,
}

impl Reports {
    /// Takes a packet of an interface that begins with its IP header.
    pub(crate) fn take(&mut self, packet: &[u8], interface: u32, in_file: u64, t_ns: u64) {
        let Some(unreachable) = Unreachable::parse(packet) else { return };
        // The header in front may differ, as behind a router; the quoted one has the identification of its segment.
        let header_len = if packet[0] >> 4 == 4 { usize::from(packet[0] & 0x0f) * 4 } else { 40 };
        let digest = digest(packet.get(header_len..).unwrap_or_default());
        if self.kept.len() >= REPORTS_MAX
            || self.is_copy(interface, digest, t_ns)
            || self.is_of_another_tap(interface, digest)
        {
            return;
        }
        self.kept.push(Report { unreachable, in_file, t_ns });
    }

    /// True if the same report was taken at this interface just before.
    fn is_copy(&mut self, interface: u32, digest: u64, t_ns: u64) -> bool {
        let is_same = |(tap, other, other_ns): &(u32, u64, u64)| {
            (*tap, *other) == (interface, digest) && t_ns.abs_diff(*other_ns) <= COPY_NS
        };
        let is_copy = self.recent.iter().any(is_same);
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back((interface, digest, t_ns));
        is_copy
    }

    /// True if the report has passed another interface before: the n-th of equal ones at one interface is the n-th at
    /// another. The way between them takes longer than copies do.
    fn is_of_another_tap(&mut self, interface: u32, digest: u64) -> bool {
        if self.shown.len() >= SHOWN_MAX && !self.shown.contains_key(&(digest, interface)) {
            return false;
        }
        let shown = self.shown.entry((digest, interface)).or_default();
        *shown = shown.saturating_add(1);
        let distinct = self.distinct.entry(digest).or_default();
        let is_known = *shown <= *distinct;
        *distinct = (*distinct).max(*shown);
        is_known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_count_once_and_reports_are_bounded() {
        let mut packet = vec![0x45, 0, 0, 56, 0, 0, 0, 0, 64, 1, 0, 0, 192, 0, 2, 9, 10, 0, 0, 2];
        packet.extend([3, 4, 0, 0, 0, 0, 5, 120]);
        packet.extend([0x45, 0, 0x23, 0, 0, 9, 0x40, 0, 63, 6, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1]);
        packet.extend([0x0c, 0xbc, 0x9c, 0x40, 0, 0, 0x10, 0]);
        let mut reports = Reports::default();
        reports.take(&packet, 0, 1, 1_000);
        // Behind a router.
        packet[8] = 63;
        reports.take(&packet, 0, 2, 2_000);
        assert_eq!(reports.kept.len(), 1);
        reports.take(&packet, 0, 3, 5_000_000);
        assert_eq!(reports.kept.len(), 2, "the same segment again");
        // Both at the other end of a path of 40 ms.
        reports.take(&packet, 1, 4, 40_001_000);
        reports.take(&packet, 1, 5, 45_000_000);
        assert_eq!(reports.kept.len(), 2);
        reports.take(&packet, 1, 6, 60_000_000);
        assert_eq!(reports.kept.len(), 3, "a third one");
        for n in 0..2 * REPORTS_MAX as u64 {
            reports.take(&packet, 0, n, n * 5_000_000);
        }
        assert_eq!(reports.kept.len(), REPORTS_MAX);
    }
}
