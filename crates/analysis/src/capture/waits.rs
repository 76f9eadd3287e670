//! Where the time of a connection goes: every stretch between two packets is somebody's.
//!
//! What has just passed says who can go on. A direction that stopped within a PDU has bytes in hand, so TCP or the line
//! keeps it; one that stopped between PDUs waits for a command, an R2T, a store. A command that was sent longer ago
//! than the fastest round trip, and of which nothing is to be heard, waits for the other end. What remains is the way:
//! also between an answer and the next command, for as long as both need to the initiator and back.

use serde::Serialize;

/// The sums, in ns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TimeSpent {
    before: Before,
    last_ns: Option<u64>,
    recovery: u64,
    receive_window: u64,
    sending: u64,
    idle: u64,
    ends: [u64; 2],
    closed: u64,
    r2t: f64,
    way: f64,
    /// Without a command, since the last one ended; it counts when there is another one.
    pending: Pending,
}

/// Time without a command.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    way: u64,
    closed: u64,
    idle: u64,
}

/// How things stood after a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Before {
    /// Commands without their status.
    pub(super) open: usize,
    /// Something that was lost is being sent again.
    pub(super) recovering: bool,
    /// A direction has stopped within a PDU.
    pub(super) in_hand: bool,
    /// That direction, or the other one, fills the window of its receiver.
    pub(super) window_full: bool,
    /// Until when no further command can come, because the initiator knows of no room for one; `u64::MAX` if it has not
    /// been told of any.
    pub(super) closed_until_ns: u64,
    /// When the last command ended, if none is open.
    pub(super) ended_ns: Option<u64>,
    /// Commands that wait for an R2T.
    pub(super) for_r2t: usize,
    /// Since when it is the target's turn, and the initiator's.
    pub(super) since_ns: [Option<u64>; 2],
    /// The fastest round trip from the tap to the target, and to the initiator.
    pub(super) rtt_ns: [u64; 2],
}

/// Where the time went between the first command and the last thing that was heard of one, in seconds. The parts make
/// up the whole.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct TimeUse {
    /// All of it.
    pub length_s: f64,
    /// No command was there, for longer than the last answer and the next command need to the initiator and back.
    pub idle_s: f64,
    /// What was lost was being sent again.
    pub recovery_s: f64,
    /// Data was at hand, and the receiver's window had no room for it.
    pub receive_window_s: f64,
    /// Data was at hand and TCP or the line took no more: the congestion window, the socket's buffer, the rate.
    pub sending_s: f64,
    /// The target was due for longer than the round trip.
    pub target_s: f64,
    /// The initiator was due for longer than the round trip.
    pub initiator_s: f64,
    /// Everything was on its way, and the command window allowed no more.
    pub closed_s: f64,
    /// Everything was on its way, for the share of commands that waited for an R2T.
    pub r2t_s: f64,
    /// Everything was on its way.
    pub way_s: f64,
}

impl TimeSpent {
    /// A packet passes at `t_ns`: what passed since the last one is somebody's.
    pub(super) fn pass(&mut self, t_ns: u64) {
        let Some(last_ns) = self.last_ns else { return };
        let passed = t_ns.saturating_sub(last_ns);
        let before = self.before;
        if before.open == 0 && !before.in_hand {
            self.wait_for_a_command(last_ns, t_ns);
        } else if before.recovering {
            self.recovery += passed;
        } else if before.in_hand && before.window_full {
            self.receive_window += passed;
        } else if before.in_hand {
            self.sending += passed;
        } else {
            self.wait(last_ns, t_ns);
        }
        self.last_ns = Some(last_ns.max(t_ns));
    }

    /// Nobody has anything in hand: up to when a peer is due, it is the way; then that peer.
    fn wait(&mut self, last_ns: u64, t_ns: u64) {
        let mut until_ns = t_ns.max(last_ns);
        let due = |end: usize| {
            let rtt_ns = self.before.rtt_ns[end].min(RTT_MAX_NS);
            self.before.since_ns[end].map(|since| since.saturating_add(rtt_ns + rtt_ns / 4 + TOLERANCE_NS))
        };
        let (target, initiator) = (due(0), due(1));
        let first = target.into_iter().chain(initiator).min();
        if let Some(due_ns) = first.map(|due_ns| due_ns.max(last_ns)).filter(|due_ns| *due_ns < until_ns) {
            self.ends[usize::from(first != target)] += until_ns - due_ns;
            until_ns = due_ns;
        }
        let closed = self.before.closed_until_ns.clamp(last_ns, until_ns) - last_ns;
        self.closed += closed;
        let way = (until_ns - last_ns - closed) as f64;
        let share = self.before.for_r2t as f64 / self.before.open.max(1) as f64;
        self.r2t += way * share;
        self.way += way * (1.0 - share);
    }

    /// Nothing is open: an answer and what is asked for after it are on their way, then nobody asks for anything.
    fn wait_for_a_command(&mut self, last_ns: u64, t_ns: u64) {
        let until_ns = t_ns.max(last_ns);
        let rtt_ns = self.before.rtt_ns[1].min(RTT_MAX_NS);
        let due_ns = self.before.ended_ns.map_or(0, |ended| ended.saturating_add(rtt_ns + rtt_ns / 4));
        let due_ns = due_ns.clamp(last_ns, until_ns);
        let closed = self.before.closed_until_ns.clamp(last_ns, due_ns) - last_ns;
        self.pending.closed += closed;
        self.pending.way += due_ns - last_ns - closed;
        self.pending.idle += until_ns - due_ns;
    }

    /// How things stand after it; the time begins with the first command.
    pub(super) fn stand(&mut self, t_ns: u64, before: Before) {
        self.before = before;
        if before.open > 0 {
            self.last_ns.get_or_insert(t_ns);
            let Pending { way, closed, idle } = std::mem::take(&mut self.pending);
            self.way += way as f64;
            self.closed += closed;
            self.idle += idle;
        }
    }

    /// `None` if no command was seen. The time behind the last status is nobody's.
    pub(super) fn told(&self) -> Option<TimeUse> {
        self.last_ns?;
        let seconds = |ns: u64| ns as f64 / 1e9;
        let mut told = TimeUse {
            length_s: 0.0,
            idle_s: seconds(self.idle),
            recovery_s: seconds(self.recovery),
            receive_window_s: seconds(self.receive_window),
            sending_s: seconds(self.sending),
            target_s: seconds(self.ends[0]),
            initiator_s: seconds(self.ends[1]),
            closed_s: seconds(self.closed),
            r2t_s: self.r2t / 1e9,
            way_s: self.way / 1e9,
        };
        told.length_s = told.idle_s
            + told.recovery_s
            + told.receive_window_s
            + told.sending_s
            + told.target_s
            + told.initiator_s
            + told.closed_s
            + told.r2t_s
            + told.way_s;
        Some(told)
    }
}

/// What a peer may take besides the round trip before it is said to be waited for, in ns.
const TOLERANCE_NS: u64 = 100_000;

/// No way is longer, in ns.
const RTT_MAX_NS: u64 = 1 << 50;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn told(steps: &[(u64, Before)]) -> TimeUse {
        let mut spent = TimeSpent::default();
        for (t_ns, before) in steps {
            spent.pass(*t_ns);
            spent.stand(*t_ns, *before);
        }
        spent.told().expect("a command")
    }

    fn near(found: f64, ms: f64) {
        assert!((found * 1e3 - ms).abs() < 1e-6, "{found} s, expected {ms} ms");
    }

    #[test]
    fn a_slow_target_and_the_way_to_it() {
        let since_ns = [Some(0), None];
        let asked = Before { open: 1, since_ns, rtt_ns: [8 * MS, 0], ..Before::default() };
        let found = told(&[(0, asked), (30 * MS, Before::default()), (35 * MS, asked)]);
        near(found.way_s, 10.1);
        near(found.target_s, 19.9);
        near(found.idle_s, 5.0);
        near(found.length_s, 35.0);
    }

    #[test]
    fn an_answer_and_the_next_command_are_on_their_way_beside_the_target() {
        let rtt_ns = [0, 8 * MS];
        let asked = Before { open: 1, rtt_ns, ..Before::default() };
        let ended = |ns| Before { ended_ns: Some(ns), rtt_ns, ..Before::default() };
        // Its acknowledgement, the next command in time, and one that is asked for 15 ms later than it could have been.
        let steps =
            [(0, asked), (MS, ended(MS)), (9 * MS, ended(MS)), (9 * MS, asked), (10 * MS, ended(10 * MS))];
        let in_time = told(&steps);
        near(in_time.way_s, 10.0);
        near(in_time.length_s, 10.0);
        let more = [(33 * MS, asked), (34 * MS, ended(34 * MS)), (90 * MS, ended(34 * MS))];
        let late = told(&[steps.as_slice(), &more].concat());
        near(late.idle_s, 13.0);
        near(late.way_s, 21.0);
        near(late.length_s, 34.0);
    }

    #[test]
    fn a_window_that_the_initiator_does_not_know_to_be_open_is_closed() {
        let rtt_ns = [0, 8 * MS];
        let asked = Before { open: 1, rtt_ns, closed_until_ns: u64::MAX, ..Before::default() };
        let ended = Before { ended_ns: Some(MS), rtt_ns, closed_until_ns: 9 * MS, ..Before::default() };
        let found = told(&[(0, asked), (MS, ended), (10 * MS, asked)]);
        near(found.closed_s, 9.0);
        near(found.way_s, 1.0);
        near(found.idle_s, 0.0);
    }

    #[test]
    fn what_is_in_hand_is_not_waited_for() {
        let sending = Before { open: 1, in_hand: true, ..Before::default() };
        let full = Before { window_full: true, ..sending };
        let again = Before { recovering: true, ..full };
        let found = told(&[(0, sending), (MS, full), (3 * MS, again), (7 * MS, Before::default())]);
        near(found.sending_s, 1.0);
        near(found.receive_window_s, 2.0);
        near(found.recovery_s, 4.0);
    }

    #[test]
    fn a_closed_window_and_r2ts_share_the_way() {
        let r2t = Before { open: 4, for_r2t: 3, ..Before::default() };
        let closed = Before { closed_until_ns: u64::MAX, ..r2t };
        let found = told(&[(0, r2t), (4 * MS, closed), (6 * MS, Before::default())]);
        near(found.r2t_s, 3.0);
        near(found.way_s, 1.0);
        near(found.closed_s, 2.0);
    }
}
