//! The target `session`: a machine of the full feature phase, and a peer that says anything.
//!
//! What the machine itself sends is looked at only for the tags that the peer's next PDUs then carry.

use std::collections::HashMap;

use proto::initiator::{Command, Event as InitiatorEvent, Session as Initiator, Transfer};
use proto::params::Params;
use proto::target::{Answer, ConnectionId, Event, Function, Run, Session as Target};
use proto::{Data, Segment, Transmit, notification};
use wire::iscsi::{BHS_LEN, Lun, Opcode, Pdu, TaskAttribute};

use crate::input::{Input, SEGMENT_MAX};

/// The only connection.
const LEADING: ConnectionId = ConnectionId::LEADING;
pub(crate) const CMD_SN: u32 = u32::MAX - 1;
pub(crate) const STAT_SN: u32 = u32::MAX - 2;
/// The most that a serving loop or a caller of ours has room for.
const TRANSFER_MAX: u32 = 1 << 20;

pub(crate) fn params(pick: u8) -> Params {
    let short = |bit: u8| if pick >> bit & 1 == 0 { 512 } else { SEGMENT_MAX as u32 };
    Params {
        initial_r2t: pick & 1 != 0,
        immediate_data: pick & 2 == 0,
        our_max_recv_data_segment_len: short(2),
        peer_max_recv_data_segment_len: short(3),
        first_burst_len: short(4),
        max_burst_len: SEGMENT_MAX as u32,
        max_outstanding_r2t: 1 + u16::from(pick >> 5),
        ..Params::RFC_DEFAULT
    }
}

/// A header as the peer may send it: its kind, tags and numbers fit as long as the input lets them.
pub(crate) fn header(
    input: &mut Input<'_>,
    opcodes: &[Opcode],
    cmd_sn: u32,
    last: &[u8; BHS_LEN],
) -> [u8; BHS_LEN] {
    let number = |at: usize| u32::from_be_bytes([last[at], last[at + 1], last[at + 2], last[at + 3]]);
    let mut header = [0; BHS_LEN];
    header[0] = opcodes[usize::from(input.byte()) % opcodes.len()].code();
    header[1] = input.byte();
    header[6] = input.byte() & 0x1f;
    header[7] = input.byte();
    let mut put = |at: usize, value: u32| header[at..at + 4].copy_from_slice(&value.to_be_bytes());
    put(16, input.field(number(16), cmd_sn));
    put(20, input.field(number(20), 512));
    put(24, cmd_sn);
    put(28, CMD_SN);
    put(32, cmd_sn.wrapping_add(8));
    for at in [36, 40, 44] {
        put(at, input.field(number(at), 512));
    }
    input.disturb(&mut header);
    header
}

/// Sends what there is, a PDU at a time; the last one's header.
pub(crate) fn drain(mut next: impl FnMut() -> Option<Transmit>, last: &mut [u8; BHS_LEN], most: u8) {
    for _ in 0..most {
        let Some(transmit) = next() else { return };
        let pdu = Pdu::parse(&transmit.header()).expect("the machine sends PDUs");
        let len = match &transmit.data {
            Data::None => 0,
            Data::Owned(bytes) => bytes.len() as u32,
            Data::Payload { len_bytes, .. } => *len_bytes,
        };
        assert_eq!(pdu.data_segment_len(), len);
        *last = transmit.header();
    }
}

/// The target's machine.
pub(crate) fn target(pick: u8, input: &mut Input<'_>) {
    let mut session = Target::new(0, params(pick), CMD_SN, STAT_SN, 1 + u32::from(pick >> 3));
    let mut wanted = HashMap::new();
    let (mut last, mut cmd_sn) = ([0; BHS_LEN], CMD_SN);
    let opcodes: Vec<_> = Opcode::ALL.into_iter().filter(|opcode| opcode.is_request()).collect();
    while !input.is_empty() {
        let header = header(input, &opcodes, cmd_sn, &last);
        let data = input.segment(&header);
        let Ok(pdu) = Pdu::parse(&header) else { return };
        if session.begin(LEADING, &pdu).is_err() {
            return;
        }
        serve(&mut session, input, &mut wanted);
        let segment = session.segment(LEADING, &pdu);
        if let Segment::Payload { token, offset_bytes, len_bytes } = segment {
            assert!(offset_bytes + len_bytes <= wanted[&token] && len_bytes as usize <= data.len());
        }
        let collected = if segment == Segment::Collect { &data[..] } else { &[] };
        if session.handle(LEADING, &pdu, &header, collected).is_err() {
            return;
        }
        serve(&mut session, input, &mut wanted);
        let takes_number = !matches!(pdu, Pdu::DataOut(_) | Pdu::SnackRequest(_)) && header[0] & 0x40 == 0;
        cmd_sn = cmd_sn.wrapping_add(u32::from(takes_number));
        drain(|| session.poll_transmit(LEADING), &mut last, input.byte());
    }
    drain(|| session.poll_transmit(LEADING), &mut last, u8::MAX);
}

/// Does what a serving loop does, with the choices left to the input.
pub(crate) fn serve(session: &mut Target, input: &mut Input<'_>, wanted: &mut HashMap<u64, u32>) {
    let answer =
        |status, actual_bytes| Answer { status, sense: vec![0x70; usize::from(status)], actual_bytes };
    while let Some(event) = session.poll_event() {
        match event {
            Event::Run(Run { task, expected_bytes, .. }) => match input.byte() % 5 {
                0 => {
                    let token = wanted.len() as u64;
                    let most = input.field(expected_bytes, expected_bytes / 2).min(TRANSFER_MAX);
                    wanted.insert(token, most);
                    assert!(session.take_early(task).len() <= expected_bytes as usize);
                    session.receive(task, token, most);
                }
                1 => session.send(task, 0, input.field(expected_bytes, 4096)),
                2 => session.send_owned(task, vec![1; input.number() as usize]),
                3 => session.answer(task, answer(2, 0)),
                _ => session.answer(task, answer(0, input.field(expected_bytes, 1))),
            },
            Event::Received { task, .. } => session.answer(task, answer(input.byte() & 2, 512)),
            Event::Text { connection, text } => session.answer_text(connection, text.repeat(2)),
            Event::Late { token, offset_bytes, data, .. } => {
                assert!(u64::from(offset_bytes) + data.len() as u64 <= u64::from(wanted[&token]));
            }
            Event::Damaged { task, .. } => session.answer(task, answer(2, 0)),
            Event::Manage { connection, itt, function, cmd_sn } => {
                let victims = match function {
                    Function::AbortTask(task) if session.abort(task) => vec![task],
                    Function::AbortTask(_) => vec![],
                    Function::AbortTaskSet(lun) | Function::ClearTaskSet(lun) | Function::LunReset(lun) => {
                        session.abort_all(Some(lun), Some(cmd_sn))
                    }
                    Function::WarmReset | Function::ColdReset => session.abort_all(None, Some(cmd_sn)),
                };
                victims.into_iter().for_each(|task| session.forget(task));
                session.answer_manage(connection, itt, input.byte());
            }
            Event::Logout { .. } | Event::Fault { .. } => {}
        }
    }
}

/// The initiator's machine.
pub(crate) fn initiator(pick: u8, input: &mut Input<'_>) {
    let mut session =
        Initiator::new(params(pick), CMD_SN, CMD_SN.wrapping_add(u32::from(pick >> 4)), STAT_SN);
    let mut rooms = HashMap::new();
    let mut last = [0; BHS_LEN];
    let opcodes: Vec<_> = Opcode::ALL.into_iter().filter(|opcode| !opcode.is_request()).collect();
    while !input.is_empty() {
        ask(&mut session, input, &mut rooms);
        drain(|| session.poll_transmit(0), &mut last, input.byte() & 0xf);
        let header = header(input, &opcodes, STAT_SN, &last);
        let data = input.segment(&header);
        let Ok(pdu) = Pdu::parse(&header) else { return };
        let Ok(segment) = session.segment(0, &pdu) else { return };
        if let Segment::Payload { token, offset_bytes, len_bytes } = segment {
            assert!(offset_bytes + len_bytes <= rooms[&token] && len_bytes as usize <= data.len());
        }
        let collected = if segment == Segment::Collect { &data[..] } else { &[] };
        if session.handle(0, &pdu, collected).is_err() {
            return;
        }
        while let Some(event) = session.poll_event() {
            match event {
                InitiatorEvent::Completed(completion) => {
                    let room = rooms.remove(&completion.token).expect("a command completes once");
                    assert!(completion.transferred_bytes <= room);
                }
                InitiatorEvent::Vendor { code, data, .. } => told(code, &data),
                _ => {}
            }
        }
    }
    drain(|| session.poll_transmit(0), &mut last, u8::MAX);
}

/// What is understood of a notice comes back when it is written and read again.
fn told(code: u8, data: &[u8]) {
    if let Some(told) = notification::read(code, data) {
        let (again, bytes) = notification::emit(&told);
        assert_eq!((again, notification::read(code, &bytes)), (code, Some(told)));
    }
}

/// Gives the initiator something to do.
fn ask(session: &mut Initiator, input: &mut Input<'_>, rooms: &mut HashMap<u64, u32>) {
    let len = input.number();
    let transfer = match input.byte() {
        0 => return session.ping(0),
        1 => return session.send_text(vec![b'a'; (len & 0x1ff) as usize]),
        2 => return session.logout(),
        3..=99 => Transfer::Out(len),
        100..=199 => Transfer::In(len),
        _ => return,
    };
    let token = u64::from(rooms.keys().max().map_or(0, |last| *last as u32 + 1));
    rooms.insert(token, len);
    let attribute = TaskAttribute::Simple;
    session.submit(Command { token, lun: Lun(0), cdb: [0; 16], transfer, attribute });
}
