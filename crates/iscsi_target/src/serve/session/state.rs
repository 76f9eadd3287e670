//! A session and its handling of PDUs: commands, and the transfers that belong to them.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use block::{Buffer, OperationError, StoreCall};
use event::{Host, Login, Op, RequestId};
use net::clock;
use proto::discovery::{self, Asker, TextRefused};
use proto::login::Admitted;
use proto::name;
use proto::peer_cpu;
use proto::target::{Answer, ConnectionId, Event, Run, Session, TaskId};
use slab::Slab;
use wire::iscsi::TaskAttribute;
use wire::scsi::{Sense, Status};

use crate::backend::Backend;
use crate::lun::{Lun, Nexus};
use crate::scsi::{self, Outcome};
use crate::serve::connection::end_reason::{End, Ending};
use crate::serve::limits::budget::{Filled, Holdings, share_bytes};
use crate::serve::limits::turns::Debt;
use crate::serve::session::lingering_calls::Lingering;
use crate::serve::session::member::Member;
use crate::serve::session::request_trace::Trail;
use crate::serve::session::transfer::{Body, Place, Transfer};
use crate::serve::stores::jobs::{Call, Done};
use crate::serve::{Shared, log};

/// A session: everything that its connections have in common.
pub(crate) struct SessionState {
    pub(crate) index: usize,
    pub(crate) nexus: Nexus,
    pub(crate) identity: SessionIdentity,
    /// Version of the register that has its nexus; nothing of it is read before that is kept.
    pub(crate) register_version: u64,
    pub(crate) session: Session,
    pub(crate) members: Vec<Member>,
    pub(crate) transfers: Slab<Transfer>,
    pub(crate) memory: SessionMemory,
    pub(crate) lingering: Lingering,
    /// Weight in the allocation of a line that sessions share.
    pub(crate) weight: u32,
    /// Time that its requests have taken from others.
    pub(crate) debt: Debt,
    /// Trace of requests through the layers; `None` without one.
    pub(crate) trail: Option<Trail>,
}

/// Identity of a session, set by its first login.
pub(crate) struct SessionIdentity {
    /// Name of the initiator.
    pub(crate) name: String,
    pub(crate) tsih: u16,
    /// Number of the session in the tables.
    number: u64,
    /// The target it is logged in to; `None` for discovery.
    pub(crate) iqn: Option<String>,
}

/// Memory for the data and commands of a session.
#[derive(Default)]
pub(crate) struct SessionMemory {
    /// Buffers of its transfers.
    pub(crate) holds: Holdings,
    /// Data that waits for commands before its own, as it was counted last.
    pub(crate) early_bytes: usize,
    /// Commands in memory, as they were counted last.
    pub(crate) commands: usize,
    /// Commands that fit into the session's share of buffers, by the mean size of commands with a buffer.
    pub(crate) window_max: u32,
}

impl SessionState {
    /// The session of a first login, over the connection of `client`.
    pub(crate) fn new(
        index: usize,
        nexus: Nexus,
        admitted: &Admitted,
        client: usize,
        local: SocketAddr,
        shared: &Shared,
    ) -> SessionState {
        let candidate = &admitted.candidate;
        let (params, exp_cmd_sn, stat_sn) = (admitted.params.clone(), admitted.exp_cmd_sn, admitted.stat_sn);
        // The announced MaxCmdSN holds, though the configured window may have changed since.
        let told = admitted.max_cmd_sn.wrapping_sub(exp_cmd_sn).wrapping_add(1);
        let mut session = Session::new(candidate.cid, params, exp_cmd_sn, stat_sn, told);
        session.set_command_window(shared.rules.policy.command_window);
        let number = RequestId::session_of(candidate.isid, admitted.tsih);
        let trail = shared.report.tracer.as_ref().map(|tracer| Trail::new(Rc::clone(tracer), number));
        SessionState {
            index,
            nexus,
            identity: SessionIdentity {
                name: candidate.initiator_name.clone(),
                tsih: admitted.tsih,
                number,
                iqn: candidate.target_name.clone().filter(|_| !candidate.discovery),
            },
            register_version: 0,
            session,
            members: vec![Member::new(ConnectionId::LEADING, client, local)],
            transfers: Slab::new(),
            memory: SessionMemory { window_max: u32::MAX, ..SessionMemory::default() },
            lingering: Lingering::default(),
            weight: shared.rules.weights.get(&name::folded(&candidate.initiator_name)).copied().unwrap_or(1),
            debt: Debt::default(),
            trail,
        }
    }

    /// Negotiated parameters of a connection, for the table `sessions`.
    pub(crate) fn recorded(&self, connection: ConnectionId) -> Login {
        let cid = self.session.cid_of(connection).into();
        Login { session: self.identity.number, cid, ..self.session.params_of(connection).recorded(Host::Far) }
    }

    /// Adds a connection to the session. An open connection with the same CID ends with its tasks (RFC 7143 section
    /// 6.3.4); the new one waits for that, see [`SessionState::may_begin`].
    pub(crate) fn join(
        &mut self,
        admitted: &Admitted,
        client: usize,
        local: SocketAddr,
        shared: &mut Shared,
    ) -> ConnectionId {
        let cid = admitted.candidate.cid;
        let same: Vec<_> = self.session.connections_of(cid).collect();
        for old in same {
            self.end(old, End::Replaced, true, shared);
        }
        let connection = self.session.join(cid, admitted.params.clone(), admitted.stat_sn);
        self.members.push(Member::new(connection, client, local));
        connection
    }

    pub(crate) fn member(&mut self, connection: ConnectionId) -> &mut Member {
        let found = self.members.iter_mut().find(|member| member.connection == connection);
        let Some(member) = found else { unreachable!("{connection:?} has left") };
        member
    }

    fn end(&mut self, connection: ConnectionId, end: End, is_abrupt: bool, shared: &mut Shared) {
        if let Some(member) = self.members.iter().find(|member| member.connection == connection) {
            shared.effects.endings.push(Ending { client: member.client, end, is_abrupt });
        }
    }

    /// Wakes other connections that have something to send after PDUs on the connection of `client`.
    pub(crate) fn stir_others(&self, client: usize, shared: &mut Shared) {
        let others = self.members.iter().filter(|member| member.client != client);
        let stirred = others.filter(|member| self.session.wants_transmit(member.connection));
        shared.effects.stirred.extend(stirred.map(|member| member.client));
    }

    /// Returns true if a transfer is under way on a LUN.
    pub(crate) fn uses(&self, number: u16) -> bool {
        self.transfers.iter().any(|(_, transfer)| transfer.lun.number() == Some(number))
    }

    pub(crate) fn insert(&mut self, mut transfer: Transfer, shared: &mut Shared) -> u64 {
        if transfer.is_buffered {
            self.memory.holds.held_bytes += transfer.len_bytes as usize;
            let room = share_bytes(shared.admission.open_sessions) / (transfer.len_bytes as usize).max(512);
            // A mean that follows: one large request among small ones does not close the window.
            let mean = u64::from(self.memory.window_max.min(1 << 16)) * 7 + room as u64;
            self.memory.window_max = u32::try_from(mean / 8).unwrap_or(u32::MAX).max(1);
        }
        if transfer.body.lacks_data() {
            transfer.filled = shared.memory.budget.announce(&mut self.memory.holds, transfer.len_bytes);
        }
        self.transfers.insert(transfer) as u64
    }

    pub(crate) fn remove(&mut self, token: usize) -> Transfer {
        let transfer = self.transfers.remove(token);
        if transfer.is_buffered {
            self.memory.holds.held_bytes -= transfer.len_bytes as usize;
        }
        transfer
    }

    pub(crate) fn handle_events(&mut self, shared: &mut Shared) {
        while let Some(event) = self.session.poll_event() {
            match event {
                Event::Run(run) => {
                    self.note_turn(&run);
                    self.run(&run, shared);
                }
                Event::Received { task, token } => self.received(task, token, shared),
                Event::Late { token, offset_bytes, data, .. } => {
                    let place = Place { token, offset_bytes };
                    self.space(&place, 0, data.len(), shared).copy_from_slice(&data);
                    self.laid(token, data.len(), shared);
                }
                Event::Damaged { task, token } => {
                    self.discard(token, shared);
                    let sense = Sense::PROTOCOL_SERVICE_CRC_ERROR;
                    self.answer(task, Status::CHECK_CONDITION, Some(sense), 0);
                }
                Event::Manage { connection, itt, function, cmd_sn } => {
                    shared.turn.note_costly();
                    self.manage((connection, itt), function, cmd_sn, shared);
                }
                Event::Text { connection, text } => {
                    shared.turn.note_costly();
                    self.answer_text(connection, &text, shared);
                }
                Event::Logout { connection, ends } => {
                    let all: Vec<_> = self.session.connections().collect();
                    for ending in all.into_iter().filter(|other| ends.is_none_or(|ends| ends == *other)) {
                        self.end(ending, End::LoggedOut, ending != connection, shared);
                    }
                }
                Event::Fault { connection, fault } => {
                    self.end(connection, End::Fault(fault), true, shared);
                }
            }
        }
    }

    pub(crate) fn run(&mut self, run: &Run, shared: &mut Shared) {
        if shared.is_draining {
            return self.answer(run.task, Status::BUSY, None, 0);
        }
        let is_discovery = self.identity.iqn.is_none();
        let outcome = match (run.read && run.write, is_discovery) {
            (_, true) => Outcome::Check(Sense::LUN_NOT_SUPPORTED),
            (true, _) => Outcome::Check(Sense::INVALID_OPCODE),
            // SAM-5 has no sense of its own for it; the connection is as good as any.
            _ if matches!(run.attribute, TaskAttribute::Reserved(_)) => {
                Outcome::Check(Sense::INVALID_FIELD_IN_CDB)
            }
            _ => scsi::execute(&mut shared.luns, run.lun, self.nexus, &run.cdb),
        };
        if !matches!(outcome, Outcome::Read(_) | Outcome::Write(_)) {
            shared.turn.note_costly();
        }
        shared.report.stats.commands += 1;
        self.member(run.connection).commands += 1;
        let task = run.task;
        match outcome {
            Outcome::Good => self.answer(task, Status::GOOD, None, 0),
            Outcome::ConditionMet => self.answer(task, Status::CONDITION_MET, None, 0),
            Outcome::Conflict => self.answer(task, Status::RESERVATION_CONFLICT, None, 0),
            Outcome::Full => self.answer(task, Status::TASK_SET_FULL, None, 0),
            Outcome::DataIn(data) => self.session.send_owned(task, data),
            Outcome::Check(sense) => self.answer(task, Status::CHECK_CONDITION, Some(sense), 0),
            Outcome::Sync => self.store_call(run, shared, StoreCall::Flush.into()),
            Outcome::Composite(order) => self.carry_out(run, order, shared),
            Outcome::Keep(save) => self.store_call(run, shared, Call::Keep(save)),
            Outcome::Preempted { .. } => unreachable!("it comes with data"),
            Outcome::Parameters { len_bytes } => self.ask_parameters(run, len_bytes, shared),
            Outcome::Read(range) if run.read && run.expected_bytes > 0 => {
                let len_bytes = range.len_bytes.min(run.expected_bytes);
                self.member(run.connection).command_bytes += u64::from(len_bytes);
                self.note_request(run, Op::Read, &range, len_bytes);
                if self.is_memory(run, shared) {
                    self.note(task, |times, now| times.answered = now);
                    let transfer = new_transfer(run, range, len_bytes, Body::Memory);
                    let token = self.insert(transfer, shared);
                    self.session.send(task, token, range.len_bytes);
                } else if !self.has_room(run.lun, len_bytes, shared) {
                    self.answer(task, Status::TASK_SET_FULL, None, 0);
                } else {
                    let buffer = shared.memory.budget.take(run.lun.number(), len_bytes);
                    let call = StoreCall::Read {
                        offset_bytes: range.offset_bytes,
                        buffer,
                        fua: range.fua,
                        done_bytes: 0,
                    };
                    let token = self.insert(new_transfer(run, range, len_bytes, Body::Away), shared);
                    self.submit(run.lun, token, call.into(), shared);
                }
            }
            Outcome::Write(range) if run.write && run.expected_bytes > 0 => {
                // A part of a block is not written; the residual says that there was not all of it.
                let block_len_bytes = shared.luns.lun(run.lun).map_or(1, Lun::block_len_bytes);
                let len_bytes = range.len_bytes.min(run.expected_bytes) / block_len_bytes * block_len_bytes;
                if len_bytes == 0 {
                    return self.answer(task, Status::GOOD, None, range.len_bytes);
                }
                self.member(run.connection).command_bytes += u64::from(len_bytes);
                self.note_request(run, Op::Write, &range, len_bytes);
                let body = if self.is_memory(run, shared) {
                    Body::Memory
                } else if !self.may_announce(run.lun, len_bytes, shared) {
                    return self.answer(task, Status::TASK_SET_FULL, None, 0);
                } else {
                    Body::Filling(shared.memory.budget.promise(run.lun.number(), len_bytes))
                };
                let token = self.insert(new_transfer(run, range, len_bytes, body), shared);
                self.receive(task, token, len_bytes, shared);
            }
            // The initiator expects no data, so none is moved: the residual says how much that was.
            Outcome::Read(range) | Outcome::Write(range) if run.expected_bytes == 0 => {
                self.answer(task, Status::GOOD, None, range.len_bytes);
            }
            // A read with W set in the PDU: no data is moved, and the residual reports that.
            Outcome::Read(_) => self.answer(task, Status::GOOD, None, 0),
            Outcome::Write(_) => {
                self.answer(task, Status::CHECK_CONDITION, Some(Sense::WRONG_DIRECTION), 0);
            }
        }
    }

    /// Requests the data of a transfer from the initiator.
    pub(crate) fn receive(&mut self, task: TaskId, token: u64, len_bytes: u32, shared: &mut Shared) {
        let early = self.session.take_early(task);
        if !early.is_empty() {
            let len = early.len().min(len_bytes as usize);
            let place = Place { token, offset_bytes: 0 };
            self.space(&place, 0, len, shared).copy_from_slice(&early[..len]);
            self.laid(token, len, shared);
        }
        self.session.receive(task, token, len_bytes);
    }

    pub(crate) fn received(&mut self, task: TaskId, token: u64, shared: &mut Shared) {
        self.settle(token, shared);
        let transfer = &mut self.transfers[token as usize];
        match std::mem::replace(&mut transfer.body, Body::Away) {
            Body::Filling(buffer) => {
                let call = StoreCall::Write {
                    offset_bytes: transfer.offset_bytes,
                    buffer,
                    fua: transfer.fua,
                    done_bytes: 0,
                };
                let lun = transfer.lun;
                self.submit(lun, token, call.into(), shared);
            }
            Body::Parameters(data, cdb) => {
                let transfer = self.remove(token as usize);
                self.run_with(&transfer, &cdb, Some(data), shared);
            }
            _ => {
                let transfer = self.remove(token as usize);
                self.answer(task, Status::GOOD, None, transfer.actual_bytes);
            }
        }
    }

    pub(crate) fn finish_job(&mut self, done: Done, shared: &mut Shared) {
        let token = done.token as usize;
        let Some(transfer) = self.transfers.get_mut(token) else { return };
        let (task, lun, actual_bytes) = (transfer.task, transfer.lun, transfer.actual_bytes);
        if matches!(transfer.body, Body::Doomed(_)) {
            return self.finish_doomed(token, shared);
        }
        // Not before: the tag of a doomed one may be another request's by now.
        self.note_stored(task, done.ended);
        let transfer = &mut self.transfers[token];
        if let Body::Keeping(id, only) = &mut transfer.body {
            let (id, only) = (*id, std::mem::take(only));
            match done.result {
                Ok(()) => {
                    transfer.body = Body::Waiting(id);
                    self.preempt(id, lun, only, shared);
                }
                // The reservation is not in force, so no task ends for it.
                Err(failure) => {
                    self.remove(token);
                    self.fail(task, lun, &failure, shared);
                    shared.management.release(id);
                }
            }
            return;
        }
        match (done.result, done.read) {
            (Ok(()), Some(buffer)) => self.send_read(done.token, buffer),
            // An initiator has switched the write cache off meanwhile.
            (Ok(()), None) if transfer.is_cached && shared.luns.lun(lun).is_some_and(Lun::writes_through) => {
                self.submit(lun, done.token, StoreCall::Flush.into(), shared);
            }
            (Ok(()), None) => {
                self.remove(token);
                self.answer(task, Status::GOOD, None, actual_bytes);
            }
            (Err(failure), _) => {
                self.remove(token);
                self.fail(task, lun, &failure, shared);
            }
        }
        self.handle_events(shared);
    }

    /// Answers a read with the data of a store.
    pub(crate) fn send_read(&mut self, token: u64, buffer: Buffer) {
        let transfer = &mut self.transfers[token as usize];
        let (task, actual_bytes) = (transfer.task, transfer.actual_bytes);
        transfer.body = Body::Sending(Arc::new(buffer));
        self.note(task, |times, now| times.answered = now);
        self.session.send(task, token, actual_bytes);
    }

    pub(crate) fn fail(
        &mut self,
        task: TaskId,
        lun: wire::iscsi::Lun,
        failure: &OperationError,
        shared: &mut Shared,
    ) {
        if let (Some(error), Some(number)) = (failure.device_error(), lun.number()) {
            let text = error.to_string();
            if let Some(line) = shared.report.told.line(number, text, clock::now()) {
                log(format_args!("{}: LUN {number}: {line}", self.identity.name));
            }
        }
        let (status, sense) = scsi::status_of(failure);
        self.answer(task, status, sense, 0);
    }

    pub(crate) fn answer(&mut self, task: TaskId, status: Status, sense: Option<Sense>, actual_bytes: u32) {
        self.note(task, |times, now| times.answered = now);
        let sense = sense.map_or_else(Vec::new, |sense| sense.emit_fixed().to_vec());
        self.session.answer(task, Answer { status: status.0, sense, actual_bytes });
    }

    fn answer_text(&mut self, connection: ConnectionId, text: &[u8], shared: &Shared) {
        let local = self.member(connection).local;
        let asker = match &self.identity.iqn {
            Some(target_name) => Asker::Session { target_name },
            None => Asker::Discovery,
        };
        let portals = shared.rules.portals.named(local);
        let answer = match peer_cpu::is_request(text) {
            true => Ok(peer_cpu::answer(clock::process_cpu_ns())),
            false => discovery::answer(text, asker, &portals),
        };
        match answer {
            Ok(answer) => {
                if let Some(segment_len) = discovery::declared_segment(text) {
                    self.session.declare_segment(connection, segment_len);
                }
                self.session.answer_text(connection, answer);
            }
            // Malformed text gets an empty answer: the session is not harmed.
            Err(TextRefused::Text(_)) => self.session.answer_text(connection, Vec::new()),
            Err(TextRefused::Undefined(_)) => self.session.refuse_text(connection),
        }
    }

    pub(crate) fn is_memory(&self, run: &Run, shared: &Shared) -> bool {
        shared.luns.lun(run.lun).is_some_and(|lun| matches!(lun.backend(), Backend::Inline(_)))
    }

    pub(crate) fn space<'a>(
        &'a mut self,
        place: &Place,
        offset: usize,
        len: usize,
        shared: &'a mut Shared,
    ) -> &'a mut [u8] {
        let transfer = &mut self.transfers[place.token as usize];
        match &mut transfer.body {
            Body::Memory => {
                let backend = shared.luns.lun_mut(transfer.lun).map(Lun::backend_mut);
                let Some(Backend::Inline(inline)) = backend else {
                    unreachable!("the transfer was made for a LUN that is served inline");
                };
                inline.space(transfer.offset_bytes + u64::from(place.offset_bytes), offset, len)
            }
            Body::Filling(buffer) | Body::Parameters(buffer, _) => {
                buffer.begin();
                &mut buffer[place.offset_bytes as usize + offset..][..len]
            }
            Body::Waste => {
                if shared.memory.waste.len() < len {
                    shared.memory.waste.resize(len, 0);
                }
                &mut shared.memory.waste[..len]
            }
            other => unreachable!("nothing is received for a transfer like {other:?}"),
        }
    }
}

fn new_transfer(run: &Run, range: scsi::Transfer, len_bytes: u32, body: Body) -> Transfer {
    Transfer {
        task: run.task,
        lun: run.lun,
        offset_bytes: range.offset_bytes,
        actual_bytes: range.len_bytes,
        len_bytes,
        fua: range.fua,
        is_cached: false,
        is_buffered: !matches!(body, Body::Memory),
        halt: None,
        filled: Filled::default(),
        body,
    }
}
