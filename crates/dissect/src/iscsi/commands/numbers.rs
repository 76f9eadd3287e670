//! Sequence numbers as counters: CmdSN counts the requests of an initiator, StatSN the answers of a target (RFC 7143 sections
//! 4.2.2.1 and 4.2.2.2). Between two visible headers the numbers tell how many hidden ones there are.

use wire::iscsi::BHS_LEN;

use crate::iscsi::pdu::Hidden;
use crate::serial;

/// Numbers of one direction of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NumberLedger {
    /// The next number, after the last visible one.
    next: Option<u64>,
    /// The next number as the other side acknowledges it.
    acknowledged: Option<u64>,
    /// The first number was that of the login.
    begun: bool,
    /// Numbers whose headers are in cut packets.
    hidden: u64,
    /// Numbers whose packets are missing.
    missing: u64,
    /// Numbers that passed on another connection of the session.
    foreign: u64,
    /// Visible PDUs with a number that are no command, or no status of one; and all of them.
    others: [u64; 2],
    /// Most hidden numbers per part of a packet.
    densest: u64,
    /// Time in ns of stretches with hidden numbers.
    hidden_ns: u64,
    last_ns: u64,
    /// Hidden bytes before the first number, and since the last one.
    head: Hidden,
    since: Hidden,
}

/// Commands or statuses besides the visible ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HiddenBounds {
    pub(crate) least: u64,
    pub(crate) most: u64,
}

/// Largest distance of numbers that continue others: windows of initiators and targets are below it. A larger jump is a
/// part that is not in the capture.
const NEAR: i64 = 4_096;
/// Distance by which a number may lie behind: commands that are sent again, immediate ones.
const BEHIND: i64 = 256;
/// Most headers that the cut or missing packets at an edge of the capture are taken to hide: the command window of open-iscsi
/// (node.session.cmds_max) and of tgt.
const EDGE_MAX: u64 = 128;
/// Least number of unknown bytes of a header that cannot be framed.
const UNKNOWN_MIN: u64 = BHS_LEN as u64 - 19;
/// Text and logout requests of a session.
const ONCE: u64 = 2;
/// Most pings in a second: initiators ping every 5 seconds (open-iscsi, node.conn[0].timeo.noop_out_interval) or less
/// often.
const PING_NS: u64 = 1_000_000_000;

impl NumberLedger {
    /// Takes the number of a login, which no other one was before.
    pub(crate) fn begin(&mut self, number: u32, t_ns: u64) {
        if self.next.is_none() {
            (self.begun, self.last_ns) = (true, t_ns);
            self.next = Some(serial::first(number));
        }
    }

    /// Takes unknown bytes that may hide headers.
    pub(crate) fn pass(&mut self, hidden: Hidden) {
        self.since = self.since.with(hidden);
    }

    /// Takes the number of a visible PDU; false if it does not continue the numbers before. `advances` if the next PDU has
    /// the next number, `is_other` if it is no command or no status of one.
    pub(crate) fn take(&mut self, number: u32, t_ns: u64, advances: bool, is_other: bool) -> bool {
        let since = std::mem::take(&mut self.since);
        self.others[0] += u64::from(is_other && advances);
        self.others[1] += u64::from(advances);
        let passed_ns = t_ns.saturating_sub(self.last_ns);
        self.last_ns = t_ns;
        let Some(next) = self.next else {
            self.head = since;
            self.next = Some(serial::first(number) + u64::from(advances));
            return false;
        };
        let at = serial::near(next, number);
        let Some(gap) = at.checked_sub(next) else { return false };
        self.next = Some(at + u64::from(advances));
        match since {
            _ if gap == 0 || gap > NEAR as u64 => {}
            Hidden { cut: 0, missing: 0, .. } => self.foreign += gap,
            Hidden { cut, missing: 0, parts } => {
                self.hidden += gap.min(headers_most(cut));
                self.densest = self.densest.max(gap.div_ceil(parts.max(1)));
                self.hidden_ns += passed_ns;
            }
            Hidden { cut, missing, .. } => self.missing += gap.min(headers_most(cut + missing)),
        }
        gap == 0
    }

    /// Takes the next number as the other side expects it: those before it were received.
    pub(crate) fn acknowledge(&mut self, number: u32) {
        if let Some(next) = self.next
            && self.distance(number).is_some_and(|distance| (0..=NEAR).contains(&distance))
        {
            self.acknowledged = self.acknowledged.max(Some(serial::near(next, number)));
        }
    }

    /// Distance of a number from the next one.
    fn distance(&self, number: u32) -> Option<i64> {
        self.next.map(|next| i64::from(number.wrapping_sub(next as u32) as i32))
    }

    /// True if a number continues those before, false if it is far from them; `None` before the first one.
    pub(crate) fn continues(&self, number: u32) -> Option<bool> {
        self.distance(number).map(|distance| (-BEHIND..=NEAR).contains(&distance))
    }

    /// True if any number was visible.
    pub(crate) fn is_known(&self) -> bool {
        self.next.is_some()
    }

    /// True if the first number is that of the login.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Bounds of the hidden commands or statuses; `tail` are unknown bytes at the end.
    pub(crate) fn hidden(&self, tail: Hidden) -> HiddenBounds {
        let edge = |hidden: Hidden| {
            let most = headers_most(hidden.cut + hidden.missing).min(EDGE_MAX);
            // A part hides no more than those whose numbers are known.
            if hidden.missing > 0 { most } else { most.min(hidden.parts * self.densest.max(1)) }
        };
        let tail = self.since.with(tail);
        let received = self.acknowledged.zip(self.next).map_or(0, |(end, next)| end.saturating_sub(next));
        // Those for which there is no room at the end have passed on another connection, or the number is none.
        let received = received.min(headers_most(tail.cut + tail.missing));
        let certain = self.hidden + received;
        // Besides those that are seen, others are rare: text and logout once, pings every few seconds.
        let others = certain * self.others[0] / self.others[1].max(1) + ONCE + self.hidden_ns / PING_NS;
        let others = if self.foreign > 0 { certain } else { others };
        HiddenBounds {
            least: certain.saturating_sub(others),
            most: certain + self.missing + edge(self.head) + edge(tail),
        }
    }
}

/// Most headers in so many unknown bytes.
fn headers_most(unknown: u64) -> u64 {
    unknown.checked_sub(UNKNOWN_MIN).map_or(0, |rest| 1 + rest / BHS_LEN as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(cut: u64) -> Hidden {
        Hidden { cut, missing: 0, parts: cut.div_ceil(1_400) }
    }

    /// Numbers from 0xffff_fff0 on, with `hidden` bytes before the one at each place.
    fn ledger(numbers: &[(u32, u64)]) -> NumberLedger {
        let mut ledger = NumberLedger::default();
        for (number, hidden) in numbers {
            ledger.pass(cut(*hidden));
            ledger.take(0xffff_fff0_u32.wrapping_add(*number), 0, true, false);
        }
        ledger
    }

    #[test]
    fn without_hidden_bytes_nothing_is_hidden() {
        let all = (0..100).map(|n| (n, 0)).collect::<Vec<_>>();
        assert_eq!(ledger(&all).hidden(Hidden::default()), HiddenBounds { least: 0, most: 0 });
        // Every other command passes on another connection.
        let half = (0..100).map(|n| (2 * n, 0)).collect::<Vec<_>>();
        assert_eq!(ledger(&half).hidden(Hidden::default()), HiddenBounds { least: 0, most: 0 });
    }

    #[test]
    fn numbers_count_what_is_hidden() {
        let found = ledger(&[(0, 0), (1, 0), (21, 5_000), (22, 0)]).hidden(Hidden::default());
        assert_eq!(found, HiddenBounds { least: 17, most: 19 });
        let few = ledger(&[(0, 0), (21, 100)]).hidden(Hidden::default());
        assert_eq!(few.most, 2, "there is no room for more");
    }

    #[test]
    fn edges_are_bounded_by_their_bytes_and_by_windows() {
        let found = ledger(&[(0, 200), (1, 0)]).hidden(cut(1 << 20));
        assert_eq!(found, HiddenBounds { least: 0, most: 1 + EDGE_MAX });
        let mut begun = NumberLedger::default();
        begun.begin(7, 0);
        begun.pass(cut(100));
        begun.take(8, 0, true, false);
        assert_eq!(begun.hidden(Hidden::default()).most, 1);
        begun.acknowledge(20);
        assert_eq!(begun.hidden(cut(0)).most, 1, "no room for those that are acknowledged");
        assert_eq!(begun.hidden(cut(12 * BHS_LEN as u64)).most, 13);
    }

    #[test]
    fn a_hole_in_the_capture_invents_nothing() {
        let mut ledger = ledger(&[(0, 0), (1, 0)]);
        ledger.pass(Hidden { cut: 0, missing: 1 << 30, parts: 1 });
        ledger.take(0x0100_0000, 0, true, false);
        assert_eq!(ledger.hidden(Hidden::default()), HiddenBounds { least: 0, most: 0 });
        ledger.pass(Hidden { cut: 0, missing: 480, parts: 1 });
        ledger.take(0x0100_0005, 0, true, false);
        assert_eq!(ledger.hidden(Hidden::default()), HiddenBounds { least: 0, most: 4 });
    }
}
