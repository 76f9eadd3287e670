//! One connection at the target: login, then its session's commands on the LUNs, or discovery.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use control::{Bdp, Observation, Policy};
use engine::{Connection, Landing, Outgoing, Progress, Receiver, Sender, Stop};
use event::{Host, Instant, SocketSample};
use net::{Poll, Ready, clock};
use proto::discovery::{self, Asker};
use proto::login::{Admitted, LoginError, LoginPolicy, SEGMENT_BYTES, Target as Login};
use proto::target::{Answer, Event, Run, Session, TaskId};
use proto::{Data, Fault, Segment, peer_cpu};
use slab::Slab;
use wire::iscsi::{BHS_LEN, Bhs, Pdu};
use wire::scsi::{Sense, Status};

use super::jobs::{Call, Done, Job};
use super::transfer::{Body, Payload, Place, Transfer};
use super::{Shared, with_scratch};
use crate::backend::{Backend, BackendError};
use crate::lun::Nexus;
use crate::scsi::{self, Outcome};

/// The command window before anything is known of the path.
pub(super) const COMMANDS_AT_FIRST: u32 = 4096;
/// Buffers that all sessions may hold before sockets are no longer read.
const BUDGET_BYTES: usize = 256 << 20;
/// Beyond this, commands that need a buffer are answered TASK SET FULL.
const BUDGET_HARD_BYTES: usize = 4 * BUDGET_BYTES;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    /// The initiator closed it, after logging out or without a word.
    #[error("closed by the initiator")]
    Closed,
    /// The logout is answered.
    #[error("logged out")]
    LoggedOut,
    /// The target ends.
    #[error("the target shuts down")]
    Shutdown,
    /// No login in time.
    #[error("no login within 15 s")]
    LoginTimeout,
    /// The socket failed.
    #[error("{0}")]
    Io(io::Error),
    /// The login failed; the initiator has been told.
    #[error("{0}")]
    Login(LoginError),
    /// The peer broke the protocol.
    #[error("{0}; the connection is closed")]
    Fault(#[from] Fault),
    /// The peer sent something else than a login before logging in.
    #[error("no iSCSI login in what it sends; the connection is closed")]
    NotLogin,
}

impl End {
    /// Whether a person wants to read of it.
    pub(super) fn is_worth_telling(&self) -> bool {
        !matches!(self, End::Closed | End::LoggedOut | End::Shutdown)
    }
}

/// One connection.
pub(super) struct Client {
    connection: Connection<Place, Payload>,
    side: Side,
    readable: bool,
    is_reading: bool,
    seen_bytes: u64,
}

/// Everything of a connection that is not its socket.
struct Side {
    index: usize,
    nexus: Nexus,
    peer: SocketAddr,
    name: String,
    phase: Phase,
    transfers: Slab<Transfer>,
    policy: Bdp,
    commands: u64,
    command_bytes: u64,
    end: Option<End>,
}

enum Phase {
    Login { login: Box<Login>, deadline: Instant, pdu: Option<Pdu> },
    Full { session: Box<Session>, tsih: u16, iqn: Option<String>, pdu: Option<Pdu> },
}

impl Client {
    pub(super) fn new(
        stream: TcpStream,
        peer: SocketAddr,
        poll: &Poll,
        index: usize,
        nexus: Nexus,
        login: LoginPolicy,
        deadline: Instant,
    ) -> io::Result<Client> {
        Ok(Client {
            connection: Connection::new(stream, poll, index as u64)?,
            side: Side {
                index,
                nexus,
                peer,
                name: peer.to_string(),
                phase: Phase::Login { login: Box::new(Login::new(login)), deadline, pdu: None },
                transfers: Slab::new(),
                policy: Bdp::new(),
                commands: 0,
                command_bytes: 0,
                end: None,
            },
            readable: false,
            is_reading: true,
            seen_bytes: 0,
        })
    }

    pub(super) fn index(&self) -> usize {
        self.side.index
    }

    pub(super) fn nexus(&self) -> Nexus {
        self.side.nexus
    }

    pub(super) fn name(&self) -> &str {
        &self.side.name
    }

    pub(super) fn mark(&mut self, ready: Ready) {
        self.readable |= ready.readable;
    }

    pub(super) fn awaits_login(&self) -> bool {
        matches!(self.side.phase, Phase::Login { .. })
    }

    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        matches!(self.side.phase, Phase::Login { deadline, .. } if now >= deadline)
    }

    /// Whether it has stopped reading for want of buffers.
    pub(super) fn is_paused(&self) -> bool {
        !self.is_reading
    }

    /// Reads, runs and sends what there is.
    pub(super) fn turn(&mut self, poll: &Poll, shared: &mut Shared) -> Result<Progress, End> {
        let reading = self.side.may_read(shared);
        if reading != self.is_reading {
            self.connection.set_reading(poll, reading).map_err(End::Io)?;
            self.is_reading = reading;
        }
        let mut progress = Progress::Waits;
        if self.readable && reading {
            let mut receiver = Active { side: &mut self.side, shared };
            let connection = &mut self.connection;
            let received = with_scratch(|scratch| connection.receive(scratch, &mut receiver));
            progress = received.map_err(|stop| match stop {
                Stop::Closed => End::Closed,
                Stop::Io(error) => End::Io(error),
                Stop::Refused(end) => end,
            })?;
            self.readable = progress == Progress::More;
        }
        let mut sender = Active { side: &mut self.side, shared };
        let sent = self.connection.send(poll, &mut sender).map_err(End::Io)?;
        if sent == Progress::More {
            progress = Progress::More;
        }
        if !self.connection.has_unsent() && sent == Progress::Waits {
            if let Some(end) = self.side.end.take() {
                return Err(end);
            }
        }
        Ok(progress)
    }

    /// Goes on with a command whose store has answered.
    pub(super) fn finish_job(&mut self, done: Done, shared: &mut Shared) {
        self.side.finish_job(done, shared);
    }

    /// The row of the table for a connection that has moved data since the last look, and how soon to look
    /// again; the policy has seen it and its decisions are in force.
    pub(super) fn sample(&mut self, now: Instant) -> io::Result<Option<(SocketSample, Duration)>> {
        let moved =
            self.connection.received_payload_bytes() + self.connection.sent_payload_bytes();
        if moved == self.seen_bytes {
            return Ok(None);
        }
        self.seen_bytes = moved;
        let (info, sample) = self.connection.sample(now, Host::Far)?;
        let side = &mut self.side;
        let Phase::Full { session, .. } = &mut side.phase else { return Ok(None) };
        let unsent = u64::from(info.notsent_bytes) + session.unsent_payload_bytes();
        side.policy.observe(&Observation {
            now,
            rtt: info.rtt,
            min_rtt: info.min_rtt,
            moved_bytes: sample.app_rx_bytes + info.acked_bytes,
            delivery_rate_bytes_per_s: info.delivery_rate_bytes_per_s,
            app_limited: info.app_limited,
            backlog_bytes: unsent,
            request_bytes: side.command_bytes / side.commands.max(1),
        });
        (side.commands, side.command_bytes) = (0, 0);
        let decision = side.policy.decide();
        session.set_command_window(decision.command_window);
        if let Some(bytes_per_s) = decision.pacing_bytes_per_s {
            self.connection.pace(bytes_per_s)?;
        }
        self.connection.follow_rate(info.delivery_rate_bytes_per_s)?;
        Ok(Some((sample, decision.look_again)))
    }

    /// The row of the table for the end of a connection that has moved data.
    pub(super) fn last_sample(&self, now: Instant) -> Option<SocketSample> {
        let (_, sample) = self.connection.sample(now, Host::Far).ok()?;
        (sample.app_rx_bytes + sample.app_tx_bytes > 0).then_some(sample)
    }

    /// Takes the connection's traces out of what all share.
    pub(super) fn leave(&mut self, shared: &mut Shared) {
        shared.stats.received_bytes += self.connection.received_payload_bytes();
        shared.stats.sent_bytes += self.connection.sent_payload_bytes();
        if let Phase::Full { tsih, .. } = &self.side.phase {
            shared.sessions.close(*tsih);
            shared.luns.end(self.side.nexus);
        }
    }
}

impl Side {
    /// Out of buffers, a socket is not read until some are free; unless data is on its way into a buffer
    /// that is held already, which would never come free otherwise.
    fn may_read(&self, shared: &Shared) -> bool {
        let is_filling = |(_, transfer): (usize, &Transfer)| matches!(transfer.body, Body::Filling(_));
        has_budget(shared)
            || self.transfers.is_empty()
            || self.transfers.iter().any(is_filling)
    }

    fn session(&mut self) -> &mut Session {
        match &mut self.phase {
            Phase::Full { session, .. } => session,
            Phase::Login { .. } => unreachable!("commands come after the login"),
        }
    }

    fn admit(&mut self, admitted: &Admitted, shared: &mut Shared) {
        let candidate = &admitted.candidate;
        self.name = format!("{} ({})", candidate.initiator_name, self.peer);
        let (exp_cmd_sn, stat_sn) = (admitted.exp_cmd_sn, admitted.stat_sn);
        let session = Session::new(admitted.params.clone(), exp_cmd_sn, stat_sn, COMMANDS_AT_FIRST);
        let iqn = candidate.target_name.clone().filter(|_| !candidate.discovery);
        if iqn.is_some() {
            shared.luns.begin(self.nexus);
        }
        shared.stats.sessions += 1;
        self.phase = Phase::Full { session: Box::new(session), tsih: admitted.tsih, iqn, pdu: None };
    }

    fn handle_events(&mut self, shared: &mut Shared) {
        while let Some(event) = self.session().poll_event() {
            match event {
                Event::Run(run) => self.run(&run, shared),
                Event::Received { task, token } => self.received(task, token, shared),
                Event::Text(text) => self.answer_text(&text, shared),
                Event::Logout => self.end = Some(End::LoggedOut),
            }
        }
    }

    fn run(&mut self, run: &Run, shared: &mut Shared) {
        let is_discovery = matches!(self.phase, Phase::Full { iqn: None, .. });
        let outcome = match (run.read && run.write, is_discovery) {
            (_, true) => Outcome::Check(Sense::LUN_NOT_SUPPORTED),
            (true, _) => Outcome::Check(Sense::INVALID_OPCODE),
            _ => scsi::execute(&mut shared.luns, run.lun, self.nexus, &run.cdb),
        };
        shared.stats.commands += 1;
        self.commands += 1;
        let task = run.task;
        match outcome {
            Outcome::Good => self.answer(task, Status::GOOD, None, 0),
            Outcome::DataIn(data) => self.session().send_owned(task, data),
            Outcome::Check(sense) => self.answer(task, Status::CHECK_CONDITION, Some(sense), 0),
            Outcome::Sync => self.store_call(run, shared, 0, Call::Sync),
            Outcome::Read(range) if run.read && run.expected_bytes > 0 => {
                let len_bytes = range.len_bytes.min(run.expected_bytes);
                self.command_bytes += u64::from(len_bytes);
                if self.is_memory(run, shared) {
                    let transfer = new_transfer(run, range, len_bytes, Body::Memory);
                    let token = self.transfers.insert(transfer) as u64;
                    self.session().send(task, token, range.len_bytes);
                } else if shared.buffers.held_bytes() >= BUDGET_HARD_BYTES {
                    self.answer(task, Status::TASK_SET_FULL, None, 0);
                } else {
                    let buffer = shared.buffers.take(len_bytes as usize);
                    let call = Call::Read { offset_bytes: range.offset_bytes, buffer, fua: range.fua };
                    self.store_call(run, shared, range.len_bytes, call);
                }
            }
            Outcome::Write(range) if run.write && run.expected_bytes > 0 => {
                let len_bytes = range.len_bytes.min(run.expected_bytes);
                self.command_bytes += u64::from(len_bytes);
                let body = if self.is_memory(run, shared) {
                    Body::Memory
                } else if shared.buffers.held_bytes() >= BUDGET_HARD_BYTES {
                    return self.answer(task, Status::TASK_SET_FULL, None, 0);
                } else {
                    Body::Filling(shared.buffers.take(len_bytes as usize))
                };
                let token = self.transfers.insert(new_transfer(run, range, len_bytes, body));
                let early = self.session().take_early(task);
                if !early.is_empty() {
                    let len = early.len().min(len_bytes as usize);
                    let place = self.place(token as u64, 0);
                    self.space(&place, 0, len, shared).copy_from_slice(&early[..len]);
                }
                self.session().receive(task, token as u64, len_bytes);
            }
            // The initiator expects no data, so none is moved: the residual says how much that was.
            Outcome::Read(range) | Outcome::Write(range) => {
                self.answer(task, Status::GOOD, None, range.len_bytes);
            }
        }
    }

    fn received(&mut self, task: TaskId, token: u64, shared: &mut Shared) {
        let transfer = &mut self.transfers[token as usize];
        match std::mem::replace(&mut transfer.body, Body::Away) {
            Body::Filling(buffer) => {
                let call = Call::Write { offset_bytes: transfer.offset_bytes, buffer, fua: transfer.fua };
                let lun = transfer.lun;
                self.submit(lun, token, call, shared);
            }
            _ => {
                let transfer = self.transfers.remove(token as usize);
                self.answer(task, Status::GOOD, None, transfer.actual_bytes);
            }
        }
    }

    fn finish_job(&mut self, done: Done, shared: &mut Shared) {
        let token = done.token as usize;
        let Some(transfer) = self.transfers.get_mut(token) else { return };
        let (task, actual_bytes) = (transfer.task, transfer.actual_bytes);
        match (done.result, done.read) {
            (Ok(()), Some(buffer)) => {
                transfer.body = Body::Sending(Arc::new(buffer));
                self.session().send(task, done.token, actual_bytes);
            }
            (Ok(()), None) => {
                self.transfers.remove(token);
                self.answer(task, Status::GOOD, None, actual_bytes);
            }
            (Err(error), read) => {
                self.transfers.remove(token);
                self.tell(&error);
                let sense = match read {
                    Some(_) => scsi::read_failed(&error),
                    None => scsi::write_failed(&error),
                };
                self.answer(task, Status::CHECK_CONDITION, Some(sense), 0);
            }
        }
        self.handle_events(shared);
    }

    fn tell(&self, error: &BackendError) {
        eprintln!("farlun target: {}: {error}", self.name);
    }

    fn answer(&mut self, task: TaskId, status: Status, sense: Option<Sense>, actual_bytes: u32) {
        let sense = sense.map_or_else(Vec::new, |sense| sense.emit_fixed().to_vec());
        self.session().answer(task, Answer { status: status.0, sense, actual_bytes });
    }

    fn answer_text(&mut self, text: &[u8], shared: &Shared) {
        let Phase::Full { session, iqn, .. } = &mut self.phase else { return };
        let asker = match iqn {
            Some(target_name) => Asker::Session { target_name },
            None => Asker::Discovery,
        };
        session.answer_text(match peer_cpu::is_request(text) {
            true => peer_cpu::answer(clock::process_cpu_ns()),
            // What is no text is answered with none: the session is not harmed by it.
            false => discovery::answer(text, asker, &shared.advertised).unwrap_or_default(),
        });
    }

    fn is_memory(&self, run: &Run, shared: &Shared) -> bool {
        shared.luns.lun(run.lun).is_some_and(|lun| matches!(lun.backend(), Backend::Memory(_)))
    }

    fn store_call(&mut self, run: &Run, shared: &Shared, actual_bytes: u32, call: Call) {
        let transfer = Transfer {
            task: run.task,
            lun: run.lun,
            offset_bytes: 0,
            actual_bytes,
            len_bytes: actual_bytes.min(run.expected_bytes),
            fua: false,
            body: Body::Away,
        };
        let token = self.transfers.insert(transfer) as u64;
        self.submit(run.lun, token, call, shared);
    }

    fn submit(&self, lun: wire::iscsi::Lun, token: u64, call: Call, shared: &Shared) {
        let Some(Backend::Blocking(store)) = shared.luns.lun(lun).map(|lun| lun.backend()) else {
            unreachable!("only LUNs with a store that blocks come here");
        };
        let (client, nexus) = (self.index, self.nexus);
        shared.workers.submit(Job { store: Arc::clone(store), call, client, nexus, token });
    }

    fn place(&self, token: u64, offset_bytes: u32) -> Place {
        let transfer = &self.transfers[token as usize];
        match transfer.body {
            Body::Memory => Place::Memory {
                lun: transfer.lun,
                offset_bytes: transfer.offset_bytes + u64::from(offset_bytes),
            },
            _ => Place::Buffer { token, offset_bytes: offset_bytes as usize },
        }
    }

    fn space<'a>(
        &'a mut self,
        place: &Place,
        offset: usize,
        len: usize,
        shared: &'a mut Shared,
    ) -> &'a mut [u8] {
        match *place {
            Place::Memory { lun, offset_bytes } => {
                let backend = shared.luns.lun_mut(lun).map(|lun| lun.backend_mut());
                let Some(Backend::Memory(memory)) = backend else {
                    unreachable!("the place was made for a LUN in memory");
                };
                &mut memory.bytes_mut()[offset_bytes as usize + offset..][..len]
            }
            Place::Buffer { token, offset_bytes } => {
                let Body::Filling(buffer) = &mut self.transfers[token as usize].body else {
                    unreachable!("the place was made for a buffer that is being filled");
                };
                &mut buffer[offset_bytes + offset..][..len]
            }
        }
    }
}

/// Whether there is room for more buffers.
pub(super) fn has_budget(shared: &Shared) -> bool {
    shared.buffers.held_bytes() < BUDGET_BYTES
}

fn new_transfer(run: &Run, range: scsi::Transfer, len_bytes: u32, body: Body) -> Transfer {
    Transfer {
        task: run.task,
        lun: run.lun,
        offset_bytes: range.offset_bytes,
        actual_bytes: range.len_bytes,
        len_bytes,
        fua: range.fua,
        body,
    }
}

/// A client at work, with what all clients share.
struct Active<'a> {
    side: &'a mut Side,
    shared: &'a mut Shared,
}

impl Receiver for Active<'_> {
    type Place = Place;
    type Error = End;

    fn header(&mut self, header: &[u8; BHS_LEN], _ahs: &[u8]) -> Result<Landing<Place>, End> {
        match &mut self.side.phase {
            Phase::Login { pdu, .. } => {
                let parsed = Pdu::parse(header).map_err(|_| End::NotLogin)?;
                if Bhs::new(header).data_segment_len() > SEGMENT_BYTES {
                    return Err(End::NotLogin);
                }
                *pdu = Some(parsed);
                Ok(Landing::Collect)
            }
            Phase::Full { session, pdu, .. } => {
                let parsed = Pdu::parse(header).map_err(Fault::from)?;
                *pdu = Some(parsed);
                session.begin(&parsed)?;
                self.side.handle_events(self.shared);
                Ok(match self.side.session().segment(&parsed) {
                    Segment::Discard => Landing::Discard,
                    Segment::Collect => Landing::Collect,
                    Segment::Payload { token, offset_bytes, len_bytes } => Landing::Place {
                        place: self.side.place(token, offset_bytes),
                        len_bytes: len_bytes as usize,
                    },
                })
            }
        }
    }

    fn space(&mut self, place: &Place, offset_bytes: usize, len_bytes: usize) -> &mut [u8] {
        self.side.space(place, offset_bytes, len_bytes, self.shared)
    }

    fn pdu(&mut self, header: &[u8; BHS_LEN], collected: &[u8]) -> Result<(), End> {
        match &mut self.side.phase {
            Phase::Login { login, pdu, .. } => {
                match pdu.take() {
                    Some(Pdu::LoginRequest(request)) => {
                        let result = login.handle_request(&request, collected, &mut self.shared.sessions);
                        if let Err(error) = result {
                            self.side.end = Some(End::Login(error));
                        }
                    }
                    other => {
                        login.handle_other(other.map_or(0, |pdu| pdu.itt()));
                        self.side.end = Some(End::NotLogin);
                    }
                }
                Ok(())
            }
            Phase::Full { session, pdu, .. } => {
                let Some(pdu) = pdu.take() else { unreachable!("every PDU begins with its header") };
                session.handle(&pdu, header, collected)?;
                self.side.handle_events(self.shared);
                Ok(())
            }
        }
    }
}

impl Sender for Active<'_> {
    type Data = Payload;

    fn next(&mut self) -> Option<Outgoing<Payload>> {
        let transmit = match &mut self.side.phase {
            Phase::Login { login, .. } => {
                let (response, text) = login.poll_transmit()?;
                let mut header = [0; BHS_LEN];
                response.emit(&mut header);
                let admitted = login.outcome().cloned();
                if let Some(admitted) = admitted {
                    self.side.admit(&admitted, self.shared);
                }
                return Some(Outgoing { header, data: Some(Payload::Owned(text)), is_payload: false });
            }
            Phase::Full { session, .. } => session.poll_transmit()?,
        };
        let (data, is_payload) = match transmit.data {
            Data::None => (None, false),
            Data::Owned(bytes) => (Some(Payload::Owned(bytes)), false),
            Data::Payload { token, offset_bytes, len_bytes } => {
                (Some(self.payload(token, offset_bytes, len_bytes)), true)
            }
        };
        Some(Outgoing { header: transmit.header, data, is_payload })
    }

    fn bytes<'a>(&'a self, data: &'a Payload) -> &'a [u8] {
        match data {
            Payload::Owned(bytes) => bytes,
            Payload::Buffer { buffer, offset_bytes, len_bytes } => &buffer[*offset_bytes..][..*len_bytes],
            Payload::Memory { lun, offset_bytes, len_bytes } => {
                let backend = self.shared.luns.lun(*lun).map(|lun| lun.backend());
                let Some(Backend::Memory(memory)) = backend else {
                    unreachable!("the payload was made for a LUN in memory");
                };
                &memory.bytes()[*offset_bytes as usize..][..*len_bytes]
            }
        }
    }
}

impl Active<'_> {
    /// Names a stretch of a transfer's data; with the last one the transfer is over.
    fn payload(&mut self, token: u64, offset_bytes: u32, len_bytes: u32) -> Payload {
        let transfer = &self.side.transfers[token as usize];
        let payload = match &transfer.body {
            Body::Sending(buffer) => Payload::Buffer {
                buffer: Arc::clone(buffer),
                offset_bytes: offset_bytes as usize,
                len_bytes: len_bytes as usize,
            },
            _ => Payload::Memory {
                lun: transfer.lun,
                offset_bytes: transfer.offset_bytes + u64::from(offset_bytes),
                len_bytes: len_bytes as usize,
            },
        };
        if offset_bytes + len_bytes == transfer.len_bytes {
            self.side.transfers.remove(token as usize);
        }
        payload
    }
}
