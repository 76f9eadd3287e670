//! One request without its answer: how it has to end, and what it does when it ends well.

use std::fmt;

use wire::iscsi::{DataIn, DataOut, Lun};
use wire::scsi::SenseKey;

use super::dice::Dice;
use super::line::{Line, SEGMENT};

/// How a request has to end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Expect {
    Good,
    Check(SenseKey, u8),
    /// Somebody else has reserved the unit.
    Conflict,
    /// Its data comes back: NOP-Out, text.
    Echo(Vec<u8>),
    /// Whatever it is, it ends.
    Anything,
    /// It is answered unless its number was taken before: it fills a gap that a lost connection may have left.
    Perhaps,
    /// It is the abort of this task.
    AbortOf(u32),
    /// It is a task management request that is carried out.
    Managed,
    /// It is the logout of a connection.
    LoggedOut,
}

/// What a command that ended well does to the LUN.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    Nothing,
    /// What it read has to be there.
    Reads {
        lba: usize,
    },
    /// This is what it has to say.
    Tells {
        data: Vec<u8>,
    },
    /// This is there now.
    Writes {
        lba: usize,
        data: Vec<u8>,
    },
}

/// A request without its answer.
pub(crate) struct Task {
    pub(crate) lun: usize,
    pub(crate) expect: Expect,
    pub(crate) effect: Effect,
    /// What the initiator has to send.
    pub(crate) out: Vec<u8>,
    pub(crate) expected_bytes: usize,
    /// What the command itself moves.
    pub(crate) actual_bytes: usize,
    /// A unit attention may come in place of its answer.
    pub(crate) may_be_told: bool,
    /// To be aborted instead of answering its first R2T.
    pub(crate) to_abort: bool,
    /// It is a SCSI command, which others can end.
    pub(crate) is_command: bool,
    /// It is being aborted over another connection, so that nothing may be sent for it any more.
    pub(crate) is_ending: bool,
    /// Somebody may have ended it: it is answered or it is not.
    pub(crate) is_doubtful: bool,
    /// The connection it belongs to, and its number.
    pub(crate) cid: u16,
    pub(crate) cmd_sn: u32,
    pub(crate) received: Vec<u8>,
    pub(crate) next_r2t_sn: u32,
    next_data_sn: u32,
}

/// Without the data, which nobody reads.
impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let effect = match self.effect {
            Effect::Nothing => "changes nothing".to_owned(),
            Effect::Reads { lba } => format!("reads at {lba}"),
            Effect::Tells { .. } => "tells something".to_owned(),
            Effect::Writes { lba, .. } => format!("writes at {lba}"),
        };
        let (expected, actual, received) = (self.expected_bytes, self.actual_bytes, self.received.len());
        let Task { lun, expect, cid, cmd_sn, .. } = self;
        write!(f, "CID {cid}, CmdSN {cmd_sn:#x}, LUN {lun}, {expect:?}, {effect}, ")?;
        write!(f, "sends {} bytes, expects {expected}, moves {actual}, has {received}", self.out.len())?;
        f.write_str(if self.is_doubtful { ", may have been ended" } else { "" })
    }
}

impl Task {
    pub(crate) fn new(lun: usize, expect: Expect) -> Task {
        Task {
            lun,
            expect,
            effect: Effect::Nothing,
            out: Vec::new(),
            expected_bytes: 0,
            actual_bytes: 0,
            may_be_told: true,
            to_abort: false,
            is_command: false,
            is_ending: false,
            is_doubtful: false,
            cid: 0,
            cmd_sn: 0,
            received: Vec::new(),
            next_r2t_sn: 0,
            next_data_sn: 0,
        }
    }

    /// A command that sends `out`, all of which belongs to it.
    pub(crate) fn sending(lun: usize, out: Vec<u8>, effect: Effect) -> Task {
        let mut task = Task::new(lun, Expect::Good);
        (task.expected_bytes, task.actual_bytes) = (out.len(), out.len());
        (task.out, task.effect) = (out, effect);
        task
    }

    /// Whether it is the one negotiation that a session may have.
    pub(crate) fn is_text(&self) -> bool {
        self.lun == usize::MAX && self.expect == Expect::Anything
    }

    /// Whether its answer has to come.
    pub(crate) fn is_owed(&self) -> bool {
        !self.is_doubtful && !self.is_ending && self.expect != Expect::Perhaps
    }

    /// Takes a part of what it reads.
    #[track_caller]
    pub(crate) fn take_data(&mut self, part: &DataIn, data: &[u8], segment: usize, max_burst: usize) {
        assert_eq!((part.data_sn, part.buffer_offset as usize), (self.next_data_sn, self.received.len()));
        assert!(data.len() <= segment && self.received.len() + data.len() <= self.expected_bytes);
        self.next_data_sn += 1;
        self.received.extend_from_slice(data);
        let at_end = self.received.len().is_multiple_of(max_burst);
        assert_eq!(part.is_final, part.status.is_some() || at_end, "F ends a sequence: {part:?}");
        if part.status.is_some() {
            let residual = self.expected_bytes.abs_diff(self.actual_bytes);
            assert!(self.expect != Expect::Good || part.residual as usize == residual, "{part:?} {self:?}");
        }
    }

    /// Data-Out PDUs for a stretch of its data, cut anywhere.
    pub(crate) fn burst(
        &self,
        dice: &mut Dice,
        line: &Line,
        (itt, ttt): (u32, u32),
        range: std::ops::Range<usize>,
    ) -> Vec<Vec<u8>> {
        let (mut at, mut pdus) = (range.start, Vec::new());
        while at < range.end {
            let len = match dice.chance(60) {
                true => SEGMENT,
                false => 1 + dice.below(SEGMENT),
            };
            let len = len.min(range.end - at);
            let pdu = DataOut {
                is_final: at + len == range.end,
                data_segment_len: 0,
                lun: Lun::from_number(self.lun as u16),
                itt,
                ttt,
                exp_stat_sn: 0,
                data_sn: pdus.len() as u32,
                buffer_offset: at as u32,
            };
            pdus.push(line.seal(pdu, &self.out[at..at + len]));
            at += len;
        }
        pdus
    }
}
