//! State of the iSCSI on one TCP connection: roles, digests, login, commands, command window.

use std::net::SocketAddr;

use wire::iscsi::{BHS_LEN, Opcode, RESERVED_TAG};

use crate::budget::MemoryBudget;
use crate::events::response::ResponseData;
use crate::events::watch::{ConnectionEnd, EventWatch};
use crate::iscsi::commands::aborts::{Aborted, TaskManagement};
use crate::iscsi::commands::numbers::NumberLedger;
use crate::iscsi::commands::summary::CommandSummary;
use crate::iscsi::commands::table::OutstandingCommand;
use crate::iscsi::commands::tracker::{CommandTracker, HiddenCounts};
use crate::iscsi::commands::window::CommandWindow;
use crate::iscsi::digests::Digests;
use crate::iscsi::expectations::{Expectations, Fit};
use crate::iscsi::header::PartialHeader;
use crate::iscsi::inference::{HeaderPredictor, PacketRest};
use crate::iscsi::login::negotiation::Negotiation;
use crate::iscsi::login::{Login, LoginText};
use crate::iscsi::pdu::{FramedPdu, Hidden, has_cmd_sn};
use crate::iscsi::recognition::Recognition;
use crate::iscsi::role::Role;
use crate::iscsi::trial::{TrialPdu, TrialPdus};
use crate::output::{HeldRows, Output};
use crate::rows::{CommandRow, DirectionKey, PduRow};

/// Offset of the target session identifying handle in a login request: RFC 7143 section 11.12.
const TSIH: usize = 14;
/// Well-known port: RFC 7143 section 4.2.1.
const ISCSI_PORT: u16 = 3260;

/// A visible header whose number is not: the numbers count it as a hidden one.
const WITHOUT_NUMBER: Hidden = Hidden { cut: BHS_LEN as u64, missing: 0, parts: 1 };

/// The iSCSI of one TCP connection.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    /// Sender of each direction.
    addresses: [SocketAddr; 2],
    /// Begin of each direction's stream.
    pub(crate) starts: [Option<u64>; 2],
    roles: [Role; 2],
    pub(crate) digests: Digests,
    login: Login,
    recognition: Recognition,
    /// CmdSN and StatSN.
    numbers: [NumberLedger; 2],
    pub(crate) commands: CommandTracker,
    aborts: TaskManagement,
    predictor: HeaderPredictor,
    pub(crate) window: CommandWindow,
    pub(crate) events: EventWatch,
    /// Provisional PDUs of each direction.
    trials: [TrialPdus; 2],
    held: HeldRows,
}

/// A session as the framer of one direction needs it.
pub(crate) struct SessionDirection<'a, 'b> {
    session: &'a mut Session,
    direction: usize,
    output: Output<'b>,
}

impl Session {
    pub(crate) fn new(addresses: [SocketAddr; 2]) -> Self {
        let roles = match addresses.map(|address| address.port() == ISCSI_PORT) {
            [true, false] => [Role::Target, Role::Initiator],
            [false, true] => [Role::Initiator, Role::Target],
            _ => [Role::Unknown; 2],
        };
        Self {
            addresses,
            starts: [None; 2],
            roles,
            digests: Digests::default(),
            login: Login::default(),
            recognition: Recognition::default(),
            numbers: [NumberLedger::default(); 2],
            commands: CommandTracker::default(),
            aborts: TaskManagement::default(),
            predictor: HeaderPredictor::default(),
            window: CommandWindow::default(),
            events: EventWatch::default(),
            trials: <[TrialPdus; 2]>::default(),
            held: HeldRows::default(),
        }
    }

    /// Role of a direction's sender.
    pub(crate) fn sender(&self, direction: usize) -> Role {
        self.roles[direction]
    }

    /// Takes the beginning of the connection: a login has no digests.
    pub(crate) fn begin(&mut self) {
        self.login.begin();
        self.digests = Digests::negotiated(false, false);
    }

    /// Takes the absence of packets of the other direction.
    pub(crate) fn set_alone(&mut self, is_alone: bool) {
        self.recognition.is_alone = is_alone;
    }

    /// True if the connection carries iSCSI.
    pub(crate) fn is_recognised(&self) -> bool {
        self.recognition.is_recognised()
    }

    /// True if a login request is in the capture.
    pub(crate) fn login_seen(&self) -> bool {
        self.login.is_seen()
    }

    /// Leaves out the time between two moments, which nobody watched.
    pub(crate) fn skip(&mut self, from_ns: u64, to_ns: u64) {
        self.commands.skip(from_ns, to_ns);
        self.window.skip(from_ns, to_ns);
        self.events.skip();
    }

    /// Takes the end of the connection. Provisional PDUs may be other ones.
    pub(crate) fn finish(&mut self, initiator: usize, end: ConnectionEnd, budget: &MemoryBudget) {
        let is_clear = [0, 1].map(|n| end.is_clear[n] && self.trials[n].is_empty());
        self.events.finish(initiator, ConnectionEnd { is_clear, ..end }, budget);
    }

    /// Commands; `open` are the last bytes of each direction that may hide headers.
    pub(crate) fn command_summary(&self, is_near_complete: bool, open: [Hidden; 2]) -> CommandSummary {
        let initiator = usize::from(self.roles[0] == Role::Target);
        let [commands, statuses] = &self.numbers;
        let (of_commands, of_statuses) =
            (commands.hidden(open[initiator]), statuses.hidden(open[1 - initiator]));
        let hidden = HiddenCounts {
            commands: of_commands,
            statuses: statuses.is_known().then_some(of_statuses),
            statuses_visible: of_statuses.most == 0 && self.trials.iter().all(TrialPdus::is_empty),
            begun: commands.has_begun(),
        };
        self.commands.summary(is_near_complete, hidden)
    }

    /// The session for the framer of `direction`, which emits rows to `output`.
    pub(crate) fn direction<'a, 'b>(
        &'a mut self,
        direction: usize,
        output: Output<'b>,
    ) -> SessionDirection<'a, 'b> {
        SessionDirection { session: self, direction, output }
    }

    /// Result of the login's negotiation.
    pub(crate) fn negotiation(&self) -> Negotiation {
        self.login.negotiation()
    }

    /// Takes the sequence numbers of a visible PDU.
    fn count(&mut self, pdu: &FramedPdu) {
        let t_ns = pdu.last.t_ns;
        let [commands, statuses] = &mut self.numbers;
        if pdu.opcode.is_request() {
            commands.pass(pdu.hidden_before);
            if pdu.hidden_before != Hidden::default() {
                self.commands.hidden_packet = pdu.first.number;
            }
            if let Some(exp_stat_sn) = pdu.word(28) {
                statuses.acknowledge(exp_stat_sn);
            }
            if !has_cmd_sn(pdu.opcode) {
                return;
            }
            let Some(cmd_sn) = pdu.word(24) else { return commands.pass(WITHOUT_NUMBER) };
            if pdu.opcode == Opcode::LoginRequest {
                return commands.begin(cmd_sn, t_ns);
            }
            let is_other = pdu.opcode != Opcode::ScsiCommand;
            if commands.take(cmd_sn, t_ns, !pdu.is_immediate(), is_other) {
                self.recognition.moves();
            }
        } else {
            statuses.pass(pdu.hidden_before);
            if let Some(exp_cmd_sn) = pdu.word(28).filter(|_| pdu.opcode != Opcode::LoginResponse) {
                commands.acknowledge(exp_cmd_sn);
            }
            if !pdu.has_stat_sn() {
                return;
            }
            let Some(stat_sn) = pdu.word(24) else { return statuses.pass(WITHOUT_NUMBER) };
            let advances =
                pdu.opcode != Opcode::R2t && (pdu.opcode != Opcode::NopIn || pdu.itt() != RESERVED_TAG);
            if pdu.opcode == Opcode::LoginResponse {
                statuses.begin(stat_sn, t_ns);
            }
            if statuses.take(stat_sn, t_ns, advances, !pdu.has_status()) {
                self.recognition.moves();
            }
        }
    }

    /// Relation of a header of `direction` to the tasks and numbers so far.
    fn fit(&self, header: &PartialHeader) -> Fit {
        let Some(opcode) = header.byte(0).and_then(|byte| Opcode::from_code(byte & 0x3f).ok()) else {
            return Fit::Contradicts;
        };
        let command = header.word(16).and_then(|itt| self.commands.table.get(itt));
        if command.is_some_and(|command| command.suits(opcode)) {
            return Fit::Continues;
        }
        let [commands, statuses] = &self.numbers;
        let has_status = |flags: u8| opcode != Opcode::DataIn || flags & 1 != 0;
        let number = header.word(24);
        let continues = match opcode.is_request() {
            true => number.filter(|_| has_cmd_sn(opcode)).and_then(|number| commands.continues(number)),
            false => {
                let number = number.filter(|_| header.byte(1).is_some_and(has_status));
                number.and_then(|number| statuses.continues(number))
            }
        };
        match continues {
            Some(true) => Fit::Continues,
            Some(false) => Fit::Contradicts,
            None => Fit::Neutral,
        }
    }

    /// Takes CmdSN, ExpCmdSN and MaxCmdSN.
    fn update_window(&mut self, pdu: &FramedPdu, initiator_rtt_ns: u64) {
        let t_ns = pdu.last.t_ns;
        if !pdu.opcode.is_request() {
            if let (Some(expected), Some(max)) = (pdu.word(28), pdu.word(32)) {
                self.window.advertise(t_ns, expected, max, initiator_rtt_ns);
            }
            return;
        }
        if let Some(cmd_sn) = pdu.word(24).filter(|_| has_cmd_sn(pdu.opcode) && !pdu.is_immediate()) {
            self.window.sent(t_ns, cmd_sn);
        }
    }

    fn login_request(&mut self, pdu: &FramedPdu, text: &[u8]) {
        let has_handle = |at: usize| pdu.byte(at).is_some_and(|byte| byte != 0);
        self.recognition.login_request(pdu.itt());
        self.login.request(LoginText::new(pdu, text), has_handle(TSIH) || has_handle(TSIH + 1));
    }

    fn login_response(&mut self, pdu: &FramedPdu, text: &[u8]) {
        self.recognition.login_response(pdu.itt());
        let to_full_feature = pdu.byte(1).is_some_and(|flags| flags & 0x83 == 0x83);
        let success = pdu.byte(36).is_none_or(|class| class == 0);
        self.login.response(LoginText::new(pdu, text), to_full_feature && success);
        if to_full_feature && success {
            let known = self.login.digests();
            self.digests =
                known.map_or_else(Digests::default, |(header, data)| Digests::negotiated(header, data));
        }
    }
}

impl SessionDirection<'_, '_> {
    /// Passes the row of a PDU on.
    fn emit_pdu(&mut self, pdu: &FramedPdu) {
        let [src, dst] = [self.direction, 1 - self.direction].map(|n| self.session.addresses[n]);
        let origin = self.session.starts[self.direction].unwrap_or(0);
        let is_data = matches!(pdu.opcode, Opcode::DataIn | Opcode::DataOut);
        let row = PduRow {
            direction: DirectionKey { interface: self.output.interfaces[self.direction], src, dst },
            opcode: pdu.opcode,
            itt: pdu.itt(),
            start: pdu.start.saturating_sub(origin),
            end: pdu.end.saturating_sub(origin),
            data_len: pdu.data_len as u32,
            cmd_sn: pdu.word(24).filter(|_| pdu.opcode == Opcode::ScsiCommand),
            buffer_offset: pdu.word(40).filter(|_| is_data),
            has_status: pdu.has_status(),
            first_packet: pdu.first.in_file,
            last_packet: pdu.last.in_file,
            t_ns: pdu.last.t_ns,
            inferred: pdu.inferred,
        };
        self.session.held.pdu(row, &mut self.output);
    }

    /// Row of a command that `pdu` completes.
    fn command_row(&self, command: &OutstandingCommand, pdu: &FramedPdu) -> CommandRow {
        let OutstandingCommand { request, transfer, inferred, .. } = command;
        let from_initiator = 1 - self.direction;
        CommandRow {
            interface: self.output.interfaces[from_initiator],
            initiator: self.session.addresses[from_initiator],
            target: self.session.addresses[self.direction],
            itt: pdu.itt(),
            cmd_sn: request.cmd_sn,
            operation: request.operation,
            bytes: request.bytes,
            request_packet: request.packet.in_file,
            t_ns: request.packet.t_ns,
            response_packet: pdu.last.in_file,
            service_ns: self.session.commands.service_ns(command, pdu),
            r2ts: transfer.r2ts,
            inferred: *inferred,
        }
    }

    /// Applies a PDU to the commands; returns the one that it completes, and its row.
    fn apply(&mut self, pdu: &FramedPdu) -> Option<(OutstandingCommand, CommandRow)> {
        let (budget, initiator_rtt_ns) = (self.output.budget, self.output.initiator_rtt_ns);
        let commands = &mut self.session.commands;
        match pdu.opcode {
            Opcode::ScsiCommand => {
                commands.request(pdu, initiator_rtt_ns, budget);
                None
            }
            Opcode::DataOut | Opcode::DataIn | Opcode::R2t | Opcode::ScsiResponse => {
                let command = commands.answer(pdu, budget)?;
                let row = self.command_row(&command, pdu);
                Some((command, row))
            }
            _ => None,
        }
    }

    /// Takes a provisional PDU; false without memory for it.
    fn attempt(&mut self, pdu: &FramedPdu, data: ResponseData) -> bool {
        let direction = self.direction;
        if !self.session.trials[direction].make_room(self.output.budget) {
            return false;
        }
        let has_command = matches!(
            pdu.opcode,
            Opcode::ScsiCommand | Opcode::DataOut | Opcode::DataIn | Opcode::R2t | Opcode::ScsiResponse
        );
        let before = self.session.commands.table.get(pdu.itt()).filter(|_| has_command).copied();
        let mut counts = std::mem::take(&mut self.session.trials[direction].counts);
        self.session.commands.swap_counts(&mut counts);
        let done = self.apply(pdu);
        self.session.commands.swap_counts(&mut counts);
        let trial = &mut self.session.trials[direction];
        trial.counts = counts;
        trial.push(TrialPdu { pdu: *pdu, before, done, data });
        if pdu.inferred {
            self.session.predictor.observe(pdu);
        }
        true
    }

    /// Takes a confirmed PDU that has been applied to the commands, and the command that it completed.
    fn settle(&mut self, pdu: &FramedPdu, row: Option<CommandRow>) {
        let roles = &mut self.session.roles;
        if roles[self.direction] == Role::Unknown {
            roles[self.direction] = Role::from_opcode(pdu.opcode);
            roles[1 - self.direction] = roles[self.direction].peer();
        }
        let session = &mut *self.session;
        if !pdu.inferred {
            session.predictor.observe(pdu);
            session.commands.tags_grow = session.predictor.tags_grow();
            session.count(pdu);
            let is_login = matches!(pdu.opcode, Opcode::LoginRequest | Opcode::LoginResponse);
            if !is_login && session.login.end() {
                // The end of the login is not in the capture.
                session.digests = Digests::default();
            }
        } else {
            session.events.hide(self.direction, pdu.last.number);
            if pdu.opcode.is_request() {
                session.commands.hidden_packet = pdu.first.number;
            }
        }
        self.emit_pdu(pdu);
        if let Some(row) = row {
            self.session.held.command(row, &mut self.output);
        }
        self.session.update_window(pdu, self.output.initiator_rtt_ns);
    }

    /// Takes the parts of a PDU that are about other tasks, the login, or an event.
    fn manage(&mut self, pdu: &FramedPdu, text: &[u8], data: ResponseData) {
        let session = &mut *self.session;
        if !pdu.inferred {
            let outstanding = session.commands.table.len();
            session.events.pdu(pdu, self.direction, data, outstanding, self.output.budget);
        }
        match pdu.opcode {
            Opcode::LoginRequest => session.login_request(pdu, text),
            Opcode::LoginResponse => {
                session.events.login_response(pdu, self.direction, text, self.output.budget);
                session.login_response(pdu, text);
            }
            Opcode::TaskManagementRequest => session.aborts.request(pdu),
            Opcode::TaskManagementResponse => {
                let (t_ns, budget) = (pdu.last.t_ns, self.output.budget);
                match session.aborts.response(pdu) {
                    Some(Aborted::One(itt)) => session.commands.forget(itt, t_ns, budget),
                    Some(many) => {
                        session.commands.forget_all(|command| many.has(command), t_ns, budget);
                    }
                    None => {}
                }
            }
            _ => {}
        }
    }

    /// Counts an answer to an outstanding command.
    fn recognise(&mut self, pdu: &FramedPdu) {
        let is_target = self.sender() != Role::Initiator;
        let is_answer =
            is_target && matches!(pdu.opcode, Opcode::DataIn | Opcode::R2t | Opcode::ScsiResponse);
        let command = self.session.commands.table.get(pdu.itt());
        if is_answer && command.is_some_and(|command| !command.request.inferred && command.suits(pdu.opcode))
        {
            let is_well_known = self.session.addresses.iter().any(|address| address.port() == ISCSI_PORT);
            self.session.recognition.answer(is_well_known);
        }
    }
}

impl Expectations for SessionDirection<'_, '_> {
    fn sender(&self) -> Role {
        self.session.roles[self.direction]
    }

    fn digests(&self) -> Digests {
        self.session.digests
    }

    fn learn_digests(&mut self, data_len: usize, digests_len: usize) {
        self.session.digests.learn(data_len, digests_len);
    }

    fn doubt_digests(&mut self) {
        self.session.digests.miss();
    }

    fn fit(&self, header: &PartialHeader) -> Fit {
        self.session.fit(header)
    }

    fn next_header(&self, last: Option<&FramedPdu>, rest: u64) -> Option<PartialHeader> {
        let (header_digest, _) = self.session.digests.likeliest();
        let rest = PacketRest::new(rest, header_digest);
        self.session.predictor.next(self.sender(), last, rest, &self.session.commands)
    }

    fn pdu(&mut self, pdu: &FramedPdu, text: &[u8]) -> bool {
        let data = ResponseData::parse(pdu, text, self.session.digests.known().is_some());
        if pdu.provisional {
            return self.attempt(pdu, data);
        }
        self.recognise(pdu);
        let done = self.apply(pdu);
        self.settle(pdu, done.map(|(_, row)| row));
        self.manage(pdu, text, data);
        if self.session.is_recognised() {
            self.session.held.open(&mut self.output);
        }
        true
    }

    fn confirm(&mut self) {
        let (pdus, counts) = self.session.trials[self.direction].take(self.output.budget);
        self.session.commands.credit(&counts);
        for TrialPdu { pdu, done, data, .. } in pdus {
            if let Some((command, _)) = &done {
                self.session.commands.settle(command, &pdu);
            }
            self.settle(&pdu, done.map(|(_, row)| row));
            self.manage(&pdu, &[], data);
        }
        if self.session.is_recognised() {
            self.session.held.open(&mut self.output);
        }
    }

    fn withdraw(&mut self, t_ns: u64) {
        let (pdus, _) = self.session.trials[self.direction].take(self.output.budget);
        let commands =
            pdus.iter().filter(|trial| trial.pdu.inferred && trial.pdu.opcode == Opcode::ScsiCommand);
        let since = &mut self.session.predictor.since;
        *since = since.saturating_sub(commands.count() as u32);
        for TrialPdu { pdu, before, .. } in pdus.iter().rev() {
            self.session.commands.withdraw(pdu, *before, t_ns, self.output.budget);
        }
    }

    fn lose_sync(&mut self, packet: u64) {
        self.session.events.hide(self.direction, packet);
        let commands = &mut self.session.commands;
        let place = match self.session.roles[self.direction] {
            Role::Target => &mut commands.doubt_packet,
            Role::Initiator => &mut commands.hidden_packet,
            Role::Unknown => return,
        };
        *place = packet.max(*place);
    }
}
