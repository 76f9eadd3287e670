//! Commands and their answers: service times, R2Ts, who waited for whom.

use std::collections::HashMap;

use serde::Serialize;
use wire::iscsi::Opcode;

use super::distribution::{Distribution, Durations};
use super::framer::Framed;
use super::level::{Heights, Level};
use super::stream::Tag;

/// Commands of one connection that are followed at once; more are counted and no more.
const OPEN_MAX: usize = 1 << 16;

/// The commands of one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Commands {
    open: HashMap<u32, Open>,
    in_flight: Level,
    bytes_in_flight: Level,
    sent: u64,
    completed: u64,
    unanswered: u64,
    read_bytes: u64,
    written_bytes: u64,
    writes: u64,
    r2ts: u64,
    r2ts_max: u32,
    reads: Distribution,
    writes_service: Distribution,
    others: Distribution,
    first_answer: Distribution,
    initiator_turn: Distribution,
    status_turn: Distribution,
}

/// A command without its status.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) cmd_sn: Option<u32>,
    pub(super) operation: Option<u8>,
    pub(super) bytes: u32,
    read: bool,
    write: bool,
    pub(super) request: Tag,
    pub(super) r2ts: u32,
    answered: bool,
    r2t_ns: Option<u64>,
    data_in: u64,
    data_out: u64,
    last_out_ns: Option<u64>,
}

/// What is told of the commands of a connection. Times are between packets at the tap.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CommandsTold {
    /// SCSI commands seen.
    pub sent: u64,
    /// Those whose status was seen.
    pub completed: u64,
    /// Those whose task tag was used again, or that were open at the end.
    pub unanswered: u64,
    /// Bytes of Data-In.
    pub read_bytes: u64,
    /// Bytes of Data-Out and immediate data.
    pub written_bytes: u64,
    /// Commands between request and status.
    pub in_flight: Option<Heights>,
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
    /// R2Ts per write: mean, and the most of one.
    pub r2ts_per_write: Option<Heights>,
}

impl Commands {
    /// A SCSI command.
    pub(super) fn command(&mut self, framed: &Framed) {
        let flags = framed.byte(1).unwrap_or(0);
        let open = Open {
            cmd_sn: framed.word(24),
            operation: framed.byte(32),
            bytes: framed.word(20).unwrap_or(0),
            read: flags & 0x40 != 0,
            write: flags & 0x20 != 0,
            request: framed.last,
            r2ts: 0,
            answered: false,
            r2t_ns: None,
            data_in: 0,
            data_out: framed.data_len,
            last_out_ns: (framed.data_len > 0).then_some(framed.last.t_ns),
        };
        self.sent += 1;
        self.written_bytes += framed.data_len;
        if self.open.len() >= OPEN_MAX && !self.open.contains_key(&framed.itt()) {
            self.unanswered += 1;
            return;
        }
        let mut level = self.in_flight.now() + 1;
        let mut bytes = self.bytes_in_flight.now() + u64::from(open.bytes);
        if let Some(old) = self.open.insert(framed.itt(), open) {
            self.unanswered += 1;
            (level, bytes) = (level - 1, bytes.saturating_sub(u64::from(old.bytes)));
        }
        self.in_flight.set(framed.last.t_ns, level);
        self.bytes_in_flight.set(framed.last.t_ns, bytes);
    }

    /// Data, an R2T or a status; the command, if that was its status.
    pub(super) fn answer(&mut self, framed: &Framed) -> Option<Open> {
        match framed.opcode {
            Opcode::DataIn => self.read_bytes += framed.data_len,
            Opcode::DataOut => self.written_bytes += framed.data_len,
            _ => {}
        }
        let open = self.open.get_mut(&framed.itt())?;
        if framed.opcode != Opcode::DataOut && !open.answered {
            open.answered = true;
            self.first_answer.add(framed.first.t_ns.saturating_sub(open.request.t_ns));
        }
        match framed.opcode {
            Opcode::R2t => {
                open.r2ts = open.r2ts.saturating_add(1);
                open.r2t_ns.get_or_insert(framed.last.t_ns);
            }
            Opcode::DataOut => {
                open.data_out += framed.data_len;
                open.last_out_ns = Some(framed.last.t_ns);
                if let Some(r2t_ns) = open.r2t_ns.take() {
                    self.initiator_turn.add(framed.first.t_ns.saturating_sub(r2t_ns));
                }
            }
            Opcode::DataIn => open.data_in += framed.data_len,
            _ => {}
        }
        let status = framed.opcode == Opcode::ScsiResponse
            || framed.opcode == Opcode::DataIn && framed.byte(1).is_some_and(|flags| flags & 1 != 0);
        if status { self.complete(framed) } else { None }
    }

    fn complete(&mut self, framed: &Framed) -> Option<Open> {
        let open = self.open.remove(&framed.itt())?;
        let t_ns = framed.last.t_ns;
        let service_ns = t_ns.saturating_sub(open.request.t_ns);
        self.completed += 1;
        match (open.read, open.write) {
            (true, _) => self.reads.add(service_ns),
            (_, true) => self.writes_service.add(service_ns),
            _ => self.others.add(service_ns),
        }
        if open.write {
            self.writes += 1;
            self.r2ts += u64::from(open.r2ts);
            self.r2ts_max = self.r2ts_max.max(open.r2ts);
            if let Some(last_ns) = open.last_out_ns {
                self.status_turn.add(framed.first.t_ns.saturating_sub(last_ns));
            }
        }
        self.in_flight.set(t_ns, self.in_flight.now().saturating_sub(1));
        self.bytes_in_flight.set(t_ns, self.bytes_in_flight.now().saturating_sub(u64::from(open.bytes)));
        Some(open)
    }

    /// Bytes that are still to come of a task's data; `None` if the task is not known.
    pub(super) fn data_left(&self, opcode: Opcode, itt: u32) -> Option<u64> {
        let open = self.open.get(&itt)?;
        let done = if opcode == Opcode::DataIn { open.data_in } else { open.data_out };
        Some(u64::from(open.bytes).saturating_sub(done))
    }

    /// `complete_view` says that no header can have been missed: only then levels are told.
    pub(super) fn told(&self, complete_view: bool) -> CommandsTold {
        let r2ts = || Heights { mean: self.r2ts as f64 / self.writes as f64, max: u64::from(self.r2ts_max) };
        CommandsTold {
            sent: self.sent,
            completed: self.completed,
            unanswered: self.unanswered + self.open.len() as u64,
            read_bytes: self.read_bytes,
            written_bytes: self.written_bytes,
            in_flight: self.in_flight.heights().filter(|_| complete_view),
            bytes_in_flight: self.bytes_in_flight.heights().filter(|_| complete_view),
            read_service: self.reads.durations(),
            write_service: self.writes_service.durations(),
            other_service: self.others.durations(),
            first_answer: self.first_answer.durations(),
            initiator_turn: self.initiator_turn.durations(),
            status_turn: self.status_turn.durations(),
            r2ts_per_write: (self.writes > 0).then(r2ts),
        }
    }
}
