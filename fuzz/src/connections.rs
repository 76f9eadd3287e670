//! The target `connections`: the target's machine with a session of several connections, which come and go.

use std::collections::HashMap;

use proto::Segment;
use proto::target::{ConnectionId, Session};
use wire::iscsi::{BHS_LEN, Opcode, Pdu};

use crate::input::Input;
use crate::session::{CMD_SN, STAT_SN, drain, header, params, serve};

const CONNECTIONS_MAX: usize = 4;

/// A connection and the last header that it sent.
struct Member {
    connection: ConnectionId,
    last: [u8; BHS_LEN],
}

/// A session, and where it is.
struct Room {
    session: Session,
    members: Vec<Member>,
    cmd_sn: u32,
    pick: u8,
    wanted: HashMap<u64, u32>,
}

/// A byte for what was agreed on, then PDUs, each with a byte for its connection; some bytes let connections come and go.
pub(crate) fn connections(data: &[u8]) {
    let mut input = Input::new(data);
    let pick = input.byte();
    let session = Session::new(0, params(pick), CMD_SN, STAT_SN, 1 + u32::from(pick >> 3));
    let leading = Member { connection: ConnectionId::LEADING, last: [0; BHS_LEN] };
    let mut room = Room { session, members: vec![leading], cmd_sn: CMD_SN, pick, wanted: HashMap::new() };
    room.join(1);
    while !input.is_empty() && !room.members.is_empty() {
        let step = input.byte();
        let place = usize::from(step & 3) % room.members.len();
        match step >> 2 {
            0 => room.leave(place),
            // Also with the CID of one that is there: it takes its place.
            1 if room.members.len() < CONNECTIONS_MAX => room.join(u16::from(step & 3)),
            _ if room.pdu(place, &mut input) => {}
            _ => room.leave(place),
        }
        room.drain(&mut input);
        assert_eq!(room.session.connections().len(), room.members.len());
    }
    while !room.members.is_empty() {
        room.leave(0);
    }
    assert_eq!(
        (room.session.open_commands(), room.session.early_bytes()),
        (0, 0),
        "what the last connection leaves"
    );
}

impl Room {
    fn join(&mut self, cid: u16) {
        let connection = self.session.join(cid, params(self.pick), STAT_SN);
        self.members.push(Member { connection, last: [0; BHS_LEN] });
    }

    fn leave(&mut self, place: usize) {
        let tasks = self.session.leave(self.members.remove(place).connection);
        tasks.into_iter().for_each(|task| self.session.forget(task));
    }

    /// One PDU over a connection; false if it ends that.
    fn pdu(&mut self, place: usize, input: &mut Input<'_>) -> bool {
        let Member { connection, last } = &self.members[place];
        let connection = *connection;
        let opcodes: Vec<_> = Opcode::ALL.into_iter().filter(|opcode| opcode.is_request()).collect();
        let header = header(input, &opcodes, self.cmd_sn, last);
        let data = input.segment(&header);
        let Ok(pdu) = Pdu::parse(&header) else { return false };
        if self.session.begin(connection, &pdu).is_err() {
            return false;
        }
        serve(&mut self.session, input, &mut self.wanted);
        let segment = self.session.segment(connection, &pdu);
        if let Segment::Payload { token, offset_bytes, len_bytes } = segment {
            assert!(offset_bytes + len_bytes <= self.wanted[&token] && len_bytes as usize <= data.len());
        }
        let collected = if segment == Segment::Collect { &data[..] } else { &[] };
        if self.session.handle(connection, &pdu, &header, collected).is_err() {
            return false;
        }
        serve(&mut self.session, input, &mut self.wanted);
        let takes_number = !matches!(pdu, Pdu::DataOut(_) | Pdu::SnackRequest(_)) && header[0] & 0x40 == 0;
        self.cmd_sn = self.cmd_sn.wrapping_add(u32::from(takes_number));
        true
    }

    /// Sends what there is over each connection, as far as the input says.
    fn drain(&mut self, input: &mut Input<'_>) {
        let most = input.byte();
        for member in &mut self.members {
            let session = &mut self.session;
            drain(|| session.poll_transmit(member.connection), &mut member.last, most);
        }
    }
}
