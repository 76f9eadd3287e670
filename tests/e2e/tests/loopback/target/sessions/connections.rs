//! Several connections of one session, on sockets: who may join, what goes where, and what becomes of the others when
//! one ends.

use std::fs::{self, File};
use std::io::Write;
use std::net::TcpStream;

use e2e::ours::Target;
use wire::iscsi::{
    LogoutRequest, Lun, Pdu, RESERVED_TAG, ScsiCommand, TaskAttribute, TaskManagementRequest, login_status,
    logout_reason, reject_reason, task_function,
};
use wire::scsi::{BlockForm, Cdb};

use crate::peers::pdu;
use crate::peers::raw_initiator::{connect, data_out, ping, read, until_closed, write};
use crate::peers::raw_login::{self, Badge};

const NAME: &str = "iqn.2026-11.org.example:several";
const ISID: [u8; 6] = [0x80, 0, 0, 0x11, 0, 1];

/// How a connection logs in.
#[derive(Clone, Copy)]
struct Login {
    name: &'static str,
    isid: [u8; 6],
    tsih: u16,
    cid: u16,
    cmd_sn: u32,
    most: &'static str,
}

const FIRST: Login = Login { name: NAME, isid: ISID, tsih: 0, cid: 0, cmd_sn: 1, most: "3" };

/// What became of a login: the socket and the session's handle, or the status.
fn log_in(target: &Target, login: Login) -> Result<(TcpStream, u16), (u8, u8)> {
    let Login { name, isid, tsih, cid, cmd_sn, most } = login;
    let keys = [
        ("InitiatorName", name),
        ("TargetName", target.iqn()),
        ("InitialR2T", "Yes"),
        ("MaxConnections", most),
    ];
    // The last two are for the first connection to ask.
    let keys = if tsih == 0 { &keys[..] } else { &keys[..2] };
    let (request, text) = raw_login::request(Badge { isid, tsih, cid, cmd_sn }, keys);
    let mut stream = connect(target);
    stream.write_all(&pdu::bytes(request, &text)).expect("the target reads");
    let answer = pdu::read(&mut stream).expect("an answer to the login");
    let Some((Pdu::LoginResponse(response), _)) = answer else { panic!("{answer:?}") };
    match (response.status_class, response.status_detail) {
        (0, 0) => Ok((stream, response.tsih)),
        status => Err(status),
    }
}

/// A session with connections 0 and 1 that has heard of its unit's attention; its handle.
#[track_caller]
fn two(target: &Target) -> (TcpStream, TcpStream, u16) {
    let (mut one, tsih) = log_in(target, FIRST).expect("a session");
    let (other, same) = log_in(target, Login { tsih, cid: 1, ..FIRST }).expect("another connection");
    assert_eq!(tsih, same);
    send(&mut one, command(1, Cdb::TestUnitReady, 0), &[]);
    receive(&mut one);
    (one, other, tsih)
}

/// A command with this number, which is its tag too.
fn command(cmd_sn: u32, cdb: Cdb, bytes: u32) -> ScsiCommand {
    ScsiCommand {
        immediate: false,
        is_final: true,
        read: matches!(cdb, Cdb::Read { .. }),
        write: matches!(cdb, Cdb::Write { .. } | Cdb::WriteSame { .. }),
        attribute: TaskAttribute::Simple,
        ahs_len: 0,
        data_segment_len: 0,
        lun: Lun::from_number(0),
        itt: cmd_sn,
        expected_data_transfer_len: bytes,
        cmd_sn,
        exp_stat_sn: 0,
        cdb: cdb.emit(),
    }
}

fn send(stream: &mut TcpStream, pdu: impl Into<Pdu>, data: &[u8]) {
    stream.write_all(&pdu::bytes(pdu, data)).expect("the target reads");
}

#[track_caller]
fn receive(stream: &mut TcpStream) -> (Pdu, Vec<u8>) {
    match pdu::read(stream) {
        Ok(Some(found)) => found,
        other => panic!("nothing comes: {other:?}"),
    }
}

/// The tag and status of the response that comes next.
#[track_caller]
fn status(stream: &mut TcpStream) -> (u32, u8) {
    match receive(stream) {
        (Pdu::ScsiResponse(response), _) => (response.itt, response.status),
        (Pdu::DataIn(data), _) if data.status.is_some() => (data.itt, 0),
        found => panic!("no status: {found:?}"),
    }
}

/// Tags of all that is there to be read: a ping is answered behind it.
#[track_caller]
fn waiting(stream: &mut TcpStream) -> Vec<u32> {
    const TAG: u32 = 0xabcd_0000;
    stream.write_all(&ping(TAG, b"?")).expect("the target reads");
    let tags = std::iter::from_fn(|| Some(receive(stream).0.itt()).filter(|tag| *tag != TAG));
    tags.collect()
}

/// Data of commands whose turn has not come, since one before them is missing, is bounded in all sessions together.
#[test]
fn data_ahead_of_its_turn_is_bounded_in_all_sessions_together() {
    const SESSIONS: u8 = 12;
    /// Each session may have 16 MiB.
    const WRITES: u32 = 250;
    const LEN: u32 = 64 << 10;
    let target = Target::serve(&["memory:1MiB"]);
    let mut sessions = Vec::new();
    for number in 0..SESSIONS {
        let first = Login { isid: [0x80, 0, 0, 0x12, 0, number], ..FIRST };
        let (one, tsih) = log_in(&target, first).expect("a session");
        let (other, _) = log_in(&target, Login { tsih, cid: 1, ..first }).expect("another connection");
        sessions.push((one, other));
    }
    let before_bytes = target.service.resident_bytes();
    let mut dropped = 0;
    for (one, other) in &mut sessions {
        let early = |n| command(2 + n, write(0, LEN), LEN);
        let sent = (0..WRITES).try_for_each(|n| other.write_all(&pdu::bytes(early(n), &[1; LEN as usize])));
        let answer = sent.and_then(|()| other.write_all(&ping(7, b"?"))).and_then(|()| pdu::read(other));
        match answer {
            Ok(Some((Pdu::NopIn(_), _))) => {}
            Ok(None) => dropped += 1,
            Err(error) if pdu::is_end(&error) => dropped += 1,
            other => panic!("{other:?}"),
        }
        assert!(waiting(one).is_empty(), "the other connection of the session stays");
    }
    assert!((1..SESSIONS).contains(&dropped), "{dropped} of {SESSIONS} have brought too much");
    let grown_bytes = target.service.resident_bytes().saturating_sub(before_bytes);
    assert!(grown_bytes < 160 << 20, "{grown_bytes} bytes are held for commands before their turn");
}

#[test]
fn who_may_join() {
    let target = Target::serve(&["memory:1MiB"]);
    let (_one, _other, tsih) = two(&target);
    let joining = Login { tsih, cid: 2, ..FIRST };
    let missing = Err(login_status::SESSION_DOES_NOT_EXIST);
    let refused = |login| log_in(&target, login).map(|_| ());
    assert_eq!(refused(Login { tsih: tsih.wrapping_add(100), ..joining }), missing);
    assert_eq!(refused(Login { isid: [0x80, 9, 9, 9, 9, 9], ..joining }), missing);
    assert_eq!(refused(Login { name: "iqn.2026-11.org.example:thief", ..joining }), missing);
    let _third = log_in(&target, joining).expect("the third of three");
    assert_eq!(refused(Login { cid: 3, ..joining }), Err(login_status::TOO_MANY_CONNECTIONS));
    let _again = log_in(&target, Login { cid: 1, ..joining }).expect("in the place of the second");
    // A session that asked for one connection has one.
    let alone = Login { isid: [0x80, 0, 0, 0x11, 0, 2], most: "1", ..FIRST };
    let (_alone, tsih) = log_in(&target, alone).expect("a session");
    assert_eq!(refused(Login { tsih, cid: 1, ..alone }), Err(login_status::TOO_MANY_CONNECTIONS));
}

#[test]
fn commands_of_two_connections_run_in_one_order() {
    let target = Target::serve(&["memory:1MiB"]);
    let (mut one, mut other, _) = two(&target);
    // Each write is read back by the next command, on the other connection, which often comes first.
    for round in 0..50_u8 {
        let at = 2 + u32::from(round) * 2;
        send(&mut other, command(at + 1, read(0, 512), 512), &[]);
        send(&mut one, command(at, write(0, 512), 512), &[round; 512]);
        assert_eq!(status(&mut one), (at, 0));
        let (Pdu::DataIn(data), found) = receive(&mut other) else { panic!("no data") };
        assert_eq!((data.itt, data.status, found), (at + 1, Some(0), vec![round; 512]));
    }
    // One that waits for its turn does not hold up pings, and runs as soon as the other is there.
    send(&mut other, command(103, Cdb::TestUnitReady, 0), &[]);
    assert!(waiting(&mut other).is_empty());
    send(&mut one, command(102, Cdb::TestUnitReady, 0), &[]);
    assert_eq!((status(&mut one), status(&mut other)), ((102, 0), (103, 0)));
}

#[test]
fn a_lost_connection_leaves_the_other() {
    let target = Target::serve(&["memory:1MiB"]);
    let (mut one, mut other, tsih) = two(&target);
    send(&mut other, command(2, write(0, 4096), 4096), &[]);
    let (Pdu::R2t(_), _) = receive(&mut other) else { panic!("the data is not sent for") };
    send(&mut one, command(3, write(8, 4096), 4096), &[]);
    let (Pdu::R2t(r2t), _) = receive(&mut one) else { panic!("the data is not sent for") };
    other.shutdown(std::net::Shutdown::Both).expect("a socket");
    // Number 4 was lost with it, so that 5 waits until the initiator gives it up.
    send(&mut one, command(5, read(0, 512), 512), &[]);
    assert!(waiting(&mut one).is_empty());
    let abort = TaskManagementRequest {
        immediate: true,
        function: task_function::ABORT_TASK,
        lun: Lun::from_number(0),
        itt: 0x99,
        referenced_itt: 4,
        cmd_sn: 6,
        exp_stat_sn: 0,
        ref_cmd_sn: 4,
        exp_data_sn: 0,
    };
    send(&mut one, abort, &[]);
    let (Pdu::TaskManagementResponse(response), _) = receive(&mut one) else { panic!("no response") };
    assert_eq!(response.response, 0);
    assert_eq!(status(&mut one), (5, 0));
    // The write of the one that is left goes on; the other's has ended with its connection.
    one.write_all(&data_out(3, r2t.ttt, 0, &[7; 4096])).expect("the target reads");
    assert_eq!(status(&mut one), (3, 0));
    send(&mut one, command(6, read(0, 512), 512), &[]);
    assert_eq!(receive(&mut one).1, [0; 512]);
    // And it may come back under its name.
    let again = log_in(&target, Login { tsih, cid: 1, cmd_sn: 7, ..FIRST });
    let (mut again, _) = again.expect("there is room");
    send(&mut again, command(7, read(8, 512), 512), &[]);
    assert_eq!(receive(&mut again).1, [7; 512]);
}

#[test]
fn the_same_cid_takes_the_place_of_the_old_connection() {
    let target = Target::serve(&["memory:1MiB"]);
    let (mut one, mut other, tsih) = two(&target);
    send(&mut other, command(2, write(0, 4096), 4096), &[]);
    let (Pdu::R2t(r2t), _) = receive(&mut other) else { panic!("the data is not sent for") };
    let (mut again, _) = log_in(&target, Login { tsih, cid: 1, cmd_sn: 3, ..FIRST }).expect("its place");
    assert!(until_closed(&mut other).is_empty());
    again.write_all(&data_out(2, r2t.ttt, 0, &[9; 4096])).expect("the target reads");
    let (Pdu::Reject(reject), _) = receive(&mut again) else { panic!("its tasks have ended") };
    assert_eq!(reject.reason, reject_reason::INVALID_PDU_FIELD, "nor did their data belong here");
    assert!(waiting(&mut again).is_empty());
    send(&mut one, command(3, read(0, 512), 512), &[]);
    assert_eq!(receive(&mut one).1, [0; 512]);
    send(&mut again, command(4, Cdb::TestUnitReady, 0), &[]);
    assert_eq!(status(&mut again), (4, 0));
}

/// RFC 7143 section 6.3.4: the old connection's tasks have ended when the new one is told that it is in: done, or not begun.
#[test]
fn the_same_cid_waits_for_what_stores_still_do_for_the_old_connection() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("disk");
    File::create(&path).and_then(|file| file.set_len(32 << 20)).expect("a file");
    let target = Target::serve(&[&format!("file:{}", path.display())]);
    let last_lba = (32 << 20) / 512 - 1;
    // With another connection beside it, and as the only one of its session.
    let (one, other, tsih) = two(&target);
    let (mut lone, lone_tsih) =
        log_in(&target, Login { isid: [0x80, 0, 0, 0x12, 0, 1], ..FIRST }).expect("a session");
    send(&mut lone, command(1, Cdb::TestUnitReady, 0), &[]);
    receive(&mut lone);
    let beside = Login { tsih, cid: 1, cmd_sn: 3, ..FIRST };
    let alone = Login { isid: [0x80, 0, 0, 0x12, 0, 1], tsih: lone_tsih, cmd_sn: 3, ..FIRST };
    for (mut old, login, fill) in [(other, beside, 7), (lone, alone, 8)] {
        let (form, unmap, no_data) = (BlockForm::Sixteen, false, false);
        let cdb = Cdb::WriteSame { form, lba: 0, blocks: last_lba as u32 + 1, unmap, no_data };
        send(&mut old, command(2, cdb, 512), &[]);
        let (Pdu::R2t(r2t), _) = receive(&mut old) else { panic!("the data is not sent for") };
        let all = [data_out(2, r2t.ttt, 0, &[fill; 512]), ping(0x9999, b"?")].concat();
        old.write_all(&all).expect("the target reads");
        assert_eq!(receive(&mut old).0.itt(), 0x9999, "the data is there, and may be being written");
        let (mut again, _) = log_in(&target, login).expect("its place");
        until_closed(&mut old);
        // All of it is there, or a part: it ends between two pieces.
        let then = fs::read(&path).expect("the file");
        let [_, last] = [(3, 0), (4, last_lba)].map(|(cmd_sn, lba)| {
            send(&mut again, command(cmd_sn, read(lba, 512), 512), &[]);
            receive(&mut again).1
        });
        assert_eq!(last, then[then.len() - 512..]);
        assert!(fs::read(&path).expect("the file") == then, "it is over when the login is answered");
    }
    drop(one);
}

fn logout(reason: u8, cid: u16) -> LogoutRequest {
    LogoutRequest { immediate: true, reason, itt: 0x77, cid, cmd_sn: 2, exp_stat_sn: 0 }
}

#[track_caller]
fn logged_out(stream: &mut TcpStream, expected: u8) {
    let (Pdu::LogoutResponse(response), _) = receive(stream) else { panic!("no answer to the logout") };
    assert_eq!(response.response, expected);
}

#[test]
fn logout_of_one_connection_and_of_all() {
    let target = Target::serve(&["memory:1MiB"]);
    let (mut one, mut other, tsih) = two(&target);
    send(&mut one, logout(logout_reason::CLOSE_CONNECTION, 9), &[]);
    logged_out(&mut one, 1);
    // Its own …
    send(&mut other, logout(logout_reason::CLOSE_CONNECTION, 1), &[]);
    logged_out(&mut other, 0);
    assert!(until_closed(&mut other).is_empty());
    send(&mut one, command(2, Cdb::TestUnitReady, 0), &[]);
    assert_eq!(status(&mut one), (2, 0));
    // … another's …
    let (mut other, _) = log_in(&target, Login { tsih, cid: 1, ..FIRST }).expect("room again");
    send(&mut one, logout(logout_reason::CLOSE_CONNECTION, 1), &[]);
    logged_out(&mut one, 0);
    assert!(until_closed(&mut other).is_empty());
    // … and all of them.
    let (mut other, _) = log_in(&target, Login { tsih, cid: 1, ..FIRST }).expect("room again");
    send(&mut other, logout(logout_reason::CLOSE_SESSION, 0), &[]);
    logged_out(&mut other, 0);
    assert!(until_closed(&mut other).is_empty() && until_closed(&mut one).is_empty());
    let gone = log_in(&target, Login { tsih, cid: 1, ..FIRST });
    assert_eq!(gone.map(|_| ()), Err(login_status::SESSION_DOES_NOT_EXIST));
}

#[test]
fn a_reset_on_one_connection_ends_the_tasks_of_the_other() {
    let target = Target::serve(&["memory:1MiB"]);
    let (mut one, mut other, _) = two(&target);
    send(&mut other, command(2, write(0, 4096), 4096), &[]);
    let (Pdu::R2t(r2t), _) = receive(&mut other) else { panic!("the data is not sent for") };
    let reset = TaskManagementRequest {
        immediate: true,
        function: task_function::LOGICAL_UNIT_RESET,
        lun: Lun::from_number(0),
        itt: 0x99,
        referenced_itt: RESERVED_TAG,
        cmd_sn: 4,
        exp_stat_sn: 0,
        ref_cmd_sn: 0,
        exp_data_sn: 0,
    };
    // It is sent behind command 3, which is on the slower connection: it waits for that.
    send(&mut one, reset, &[]);
    assert!(waiting(&mut one).is_empty());
    send(&mut other, command(3, write(8, 4096), 4096), &[]);
    let (Pdu::TaskManagementResponse(response), _) = receive(&mut one) else { panic!("no response") };
    assert_eq!(response.response, 0);
    other.write_all(&data_out(2, r2t.ttt, 0, &[9; 4096])).expect("the target reads");
    let left: Vec<u32> = waiting(&mut other).into_iter().filter(|tag| *tag != 3).collect();
    assert!(left.is_empty(), "neither write is answered: {left:?}");
    send(&mut other, command(4, read(0, 4096), 4096), &[]);
    let (Pdu::ScsiResponse(told), _) = receive(&mut other) else { panic!("the reset is told first") };
    assert_eq!(told.status, 2);
    send(&mut other, command(5, read(0, 4096), 4096), &[]);
    assert!(receive(&mut other).1 == [0; 4096], "the write has left nothing");
}

#[test]
fn a_new_session_ends_all_connections_of_the_old_one() {
    let target = Target::serve(&["memory:1MiB"]);
    let (mut one, mut other, _) = two(&target);
    let (mut new, _) = log_in(&target, FIRST).expect("the same initiator comes again");
    assert!(until_closed(&mut one).is_empty() && until_closed(&mut other).is_empty());
    send(&mut new, command(1, Cdb::TestUnitReady, 0), &[]);
    assert_eq!(status(&mut new), (1, 2), "power on, as for every new session");
}
