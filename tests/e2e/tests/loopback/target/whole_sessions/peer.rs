//! One session of the crowd: its connections, its numbers, its open tasks, and what every PDU of the target has to
//! keep to.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use e2e::ours::Target;
use wire::iscsi::{
    Lun, NopOut, Pdu, R2t, RESERVED_TAG, ScsiCommand, TaskAttribute, TaskManagementRequest, task_function,
};

use super::LUNS;
use super::dice::Dice;
use super::line::{Badge, Line, SEGMENT};
use super::task::{Expect, Task};
use crate::peers::pdu;

/// Connections that a session has at most.
const LINES_MAX: usize = 4;

/// What was agreed on for all connections.
pub(crate) struct Terms {
    initial_r2t: bool,
    immediate_data: bool,
    first_burst: usize,
    pub(crate) max_burst: usize,
    lines: usize,
}

/// A session.
pub(crate) struct Peer {
    /// Which port of the initiator it is.
    pub(crate) port: u32,
    tsih: u16,
    last_cid: u16,
    pub(crate) lines: Vec<Line>,
    pub(crate) terms: Terms,
    pub(crate) cmd_sn: u32,
    itt: u32,
    pub(crate) open: HashMap<u32, Task>,
    pub(crate) due: Vec<R2t>,
    /// Tasks that were aborted over another connection in this round: on their own an R2T may still be on its way.
    pub(crate) aborted: HashSet<u32>,
    /// Pings of earlier rounds that may be answered late, or never.
    pub(crate) perhaps: HashSet<u32>,
    /// Units that may have something to tell.
    pub(crate) attention: [bool; LUNS],
    /// Units that have carried something out since, so they have told everything.
    pub(crate) has_told: [bool; LUNS],
    /// Commands that ended well, and those that somebody ended; for who knows what the LUNs hold.
    pub(crate) ended: Vec<Task>,
    pub(crate) lost: Vec<Task>,
    pub(crate) seen: Seen,
}

/// What has happened, so that nobody believes in what never did.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Seen {
    pub(crate) good: usize,
    pub(crate) refused: usize,
    pub(crate) conflicts: usize,
    pub(crate) told: usize,
    pub(crate) aborted: usize,
    pub(crate) sent_for: usize,
    /// Connections beside the first, and those of all that had digests.
    pub(crate) joined: usize,
    pub(crate) sealed: usize,
}

impl Seen {
    pub(crate) fn add(&mut self, other: Seen) {
        self.good += other.good;
        self.refused += other.refused;
        self.conflicts += other.conflicts;
        self.told += other.told;
        self.aborted += other.aborted;
        self.sent_for += other.sent_for;
        self.joined += other.joined;
        self.sealed += other.sealed;
    }

    /// How often the rarest of it was.
    pub(crate) fn least(self) -> usize {
        let Seen { good, refused, conflicts, told, aborted, sent_for, joined, sealed } = self;
        let all = [good, refused, conflicts, told, aborted, sent_for, joined, sealed];
        all.into_iter().min().unwrap_or(0)
    }
}

impl Peer {
    /// Logs in with terms of its own, over one connection as yet.
    #[track_caller]
    pub(crate) fn log_in(target: &Target, dice: &mut Dice, port: u32) -> Peer {
        let first_burst = dice.pick(&[512, 4096, 65536]);
        let mut terms = Terms {
            initial_r2t: dice.chance(50),
            immediate_data: dice.chance(70),
            first_burst,
            max_burst: first_burst.max(dice.pick(&[512, 3000, 65536])),
            lines: 1 + dice.below(LINES_MAX),
        };
        let yes_no = |yes: bool| if yes { "Yes" } else { "No" }.to_owned();
        let keys = [
            ("InitialR2T", yes_no(terms.initial_r2t)),
            ("ImmediateData", yes_no(terms.immediate_data)),
            ("FirstBurstLength", terms.first_burst.to_string()),
            ("MaxBurstLength", terms.max_burst.to_string()),
            ("MaxOutstandingR2T", dice.pick(&["1", "2", "8"]).to_owned()),
            ("MaxConnections", terms.lines.to_string()),
        ];
        let cmd_sn = dice.pick(&[1, 7, u32::MAX - 3, i32::MAX as u32]);
        let cid = dice.pick(&[0, 1, u16::MAX]);
        let badge = Badge { port, tsih: 0, cid, cmd_sn };
        let (line, response, answers) = Line::log_in(target, dice, badge, &keys);
        let agreed = answers.iter().find(|(key, _)| key == "MaxConnections");
        let agreed = agreed.and_then(|(_, value)| value.parse().ok());
        terms.lines = terms.lines.min(agreed.unwrap_or(1));
        Peer {
            port,
            tsih: response.tsih,
            last_cid: cid,
            seen: Seen { sealed: usize::from(line.header_digest || line.data_digest), ..Seen::default() },
            lines: vec![line],
            terms,
            cmd_sn,
            itt: dice.pick(&[1, 0x100, u32::MAX - 5]),
            open: HashMap::new(),
            due: Vec::new(),
            aborted: HashSet::new(),
            perhaps: HashSet::new(),
            attention: [true; LUNS],
            has_told: [false; LUNS],
            ended: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// Whether it may have more connections.
    pub(crate) fn has_room(&self) -> bool {
        self.lines.len() < self.terms.lines
    }

    /// Another connection, under the id of one that is there or was, or under a new one.
    #[track_caller]
    pub(crate) fn join(&mut self, target: &Target, dice: &mut Dice, cid: Option<u16>) {
        let cid = cid.unwrap_or_else(|| {
            self.last_cid = self.last_cid.wrapping_add(1);
            self.last_cid
        });
        let badge = Badge { port: self.port, tsih: self.tsih, cid, cmd_sn: self.cmd_sn };
        let (line, response, _) = Line::log_in(target, dice, badge, &[]);
        assert_eq!(response.tsih, self.tsih);
        self.seen.joined += 1;
        self.seen.sealed += usize::from(line.header_digest || line.data_digest);
        self.lines.push(line);
    }

    pub(crate) fn next_itt(&mut self) -> u32 {
        // The reserved tag is nobody's.
        self.itt = if self.itt == RESERVED_TAG - 1 { 0 } else { self.itt + 1 };
        self.itt
    }

    /// The number of the next request, unless it is immediate.
    pub(crate) fn take_cmd_sn(&mut self, immediate: bool) -> u32 {
        let cmd_sn = self.cmd_sn;
        self.cmd_sn = cmd_sn.wrapping_add(u32::from(!immediate));
        cmd_sn
    }

    /// Queues a request on one of its connections, to be answered as `task` says.
    pub(crate) fn queue(&mut self, line: usize, pdu: impl Into<Pdu>, data: &[u8], mut task: Task) {
        let (line, pdu) = (&mut self.lines[line], pdu.into());
        line.queued.push(line.seal(pdu, data));
        task.cid = line.cid;
        self.open.insert(pdu.itt(), task);
    }

    /// Queues a NOP-Out with data and with this number.
    pub(crate) fn ping(
        &mut self,
        line: usize,
        (immediate, cmd_sn): (bool, u32),
        data: &[u8],
        expect: Expect,
    ) {
        let nop = NopOut {
            immediate,
            data_segment_len: 0,
            lun: Lun(0),
            itt: self.next_itt(),
            ttt: RESERVED_TAG,
            cmd_sn,
            exp_stat_sn: 0,
        };
        if !immediate {
            self.lines[line].numbers.push(cmd_sn);
        }
        self.queue(line, nop, data, Task::new(usize::MAX, expect));
    }

    /// Queues a SCSI command, with what is sent unasked.
    pub(crate) fn command(&mut self, dice: &mut Dice, cdb: [u8; 16], mut task: Task) {
        let itt = self.next_itt();
        let number = dice.below(self.lines.len());
        let most = task.out.len().min(self.terms.first_burst);
        let writes = !task.out.is_empty();
        let is_bare = task.to_abort;
        let immediate_data = match self.terms.immediate_data && writes && !is_bare && dice.chance(70) {
            true => dice.below(most.min(SEGMENT) + 1),
            false => 0,
        };
        let follows =
            writes && !is_bare && !self.terms.initial_r2t && immediate_data < most && dice.chance(70);
        let cmd_sn = self.take_cmd_sn(false);
        (task.is_command, task.cmd_sn) = (true, cmd_sn);
        let line = &mut self.lines[number];
        line.numbers.push(cmd_sn);
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
            cmd_sn,
            exp_stat_sn: line.stat_sn,
            cdb,
        };
        if follows {
            let is_whole = dice.chance(80);
            let end = if is_whole { most } else { immediate_data + 1 + dice.below(most - immediate_data) };
            line.late.extend(task.burst(dice, line, (itt, RESERVED_TAG), immediate_data..end));
        }
        let data = task.out[..immediate_data].to_vec();
        self.queue(number, command, &data, task);
        if dice.chance(50) {
            self.queue_late(number);
        }
    }

    /// Queues the unsolicited data of a connection that was put off.
    pub(crate) fn queue_late(&mut self, number: usize) {
        let line = &mut self.lines[number];
        let late = std::mem::take(&mut line.late);
        line.queued.extend(late);
    }

    /// A task management request, with the next number; it is immediate or takes it.
    pub(crate) fn management(
        &mut self,
        function: u8,
        lun: usize,
        (itt, immediate): (u32, bool),
        (referenced_itt, ref_cmd_sn): (u32, u32),
    ) -> TaskManagementRequest {
        TaskManagementRequest {
            immediate,
            function,
            lun: Lun::from_number(lun as u16),
            itt,
            referenced_itt,
            cmd_sn: self.take_cmd_sn(immediate),
            exp_stat_sn: 0,
            ref_cmd_sn,
            exp_data_sn: 0,
        }
    }

    /// Sends the abort of an open task on a connection.
    fn abort(&mut self, number: usize, itt: u32) {
        let (lun, cmd_sn) = (self.open[&itt].lun, self.open[&itt].cmd_sn);
        let own = self.next_itt();
        let abort = self.management(task_function::ABORT_TASK, lun, (own, true), (itt, cmd_sn));
        let line = &mut self.lines[number];
        line.send(&line.seal(abort, &[]));
        let mut task = Task::new(lun, Expect::AbortOf(itt));
        task.cid = line.cid;
        self.open.insert(own, task);
    }

    fn line_of(&self, cid: u16) -> usize {
        self.lines.iter().position(|line| line.cid == cid).expect("a connection of the session")
    }

    /// Takes PDUs, and sends what they ask for, until nothing is open that has to be answered.
    #[track_caller]
    pub(crate) fn collect(&mut self, dice: &mut Dice) {
        let began = Instant::now();
        while self.open.values().any(Task::is_owed) {
            let is_waiting = |itt: &u32| self.due.iter().any(|r2t| r2t.itt == *itt);
            let owed = self.open.iter().filter(|(itt, task)| task.is_owed() && !is_waiting(itt));
            let mut owed: Vec<u16> = owed.map(|(_, task)| task.cid).collect();
            if !self.due.is_empty() && (owed.is_empty() || dice.chance(40)) {
                let r2t = self.due.swap_remove(dice.below(self.due.len()));
                self.answer(dice, &r2t);
                continue;
            }
            // A table has no order that a seed would repeat.
            owed.sort_unstable();
            let number = self.line_of(dice.pick(&owed));
            let line = &mut self.lines[number];
            let (cid, segment) = (line.cid, line.segment);
            let Some(found) = line.receive(self.cmd_sn) else {
                panic!("connection {cid} is closed, and these are open: {:?}", self.open)
            };
            if let Some(ping) = self.take((cid, segment), found) {
                // A target that only pings has forgotten something.
                assert!(began.elapsed() < pdu::PATIENCE, "these are not answered: {:?}", self.open);
                self.pong(number, &ping);
            }
        }
    }

    /// Everybody has heard what there was to tell, where commands have been carried out.
    pub(crate) fn note_told(&mut self) {
        for (attention, has_told) in self.attention.iter_mut().zip(&mut self.has_told) {
            *attention &= !std::mem::take(has_told);
        }
    }

    /// Ends what somebody may have ended already, so that it is known what is under way: nothing.
    #[track_caller]
    pub(crate) fn settle(&mut self, dice: &mut Dice) {
        let doubtful = self.open.iter().filter(|(_, task)| task.is_doubtful);
        let mut doubtful: Vec<(u32, u32)> = doubtful.map(|(&itt, task)| (task.cmd_sn, itt)).collect();
        doubtful.sort_unstable();
        for (_, itt) in doubtful {
            // On its own connection: its answer, if there is one, comes before that to the abort.
            self.abort(self.line_of(self.open[&itt].cid), itt);
        }
        self.collect(dice);
        assert!(self.due.is_empty(), "data is sent for that belongs to no command: {:?}", self.due);
    }

    /// The end of a round: everything that has to be answered is.
    pub(crate) fn end_round(&mut self) {
        let perhaps = self.open.extract_if(|_, task| task.expect == Expect::Perhaps);
        self.perhaps.extend(perhaps.map(|(itt, _)| itt));
        assert!(self.open.is_empty(), "these are open: {:?}", self.open);
        self.aborted.clear();
        self.lines.iter_mut().for_each(|line| line.numbers.clear());
    }

    /// A connection that the target closes: what it still has to say, and what is lost with it.
    #[track_caller]
    pub(crate) fn part(&mut self, mut line: Line) {
        while let Some(found) = line.receive(self.cmd_sn) {
            self.take((line.cid, line.segment), found);
        }
        self.lose(line.cid);
    }

    /// Nothing will come of what was asked for over a connection.
    pub(crate) fn lose(&mut self, cid: u16) {
        let gone = self.open.extract_if(|_, task| task.cid == cid);
        self.lost.extend(gone.map(|(_, task)| task));
        self.due.retain(|r2t| self.open.contains_key(&r2t.itt));
    }

    fn answer(&mut self, dice: &mut Dice, r2t: &R2t) {
        let task = self.open.get_mut(&r2t.itt).expect("an R2T for an open task");
        if std::mem::take(&mut task.to_abort) {
            let (cid, is_doubtful) = (task.cid, task.is_doubtful);
            let (own, other) = (self.line_of(cid), dice.below(self.lines.len()));
            // Over its own connection the data that follows is known to be too late.
            if other == own || is_doubtful {
                self.due.push(*r2t);
                return self.abort(own, r2t.itt);
            }
            self.due.retain(|due| due.itt != r2t.itt);
            self.open.entry(r2t.itt).and_modify(|task| task.is_ending = true);
            return self.abort(other, r2t.itt);
        }
        let number = self.line_of(self.open[&r2t.itt].cid);
        let end = (r2t.buffer_offset + r2t.desired_len) as usize;
        let task = &self.open[&r2t.itt];
        let (tags, range) = ((r2t.itt, r2t.ttt), r2t.buffer_offset as usize..end);
        let burst = task.burst(dice, &self.lines[number], tags, range);
        self.lines[number].send(&burst.concat());
    }
}
