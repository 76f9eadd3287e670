//! Breakdown of a connection's time: every interval between two packets has one cause.
//!
//! The state after a packet tells the cause of the interval that follows. A direction that stopped within a PDU has data
//! to send, so TCP or the link holds it back; one that stopped between PDUs waits for a command, an R2T or the store. A
//! command that is silent for longer than the fastest round trip waits for the peer whose turn it is. The rest is
//! propagation, also between an answer and the next command for as long as both travel to the initiator and back.

use serde::Serialize;

use crate::figures::late_round_trip::ChargedRoundTrips;

/// Sums of time by cause, in ns.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimeAccount {
    activity: Activity,
    last_ns: Option<u64>,
    unseen: u64,
    recovery: u64,
    refused: u64,
    /// By the direction whose data waited; the last of both at a time.
    receive_window: [u64; 3],
    sending: u64,
    idle: u64,
    /// Time of the target, and of the initiator.
    peers: [u64; 2],
    closed: u64,
    r2t: f64,
    way: f64,
    round_trips: ChargedRoundTrips,
    /// Time since the last command ended; it counts as soon as another command follows.
    pending: Pending,
}

/// Time without a command.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    way: u64,
    closed: u64,
    idle: u64,
    refused: u64,
}

/// State of a connection after a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Activity {
    /// The place in a direction's PDUs is unknown.
    pub(crate) unseen: bool,
    /// Outstanding commands.
    pub(crate) outstanding: usize,
    /// TCP is in loss recovery.
    pub(crate) recovering: bool,
    /// TCP retransmits a segment again and again without progress, which an answer may wait for that passed the tap.
    pub(crate) is_stalled: bool,
    /// The target had no room for the last command that it answered: BUSY or TASK SET FULL.
    pub(crate) is_refused: bool,
    /// A direction has stopped within a PDU.
    pub(crate) within_pdu: bool,
    /// Directions that have stopped within a PDU and fill the window of their receiver.
    pub(crate) window_full: [bool; 2],
    /// Time in ns before which no further command can arrive, because the initiator knows of no room in the command
    /// window; `u64::MAX` while none was advertised.
    pub(crate) closed_until_ns: u64,
    /// End of the last command in ns, if none is outstanding.
    pub(crate) ended_ns: Option<u64>,
    /// Commands that wait for an R2T.
    pub(crate) for_r2t: usize,
    /// Begin of the target's turn, and of the initiator's, in ns.
    pub(crate) turn_since_ns: [Option<u64>; 2],
    /// Fastest round trip from the tap to the target, and to the initiator, in ns.
    pub(crate) rtt_ns: [u64; 2],
}

/// Breakdown of the time between the first command and the last event of a command, in seconds. The parts add up to the
/// whole.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct TimeUse {
    /// Sum of all parts.
    pub length_s: f64,
    /// Not known: the place in a direction's PDUs was lost, or propagation was told by a round trip that was not the
    /// fastest yet.
    pub unseen_s: f64,
    /// No outstanding command, beyond the time that the last answer and the next command take to the initiator and back.
    pub idle_s: f64,
    /// Loss recovery.
    pub recovery_s: f64,
    /// From a command that the target had no room for, BUSY or TASK SET FULL, to the next one with another status.
    pub refused_s: f64,
    /// Data to send, held back by the receive window.
    pub receive_window_s: f64,
    /// Data to send, held back by TCP or the link: congestion window, socket buffer, rate.
    pub sending_s: f64,
    /// The target's turn, beyond the round trip to it.
    pub target_s: f64,
    /// The initiator's turn, beyond the round trip to it.
    pub initiator_s: f64,
    /// Propagation while the command window permits no further command.
    pub closed_s: f64,
    /// Propagation, the share of commands that wait for an R2T.
    pub r2t_s: f64,
    /// Propagation, the rest.
    pub way_s: f64,
}

impl TimeAccount {
    /// Charges the interval up to a packet at `t_ns` to its cause.
    pub(crate) fn charge(&mut self, t_ns: u64) {
        let Some(last_ns) = self.last_ns else { return };
        let passed = t_ns.saturating_sub(last_ns);
        let activity = self.activity;
        if activity.is_stalled {
            self.recovery += passed;
        } else if activity.unseen {
            self.unseen += passed;
        } else if activity.outstanding == 0 && !activity.within_pdu {
            self.charge_idle(last_ns, t_ns);
        } else if activity.recovering {
            self.recovery += passed;
        } else if activity.within_pdu && activity.window_full != [false; 2] {
            let [first, second] = activity.window_full;
            self.receive_window[usize::from(second) + usize::from(first && second)] += passed;
        } else if activity.within_pdu {
            self.sending += passed;
        } else if activity.is_refused {
            self.refused += passed;
        } else {
            self.charge_wait(last_ns, t_ns);
        }
        self.last_ns = Some(last_ns.max(t_ns));
    }

    /// Leaves out the time between two moments, which nobody watched.
    pub(crate) fn skip(&mut self, from_ns: u64, to_ns: u64) {
        self.charge(from_ns);
        self.last_ns = self.last_ns.map(|last_ns| last_ns.max(to_ns));
    }

    /// Charges what was charged to the receive window of a direction's data to TCP: it is not known to have been full.
    /// Time in which the other direction's window was full as well is that window's.
    pub(crate) fn retract_receive_window(&mut self, direction: usize) {
        self.sending += std::mem::take(&mut self.receive_window[direction]);
        self.receive_window[1 - direction] += std::mem::take(&mut self.receive_window[2]);
    }

    /// Charges an interval without data to send: propagation until a peer is due, then that peer.
    fn charge_wait(&mut self, last_ns: u64, t_ns: u64) {
        let mut until_ns = t_ns.max(last_ns);
        let due = |peer: usize| {
            let rtt_ns = self.activity.rtt_ns[peer].min(RTT_MAX_NS);
            self.activity.turn_since_ns[peer]
                .map(|since| since.saturating_add(rtt_ns + rtt_ns / 4 + TOLERANCE_NS))
        };
        let (target, initiator) = (due(0), due(1));
        let first = target.into_iter().chain(initiator).min();
        if let Some(due_ns) = first.map(|due_ns| due_ns.max(last_ns)).filter(|due_ns| *due_ns < until_ns) {
            self.peers[usize::from(first != target)] += until_ns - due_ns;
            until_ns = due_ns;
        }
        let closed = self.activity.closed_until_ns.clamp(last_ns, until_ns) - last_ns;
        self.closed += closed;
        self.round_trips.add(self.activity.rtt_ns[0], until_ns - last_ns - closed);
        let way = (until_ns - last_ns - closed) as f64;
        let share = self.activity.for_r2t as f64 / self.activity.outstanding.max(1) as f64;
        self.r2t += way * share;
        self.way += way * (1.0 - share);
    }

    /// Charges an interval without a command: propagation of an answer and of the next command, then idle time.
    fn charge_idle(&mut self, last_ns: u64, t_ns: u64) {
        let until_ns = t_ns.max(last_ns);
        let rtt_ns = self.activity.rtt_ns[1].min(RTT_MAX_NS);
        let due_ns = self.activity.ended_ns.map_or(0, |ended| ended.saturating_add(rtt_ns + rtt_ns / 4));
        if self.activity.is_refused {
            let again_ns = due_ns.saturating_add(RETRY_NS).clamp(last_ns, until_ns);
            self.pending.refused += again_ns - last_ns;
            self.pending.idle += until_ns - again_ns;
            return;
        }
        let due_ns = due_ns.clamp(last_ns, until_ns);
        let closed = self.activity.closed_until_ns.clamp(last_ns, due_ns) - last_ns;
        self.pending.closed += closed;
        self.pending.way += due_ns - last_ns - closed;
        self.pending.idle += until_ns - due_ns;
    }

    /// Sets the state after a packet at `t_ns`. The account begins with the first command.
    pub(crate) fn set_activity(&mut self, t_ns: u64, activity: Activity) {
        self.activity = activity;
        if activity.is_stalled {
            // Waiting for an answer that did not arrive is no idle time.
            let Pending { way, closed, idle, refused } = std::mem::take(&mut self.pending);
            self.recovery += way + closed + idle + refused;
        }
        if activity.outstanding > 0 {
            self.last_ns.get_or_insert(t_ns);
            let Pending { way, closed, idle, refused } = std::mem::take(&mut self.pending);
            self.refused += refused;
            self.way += way as f64;
            self.closed += closed;
            self.idle += idle;
        }
    }

    /// Breakdown; `None` without a command. The time after the last status is left out.
    pub(crate) fn summary(&self) -> Option<TimeUse> {
        self.last_ns?;
        let seconds = |ns: u64| ns as f64 / 1e9;
        let late = self.round_trips.late_share(self.activity.rtt_ns[0]);
        let mut time = TimeUse {
            length_s: 0.0,
            unseen_s: seconds(self.unseen) + late * (self.r2t + self.way) / 1e9,
            idle_s: seconds(self.idle),
            recovery_s: seconds(self.recovery),
            refused_s: seconds(self.refused),
            receive_window_s: seconds(self.receive_window.iter().sum()),
            sending_s: seconds(self.sending),
            target_s: seconds(self.peers[0]),
            initiator_s: seconds(self.peers[1]),
            closed_s: seconds(self.closed),
            r2t_s: self.r2t * (1.0 - late) / 1e9,
            way_s: self.way * (1.0 - late) / 1e9,
        };
        time.length_s = time.unseen_s
            + time.idle_s
            + time.recovery_s
            + time.refused_s
            + time.receive_window_s
            + time.sending_s
            + time.target_s
            + time.initiator_s
            + time.closed_s
            + time.r2t_s
            + time.way_s;
        Some(time)
    }
}

/// Processing time in ns that a peer has besides the round trip before it is due.
const TOLERANCE_NS: u64 = 100_000;

/// Time in ns after which a host sends a refused command again: 3 ms in Linux (SCSI_QUEUE_DELAY), 250 ms in Windows
/// (Storport's BusyPauseTime). A longer pause is the caller's.
const RETRY_NS: u64 = 250_000_000;

/// Upper limit of a round trip, in ns.
const RTT_MAX_NS: u64 = 1 << 50;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn time_use(steps: &[(u64, Activity)]) -> TimeUse {
        let mut account = TimeAccount::default();
        for (t_ns, activity) in steps {
            account.charge(*t_ns);
            account.set_activity(*t_ns, *activity);
        }
        account.summary().expect("a command")
    }

    fn near(found: f64, ms: f64) {
        assert!((found * 1e3 - ms).abs() < 1e-6, "{found} s, expected {ms} ms");
    }

    #[test]
    fn a_slow_target_and_the_way_to_it() {
        let turn_since_ns = [Some(0), None];
        let asked = Activity { outstanding: 1, turn_since_ns, rtt_ns: [8 * MS, 0], ..Activity::default() };
        let found = time_use(&[(0, asked), (30 * MS, Activity::default()), (35 * MS, asked)]);
        near(found.way_s, 10.1);
        near(found.target_s, 19.9);
        near(found.idle_s, 5.0);
        near(found.length_s, 35.0);
    }

    #[test]
    fn an_answer_and_the_next_command_propagate_beside_the_target() {
        let rtt_ns = [0, 8 * MS];
        let asked = Activity { outstanding: 1, rtt_ns, ..Activity::default() };
        let ended = |ns| Activity { ended_ns: Some(ns), rtt_ns, ..Activity::default() };
        // Its acknowledgement, the next command in time, and one that is asked for 15 ms later than it could have been.
        let steps =
            [(0, asked), (MS, ended(MS)), (9 * MS, ended(MS)), (9 * MS, asked), (10 * MS, ended(10 * MS))];
        let in_time = time_use(&steps);
        near(in_time.way_s, 10.0);
        near(in_time.length_s, 10.0);
        let more = [(33 * MS, asked), (34 * MS, ended(34 * MS)), (90 * MS, ended(34 * MS))];
        let late = time_use(&[steps.as_slice(), &more].concat());
        near(late.idle_s, 13.0);
        near(late.way_s, 21.0);
        near(late.length_s, 34.0);
    }

    #[test]
    fn the_time_after_a_refusal_is_refused_until_another_status() {
        let asked = Activity { outstanding: 1, ..Activity::default() };
        let refused = Activity { is_refused: true, ended_ns: Some(MS), ..Activity::default() };
        let again = Activity { is_refused: true, ..asked };
        let done = Activity { ended_ns: Some(9 * MS), ..Activity::default() };
        let steps = [(0, asked), (MS, refused), (4 * MS, again), (9 * MS, done), (10 * MS, asked)];
        let found = time_use(&steps);
        near(found.refused_s, 8.0);
        near(found.length_s, 10.0);
        let last = time_use(&[(0, asked), (MS, refused), (90 * MS, refused)]);
        near(last.refused_s, 0.0);
        near(last.length_s, 1.0);
        let given_up = time_use(&[(0, asked), (MS, refused), (60_001 * MS, asked)]);
        near(given_up.refused_s, 250.0);
        near(given_up.idle_s, 59_750.0);
    }

    #[test]
    fn a_window_that_the_initiator_does_not_know_to_be_open_is_closed() {
        let rtt_ns = [0, 8 * MS];
        let asked = Activity { outstanding: 1, rtt_ns, closed_until_ns: u64::MAX, ..Activity::default() };
        let ended = Activity { ended_ns: Some(MS), rtt_ns, closed_until_ns: 9 * MS, ..Activity::default() };
        let found = time_use(&[(0, asked), (MS, ended), (10 * MS, asked)]);
        near(found.closed_s, 9.0);
        near(found.way_s, 1.0);
        near(found.idle_s, 0.0);
    }

    #[test]
    fn time_without_a_place_in_the_pdus_is_nobodys() {
        let asked = Activity { outstanding: 1, turn_since_ns: [Some(0), None], ..Activity::default() };
        let lost = Activity { unseen: true, ..asked };
        let found = time_use(&[(0, asked), (MS, lost), (9 * MS, asked), (10 * MS, Activity::default())]);
        near(found.unseen_s, 8.0);
        near(found.length_s, 10.0);
    }

    #[test]
    fn data_to_send_is_not_waited_for() {
        let sending = Activity { outstanding: 1, within_pdu: true, ..Activity::default() };
        let full = Activity { window_full: [false, true], ..sending };
        let again = Activity { recovering: true, ..full };
        let found = time_use(&[(0, sending), (MS, full), (3 * MS, again), (7 * MS, Activity::default())]);
        near(found.sending_s, 1.0);
        near(found.receive_window_s, 2.0);
        near(found.recovery_s, 4.0);
    }

    #[test]
    fn a_window_that_was_larger_takes_back_its_own_time_alone() {
        let sending = Activity { outstanding: 1, within_pdu: true, ..Activity::default() };
        let full = |first, second| Activity { window_full: [first, second], ..sending };
        let mut account = TimeAccount::default();
        for (ms, activity) in
            [(0, full(true, false)), (3, full(true, true)), (5, full(false, true)), (7, sending)]
        {
            account.charge(ms * MS);
            account.set_activity(ms * MS, activity);
        }
        let before = account.summary().expect("a command");
        near(before.receive_window_s, 7.0);
        for (direction, receive_window_ms, sending_ms) in [(0, 4.0, 3.0), (1, 0.0, 7.0)] {
            account.retract_receive_window(direction);
            let found = account.summary().expect("a command");
            near(found.receive_window_s, receive_window_ms);
            near(found.sending_s, sending_ms);
        }
    }

    #[test]
    fn a_closed_window_and_r2ts_share_the_way() {
        let r2t = Activity { outstanding: 4, for_r2t: 3, ..Activity::default() };
        let closed = Activity { closed_until_ns: u64::MAX, ..r2t };
        let found = time_use(&[(0, r2t), (4 * MS, closed), (6 * MS, Activity::default())]);
        near(found.r2t_s, 3.0);
        near(found.way_s, 1.0);
        near(found.closed_s, 2.0);
    }
}
