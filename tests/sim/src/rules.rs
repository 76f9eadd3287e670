//! What RFC 7143 demands of the headers that two ends send each other, watched PDU by PDU.
//!
//! Sections 4.2.2.1 (CmdSN), 4.2.2.2 (StatSN), 4.2.2.3 (DataSN, R2TSN), 4.2.5.2 (data), 11.3 to 11.8 and 13.10
//! to 13.17. Panics with the section's demand where it is not kept. It trusts its caller to show it each PDU
//! once when it is sent and once when the initiator takes it, and knows nothing of payload bytes.

use std::collections::HashMap;

use proto::params::Params;
use wire::iscsi::{DataIn, DataOut, Pdu, R2t, RESERVED_TAG, ScsiCommand, ScsiResponse};

/// A watcher of one connection.
#[derive(Debug)]
pub struct Rules {
    /// As the initiator sees them.
    params: Params,
    cmd_sn: u32,
    stat_sn: u32,
    exp_cmd_sn: u32,
    max_cmd_sn: u32,
    /// What the initiator has been told so far.
    told_stat_sn: u32,
    told_max_cmd_sn: u32,
    tasks: HashMap<u32, Task>,
}

#[derive(Debug, Default)]
struct Task {
    is_read: bool,
    expected_bytes: u32,
    /// The target has ended it; the initiator need not know yet.
    is_answered: bool,
    bursts: HashMap<u32, Burst>,
    data_in_pdus: u32,
    data_in_bytes: u32,
    /// Where the present Data-In sequence began.
    sequence_bytes: u32,
    /// Its last sequence has ended.
    has_all_data: bool,
    r2ts: u32,
}

#[derive(Debug)]
struct Burst {
    next_bytes: u32,
    end_bytes: u32,
    data_sn: u32,
}

/// Whether `a` comes before `b`, serially.
fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

impl Rules {
    /// A watcher from the first PDU after the login on: the numbers are those that the sessions begin with.
    pub fn new(near: &Params, cmd_sn: u32, stat_sn: u32, max_cmd_sn: u32) -> Rules {
        Rules {
            params: near.clone(),
            cmd_sn,
            stat_sn,
            exp_cmd_sn: cmd_sn,
            max_cmd_sn,
            told_stat_sn: stat_sn,
            told_max_cmd_sn: max_cmd_sn,
            tasks: HashMap::new(),
        }
    }

    /// Commands sent and not yet answered by the target.
    pub fn open_commands(&self) -> usize {
        self.tasks.values().filter(|task| !task.is_answered).count()
    }

    /// A PDU of the initiator.
    pub fn near_sent(&mut self, header: &[u8; 48]) {
        let pdu = Pdu::parse(header).expect("the initiator sends PDUs");
        let len = pdu.data_segment_len();
        assert!(len <= self.params.peer_max_recv_data_segment_len, "segment of {len} bytes to the target");
        match &pdu {
            Pdu::ScsiCommand(command) => self.command(command),
            Pdu::DataOut(data) => self.data_out(data),
            Pdu::NopOut(nop) => self.request(nop.immediate, nop.cmd_sn, nop.exp_stat_sn),
            Pdu::TextRequest(text) => self.request(text.immediate, text.cmd_sn, text.exp_stat_sn),
            Pdu::LogoutRequest(logout) => {
                self.request(logout.immediate, logout.cmd_sn, logout.exp_stat_sn);
            }
            other => panic!("an initiator of ours never sends {:?}", other.opcode()),
        }
    }

    /// A PDU of the target.
    pub fn far_sent(&mut self, header: &[u8; 48]) {
        let pdu = Pdu::parse(header).expect("the target sends PDUs");
        let len = pdu.data_segment_len();
        assert!(len <= self.params.our_max_recv_data_segment_len, "segment of {len} bytes to the initiator");
        let (stat_sn, exp_cmd_sn, max_cmd_sn) = numbers(&pdu);
        assert!(!before(exp_cmd_sn, self.exp_cmd_sn), "ExpCmdSN went back");
        assert!(!before(max_cmd_sn, self.max_cmd_sn), "MaxCmdSN went back");
        assert!(!before(max_cmd_sn, exp_cmd_sn.wrapping_sub(1)), "MaxCmdSN is below ExpCmdSN - 1");
        assert!(!before(self.cmd_sn, exp_cmd_sn), "ExpCmdSN is ahead of what was sent");
        (self.exp_cmd_sn, self.max_cmd_sn) = (exp_cmd_sn, max_cmd_sn);
        if has_status(&pdu) {
            assert_eq!(stat_sn, self.stat_sn, "StatSN counts PDUs with a status, one by one");
            self.stat_sn = stat_sn.wrapping_add(1);
        }
        match &pdu {
            Pdu::DataIn(data) => self.data_in(data),
            Pdu::R2t(r2t) => self.r2t(r2t),
            Pdu::ScsiResponse(response) => self.response(response),
            _ => {}
        }
    }

    /// A PDU of the target that the initiator takes now.
    pub fn near_takes(&mut self, header: &[u8; 48]) {
        let pdu = Pdu::parse(header).expect("the target sends PDUs");
        let (stat_sn, _, max_cmd_sn) = numbers(&pdu);
        if before(self.told_max_cmd_sn, max_cmd_sn) {
            self.told_max_cmd_sn = max_cmd_sn;
        }
        if has_status(&pdu) {
            self.told_stat_sn = stat_sn.wrapping_add(1);
            self.tasks.retain(|itt, task| *itt != pdu.itt() || !task.is_answered);
        }
    }

    fn request(&mut self, immediate: bool, cmd_sn: u32, exp_stat_sn: u32) {
        assert_eq!(cmd_sn, self.cmd_sn, "CmdSN counts commands, and immediate ones carry the next one's");
        assert_eq!(exp_stat_sn, self.told_stat_sn, "ExpStatSN follows the last StatSN");
        if !immediate {
            assert!(!before(self.told_max_cmd_sn, cmd_sn), "a command outside the window");
            self.cmd_sn = cmd_sn.wrapping_add(1);
        }
    }

    fn command(&mut self, command: &ScsiCommand) {
        self.request(command.immediate, command.cmd_sn, command.exp_stat_sn);
        let params = &self.params;
        let (immediate, expected) = (command.data_segment_len, command.expected_data_transfer_len);
        assert!(immediate == 0 || (command.write && params.immediate_data), "immediate data is not allowed");
        assert!(immediate <= params.first_burst_len.min(expected), "too much immediate data");
        assert!(command.is_final || (command.write && !params.initial_r2t), "unsolicited data not allowed");
        let mut task = Task { is_read: command.read, expected_bytes: expected, ..Task::default() };
        if !command.is_final {
            let end_bytes = params.first_burst_len.min(expected);
            assert!(immediate < end_bytes, "unsolicited data is announced, but there is none");
            let burst = Burst { next_bytes: immediate, end_bytes, data_sn: 0 };
            task.bursts.insert(RESERVED_TAG, burst);
        }
        assert_ne!(command.itt, RESERVED_TAG, "the reserved tag names no task");
        assert!(self.tasks.insert(command.itt, task).is_none(), "a tag that is in use");
    }

    fn data_out(&mut self, data: &DataOut) {
        assert_eq!(data.exp_stat_sn, self.told_stat_sn, "ExpStatSN follows the last StatSN");
        let task = self.tasks.get_mut(&data.itt).expect("data of a task that is open");
        let burst = task.bursts.get_mut(&data.ttt).expect("data that was announced or asked for");
        assert_eq!(data.buffer_offset, burst.next_bytes, "data in order");
        assert_eq!(data.data_sn, burst.data_sn, "DataSN counts from 0 in each sequence");
        burst.next_bytes += data.data_segment_len;
        burst.data_sn += 1;
        assert!(burst.next_bytes <= burst.end_bytes, "more data than was asked for");
        let is_last = burst.next_bytes == burst.end_bytes;
        assert_eq!(data.is_final, is_last, "the F bit ends the sequence");
        if is_last {
            task.bursts.remove(&data.ttt);
        }
    }

    fn open_task(&mut self, itt: u32) -> &mut Task {
        let task = self.tasks.get_mut(&itt).expect("an answer to a task that is open");
        assert!(!task.is_answered, "a PDU of a task after its status");
        task
    }

    fn data_in(&mut self, data: &DataIn) {
        let max_burst_len = self.params.max_burst_len;
        let task = self.open_task(data.itt);
        assert!(task.is_read, "Data-In for a command that does not read");
        assert_eq!(data.data_sn, task.data_in_pdus, "DataSN counts the Data-In PDUs of a command");
        assert_eq!(data.buffer_offset, task.data_in_bytes, "data in order");
        task.data_in_pdus += 1;
        task.data_in_bytes += data.data_segment_len;
        assert!(task.data_in_bytes <= task.expected_bytes, "more data than the initiator expects");
        let sequence = task.data_in_bytes - task.sequence_bytes;
        assert!(sequence <= max_burst_len, "a sequence longer than MaxBurstLength");
        assert!(!task.has_all_data, "data behind an F that ended a sequence early");
        assert!(data.is_final || sequence < max_burst_len && data.status.is_none(), "F ends a sequence");
        task.has_all_data = data.is_final && sequence < max_burst_len;
        if data.is_final {
            task.sequence_bytes = task.data_in_bytes;
        }
        if data.status.is_none() {
            assert!(!data.overflow && !data.underflow && data.residual == 0, "residual without a status");
            return;
        }
        task.is_answered = true;
        let missing = task.expected_bytes - task.data_in_bytes;
        assert_eq!(data.underflow, missing > 0, "underflow tells what is missing");
        assert!(missing == 0 || data.residual == missing, "the residual is what is missing");
        assert_eq!(data.overflow, missing == 0 && data.residual > 0, "overflow tells what did not fit");
    }

    fn r2t(&mut self, r2t: &R2t) {
        assert_eq!(r2t.stat_sn, self.stat_sn, "an R2T carries the next StatSN and does not consume it");
        let (max_burst_len, most) = (self.params.max_burst_len, self.params.max_outstanding_r2t);
        let task = self.open_task(r2t.itt);
        assert_eq!(r2t.r2t_sn, task.r2ts, "R2TSN counts the R2Ts of a command");
        task.r2ts += 1;
        assert!((1..=max_burst_len).contains(&r2t.desired_len), "an R2T asks for 1 to MaxBurstLength bytes");
        let end_bytes = r2t.buffer_offset + r2t.desired_len;
        assert!(end_bytes <= task.expected_bytes, "an R2T for more than the initiator expects");
        assert!(!task.bursts.contains_key(&RESERVED_TAG), "an R2T before unsolicited data has ended");
        let burst = Burst { next_bytes: r2t.buffer_offset, end_bytes, data_sn: 0 };
        assert_ne!(r2t.ttt, RESERVED_TAG, "the reserved tag names no R2T");
        assert!(task.bursts.insert(r2t.ttt, burst).is_none(), "a transfer tag that is in use");
        assert!(task.bursts.len() <= usize::from(most), "more R2Ts than MaxOutstandingR2T");
    }

    fn response(&mut self, response: &ScsiResponse) {
        let task = self.open_task(response.itt);
        task.is_answered = true;
        assert!(!(response.overflow && response.underflow), "overflow and underflow at once");
        assert_eq!(response.residual > 0, response.overflow || response.underflow, "a residual has its bit");
        assert!(!response.underflow || response.residual <= task.expected_bytes, "a residual beyond all");
        let data_pdus = if task.is_read { task.data_in_pdus } else { task.r2ts };
        assert_eq!(response.exp_data_sn, data_pdus, "ExpDataSN counts Data-In and R2T PDUs");
        assert_eq!(task.sequence_bytes, task.data_in_bytes, "the last sequence ends with F");
    }
}

fn has_status(pdu: &Pdu) -> bool {
    match pdu {
        Pdu::DataIn(data) => data.status.is_some(),
        Pdu::NopIn(nop) => nop.itt != RESERVED_TAG,
        Pdu::R2t(_) => false,
        _ => true,
    }
}

fn numbers(pdu: &Pdu) -> (u32, u32, u32) {
    macro_rules! numbers {
        ($($name:ident),+) => {
            match pdu {
                $(Pdu::$name(pdu) => (pdu.stat_sn, pdu.exp_cmd_sn, pdu.max_cmd_sn),)+
                other => panic!("a target never sends {:?}", other.opcode()),
            }
        };
    }
    numbers!(
        NopIn,
        ScsiResponse,
        TaskManagementResponse,
        TextResponse,
        DataIn,
        LogoutResponse,
        R2t,
        AsyncMessage,
        Reject
    )
}
