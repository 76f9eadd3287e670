//! The far end: the target's session in front of a memory.
//!
//! Does what the serving loop of the crate `target` does for a LUN in memory, without SCSI.

use std::collections::{HashMap, VecDeque};

use proto::params::Params;
use proto::target::{Answer, ConnectionId, Event, Function, Run, Session, TaskId};
use proto::{Data, Fault, Segment};
use wire::iscsi::{Pdu, task_response};

use crate::{Kind, Order, Sent, Spans};

/// Sense data of every refusal: ILLEGAL REQUEST, INVALID FIELD IN CDB.
const SENSE: [u8; 18] = [0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x24, 0, 0, 0, 0, 0];
/// ABORTED COMMAND, PROTOCOL SERVICE CRC ERROR.
const CRC_ERROR: [u8; 18] = [0x70, 0, 0xb, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x47, 5, 0, 0, 0, 0];
const CHECK_CONDITION: u8 = 2;

/// A target.
#[derive(Debug)]
pub struct Far {
    session: Session,
    memory: Vec<u8>,
    writes: HashMap<u64, Write>,
    next_write: u64,
    /// What the store would answer, if it takes its time.
    held: VecDeque<Held>,
    /// Tasks that were ended while the store was at work on them, and the requests that wait for that.
    doomed: Vec<TaskId>,
    managing: Vec<(ConnectionId, u32)>,
    faults: Vec<(ConnectionId, Fault)>,
    is_slow: bool,
    text_answer: Vec<u8>,
    texts: Vec<Vec<u8>>,
    most_open: usize,
}

#[derive(Debug)]
struct Write {
    task: TaskId,
    order: Order,
    wanted_bytes: u32,
    placed: Spans,
}

#[derive(Debug)]
enum Held {
    Send(TaskId, Order),
    Answer(TaskId, u32),
}

impl Held {
    fn task(&self) -> TaskId {
        let (Held::Send(task, _) | Held::Answer(task, _)) = self;
        *task
    }
}

impl Far {
    /// A target that has just been logged in to, with this memory.
    pub fn new(params: Params, exp_cmd_sn: u32, stat_sn: u32, window: u32, memory: Vec<u8>) -> Far {
        Far {
            session: Session::new(0, params, exp_cmd_sn, stat_sn, window),
            memory,
            writes: HashMap::new(),
            next_write: 0,
            held: VecDeque::new(),
            doomed: Vec::new(),
            managing: Vec::new(),
            faults: Vec::new(),
            is_slow: false,
            text_answer: Vec::new(),
            texts: Vec::new(),
            most_open: 0,
        }
    }

    /// Its session.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Its memory.
    pub fn memory(&self) -> &[u8] {
        &self.memory
    }

    /// Texts that have come.
    pub fn texts(&self) -> &[Vec<u8>] {
        &self.texts
    }

    /// Most commands that were open at once.
    pub fn most_open(&self) -> usize {
        self.most_open
    }

    /// What it says to any text.
    pub fn set_text_answer(&mut self, text: Vec<u8>) {
        self.text_answer = text;
    }

    /// From now on reads and written data wait for [`Far::release`], as behind a store that blocks.
    pub fn set_slow(&mut self, is_slow: bool) {
        self.is_slow = is_slow;
    }

    /// Lets the store answer `index` steps out of turn; false if it has nothing to do.
    pub fn release(&mut self, index: usize) -> bool {
        if self.held.is_empty() {
            return false;
        }
        let index = index % self.held.len();
        let Some(held) = self.held.remove(index) else { return false };
        let task = held.task();
        if let Some(index) = self.doomed.iter().position(|other| *other == task) {
            self.doomed.remove(index);
            self.session.forget(task);
            self.end_managing();
        } else {
            match held {
                Held::Send(task, order) => self.send(task, &order),
                Held::Answer(task, bytes) => self.good(task, bytes),
            }
        }
        self.serve();
        true
    }

    /// Takes a PDU with its whole data segment, on the only connection.
    ///
    /// # Errors
    /// The connection would be dropped.
    pub fn take(&mut self, header: &[u8; 48], data: &[u8]) -> Result<(), Fault> {
        self.take_on(ConnectionId::LEADING, header, data)
    }

    /// Takes a PDU with its whole data segment, on one of several connections.
    ///
    /// # Errors
    /// The connection would be dropped.
    pub fn take_on(&mut self, at: ConnectionId, header: &[u8; 48], data: &[u8]) -> Result<(), Fault> {
        let segment = self.begin_on(at, header)?;
        self.finish_on(at, header, segment, data)
    }

    /// Takes the header of a PDU; what is to be done with its data segment.
    ///
    /// # Errors
    /// The connection would be dropped.
    pub fn begin_on(&mut self, at: ConnectionId, header: &[u8; 48]) -> Result<Segment, Fault> {
        let pdu = Pdu::parse(header)?;
        self.session.begin(at, &pdu)?;
        self.serve();
        Ok(self.session.segment(at, &pdu))
    }

    /// Takes the data segment of a PDU, whose header may have come long before.
    ///
    /// # Errors
    /// The connection would be dropped.
    pub fn finish_on(
        &mut self,
        at: ConnectionId,
        header: &[u8; 48],
        segment: Segment,
        data: &[u8],
    ) -> Result<(), Fault> {
        let pdu = Pdu::parse(header)?;
        let collected = match segment {
            Segment::Discard => &[],
            Segment::Collect => data,
            Segment::Payload { token, offset_bytes, len_bytes } => {
                self.place(token, offset_bytes, &data[..len_bytes as usize]);
                &[]
            }
        };
        self.session.handle(at, &pdu, header, collected)?;
        self.serve();
        Ok(())
    }

    /// A connection is lost.
    pub fn lose(&mut self, connection: ConnectionId) {
        let tasks = self.session.leave(connection);
        self.let_go(tasks);
        self.serve();
    }

    /// Why connections would be dropped for what had waited for its turn.
    pub fn faults(&self) -> &[(ConnectionId, Fault)] {
        &self.faults
    }

    /// The next PDU to send on the only connection.
    pub fn poll_transmit(&mut self) -> Option<Sent> {
        self.poll_transmit_on(ConnectionId::LEADING)
    }

    /// The next PDU to send on one of several connections.
    pub fn poll_transmit_on(&mut self, at: ConnectionId) -> Option<Sent> {
        let transmit = self.session.poll_transmit(at)?;
        let header = transmit.header();
        let data = match transmit.data {
            Data::None => Vec::new(),
            Data::Owned(bytes) => bytes,
            Data::Payload { token, offset_bytes, len_bytes } => {
                let from = token as usize + offset_bytes as usize;
                self.memory[from..][..len_bytes as usize].to_vec()
            }
        };
        Some(Sent { header, data })
    }

    fn serve(&mut self) {
        self.most_open = self.most_open.max(self.session.open_commands());
        while let Some(event) = self.session.poll_event() {
            match event {
                Event::Run(run) => self.run(&run),
                Event::Received { task, token } => self.received(task, token),
                Event::Late { token, offset_bytes, data, .. } => self.place(token, offset_bytes, &data),
                Event::Damaged { task, token } => {
                    self.writes.remove(&token).expect("a write is damaged once");
                    self.session.answer(
                        task,
                        Answer { status: CHECK_CONDITION, sense: CRC_ERROR.to_vec(), actual_bytes: 0 },
                    );
                }
                Event::Manage { connection, itt, function, cmd_sn } => {
                    self.manage((connection, itt), function, cmd_sn);
                }
                Event::Text { connection, text } => {
                    self.texts.push(text);
                    self.session.answer_text(connection, self.text_answer.clone());
                }
                Event::Logout { .. } => {}
                Event::Fault { connection, fault } => self.faults.push((connection, fault)),
            }
        }
    }

    /// Ends tasks as the serving loop does: what the store is at work on, when it is done with it.
    fn manage(&mut self, request: (ConnectionId, u32), function: Function, cmd_sn: u32) {
        let victims = match function {
            Function::AbortTask(task) if self.session.abort(task) => vec![task],
            Function::AbortTask(_) => vec![],
            Function::AbortTaskSet(lun) | Function::ClearTaskSet(lun) | Function::LunReset(lun) => {
                self.session.abort_all(Some(lun), Some(cmd_sn))
            }
            Function::WarmReset | Function::ColdReset => self.session.abort_all(None, Some(cmd_sn)),
        };
        self.let_go(victims);
        self.managing.push(request);
        self.end_managing();
    }

    fn let_go(&mut self, victims: Vec<TaskId>) {
        for task in victims {
            if self.held.iter().any(|held| held.task() == task) {
                self.doomed.retain(|other| *other != task);
                self.doomed.push(task);
            } else {
                self.writes.retain(|_, write| write.task != task);
                self.session.forget(task);
            }
        }
    }

    fn end_managing(&mut self) {
        if self.doomed.is_empty() {
            for (connection, itt) in self.managing.drain(..) {
                self.session.answer_manage(connection, itt, task_response::COMPLETE);
            }
        }
    }

    fn run(&mut self, run: &Run) {
        let order = Order::parse(&run.cdb);
        let task = run.task;
        let is_possible = order.fits(self.memory.len()) && !(run.read && run.write);
        match order.kind {
            Kind::Nothing => self.good(task, 0),
            Kind::Read | Kind::Hand if is_possible && run.read => match self.is_slow {
                true => self.held.push_back(Held::Send(task, order)),
                false => self.send(task, &order),
            },
            Kind::Write if is_possible && run.write => {
                let token = self.next_write;
                self.next_write += 1;
                let wanted_bytes = order.len_bytes.min(run.expected_bytes);
                let early = self.session.take_early(task);
                self.writes.insert(token, Write { task, order, wanted_bytes, placed: Spans::default() });
                let most = early.len().min(wanted_bytes as usize);
                self.place(token, 0, &early[..most]);
                self.session.receive(task, token, wanted_bytes);
            }
            _ => self
                .session
                .answer(task, Answer { status: CHECK_CONDITION, sense: SENSE.to_vec(), actual_bytes: 0 }),
        }
    }

    fn send(&mut self, task: TaskId, order: &Order) {
        match order.kind {
            Kind::Hand => {
                let from = order.address as usize;
                let data = self.memory[from..][..order.len_bytes as usize].to_vec();
                self.session.send_owned(task, data);
            }
            // The token is the place, so a read needs nothing to be remembered.
            _ => self.session.send(task, u64::from(order.address), order.len_bytes),
        }
    }

    fn place(&mut self, token: u64, offset_bytes: u32, data: &[u8]) {
        let write = self.writes.get_mut(&token).expect("payload is placed only in writes that were taken");
        let len_bytes = data.len() as u32;
        assert!(offset_bytes + len_bytes <= write.wanted_bytes, "payload beyond what is wanted");
        write.placed.add(offset_bytes, len_bytes);
        let from = write.order.address as usize + offset_bytes as usize;
        self.memory[from..][..data.len()].copy_from_slice(data);
    }

    fn received(&mut self, task: TaskId, token: u64) {
        let write = self.writes.remove(&token).expect("a write is complete once");
        assert!(write.placed.is_exactly(write.wanted_bytes), "complete, but not each byte once: {write:?}");
        match self.is_slow {
            true => self.held.push_back(Held::Answer(task, write.order.len_bytes)),
            false => self.good(task, write.order.len_bytes),
        }
    }

    fn good(&mut self, task: TaskId, actual_bytes: u32) {
        self.session.answer(task, Answer { status: 0, sense: Vec::new(), actual_bytes });
    }
}
