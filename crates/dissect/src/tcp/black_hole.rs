//! Path MTU black hole: segments above a size never arrive, smaller ones do (RFC 2923 section 2.1, RFC 4821).
//!
//! The path drops packets above its MTU, and no ICMP message tells the sender. The sender repeats its first
//! unacknowledged segment; the receiver still answers. A segment as large as one that was acknowledged before is no case of
//! this: then the path lost it, or is down.

use serde::Serialize;

/// Retransmissions of one segment after which its size is suspected: Linux's `tcp_retries1`, after which
/// `tcp_mtu_probing` begins to send smaller segments.
const RETRANSMISSIONS_MIN: u64 = 3;
/// Payload in bytes that every IPv6 path carries: its minimum MTU (RFC 8200 section 5) without the headers and the
/// timestamp option.
const ALWAYS_CARRIED_BYTES: u64 = 1_280 - 40 - 32;

/// A path MTU black hole in one direction.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct BlackHole {
    /// Payload of the smallest segment that did not arrive, in bytes.
    pub segment_bytes: u64,
    /// Payload of the largest segment that arrived, in bytes.
    pub arrived_bytes: u64,
    /// Retransmissions of segments that did not arrive.
    pub retransmissions: u64,
    /// Time without progress.
    pub stalled_s: f64,
    /// True if smaller segments of the same data arrived in the end.
    pub resolved: bool,
}

/// Search for a black hole in one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BlackHoleSearch {
    /// Largest packet that was acknowledged, by its payload.
    arrived_bytes: u64,
    /// First unacknowledged segment since it was repeated.
    stall: Option<Stall>,
    found: Option<BlackHole>,
}

/// First unacknowledged segment, sent more than once.
#[derive(Clone, Copy, Debug)]
struct Stall {
    start: u64,
    /// Payload of its smallest transmission.
    bytes: u64,
    /// Retransmissions of that size.
    retransmissions: u64,
    since_ns: u64,
    last_ns: u64,
    /// The peer has sent something after a retransmission.
    is_answered: bool,
    /// A larger size that was given up for this one, and its retransmissions.
    given_up: Option<(u64, u64)>,
}

impl BlackHoleSearch {
    /// Takes a retransmission of `bytes` at `t_ns`, which begins at `start`; nothing before that is unacknowledged.
    /// `sent_ns` is the time of the transmission before.
    pub(super) fn retransmit(&mut self, t_ns: u64, start: u64, bytes: u64, sent_ns: u64) {
        let stall = self.stall.filter(|stall| stall.start == start);
        let mut stall = stall.unwrap_or(Stall {
            start,
            bytes,
            retransmissions: 0,
            since_ns: sent_ns,
            last_ns: t_ns,
            is_answered: false,
            given_up: None,
        });
        if bytes < stall.bytes {
            if stall.retransmissions >= RETRANSMISSIONS_MIN {
                stall.given_up = Some((stall.bytes, stall.retransmissions));
            }
            (stall.bytes, stall.retransmissions) = (bytes, 0);
        }
        stall.retransmissions += 1;
        stall.last_ns = t_ns;
        self.stall = Some(stall);
    }

    /// Takes a sign of life of the peer.
    pub(super) fn hear(&mut self) {
        if let Some(stall) = &mut self.stall {
            stall.is_answered = true;
        }
    }

    /// Takes progress at `t_ns`: everything before `acked` has arrived, in packets of up to `bytes`.
    pub(super) fn progress(&mut self, t_ns: u64, acked: u64, bytes: u64) {
        if let Some(stall) = self.stall.take_if(|stall| acked > stall.start)
            && let Some(given_up) = stall.given_up
        {
            self.add(&stall, given_up, t_ns, true);
        }
        self.arrived_bytes = self.arrived_bytes.max(bytes);
    }

    /// Leaves out so many nanoseconds, which nobody watched.
    pub(super) fn skip(&mut self, ns: u64) {
        if let Some(stall) = &mut self.stall {
            stall.since_ns = stall.since_ns.saturating_add(ns);
        }
    }

    /// True while a segment is sent again and again and nothing progresses.
    pub(super) fn is_stalled(&self) -> bool {
        self.stall.is_some_and(|stall| stall.retransmissions >= RETRANSMISSIONS_MIN)
    }

    /// Result at the end of the capture at `t_ns`.
    pub(super) fn finish(mut self, t_ns: u64) -> Option<BlackHole> {
        if let Some(stall) = self.stall {
            let now = (stall.bytes, stall.retransmissions);
            let last = (stall.retransmissions >= RETRANSMISSIONS_MIN).then_some(now);
            if let Some(failed) = last.or(stall.given_up) {
                self.add(&stall, failed, t_ns, false);
            }
        }
        self.found
    }

    fn add(&mut self, stall: &Stall, (bytes, retransmissions): (u64, u64), t_ns: u64, resolved: bool) {
        let is_larger = bytes > self.arrived_bytes && bytes > ALWAYS_CARRIED_BYTES;
        if self.arrived_bytes == 0 || !is_larger || !stall.is_answered {
            return;
        }
        let stalled_s = t_ns.max(stall.last_ns).saturating_sub(stall.since_ns) as f64 / 1e9;
        let before = self.found;
        self.found = Some(BlackHole {
            segment_bytes: before.map_or(bytes, |before| before.segment_bytes.min(bytes)),
            arrived_bytes: self.arrived_bytes,
            retransmissions: retransmissions + before.map_or(0, |before| before.retransmissions),
            stalled_s: stalled_s + before.map_or(0.0, |before| before.stalled_s),
            resolved,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A search in which 700 bytes arrived, then `sizes` were sent again in vain, one every 200 ms.
    fn stalled(sizes: &[u64]) -> BlackHoleSearch {
        let mut search = BlackHoleSearch::default();
        search.progress(0, 1_000, 700);
        for (number, bytes) in (1..).zip(sizes) {
            search.retransmit(number * 200 * MS, 1_000, *bytes, (number - 1) * 200 * MS);
            search.hear();
        }
        search
    }

    #[test]
    fn a_large_segment_that_never_arrives() {
        let found = stalled(&[8_948; 5]).finish(1_500 * MS).expect("a black hole");
        let expected = BlackHole {
            segment_bytes: 8_948,
            arrived_bytes: 700,
            retransmissions: 5,
            stalled_s: 1.5,
            resolved: false,
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn smaller_segments_arrive_in_the_end() {
        let mut search = stalled(&[8_948, 8_948, 8_948, 1_024]);
        assert!(!search.is_stalled(), "one smaller segment was tried");
        search.progress(900 * MS, 2_024, 1_024);
        let found = search.finish(5_000 * MS).expect("a black hole");
        assert_eq!((found.segment_bytes, found.arrived_bytes, found.resolved), (8_948, 700, true));
        assert!((found.stalled_s - 0.9).abs() < 1e-9);
    }

    #[test]
    fn other_stalls_are_no_black_holes() {
        assert_eq!(stalled(&[8_948; 2]).finish(MS), None, "sent too few times");
        assert_eq!(stalled(&[700; 9]).finish(MS), None, "as large as one that arrived");
        assert_eq!(stalled(&[1_208; 9]).finish(MS), None, "every path carries it");
        let mut arrives = stalled(&[8_948; 9]);
        arrives.progress(2_000 * MS, 9_948, 8_948);
        assert_eq!(arrives.finish(2_000 * MS), None, "lost by chance");
        let mut silent = BlackHoleSearch::default();
        silent.progress(0, 1_000, 700);
        (1..9).for_each(|n| silent.retransmit(n * MS, 1_000, 8_948, 0));
        assert_eq!(silent.finish(MS), None, "the peer is silent: the path is down");
        let mut unknown = BlackHoleSearch::default();
        for n in 1..9 {
            unknown.retransmit(n * MS, 1_000, 8_948, 0);
            unknown.hear();
        }
        assert_eq!(unknown.finish(MS), None, "nothing shows that anything arrives");
    }
}
