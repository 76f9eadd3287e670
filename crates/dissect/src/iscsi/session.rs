//! State of the iSCSI on one TCP connection: roles, digests, login, commands, command window.

use std::net::SocketAddr;

use wire::iscsi::Opcode;

use crate::iscsi::commands::aborts::{Aborted, TaskManagement};
use crate::iscsi::commands::table::OutstandingCommand;
use crate::iscsi::commands::tracker::CommandTracker;
use crate::iscsi::commands::window::CommandWindow;
use crate::iscsi::digests::Digests;
use crate::iscsi::expectations::Expectations;
use crate::iscsi::header::PartialHeader;
use crate::iscsi::inference::HeaderPredictor;
use crate::iscsi::login::{Login, NegotiatedParameters};
use crate::iscsi::pdu::FramedPdu;
use crate::iscsi::role::Role;
use crate::output::Output;
use crate::rows::{CommandRow, DirectionKey, PduRow};

/// Offset of the target session identifying handle in a login request: RFC 7143 section 11.12.
const TSIH: usize = 14;
/// Well-known port: RFC 7143 section 4.2.1.
const ISCSI_PORT: u16 = 3260;

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
    /// The beginning of the connection is in the capture.
    begun: bool,
    /// The connection was added to a session, whose parameters another login has negotiated.
    joins: bool,
    pub(crate) login_seen: bool,
    pub(crate) commands: CommandTracker,
    aborts: TaskManagement,
    predictor: HeaderPredictor,
    pub(crate) window: CommandWindow,
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
            begun: false,
            joins: false,
            login_seen: false,
            commands: CommandTracker::default(),
            aborts: TaskManagement::default(),
            predictor: HeaderPredictor::default(),
            window: CommandWindow::default(),
        }
    }

    /// Role of a direction's sender.
    pub(crate) fn sender(&self, direction: usize) -> Role {
        self.roles[direction]
    }

    /// Takes the beginning of the connection: a login has no digests.
    pub(crate) fn begin(&mut self) {
        self.begun = true;
        self.digests = Digests::negotiated(false, false);
    }

    /// The session for the framer of `direction`, which emits rows to `output`.
    pub(crate) fn direction<'a, 'b>(
        &'a mut self,
        direction: usize,
        output: Output<'b>,
    ) -> SessionDirection<'a, 'b> {
        SessionDirection { session: self, direction, output }
    }

    /// Negotiated parameters, if the capture has the whole login of the session's first connection.
    pub(crate) fn negotiated(&self) -> Option<NegotiatedParameters> {
        self.login.parameters().filter(|_| self.begun && self.login_seen && !self.joins)
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
        let has_cmd_sn = !matches!(pdu.opcode, Opcode::DataOut | Opcode::SnackRequest);
        let immediate = pdu.byte(0).is_some_and(|byte| byte & 0x40 != 0);
        if let Some(cmd_sn) = pdu.word(24).filter(|_| has_cmd_sn && !immediate) {
            self.window.sent(t_ns, cmd_sn);
        }
    }

    fn login_request(&mut self, pdu: &FramedPdu, text: &[u8]) {
        let has_handle = |at: usize| pdu.byte(at).is_some_and(|byte| byte != 0);
        self.joins |= !self.login_seen && (has_handle(TSIH) || has_handle(TSIH + 1));
        self.login_seen = true;
        self.login.take(Role::Initiator, text, pdu.data_len);
    }

    fn login_response(&mut self, pdu: &FramedPdu, text: &[u8]) {
        self.login.take(Role::Target, text, pdu.data_len);
        let to_full_feature = pdu.byte(1).is_some_and(|flags| flags & 0x83 == 0x83);
        let success = pdu.byte(36).is_none_or(|class| class == 0);
        if to_full_feature && success {
            let known = self.login.digests();
            self.digests =
                known.map_or_else(Digests::default, |(header, data)| Digests::negotiated(header, data));
        }
    }
}

impl SessionDirection<'_, '_> {
    fn key(&self) -> DirectionKey {
        let direction = self.direction;
        DirectionKey {
            interface: self.output.interfaces[direction],
            src: self.session.addresses[direction],
            dst: self.session.addresses[1 - direction],
        }
    }

    fn emit_pdu(&mut self, pdu: &FramedPdu) {
        let is_data = matches!(pdu.opcode, Opcode::DataIn | Opcode::DataOut);
        let origin = self.session.starts[self.direction].unwrap_or(pdu.start);
        let direction = self.key();
        self.output.rows.pdu(&PduRow {
            direction,
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
        });
    }

    /// Emits a command that `pdu` completes.
    fn emit_command(&mut self, command: &OutstandingCommand, pdu: &FramedPdu) {
        let OutstandingCommand { request, transfer, inferred, .. } = command;
        let from_initiator = 1 - self.direction;
        self.output.rows.command(&CommandRow {
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
            service_ns: pdu.last.t_ns.saturating_sub(request.packet.t_ns),
            r2ts: transfer.r2ts,
            inferred: *inferred,
        });
    }
}

impl Expectations for SessionDirection<'_, '_> {
    fn sender(&self) -> Role {
        self.session.roles[self.direction]
    }

    fn digests(&self) -> Digests {
        self.session.digests
    }

    fn learn_digests(&mut self, data_len: usize, digests_len: usize) -> bool {
        self.session.digests.learn(data_len, digests_len)
    }

    fn next_header(&self, last: Option<&FramedPdu>) -> Option<PartialHeader> {
        self.session.predictor.next(self.sender(), last, &self.session.commands)
    }

    fn pdu(&mut self, pdu: &FramedPdu, text: &[u8]) {
        let roles = &mut self.session.roles;
        if roles[self.direction] == Role::Unknown {
            roles[self.direction] = Role::from_opcode(pdu.opcode);
            roles[1 - self.direction] = roles[self.direction].peer();
        }
        self.emit_pdu(pdu);
        let (budget, initiator_rtt_ns) = (self.output.budget, self.output.initiator_rtt_ns);
        let session = &mut *self.session;
        session.predictor.observe(pdu);
        match pdu.opcode {
            Opcode::ScsiCommand => session.commands.request(pdu, initiator_rtt_ns, budget),
            Opcode::DataOut | Opcode::DataIn | Opcode::R2t | Opcode::ScsiResponse => {
                if let Some(command) = session.commands.answer(pdu, budget) {
                    self.emit_command(&command, pdu);
                }
            }
            Opcode::LoginRequest => session.login_request(pdu, text),
            Opcode::LoginResponse => session.login_response(pdu, text),
            Opcode::TaskManagementRequest => session.aborts.request(pdu),
            Opcode::TaskManagementResponse => {
                let t_ns = pdu.last.t_ns;
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
        self.session.update_window(pdu, initiator_rtt_ns);
    }

    fn lose_sync(&mut self, packet: u64) {
        if self.sender() == Role::Target {
            let doubt_packet = &mut self.session.commands.doubt_packet;
            *doubt_packet = packet.max(*doubt_packet);
        }
    }
}
