//! One session of the crowd: its numbers, its open tasks, and what every PDU of the target has to keep to.

use std::collections::HashMap;
use std::io::Write;
use std::net::TcpStream;

use e2e::ours::Target;
use wire::iscsi::{
    DataIn, DataOut, LoginRequest, Lun, NopOut, Pdu, R2t, RESERVED_TAG, ScsiCommand, ScsiResponse,
    TaskAttribute, TaskManagementRequest, login_stage, split_sense, task_function, task_response, text,
};
use wire::scsi::{Sense, SenseKey};

use crate::dice::Dice;
use crate::pdu;

/// What the target takes in one data segment, whatever it declares.
const SEGMENT: usize = 8192;

/// How a command has to end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Expect {
    Good,
    Check(SenseKey, u8),
    /// Its data comes back: NOP-Out, text.
    Echo(Vec<u8>),
    /// Whatever it is, it ends.
    Anything,
    /// It is the abort of this task.
    AbortOf(u32),
}

/// What a command that ended well does to the LUN.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    Nothing,
    /// What it read has to be there.
    Reads {
        lba: usize,
    },
    /// This is there now.
    Writes {
        lba: usize,
        data: Vec<u8>,
    },
}

/// A request without its answer.
#[derive(Debug)]
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
    pub(crate) received: Vec<u8>,
    next_data_sn: u32,
    next_r2t_sn: u32,
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
            received: Vec::new(),
            next_data_sn: 0,
            next_r2t_sn: 0,
        }
    }
}

/// What was agreed on.
pub(crate) struct Terms {
    pub(crate) initial_r2t: bool,
    pub(crate) immediate_data: bool,
    pub(crate) first_burst: usize,
    max_burst: usize,
    segment: usize,
}

pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    pub(crate) terms: Terms,
    pub(crate) cmd_sn: u32,
    pub(crate) itt: u32,
    /// The next StatSN; ExpCmdSN and MaxCmdSN as last told.
    stat_sn: u32,
    exp_cmd_sn: u32,
    max_cmd_sn: u32,
    /// Bytes to send in this round, PDU by PDU, and unsolicited data that follows later.
    pub(crate) queued: Vec<Vec<u8>>,
    pub(crate) late: Vec<Vec<u8>>,
    pub(crate) open: HashMap<u32, Task>,
    due: Vec<R2t>,
    /// Units that may have something to tell.
    pub(crate) attention: [bool; 2],
}

impl Peer {
    /// Logs in with terms of its own.
    #[track_caller]
    pub(crate) fn log_in(target: &mut Target, dice: &mut Dice, number: u32) -> Peer {
        let stream = pdu::patient(TcpStream::connect(target.address()).expect("the target accepts"));
        let first_burst = dice.pick(&[512, 4096, 65536]);
        let terms = Terms {
            initial_r2t: dice.chance(50),
            immediate_data: dice.chance(70),
            first_burst,
            max_burst: first_burst.max(dice.pick(&[512, 3000, 65536])),
            segment: dice.pick(&[512, 1000, 8192, 65536]),
        };
        let yes_no = |yes| if yes { "Yes" } else { "No" };
        let mut keys = Vec::new();
        text::TextWriter::new(&mut keys)
            .push("InitiatorName", "iqn.2026-11.org.example:dice")
            .push("SessionType", "Normal")
            .push("TargetName", target.iqn())
            .push("InitialR2T", yes_no(terms.initial_r2t))
            .push("ImmediateData", yes_no(terms.immediate_data))
            .push("FirstBurstLength", &terms.first_burst.to_string())
            .push("MaxBurstLength", &terms.max_burst.to_string())
            .push("MaxOutstandingR2T", &dice.pick(&["1", "2", "8"]))
            .push("MaxRecvDataSegmentLength", &terms.segment.to_string());
        let cmd_sn = dice.pick(&[1, 7, u32::MAX - 3, i32::MAX as u32]);
        let [a, b, c, d] = number.to_be_bytes();
        let request = LoginRequest {
            transit: true,
            is_continued: false,
            csg: login_stage::OPERATIONAL,
            nsg: login_stage::FULL_FEATURE,
            version_max: 0,
            version_min: 0,
            data_segment_len: 0,
            isid: [0x80, 1, a, b, c, d],
            tsih: 0,
            itt: 1,
            cid: 0,
            cmd_sn,
            exp_stat_sn: 0,
        };
        let mut peer = Peer {
            stream,
            terms,
            cmd_sn,
            itt: dice.pick(&[1, 0x100, u32::MAX - 5]),
            stat_sn: 0,
            exp_cmd_sn: cmd_sn,
            max_cmd_sn: cmd_sn,
            queued: Vec::new(),
            late: Vec::new(),
            open: HashMap::new(),
            due: Vec::new(),
            attention: [true; 2],
        };
        peer.send(&pdu::bytes(request, &keys));
        let found = pdu::read(&mut peer.stream).expect("an answer to the login");
        let Some((Pdu::LoginResponse(response), _)) = found else { panic!("{found:?}") };
        let said = target.service.stderr();
        assert!(response.transit && response.status_class == 0, "{response:?} {said}");
        peer.stat_sn = response.stat_sn.wrapping_add(1);
        peer.max_cmd_sn = response.max_cmd_sn;
        peer
    }

    #[track_caller]
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the target reads");
    }

    pub(crate) fn next_itt(&mut self) -> u32 {
        // The reserved tag is nobody's.
        self.itt = if self.itt == RESERVED_TAG - 1 { 0 } else { self.itt + 1 };
        self.itt
    }

    /// Queues a SCSI command, with what is sent unasked.
    pub(crate) fn command(&mut self, dice: &mut Dice, cdb: [u8; 16], task: Task) -> u32 {
        let itt = self.next_itt();
        let most = task.out.len().min(self.terms.first_burst);
        let writes = !task.out.is_empty();
        let is_bare = task.to_abort;
        let immediate = match self.terms.immediate_data && writes && !is_bare && dice.chance(70) {
            true => dice.below(most.min(SEGMENT) + 1),
            false => 0,
        };
        let follows = writes && !is_bare && !self.terms.initial_r2t && immediate < most && dice.chance(70);
        let command = ScsiCommand {
            immediate: false,
            is_final: !follows,
            read: !writes && task.expected_bytes > 0,
            write: writes,
            attribute: TaskAttribute::Simple,
            ahs_len: 0,
            data_segment_len: 0,
            lun: Lun::from_number(task.lun as u16),
            itt,
            expected_data_transfer_len: task.expected_bytes as u32,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.stat_sn,
            cdb,
        };
        self.cmd_sn = self.cmd_sn.wrapping_add(1);
        self.queued.push(pdu::bytes(command, &task.out[..immediate]));
        if follows {
            let end = if dice.chance(80) { most } else { immediate + 1 + dice.below(most - immediate) };
            let burst = burst(dice, &task, itt, RESERVED_TAG, immediate..end);
            self.late.extend(burst);
        }
        if dice.chance(50) {
            let late = std::mem::take(&mut self.late);
            self.queued.extend(late);
        }
        self.open.insert(itt, task);
        itt
    }

    /// Takes PDUs, and sends what they ask for, until nothing is open; each task that ended.
    #[track_caller]
    pub(crate) fn collect(&mut self, dice: &mut Dice, mut ended: impl FnMut(Task)) {
        while !self.open.is_empty() {
            let waiting = |itt: &u32| self.due.iter().any(|r2t| r2t.itt == *itt);
            let is_owed = self.open.keys().any(|itt| !waiting(itt));
            if !self.due.is_empty() && (!is_owed || dice.chance(40)) {
                let r2t = self.due.swap_remove(dice.below(self.due.len()));
                self.answer(dice, &r2t);
                continue;
            }
            let found = self.receive();
            self.take(found, &mut ended);
        }
        assert!(self.due.is_empty(), "data is sent for that belongs to no command: {:?}", self.due);
    }

    fn answer(&mut self, dice: &mut Dice, r2t: &R2t) {
        let task = self.open.get_mut(&r2t.itt).expect("an R2T for an open task");
        if std::mem::take(&mut task.to_abort) {
            let itt = self.next_itt();
            self.due.push(*r2t);
            let lun = self.open[&r2t.itt].lun;
            self.open.insert(itt, Task::new(lun, Expect::AbortOf(r2t.itt)));
            let abort = self.management(task_function::ABORT_TASK, lun, itt, r2t.itt);
            return self.send(&abort);
        }
        let end = (r2t.buffer_offset + r2t.desired_len) as usize;
        let burst = burst(dice, task, r2t.itt, r2t.ttt, r2t.buffer_offset as usize..end);
        self.send(&burst.concat());
    }

    pub(crate) fn management(&self, function: u8, lun: usize, itt: u32, referenced_itt: u32) -> Vec<u8> {
        let request = TaskManagementRequest {
            immediate: true,
            function,
            lun: Lun::from_number(lun as u16),
            itt,
            referenced_itt,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.stat_sn,
            ref_cmd_sn: self.cmd_sn.wrapping_sub(1),
            exp_data_sn: 0,
        };
        pdu::bytes(request, &[])
    }

    /// The next PDU, whose numbers have been checked.
    #[track_caller]
    pub(crate) fn receive(&mut self) -> (Pdu, Vec<u8>) {
        let found = match pdu::read(&mut self.stream) {
            Ok(Some(found)) => found,
            other => panic!("{other:?}, and these are open: {:?}", self.open),
        };
        let mut header = [0; 48];
        found.0.emit(&mut header);
        let number =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let carries = match &found.0 {
            Pdu::DataIn(data) => data.status.is_some(),
            Pdu::NopIn(nop) if nop.itt == RESERVED_TAG => false,
            Pdu::R2t(_) => {
                assert_eq!(number(24), self.stat_sn, "an R2T carries the next StatSN: {found:?}");
                false
            }
            _ => true,
        };
        if carries {
            assert_eq!(number(24), self.stat_sn, "a StatSN is missing or twice: {found:?}");
            self.stat_sn = self.stat_sn.wrapping_add(1);
        }
        let moved = |now: u32, before: u32| now.wrapping_sub(before) as i32 >= 0;
        assert!(moved(number(28), self.exp_cmd_sn) && moved(self.cmd_sn, number(28)), "ExpCmdSN: {found:?}");
        assert!(moved(number(32), self.max_cmd_sn), "MaxCmdSN moves back: {found:?}");
        assert!(moved(number(32).wrapping_add(1), number(28)), "MaxCmdSN < ExpCmdSN - 1: {found:?}");
        (self.exp_cmd_sn, self.max_cmd_sn) = (number(28), number(32));
        found
    }

    #[track_caller]
    fn take(&mut self, (pdu, data): (Pdu, Vec<u8>), ended: &mut impl FnMut(Task)) {
        let itt = pdu.itt();
        match pdu {
            Pdu::AsyncMessage(_) => {}
            Pdu::NopIn(ping) if itt == RESERVED_TAG => self.pong(&ping),
            Pdu::R2t(r2t) => {
                let task = self.open.get_mut(&itt).expect("an R2T for an open task");
                assert_eq!(r2t.r2t_sn, task.next_r2t_sn, "{r2t:?}");
                task.next_r2t_sn += 1;
                let end = r2t.buffer_offset as usize + r2t.desired_len as usize;
                assert!(r2t.desired_len > 0 && r2t.desired_len as usize <= self.terms.max_burst, "{r2t:?}");
                assert!(end <= task.out.len(), "more is sent for than there is: {r2t:?}");
                self.due.push(r2t);
            }
            Pdu::DataIn(part) => {
                let task = self.open.get_mut(&itt).expect("data for an open task");
                task.take_data(&part, &data, &self.terms);
                if part.status.is_some() {
                    let task = self.open.remove(&itt).expect("it was there");
                    self.finished(task, None, ended);
                }
            }
            Pdu::ScsiResponse(response) => {
                let task = self.open.remove(&itt).unwrap_or_else(|| panic!("nobody asked: {response:?}"));
                self.due.retain(|r2t| r2t.itt != itt);
                self.finished(task, Some((&response, &data)), ended);
            }
            Pdu::NopIn(_) | Pdu::TextResponse(_) => {
                let task = self.open.remove(&itt).unwrap_or_else(|| panic!("nobody asked: {itt:#x}"));
                match &task.expect {
                    Expect::Echo(echo) => assert!(data == echo[..echo.len().min(self.terms.segment)]),
                    expect => assert_eq!(*expect, Expect::Anything),
                }
            }
            Pdu::TaskManagementResponse(response) => {
                let task = self.open.remove(&itt).unwrap_or_else(|| panic!("nobody asked: {response:?}"));
                match (task.expect, response.response) {
                    (Expect::AbortOf(aborted), task_response::COMPLETE) => {
                        self.open.remove(&aborted);
                        self.due.retain(|r2t| r2t.itt != aborted);
                    }
                    (Expect::AbortOf(_), task_response::NOT_SUPPORTED) | (Expect::Anything, _) => {}
                    (expect, found) => panic!("{expect:?} came to {found}"),
                }
            }
            other => panic!("nobody asked for {other:?}"),
        }
    }

    fn pong(&mut self, ping: &wire::iscsi::NopIn) {
        let pong = NopOut {
            immediate: true,
            data_segment_len: 0,
            lun: ping.lun,
            itt: RESERVED_TAG,
            ttt: ping.ttt,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.stat_sn,
        };
        self.send(&pdu::bytes(pong, &[]));
    }

    #[track_caller]
    fn finished(
        &mut self,
        task: Task,
        response: Option<(&ScsiResponse, &[u8])>,
        ended: &mut impl FnMut(Task),
    ) {
        let sense = response.filter(|(response, _)| response.status == 2).map(|(_, data)| {
            let sense = split_sense(data).expect("sense data").0;
            let sense = Sense::parse(sense).expect("sense data");
            (sense.key, sense.asc)
        });
        if let (Some((SenseKey::UnitAttention, _)), true) = (sense, task.may_be_told) {
            assert!(self.attention.get(task.lun) == Some(&true), "an attention for nothing: {task:?}");
            return;
        }
        if let (Some(attention), true) = (self.attention.get_mut(task.lun), task.may_be_told) {
            *attention = false;
        }
        match &task.expect {
            Expect::Good => {
                let status = response.map_or(0, |(response, _)| response.status);
                assert_eq!((status, sense), (0, None), "{task:?}");
                let moved = task.expected_bytes.min(task.actual_bytes);
                if let Some((response, _)) = response {
                    let residual = task.expected_bytes.abs_diff(task.actual_bytes);
                    assert_eq!(response.residual as usize, residual, "{task:?}");
                }
                if let Effect::Reads { .. } = task.effect {
                    assert_eq!(task.received.len(), moved, "{task:?}");
                }
                ended(task);
            }
            Expect::Check(key, asc) => assert_eq!(sense, Some((*key, *asc)), "{task:?}"),
            Expect::Anything => {}
            other => panic!("a SCSI response to {other:?}"),
        }
    }
}

impl Task {
    #[track_caller]
    fn take_data(&mut self, part: &DataIn, data: &[u8], terms: &Terms) {
        assert_eq!((part.data_sn, part.buffer_offset as usize), (self.next_data_sn, self.received.len()));
        assert!(data.len() <= terms.segment && self.received.len() + data.len() <= self.expected_bytes);
        self.next_data_sn += 1;
        self.received.extend_from_slice(data);
        let at_end = self.received.len().is_multiple_of(terms.max_burst);
        assert_eq!(part.is_final, part.status.is_some() || at_end, "F ends a sequence: {part:?}");
        if part.status.is_some() {
            let residual = self.expected_bytes.abs_diff(self.actual_bytes);
            assert!(self.expect != Expect::Good || part.residual as usize == residual, "{part:?} {self:?}");
        }
    }
}

/// Data-Out PDUs for a stretch of a task's data, cut anywhere.
fn burst(dice: &mut Dice, task: &Task, itt: u32, ttt: u32, range: std::ops::Range<usize>) -> Vec<Vec<u8>> {
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
            lun: Lun::from_number(task.lun as u16),
            itt,
            ttt,
            exp_stat_sn: 0,
            data_sn: pdus.len() as u32,
            buffer_offset: at as u32,
        };
        pdus.push(pdu::bytes(pdu, &task.out[at..at + len]));
        at += len;
    }
    pdus
}
