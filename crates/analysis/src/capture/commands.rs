//! Commands and their answers: service times, R2Ts, who waited for whom.

use serde::Serialize;
use wire::iscsi::Opcode;

use super::budget::Budget;
use super::distribution::{Distribution, Durations};
use super::framer::Framed;
use super::level::{Heights, Level};
use super::open::{Open, OpenTable, Turn};

/// Commands that may end between a command and its status: at least, and for each that is open.
const OVERTAKEN: [u64; 2] = [1024, 64];
/// The same where statuses may have passed unseen since it was sent.
const OVERTAKEN_IN_DOUBT: [u64; 2] = [2, 2];

/// The commands of one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Commands {
    pub(super) open: OpenTable,
    /// Whether the target puts the status into the last Data-In; `None` until it was seen.
    pub(super) collapses: Option<bool>,
    /// Commands that wait for an R2T.
    pub(super) for_r2t: usize,
    /// Since when it is the target's turn, and the initiator's.
    pub(super) since_ns: [Option<u64>; 2],
    /// When the last one ended.
    pub(super) ended_ns: Option<u64>,
    /// The last packet in which statuses may have passed unseen.
    pub(super) doubt_packet: u64,
    in_flight: Level,
    bytes_in_flight: Level,
    sent: u64,
    overlapping: u64,
    completed: u64,
    inferred: u64,
    unanswered: u64,
    read_bytes: u64,
    written_bytes: u64,
    writes: u64,
    r2ts: u64,
    r2ts_max: u32,
    r2t_bytes_max: u32,
    unasked_bytes_max: u64,
    reads: Distribution,
    writes_service: Distribution,
    others: Distribution,
    first_answer: Distribution,
    initiator_turn: Distribution,
    status_turn: Distribution,
    status_alone: Distribution,
}

/// What is told of the commands of a connection. Times are between packets at the tap.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CommandsTold {
    /// SCSI commands seen.
    pub sent: u64,
    /// Those whose status was seen.
    pub completed: u64,
    /// Those of them of which a header was hidden: what follows from the others.
    pub inferred: u64,
    /// Those that were aborted, whose status passed unseen, whose task tag was used again, or that were open at the end.
    pub unanswered: u64,
    /// Bytes of Data-In.
    pub read_bytes: u64,
    /// Bytes of Data-Out and immediate data.
    pub written_bytes: u64,
    /// Commands between request and status.
    pub in_flight: Option<Heights>,
    /// Commands that their initiator sent before the answer to those before had reached it: with one in flight at the
    /// tap, or sooner after the last status than three quarters of the fastest round trip from the tap to the initiator.
    pub overlapping: Option<u64>,
    /// Bytes that those move.
    pub bytes_in_flight: Option<Heights>,
    /// From the end of the command to the end of the status, of reads.
    pub read_service: Option<Durations>,
    /// The same of writes; the command ends with its immediate data.
    pub write_service: Option<Durations>,
    /// The same of commands that move no data.
    pub other_service: Option<Durations>,
    /// From the end of the command to the first byte that answers it.
    pub first_answer: Option<Durations>,
    /// From an R2T to the first byte of its data.
    pub initiator_turn: Option<Durations>,
    /// From the last byte of a write's data to its status.
    pub status_turn: Option<Durations>,
    /// From the last data of a read to its status, where that has a PDU of its own.
    pub status_alone: Option<Durations>,
    /// R2Ts per write: mean, and the most of one.
    pub r2ts_per_write: Option<Heights>,
    /// The most bytes that an R2T asked for.
    pub r2t_bytes_max: u64,
    /// The most bytes that a write sent unasked, immediate data included.
    pub unasked_bytes_max: u64,
}

impl Commands {
    /// A SCSI command; `rtt_ns` is the fastest round trip from the tap to the initiator.
    pub(super) fn command(&mut self, framed: &Framed, rtt_ns: u64, budget: &Budget) {
        let flags = framed.byte(1).unwrap_or(0);
        let bytes = framed.word(20).unwrap_or(0);
        // Without the final bit data follows that nobody has to ask for.
        let more = flags & 0xa0 == 0x20 && u64::from(bytes) > framed.data_len;
        let open = Open {
            cmd_sn: framed.word(24),
            operation: framed.byte(32),
            lun: framed.word(8).zip(framed.word(12)),
            bytes,
            turn: if more { Turn::Initiator } else { Turn::Target },
            turn_ns: framed.last.t_ns,
            read: flags & 0x40 != 0,
            write: flags & 0x20 != 0,
            request: framed.last,
            data_out: framed.data_len,
            asked: framed.data_len,
            last_out_ns: (framed.data_len > 0).then_some(framed.last.t_ns),
            inferred: framed.inferred,
            completed: self.completed,
            ..Open::default()
        };
        self.sent += 1;
        let is_soon = |ended: u64| framed.last.t_ns.saturating_sub(ended) < rtt_ns - rtt_ns / 4;
        self.overlapping += u64::from(self.open.len() > 0 || self.ended_ns.is_some_and(is_soon));
        self.written_bytes += framed.data_len;
        let Ok(old) = self.open.add(framed.itt(), open, budget) else {
            self.unanswered += 1;
            return;
        };
        let mut level = self.in_flight.now() + 1;
        let mut bytes = self.bytes_in_flight.now() + u64::from(open.bytes);
        self.for_r2t += usize::from(open.waits_for_r2t());
        if let Some(old) = old {
            self.for_r2t -= usize::from(old.waits_for_r2t());
            self.unanswered += 1;
            (level, bytes) = (level - 1, bytes.saturating_sub(u64::from(old.bytes)));
        }
        self.in_flight.set(framed.last.t_ns, level);
        self.bytes_in_flight.set(framed.last.t_ns, bytes);
        self.since_ns = self.open.since();
    }

    /// Data, an R2T or a status; the command, if that was its status.
    pub(super) fn answer(&mut self, framed: &Framed, budget: &Budget) -> Option<Open> {
        match framed.opcode {
            Opcode::DataIn => self.read_bytes += framed.data_len,
            Opcode::DataOut => self.written_bytes += framed.data_len,
            _ => {}
        }
        if framed.opcode == Opcode::ScsiResponse {
            self.status_alone_of(framed.itt());
        }
        let open = self.open.of_mut(framed.itt())?;
        open.inferred |= framed.inferred;
        let waited = open.waits_for_r2t();
        if framed.opcode != Opcode::DataOut && !open.answered {
            open.answered = true;
            self.first_answer.add(framed.first.t_ns.saturating_sub(open.request.t_ns));
        }
        match framed.opcode {
            Opcode::R2t => {
                if open.r2ts == 0 {
                    self.unasked_bytes_max = self.unasked_bytes_max.max(open.data_out);
                }
                self.r2t_bytes_max = self.r2t_bytes_max.max(framed.word(44).unwrap_or(0));
                open.r2ts = open.r2ts.saturating_add(1);
                open.asked = open.asked.saturating_add(framed.word(44).map_or(0, u64::from));
                // While its initiator has data in hand that was asked for before, it is not waited for.
                if open.turn == Turn::Target {
                    open.r2t_ns = Some(framed.last.t_ns);
                    (open.turn, open.turn_ns) = (Turn::Initiator, framed.last.t_ns);
                }
            }
            Opcode::DataOut => {
                open.data_out += framed.data_len;
                open.last_out_ns = Some(framed.last.t_ns);
                let unasked_end = open.r2ts == 0 && framed.byte(1).is_some_and(|flags| flags & 0x80 != 0);
                let asked_end = open.r2ts > 0 && open.data_out >= open.asked;
                if unasked_end {
                    open.asked = open.data_out;
                }
                if unasked_end || asked_end || open.data_out >= u64::from(open.bytes) {
                    (open.turn, open.turn_ns) = (Turn::Target, framed.last.t_ns);
                }
                if let Some(r2t_ns) = open.r2t_ns.take() {
                    self.initiator_turn.add(framed.first.t_ns.saturating_sub(r2t_ns));
                }
            }
            Opcode::DataIn => {
                open.data_in += framed.data_len;
                if open.is_read_to_the_end() {
                    open.read_ns = Some(framed.last.t_ns);
                }
                if open.is_read_to_the_end()
                    && let Some(flags) = framed.byte(1)
                {
                    self.collapses = Some(flags & 1 != 0);
                }
            }
            _ => {}
        }
        self.for_r2t = self.for_r2t + usize::from(open.waits_for_r2t()) - usize::from(waited);
        let done = if framed.has_status() { self.complete(framed, budget) } else { None };
        // More data of a read makes it nobody else's turn.
        if framed.opcode != Opcode::DataIn || done.is_some() {
            self.since_ns = self.open.since();
        }
        done
    }

    /// A status with a PDU of its own: whether the target sends those for reads too. A read whose last header was hidden
    /// may be taken for one that has its status.
    fn status_alone_of(&mut self, itt: u32) {
        let of_a_read = self.open.of(itt).map_or(self.inferred > 0, Open::is_read_to_the_end);
        if of_a_read {
            self.collapses.get_or_insert(false);
        }
    }

    fn complete(&mut self, framed: &Framed, budget: &Budget) -> Option<Open> {
        let open = self.open.remove(framed.itt(), budget)?;
        self.for_r2t -= usize::from(open.waits_for_r2t());
        let t_ns = framed.last.t_ns;
        let service_ns = t_ns.saturating_sub(open.request.t_ns);
        self.ended_ns = self.ended_ns.max(Some(t_ns));
        self.completed += 1;
        self.inferred += u64::from(open.inferred);
        match (open.read, open.write) {
            (true, _) => self.reads.add(service_ns),
            (_, true) => self.writes_service.add(service_ns),
            _ => self.others.add(service_ns),
        }
        if framed.opcode == Opcode::ScsiResponse
            && let Some(read_ns) = open.read_ns
        {
            self.status_alone.add(framed.first.t_ns.saturating_sub(read_ns));
        }
        if open.write {
            self.writes += 1;
            if open.r2ts == 0 {
                self.unasked_bytes_max = self.unasked_bytes_max.max(open.data_out);
            }
            self.r2ts += u64::from(open.r2ts);
            self.r2ts_max = self.r2ts_max.max(open.r2ts);
            if let Some(last_ns) = open.last_out_ns {
                self.status_turn.add(framed.first.t_ns.saturating_sub(last_ns));
            }
        }
        self.lower(t_ns, &open);
        while let Some((itt, _)) = self.open.first().filter(|(_, first)| self.is_overtaken(first)) {
            self.forget(itt, t_ns, budget);
        }
        Some(open)
    }

    /// Whether so many others have ended since a command was sent that its own status must have passed unseen.
    fn is_overtaken(&self, open: &Open) -> bool {
        let is_in_doubt = open.request.packet <= self.doubt_packet;
        let [least, per_open] = if is_in_doubt { OVERTAKEN_IN_DOUBT } else { OVERTAKEN };
        self.completed.saturating_sub(open.completed) > least + per_open * self.open.len() as u64
    }

    /// A command will not be seen to end.
    pub(super) fn forget(&mut self, itt: u32, t_ns: u64, budget: &Budget) {
        let Some(open) = self.open.remove(itt, budget) else { return };
        self.for_r2t -= usize::from(open.waits_for_r2t());
        self.unanswered += 1;
        self.lower(t_ns, &open);
        self.since_ns = self.open.since();
        if self.open.len() == 0 {
            self.ended_ns = self.ended_ns.max(Some(t_ns));
        }
    }

    /// None of those will be that are open and that `wanted` holds for.
    pub(super) fn forget_all(&mut self, wanted: impl Fn(&Open) -> bool, t_ns: u64, budget: &Budget) {
        for itt in self.open.tags(wanted) {
            self.forget(itt, t_ns, budget);
        }
    }

    /// It is not in flight any more.
    fn lower(&mut self, t_ns: u64, open: &Open) {
        self.in_flight.set(t_ns, self.in_flight.now().saturating_sub(1));
        self.bytes_in_flight.set(t_ns, self.bytes_in_flight.now().saturating_sub(u64::from(open.bytes)));
    }

    /// How long statuses with PDUs of their own left later than that behind their data, together.
    pub(super) fn status_later_ns(&self, least_ns: u64) -> u64 {
        self.status_alone.sum_from(least_ns)
    }

    /// `complete_view` says that no header can have been missed: only then levels are told.
    pub(super) fn told(&self, complete_view: bool) -> CommandsTold {
        let r2ts = || Heights { mean: self.r2ts as f64 / self.writes as f64, max: u64::from(self.r2ts_max) };
        CommandsTold {
            sent: self.sent,
            completed: self.completed,
            inferred: self.inferred,
            unanswered: self.unanswered + self.open.len() as u64,
            read_bytes: self.read_bytes,
            written_bytes: self.written_bytes,
            in_flight: self.in_flight.heights().filter(|_| complete_view),
            overlapping: complete_view.then_some(self.overlapping),
            bytes_in_flight: self.bytes_in_flight.heights().filter(|_| complete_view),
            read_service: self.reads.durations(),
            write_service: self.writes_service.durations(),
            other_service: self.others.durations(),
            first_answer: self.first_answer.durations(),
            initiator_turn: self.initiator_turn.durations(),
            status_turn: self.status_turn.durations(),
            status_alone: self.status_alone.durations(),
            r2ts_per_write: (self.writes > 0).then(r2ts),
            r2t_bytes_max: u64::from(self.r2t_bytes_max),
            unasked_bytes_max: self.unasked_bytes_max,
        }
    }
}
