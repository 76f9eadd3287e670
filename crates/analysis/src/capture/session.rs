//! What the PDUs of a connection are to each other: who is the initiator, which digests there are, commands, window.

use wire::iscsi::Opcode;

use super::aborts::{Aborted, Aborts};
use super::commands::Commands;
use super::digests::Digests;
use super::framer::Framed;
use super::hidden::{Habits, Hidden};
use super::login::{Agreed, Login};
use super::plausible::Side;
use super::tell::{CommandRow, Out, PduRow};
use super::window::CommandWindow;

use std::net::SocketAddr;

/// The iSCSI of one TCP connection.
#[derive(Clone, Debug)]
pub(super) struct Session {
    /// Who sends on each direction.
    pub(super) addresses: [SocketAddr; 2],
    /// Where each direction's stream began.
    pub(super) starts: [Option<u64>; 2],
    sides: [Side; 2],
    pub(super) digests: Digests,
    login: Login,
    /// The connection's beginning was seen.
    begun: bool,
    /// It was added to a session: what that had agreed on is in another login.
    joins: bool,
    pub(super) login_seen: bool,
    pub(super) commands: Commands,
    aborts: Aborts,
    habits: Habits,
    pub(super) window: CommandWindow,
}

impl Session {
    pub(super) fn new(addresses: [SocketAddr; 2]) -> Self {
        let mut sides = [Side::Unknown; 2];
        match addresses.map(|address| address.port() == ISCSI_PORT) {
            [true, false] => sides = [Side::Target, Side::Initiator],
            [false, true] => sides = [Side::Initiator, Side::Target],
            _ => {}
        }
        Self {
            addresses,
            starts: [None; 2],
            sides,
            digests: Digests::default(),
            login: Login::default(),
            begun: false,
            joins: false,
            login_seen: false,
            commands: Commands::default(),
            aborts: Aborts::default(),
            habits: Habits::default(),
            window: CommandWindow::default(),
        }
    }

    /// Who sends on a direction.
    pub(super) fn side(&self, direction: usize) -> Side {
        self.sides[direction]
    }

    /// The connection's beginning was seen: logins have no digests.
    pub(super) fn begin(&mut self) {
        self.begun = true;
        self.digests = Digests::agreed(false, false);
    }

    /// What a header must be that is not in the capture, behind `last` on the same direction.
    pub(super) fn hidden(&self, direction: usize, last: Option<&Framed>) -> Option<Hidden> {
        self.habits.next(self.side(direction), last, &self.commands)
    }

    /// Nobody knows any more where a PDU of this direction begins: statuses may pass unseen.
    pub(super) fn lose_place(&mut self, direction: usize, packet: u64) {
        if self.side(direction) == Side::Target {
            self.commands.doubt_packet = self.commands.doubt_packet.max(packet);
        }
    }

    /// A PDU is complete; `text` is the data of a login as far as it is known.
    pub(super) fn pdu(&mut self, direction: usize, framed: &Framed, text: &[u8], out: &mut Out<'_>) {
        if self.sides[direction] == Side::Unknown {
            self.sides[direction] = Side::of(framed.opcode);
            self.sides[1 - direction] = self.sides[direction].other();
        }
        let is_data = matches!(framed.opcode, Opcode::DataIn | Opcode::DataOut);
        let origin = self.starts[direction].unwrap_or(framed.start);
        out.listener.pdu(&PduRow {
            interface: out.interfaces[direction],
            src: self.addresses[direction],
            dst: self.addresses[1 - direction],
            opcode: framed.opcode,
            itt: framed.itt(),
            start: framed.start.saturating_sub(origin),
            end: framed.end.saturating_sub(origin),
            data_len: framed.data_len as u32,
            cmd_sn: framed.word(24).filter(|_| framed.opcode == Opcode::ScsiCommand),
            buffer_offset: framed.word(40).filter(|_| is_data),
            has_status: framed.has_status(),
            first_packet: framed.first.packet,
            last_packet: framed.last.packet,
            t_ns: framed.last.t_ns,
            inferred: framed.inferred,
        });
        self.habits.see(framed);
        match framed.opcode {
            Opcode::ScsiCommand => self.commands.command(framed, out.initiator_rtt_ns, out.budget),
            Opcode::DataOut | Opcode::DataIn | Opcode::R2t | Opcode::ScsiResponse => {
                if let Some(open) = self.commands.answer(framed, out.budget) {
                    out.listener.command(&CommandRow {
                        interface: out.interfaces[1 - direction],
                        initiator: self.addresses[1 - direction],
                        target: self.addresses[direction],
                        itt: framed.itt(),
                        cmd_sn: open.cmd_sn,
                        operation: open.operation,
                        bytes: open.bytes,
                        request_packet: open.request.packet,
                        t_ns: open.request.t_ns,
                        response_packet: framed.last.packet,
                        service_ns: framed.last.t_ns.saturating_sub(open.request.t_ns),
                        r2ts: open.r2ts,
                        inferred: open.inferred,
                    });
                }
            }
            Opcode::LoginRequest => {
                let has_session = |at: usize| framed.byte(at).is_some_and(|byte| byte != 0);
                self.joins |= !self.login_seen && (has_session(TSIH) || has_session(TSIH + 1));
                self.login_seen = true;
                self.login.take(Side::Initiator, text, framed.data_len);
            }
            Opcode::LoginResponse => self.login_response(framed, text),
            Opcode::TaskManagementRequest => self.aborts.ask(framed),
            Opcode::TaskManagementResponse => match self.aborts.answer(framed) {
                Some(Aborted::One(itt)) => self.commands.forget(itt, framed.last.t_ns, out.budget),
                Some(many) => self.commands.forget_all(|open| many.has(open), framed.last.t_ns, out.budget),
                None => {}
            },
            _ => {}
        }
        self.numbers(framed, out.initiator_rtt_ns);
    }

    fn numbers(&mut self, framed: &Framed, initiator_rtt_ns: u64) {
        let t_ns = framed.last.t_ns;
        if !framed.opcode.is_request() {
            if let (Some(expected), Some(max)) = (framed.word(28), framed.word(32)) {
                self.window.told(t_ns, expected, max, initiator_rtt_ns);
            }
            return;
        }
        let numbered = !matches!(framed.opcode, Opcode::DataOut | Opcode::SnackRequest);
        let immediate = framed.byte(0).is_some_and(|byte| byte & 0x40 != 0);
        if let Some(cmd_sn) = framed.word(24).filter(|_| numbered && !immediate) {
            self.window.sent(t_ns, cmd_sn);
        }
    }

    fn login_response(&mut self, framed: &Framed, text: &[u8]) {
        self.login.take(Side::Target, text, framed.data_len);
        let to_full_feature = framed.byte(1).is_some_and(|flags| flags & 0x83 == 0x83);
        let success = framed.byte(36).is_none_or(|class| class == 0);
        if to_full_feature && success {
            let known = self.login.digests();
            self.digests =
                known.map_or_else(Digests::default, |(header, data)| Digests::agreed(header, data));
        }
    }

    /// What the login agreed on, if all of it was seen.
    pub(super) fn agreed(&self) -> Option<Agreed> {
        self.login.agreed().filter(|_| self.begun && self.login_seen && !self.joins)
    }
}

/// Where a login request has its session's handle: RFC 7143 section 11.12.
const TSIH: usize = 14;
/// RFC 7143 section 4.2.1.
const ISCSI_PORT: u16 = 3260;
