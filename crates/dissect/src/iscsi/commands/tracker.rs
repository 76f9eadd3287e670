//! Commands and their answers: service times, R2Ts, turns of target and initiator.

use wire::iscsi::Opcode;

use crate::budget::MemoryBudget;
use crate::figures::level::{Level, LevelSummary};
use crate::iscsi::commands::count::Count;
use crate::iscsi::commands::counts::{CommandCounts, CommandTimes, WriteCounts};
use crate::iscsi::commands::numbers::HiddenBounds;
use crate::iscsi::commands::statuses::{LatestStatuses, is_refusal};
use crate::iscsi::commands::summary::CommandSummary;
use crate::iscsi::commands::table::{CommandRequest, CommandTable, OutstandingCommand, Transfer, Turn};
use crate::iscsi::pdu::FramedPdu;

/// One in so many inferred statuses may be of another command than was taken: half of what bounds may be apart.
const INFERRED_DOUBT: u64 = 10;
/// Most commands outstanding at the beginning of a capture in mid-connection, whose statuses do not count: the command
/// window of open-iscsi and tgt.
const BEFORE_MAX: u64 = 128;
/// Completed commands after which a status must have passed unseen: minimum, and per outstanding command.
const OVERTAKEN: [u64; 2] = [1024, 64];
/// The same if sync was lost since the request.
const OVERTAKEN_IN_DOUBT: [u64; 2] = [2, 2];

/// Commands that have ended, withdrawn ones included.
#[derive(Clone, Copy, Debug, Default)]
struct EndedCommands {
    count: u64,
    /// Most of them in the time of one command of which both headers are visible.
    queue: u64,
}

/// Commands of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandTracker {
    pub(crate) table: CommandTable,
    /// True if the target sends the status of a read in the last Data-In; `None` if unknown.
    pub(crate) phase_collapse: Option<bool>,
    /// Commands that wait for an R2T.
    pub(crate) for_r2t: usize,
    /// Begin of the target's turn, and of the initiator's, in ns.
    pub(crate) turns_since_ns: [Option<u64>; 2],
    /// End of the last command, in ns.
    pub(crate) ended_ns: Option<u64>,
    /// Number of the last packet in which statuses may have passed unseen.
    pub(crate) doubt_packet: u64,
    /// Number of the last packet in which a command may have passed unseen.
    pub(crate) hidden_packet: u64,
    /// True if task tags grow evenly: none is in use again soon.
    pub(crate) tags_grow: bool,
    ended: EndedCommands,
    statuses: LatestStatuses,
    in_flight: Level,
    bytes_in_flight: Level,
    counts: CommandCounts,
    writes: WriteCounts,
    times: CommandTimes,
}

impl CommandTracker {
    /// Takes a SCSI command; `rtt_ns` is the fastest round trip from the tap to the initiator.
    pub(crate) fn request(&mut self, pdu: &FramedPdu, rtt_ns: u64, budget: &MemoryBudget) {
        let flags = pdu.byte(1).unwrap_or(0);
        let bytes = pdu.word(20).unwrap_or(0);
        let t_ns = pdu.last.t_ns;
        // Without the final bit unsolicited Data-Out follows.
        let more = flags & 0xa0 == 0x20 && u64::from(bytes) > pdu.data_len;
        let command = OutstandingCommand {
            request: CommandRequest {
                cmd_sn: pdu.word(24),
                operation: pdu.byte(32),
                lun: pdu.word(8).zip(pdu.word(12)),
                bytes,
                read: flags & 0x40 != 0,
                write: flags & 0x20 != 0,
                packet: pdu.last,
                inferred: pdu.inferred,
                timed: pdu.is_timed(),
            },
            transfer: Transfer {
                data_out: pdu.data_len,
                permitted: pdu.data_len,
                last_out_ns: (pdu.data_len > 0).then_some(t_ns),
                ..Transfer::default()
            },
            turn: if more { Turn::Initiator } else { Turn::Target },
            turn_ns: t_ns,
            completed_before: self.ended.count,
            overtaken: 0,
            inferred: pdu.inferred,
            answered: false,
            first_answer_ns: None,
        };
        self.counts.sent += 1;
        // Without its number a visible one is among those that the numbers add.
        self.counts.sent_inferred += u64::from(pdu.inferred || pdu.word(24).is_none());
        let is_soon = |ended: u64| t_ns.saturating_sub(ended) < rtt_ns - rtt_ns / 4;
        let overlaps = self.table.len() > 0 || self.ended_ns.is_some_and(is_soon);
        self.counts.overlapping += u64::from(overlaps);
        self.counts.written_bytes += pdu.data_len;
        let Ok(replaced) = self.table.add(pdu.itt(), command, budget) else {
            self.counts.unanswered += 1;
            return;
        };
        let mut level = self.in_flight.now() + 1;
        let mut level_bytes = self.bytes_in_flight.now() + u64::from(bytes);
        self.for_r2t += usize::from(command.waits_for_r2t());
        if let Some(old) = replaced {
            self.for_r2t -= usize::from(old.waits_for_r2t());
            self.counts.unanswered += 1;
            (level, level_bytes) = (level - 1, level_bytes.saturating_sub(u64::from(old.request.bytes)));
        }
        self.in_flight.set(t_ns, level);
        self.bytes_in_flight.set(t_ns, level_bytes);
        self.turns_since_ns = self.table.turns_since_ns(self.ended.count, self.ended.queue);
    }

    /// Takes data, an R2T or a status; returns the command if it is complete.
    pub(crate) fn answer(&mut self, pdu: &FramedPdu, budget: &MemoryBudget) -> Option<OutstandingCommand> {
        match pdu.opcode {
            Opcode::DataIn => self.counts.read_bytes += pdu.data_len,
            Opcode::DataOut => self.counts.written_bytes += pdu.data_len,
            Opcode::ScsiResponse => self.learn_separate_status(pdu.itt()),
            _ => {}
        }
        let Some(command) = self.table.get_mut(pdu.itt()) else {
            self.counts.unmatched += u64::from(pdu.has_status() && !pdu.inferred);
            return None;
        };
        command.inferred |= pdu.inferred;
        let is_visible = !command.inferred;
        let waited = command.waits_for_r2t();
        if pdu.opcode != Opcode::DataOut && !command.answered {
            command.answered = true;
            let request_ns = command.request.packet.t_ns;
            if is_visible && command.request.timed {
                command.first_answer_ns = Some(pdu.first.t_ns.saturating_sub(request_ns));
            }
        }
        match pdu.opcode {
            Opcode::R2t => r2t(command, pdu, &mut self.writes),
            Opcode::DataOut => {
                if let Some(turn_ns) = data_out(command, pdu).filter(|_| is_visible) {
                    self.times.initiator_turn.add(turn_ns);
                }
            }
            Opcode::DataIn => {
                if let Some(collapse) = data_in(command, pdu) {
                    self.phase_collapse = Some(collapse);
                }
            }
            _ => {}
        }
        self.for_r2t = self.for_r2t + usize::from(command.waits_for_r2t()) - usize::from(waited);
        let done = if pdu.has_status() { self.complete(pdu, budget) } else { None };
        // Data-In without a status changes no turn.
        if pdu.opcode != Opcode::DataIn || done.is_some() {
            self.turns_since_ns = self.table.turns_since_ns(self.ended.count, self.ended.queue);
        }
        done
    }

    /// Learns from a SCSI Response whether the target sends the status of reads separately. A read whose last header was
    /// hidden may have been completed too early.
    fn learn_separate_status(&mut self, itt: u32) {
        let has_inferred = self.counts.status_inferred > 0;
        let of_read = self.table.get(itt).map_or(has_inferred, OutstandingCommand::is_read_complete);
        if of_read {
            self.phase_collapse.get_or_insert(false);
        }
    }

    fn complete(&mut self, pdu: &FramedPdu, budget: &MemoryBudget) -> Option<OutstandingCommand> {
        let mut command = self.table.remove(pdu.itt(), budget)?;
        self.for_r2t -= usize::from(command.waits_for_r2t());
        let t_ns = pdu.last.t_ns;
        self.ended_ns = self.ended_ns.max(Some(t_ns));
        command.overtaken = self.ended.count - command.completed_before;
        self.ended.count += 1;
        self.counts.completed += 1;
        self.counts.status_inferred += u64::from(pdu.inferred || pdu.word(24).is_none());
        self.counts.inferred += u64::from(command.inferred);
        if !pdu.provisional {
            self.settle(&command, pdu);
        }
        self.lower(t_ns, &command);
        while !pdu.provisional
            && let Some((itt, _)) = self.table.first().filter(|(_, first)| self.is_overtaken(first))
        {
            self.forget(itt, t_ns, budget);
        }
        Some(command)
    }

    /// Takes the times and the status of a command that `pdu` has completed; a provisional one as soon as it is confirmed.
    pub(crate) fn settle(&mut self, command: &OutstandingCommand, pdu: &FramedPdu) {
        let OutstandingCommand { request, transfer, .. } = command;
        self.statuses.take(pdu);
        let is_refused = is_refusal(pdu);
        // An answer without data is no measure of the store, and a refusal is none of anything.
        if let Some(ns) = command.first_answer_ns.filter(|_| !is_refused && request.moves_blocks()) {
            self.times.first_answer.add(ns);
        }
        if let Some(service_ns) = self.service_ns(command, pdu).filter(|_| !is_refused) {
            self.ended.queue = self.ended.queue.max(command.overtaken);
            match (request.read, request.write) {
                (true, _) => self.times.reads.add(service_ns),
                (_, true) => self.times.writes.add(service_ns),
                _ => self.times.others.add(service_ns),
            }
        }
        if pdu.opcode == Opcode::ScsiResponse
            && let Some(read_ns) = transfer.read_ns.filter(|_| !command.inferred)
        {
            self.times.status_alone.add(pdu.first.t_ns.saturating_sub(read_ns));
        }
        if request.write && !command.inferred {
            self.writes.completed += 1;
            if transfer.r2ts == 0 {
                let unsolicited = &mut self.writes.unsolicited_bytes_max;
                *unsolicited = transfer.data_out.max(*unsolicited);
            }
            self.writes.r2ts += u64::from(transfer.r2ts);
            self.writes.r2ts_max = self.writes.r2ts_max.max(transfer.r2ts);
            if let Some(last_ns) = transfer.last_out_ns {
                self.times.status_turn.add(pdu.first.t_ns.saturating_sub(last_ns));
            }
        }
    }

    /// Service time in ns of a command that `pdu` completes, if both headers are visible and are of one command: behind a
    /// hidden command its tag may be in use again.
    pub(crate) fn service_ns(&self, command: &OutstandingCommand, pdu: &FramedPdu) -> Option<u64> {
        let request = &command.request;
        let is_same = self.tags_grow || request.packet.number >= self.hidden_packet;
        let is_timed = request.timed && pdu.is_timed();
        (is_same && is_timed).then(|| pdu.last.t_ns.saturating_sub(request.packet.t_ns))
    }

    /// Statuses behind `acked` in the target's stream.
    pub(crate) fn undelivered(&self, acked: u64) -> u64 {
        self.statuses.behind(acked)
    }

    /// True if the target had no room for the last command that it answered.
    pub(crate) fn is_refused(&self) -> bool {
        self.statuses.is_refused
    }

    /// Time in ns from the oldest command without a status to `now_ns`.
    pub(crate) fn waiting_ns(&self, now_ns: u64) -> Option<u64> {
        let (_, oldest) = self.table.first()?;
        Some(now_ns.saturating_sub(oldest.request.packet.t_ns))
    }

    /// Exchanges the counts with those of a trial.
    pub(crate) fn swap_counts(&mut self, counts: &mut CommandCounts) {
        std::mem::swap(&mut self.counts, counts);
    }

    /// Adds the counts of a confirmed trial.
    pub(crate) fn credit(&mut self, counts: &CommandCounts) {
        self.counts.add(counts);
    }

    /// Withdraws `pdu`: its command was in state `before`.
    pub(crate) fn withdraw(
        &mut self,
        pdu: &FramedPdu,
        before: Option<OutstandingCommand>,
        t_ns: u64,
        budget: &MemoryBudget,
    ) {
        let itt = pdu.itt();
        if pdu.opcode == Opcode::ScsiCommand {
            let is_own = |command: &&OutstandingCommand| {
                // An answer to it shows that it was sent.
                command.request.packet == pdu.last && !command.answered
            };
            if self.table.get(itt).filter(is_own).is_none() {
                return;
            }
            self.take_back(itt, t_ns, budget);
        }
        let Some(before) = before else { return };
        if let Some(command) = self.table.get_mut(itt) {
            if command.request.packet != before.request.packet {
                self.counts.unanswered += 1;
                return;
            }
            self.for_r2t -= usize::from(command.waits_for_r2t());
            *command = before;
        } else if self.table.add(itt, before, budget).is_ok() {
            self.in_flight.set(t_ns, self.in_flight.now() + 1);
            let bytes = self.bytes_in_flight.now() + u64::from(before.request.bytes);
            self.bytes_in_flight.set(t_ns, bytes);
        } else {
            self.counts.unanswered += 1;
            return;
        }
        self.for_r2t += usize::from(before.waits_for_r2t());
        self.turns_since_ns = self.table.turns_since_ns(self.ended.count, self.ended.queue);
    }

    /// Removes a command that was none.
    fn take_back(&mut self, itt: u32, t_ns: u64, budget: &MemoryBudget) {
        if let Some(command) = self.table.remove(itt, budget) {
            self.for_r2t -= usize::from(command.waits_for_r2t());
            self.lower(t_ns, &command);
            self.turns_since_ns = self.table.turns_since_ns(self.ended.count, self.ended.queue);
        }
    }

    /// True if so many commands have completed since the request that its own status must have passed unseen.
    fn is_overtaken(&self, command: &OutstandingCommand) -> bool {
        let is_in_doubt = command.request.packet.number <= self.doubt_packet;
        let [least, per_command] = if is_in_doubt { OVERTAKEN_IN_DOUBT } else { OVERTAKEN };
        let completed_since = self.ended.count.saturating_sub(command.completed_before);
        completed_since > least + per_command * self.table.len() as u64
    }

    /// Removes a command that will have no status.
    pub(crate) fn forget(&mut self, itt: u32, t_ns: u64, budget: &MemoryBudget) {
        let Some(command) = self.table.remove(itt, budget) else { return };
        self.for_r2t -= usize::from(command.waits_for_r2t());
        self.counts.unanswered += 1;
        self.lower(t_ns, &command);
        self.turns_since_ns = self.table.turns_since_ns(self.ended.count, self.ended.queue);
        if self.table.len() == 0 {
            self.ended_ns = self.ended_ns.max(Some(t_ns));
        }
    }

    /// Removes the commands for which `wanted` holds; they will have no status.
    pub(crate) fn forget_all(
        &mut self,
        wanted: impl Fn(&OutstandingCommand) -> bool,
        t_ns: u64,
        budget: &MemoryBudget,
    ) {
        for itt in self.table.tags(wanted) {
            self.forget(itt, t_ns, budget);
        }
    }

    /// Leaves out the time between two moments, which nobody watched: no time of a command spans it.
    pub(crate) fn skip(&mut self, from_ns: u64, to_ns: u64) {
        self.in_flight.skip(from_ns, to_ns);
        self.bytes_in_flight.skip(from_ns, to_ns);
        self.table.lose_times();
    }

    /// Lowers the levels by a command that has ended.
    fn lower(&mut self, t_ns: u64, command: &OutstandingCommand) {
        self.in_flight.set(t_ns, self.in_flight.now().saturating_sub(1));
        let bytes = self.bytes_in_flight.now().saturating_sub(u64::from(command.request.bytes));
        self.bytes_in_flight.set(t_ns, bytes);
    }

    /// Sum of the times in ns by which separate statuses follow their data, of those not shorter than `least_ns`.
    pub(crate) fn status_later_ns(&self, least_ns: u64) -> u64 {
        self.times.status_alone.sum_from(least_ns)
    }

    /// Summary. Levels need a `near_complete` view of all headers, since a status may be missing otherwise; `hidden` are
    /// the commands, and the statuses, that sequence numbers add to the visible ones.
    pub(crate) fn summary(&self, is_near_complete: bool, hidden: HiddenCounts) -> CommandSummary {
        let Self { counts, writes, times, .. } = self;
        let r2ts = || LevelSummary {
            mean: writes.r2ts as f64 / writes.completed as f64,
            max: u64::from(writes.r2ts_max),
        };
        let sent = sent(counts, hidden.commands);
        let completed = completed(counts, sent, &hidden);
        let unanswered = match (sent, completed) {
            (Count::Exact(_), Count::Exact(_)) => Count::Exact(counts.unanswered + self.table.len() as u64),
            _ => Count::Unknown,
        };
        CommandSummary {
            sent,
            completed,
            inferred: counts.inferred,
            unanswered,
            undelivered: 0,
            waiting_s: None,
            read_bytes: counts.read_bytes,
            written_bytes: counts.written_bytes,
            in_flight: self.in_flight.summary().filter(|_| is_near_complete),
            overlapping: is_near_complete.then_some(counts.overlapping),
            bytes_in_flight: self.bytes_in_flight.summary().filter(|_| is_near_complete),
            read_service: times.reads.durations(),
            write_service: times.writes.durations(),
            other_service: times.others.durations(),
            first_answer: times.first_answer.durations(),
            initiator_turn: times.initiator_turn.durations(),
            status_turn: times.status_turn.durations(),
            status_alone: times.status_alone.durations(),
            r2ts_per_write: (writes.completed > 0).then(r2ts),
            r2t_bytes_max: u64::from(writes.r2t_bytes_max),
            unasked_bytes_max: writes.unsolicited_bytes_max,
        }
    }
}

/// Hidden commands and statuses of a connection, by sequence numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HiddenCounts {
    pub(crate) commands: HiddenBounds,
    /// `None` if no number of a status is visible.
    pub(crate) statuses: Option<HiddenBounds>,
    /// True if every header of the target is visible.
    pub(crate) statuses_visible: bool,
    /// True if the beginning of the session is in the capture.
    pub(crate) begun: bool,
}

/// Commands sent: the visible ones, and those that CmdSN adds.
fn sent(counts: &CommandCounts, hidden: HiddenBounds) -> Count {
    let visible = counts.sent - counts.sent_inferred;
    Count::between(visible + hidden.least, visible + hidden.most)
}

/// Commands with a status: the visible ones, and those that StatSN adds or that were inferred and confirmed.
fn completed(counts: &CommandCounts, sent: Count, hidden: &HiddenCounts) -> Count {
    let mut visible = counts.completed - counts.status_inferred;
    let mut unmatched = counts.unmatched;
    if let Some(sent) = sent.exact()
        && hidden.statuses_visible
        && counts.status_inferred == 0
    {
        // A status of an inferred command is one of none where CmdSN leaves no room for that.
        return Count::Exact(visible.min(sent));
    }
    if hidden.begun && counts.status_inferred == 0 {
        // Those of hidden commands; others belong to none.
        visible += std::mem::take(&mut unmatched).min(hidden.commands.most);
    }
    // A confirmed status may be of another command.
    let inferred = counts.status_inferred - counts.status_inferred.div_ceil(INFERRED_DOUBT);
    let by_number = hidden.statuses.map_or(0, |hidden| hidden.least);
    let by_number = if hidden.begun { by_number } else { by_number.saturating_sub(BEFORE_MAX) };
    let (Count::Exact(sent) | Count::Between { most: sent, .. }) = sent else { return Count::Unknown };
    let statuses = hidden.statuses.filter(|_| hidden.begun || visible > 0);
    let most = statuses.map_or(sent, |hidden| visible + unmatched + hidden.most);
    Count::between((visible + inferred.max(by_number)).min(sent), most.min(sent))
}

/// Takes an R2T of a command.
fn r2t(command: &mut OutstandingCommand, pdu: &FramedPdu, writes: &mut WriteCounts) {
    let transfer = &mut command.transfer;
    if transfer.r2ts == 0 {
        writes.unsolicited_bytes_max = writes.unsolicited_bytes_max.max(transfer.data_out);
    }
    transfer.r2ts = transfer.r2ts.saturating_add(1);
    let Some(asked) = pdu.word(44) else {
        transfer.is_open = true;
        transfer.permitted = transfer.permitted.max(u64::from(command.request.bytes));
        command.turn_ns = pdu.last.t_ns;
        return;
    };
    writes.r2t_bytes_max = writes.r2t_bytes_max.max(asked);
    transfer.permitted = transfer.permitted.saturating_add(u64::from(asked));
    // An initiator that still sends earlier data does not wait for this R2T.
    if command.turn == Turn::Target {
        transfer.r2t_ns = Some(pdu.last.t_ns);
        (command.turn, command.turn_ns) = (Turn::Initiator, pdu.last.t_ns);
    }
}

/// Takes a Data-Out of a command; returns the initiator's time since the R2T in ns, if it is the first one after it.
fn data_out(command: &mut OutstandingCommand, pdu: &FramedPdu) -> Option<u64> {
    let transfer = &mut command.transfer;
    transfer.data_out += pdu.data_len;
    transfer.last_out_ns = Some(pdu.last.t_ns);
    let ends_unsolicited = transfer.r2ts == 0 && pdu.byte(1).is_some_and(|flags| flags & 0x80 != 0);
    let ends_solicited = transfer.r2ts > 0 && transfer.data_out >= transfer.permitted;
    if ends_unsolicited {
        transfer.permitted = transfer.data_out;
    }
    let is_last = ends_unsolicited || ends_solicited || transfer.data_out >= u64::from(command.request.bytes);
    if is_last || transfer.is_open {
        (command.turn, command.turn_ns) = (Turn::Target, pdu.last.t_ns);
    }
    transfer.r2t_ns.take().map(|r2t_ns| pdu.first.t_ns.saturating_sub(r2t_ns))
}

/// Takes a Data-In of a command; returns the presence of the status in the last one of a read.
fn data_in(command: &mut OutstandingCommand, pdu: &FramedPdu) -> Option<bool> {
    command.transfer.data_in += pdu.data_len;
    if !command.is_read_complete() {
        return None;
    }
    command.transfer.read_ns = Some(pdu.last.t_ns);
    pdu.byte(1).map(|flags| flags & 1 != 0)
}

#[cfg(test)]
mod tests;
