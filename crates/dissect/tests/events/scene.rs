//! A capture with an event of every kind: seven connections of one initiator and one target.

use wire::iscsi::BHS_LEN;
use wire::scsi::Sense;

use super::tap::{BLOCK, MS, Tap, command};

pub(crate) const SECOND: u64 = 1_000 * MS;
const RST_ACK: u8 = 0x14;
const PSH_ACK: u8 = 0x18;

/// Statuses of SAM-5.
pub(crate) const CHECK_CONDITION: u8 = 0x02;
pub(crate) const BUSY: u8 = 0x08;
pub(crate) const RESERVATION_CONFLICT: u8 = 0x18;
pub(crate) const TASK_SET_FULL: u8 = 0x28;

/// A header with these first bytes and this task tag; byte 1 has the final bit.
pub(crate) fn header(opcode: u8, flags: u8, itt: u32) -> [u8; BHS_LEN] {
    let mut header = [0; BHS_LEN];
    (header[0], header[1]) = (opcode, 0x80 | flags);
    header[16..20].copy_from_slice(&itt.to_be_bytes());
    header
}

/// Sends a PDU in a segment of its own after a millisecond.
pub(crate) fn send(tap: &mut Tap, direction: usize, mut header: [u8; BHS_LEN], data: &[u8]) {
    header[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
    let mut bytes = header.to_vec();
    bytes.extend(data);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    tap.t_ns += MS;
    tap.segment(direction, PSH_ACK, &bytes);
}

/// Sends the response to a command, with sense data.
pub(crate) fn respond(tap: &mut Tap, cmd_sn: u32, [response, status]: [u8; 2], sense: Option<Sense>) {
    let mut header = header(0x21, 0, cmd_sn | 0x100);
    (header[2], header[3]) = (response, status);
    header[24..28].copy_from_slice(&tap.stat_sn.to_be_bytes());
    header[28..32].copy_from_slice(&(cmd_sn + 1).to_be_bytes());
    header[32..36].copy_from_slice(&(cmd_sn + tap.window).to_be_bytes());
    tap.stat_sn += 1;
    let mut data = Vec::new();
    if let Some(sense) = sense {
        wire::iscsi::put_sense(&sense.emit_fixed(), &mut data);
    }
    send(tap, 1, header, &data);
}

/// Sends a read.
pub(crate) fn ask(tap: &mut Tap, cmd_sn: u32) {
    tap.pdus(0, &[(command(cmd_sn, true, BLOCK, 0), Vec::new())]);
}

/// A login request and its response with this status class and detail, and text.
pub(crate) fn login(tap: &mut Tap, status: [u8; 2], texts: [&[u8]; 2]) {
    let [offer, answer] = texts;
    let mut request = header(0x43, 0x07, 1);
    request[27] = 1;
    send(tap, 0, request, offer);
    let mut response = header(0x23, if status[0] == 0 { 0x07 } else { 0 }, 1);
    response[1] &= if status[0] == 0 { 0xff } else { 0x7f };
    response[36..38].copy_from_slice(&status);
    response[35] = 31;
    send(tap, 1, response, answer);
}

/// An ICMP message of 192.0.2.9 about the first segment of the target, in a frame of Ethernet.
pub(crate) fn icmp(tap: &Tap, [kind, code]: [u8; 2], mtu: u16) -> Vec<u8> {
    let mut frame = vec![0; 14];
    frame[12] = 8;
    frame.extend([0x45, 0, 0, 56, 0, 0, 0, 0, 64, 1, 0, 0, 192, 0, 2, 9, 10, 0, 0, 1]);
    frame.extend([kind, code, 0, 0, 0, 0]);
    frame.extend(mtu.to_be_bytes());
    frame.extend([0x45, 0, 0x23, 0, 0, 9, 0x40, 0, 63, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 0]);
    frame.extend(3260_u16.to_be_bytes());
    frame.extend(tap.port.to_be_bytes());
    frame.extend(78_u32.to_be_bytes());
    frame
}

/// Frames of all connections, in the order of their times.
pub(crate) fn frames() -> Vec<(u64, Vec<u8>)> {
    let mut session = session();
    let (at, port) = (session.t_ns, session.port);
    assert_eq!(port, 40_000, "the first one");
    session.frames.push((at + 1, icmp(&session, [3, 4], 1_400)));
    session.frames.push((at + 2, icmp(&session, [3, 13], 0)));
    let mut all = session.frames;
    let others: [fn(&mut Tap); 3] = [
        |tap| login(tap, [2, 3], [b"InitiatorName=iqn.2026-11.io.farlun:a\0", b""]),
        |tap| login(tap, [1, 2], [b"", b"TargetAddress=192.0.2.7:3260,1\0"]),
        |tap| login(tap, [3, 1], [b"", b""]),
    ];
    for (n, other) in (1..).zip(others) {
        let mut tap = begun(40_000 + n, u64::from(n) * 3 * SECOND);
        other(&mut tap);
        all.extend(tap.frames);
    }
    let mut refused = Tap { port: 40_009, t_ns: 10 * SECOND, ..Tap::idle() };
    refused.segment(0, 0x02, &[]);
    refused.segment(1, RST_ACK, &[]);
    all.extend(refused.frames);
    all.sort_by_key(|(t_ns, _)| *t_ns);
    all
}

/// A connection after its handshake.
pub(crate) fn begun(port: u16, t_ns: u64) -> Tap {
    let mut tap = Tap { port, t_ns, ..Tap::idle() };
    for (direction, flags) in [(0, 0x02), (1, 0x12), (0, 0x10)] {
        tap.segment(direction, flags, &[]);
    }
    tap
}

/// A session with every kind of event that a session has.
fn session() -> Tap {
    let mut tap = Tap::new((false, false));
    (1..=9).for_each(|cmd_sn| ask(&mut tap, cmd_sn));
    respond(&mut tap, 1, [0, BUSY], None);
    respond(&mut tap, 2, [0, TASK_SET_FULL], None);
    respond(&mut tap, 3, [0, TASK_SET_FULL], None);
    respond(&mut tap, 4, [0, RESERVATION_CONFLICT], None);
    respond(&mut tap, 5, [0, CHECK_CONDITION], Some(Sense::READ_ERROR));
    respond(&mut tap, 6, [0, 0x40], None);
    respond(&mut tap, 7, [1, 0], None);
    let answer = tap.answer(9, 1);
    tap.pdus(1, &answer);
    // An abort, and a reset of the LUN without a response.
    let mut abort = header(0x42, 1, 0x700);
    abort[20..24].copy_from_slice(&(8_u32 | 0x100).to_be_bytes());
    send(&mut tap, 0, abort, &[]);
    send(&mut tap, 1, header(0x22, 0, 0x700), &[]);
    send(&mut tap, 0, header(0x42, 5, 0x701), &[]);
    let mut event = header(0x32, 0, u32::MAX);
    event[36] = 1;
    send(&mut tap, 1, event, &[]);
    let mut reject = header(0x3f, 0, u32::MAX);
    reject[2] = 4;
    send(&mut tap, 1, reject, &header(0x01, 0, 0x109));
    // A ping of the target that is answered in time, one that is answered late, one of the initiator that never is.
    for (tag, wait_ns) in [(0x51_u32, 0), (0x52, 6 * SECOND)] {
        let mut ping = header(0x20, 0, u32::MAX);
        ping[20..24].copy_from_slice(&tag.to_be_bytes());
        send(&mut tap, 1, ping, &[]);
        tap.t_ns += wait_ns;
        let mut answer = header(0x40, 0, u32::MAX);
        answer[20..24].copy_from_slice(&tag.to_be_bytes());
        send(&mut tap, 0, answer, &[]);
    }
    let mut ping = header(0x40, 0, 0x710);
    ping[20..24].fill(0xff);
    send(&mut tap, 0, ping, &[]);
    tap.t_ns += 7 * SECOND;
    let mut logout = header(0x46, 0, 0x711);
    logout[24..28].copy_from_slice(&10_u32.to_be_bytes());
    send(&mut tap, 0, logout, &[]);
    send(&mut tap, 1, header(0x26, 0, 0x711), &[]);
    tap.segment(0, RST_ACK, &[]);
    tap
}
