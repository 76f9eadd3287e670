//! Many at once on our target's port: a thousand sessions that do nothing, and thousands of connections that never
//! log in. What they cost is bounded and given back, and a session that works goes on beside them.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use e2e::ours::Target;
use e2e::process::until;
use e2e::{farlun, need, run};
use wire::iscsi::{BHS_LEN, Pdu};

use super::{MINUTE, set_up};
use crate::peers::pdu;
use crate::peers::raw_initiator::{Flow, Session, connect, login_request, read, until_closed};
use crate::peers::raw_login::{self, Badge};

/// What a thousand idle sessions may take, the target itself included.
const IDLE_MAX_BYTES: u64 = 60_000_000;
/// What an allocator keeps for next time.
const SLACK_BYTES: u64 = 12 << 20;

/// Whether this process and those it starts may have so many files open.
fn descriptors(wanted: u64) -> Result<(), String> {
    match net::limits::raise_open_files() {
        Ok(limit) if limit >= wanted => Ok(()),
        Ok(limit) => Err(format!("{wanted} open files are needed, {limit} are allowed")),
        Err(error) => Err(format!("the limit of open files cannot be told: {error}")),
    }
}

/// Waits until the target holds little more than `before_bytes`.
#[track_caller]
fn expect_memory_back(target: &Target, before_bytes: u64) {
    until("the memory is given back", MINUTE, || {
        target.service.resident_bytes() < before_bytes + SLACK_BYTES
    });
}

#[test]
fn a_thousand_idle_sessions() {
    const SESSIONS: usize = 1000;
    need!(descriptors(SESSIONS as u64 + 100));
    let (mut target, mut first) = set_up(&["memory:64MiB"]);
    first.until_pong();
    let before_bytes = target.service.resident_bytes();
    // None is idle from its birth on: each has asked, and read what all LUNs have.
    let mut sessions: Vec<Session> = (1..SESSIONS).map(|_| Session::open(&target)).collect();
    for session in &mut sessions {
        session.read(0, 0, 64 << 10);
    }
    let with_all_bytes = target.service.resident_bytes();
    assert!(with_all_bytes < IDLE_MAX_BYTES, "{SESSIONS} sessions hold {with_all_bytes} bytes");
    // All of them are still there.
    for session in &mut sessions {
        assert!(session.until_pong().is_empty());
    }
    first.read(0, 0, 64 << 10);
    drop(sessions);
    expect_memory_back(&target, before_bytes);
    first.read(0, 0, 64 << 10);
    assert_eq!(target.service.terminate(), 0, "{}", target.service.stderr());
}

/// What was asked of a session at once does not stay with it as memory when it idles.
#[test]
fn sessions_that_were_busy_once() {
    const SESSIONS: usize = 100;
    const COMMANDS: usize = 2000;
    need!(descriptors(SESSIONS as u64 + 100));
    let mut target = Target::serve(&["memory:64MiB"]);
    let before_bytes = target.service.resident_bytes();
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        let mut session = Session::open(&target);
        let commands: Vec<u8> = (0..COMMANDS)
            .flat_map(|_| {
                let command = session.command(0, read(0, 4096), Flow::In(4096));
                pdu::bytes(command, &[])
            })
            .collect();
        session.send_bytes(&commands);
        for _ in 0..COMMANDS {
            let found = session.receive();
            assert!(matches!(found, (Pdu::DataIn(part), _) if part.status == Some(0)), "{found:?}");
        }
        sessions.push(session);
    }
    expect_memory_back(&target, before_bytes);
    // None is looked at for ever, not even until it is pinged.
    until("the target sleeps", Duration::from_secs(10), || {
        let before = target.service.sleeps();
        std::thread::sleep(Duration::from_millis(500));
        target.service.sleeps() < before + 10
    });
    assert!(sessions.iter_mut().all(|session| session.until_pong().is_empty()));
    assert_eq!(target.service.terminate(), 0, "{}", target.service.stderr());
}

/// One of three kinds that never come to an end of their login: silent, half a header, all but the last byte.
fn loiterer(target: &Target, request: &[u8], number: usize) -> TcpStream {
    let mut stream = connect(target);
    let part = [0, BHS_LEN / 2, request.len() - 1][number % 3];
    stream.write_all(&request[..part]).expect("the target takes it");
    stream
}

#[test]
fn five_thousand_that_never_log_in() {
    const CROWD: usize = 5000;
    /// They hold a socket each, and a login without text.
    const GROWTH_MAX_BYTES: u64 = 64 << 20;
    need!(descriptors(CROWD as u64 + 100));
    let (mut target, mut bystander) = set_up(&["memory:64MiB"]);
    bystander.until_pong();
    let before_bytes = target.service.resident_bytes();
    let request = login_request(&target, 0);
    let mut crowd: Vec<TcpStream> = Vec::new();
    for number in 0..CROWD {
        crowd.push(loiterer(&target, &request, number));
        if number % 100 == 0 {
            bystander.read(0, 0, 64 << 10);
        }
    }
    let grown_bytes = target.service.resident_bytes().saturating_sub(before_bytes);
    assert!(grown_bytes < GROWTH_MAX_BYTES, "{CROWD} connections hold {grown_bytes} bytes");
    // They keep nobody out.
    run(&mut farlun(["inquiry", &target.url(0)]), MINUTE).expect_code(0);
    Session::open(&target).read(0, 0, 64 << 10);
    drop(crowd);
    expect_memory_back(&target, before_bytes);
    bystander.read(0, 0, 64 << 10);
    assert_eq!(target.service.terminate(), 0, "{}", target.service.stderr());
}

/// Silent connections leave the oldest first, so that none of them keeps out one that logs in.
#[test]
fn silent_connections_of_one_host_make_room() {
    const CROWD: usize = 1500;
    /// Places of one address for connections that have not logged in.
    const PLACES: usize = 1024;
    need!(descriptors(CROWD as u64 + 100));
    let (mut target, mut bystander) = set_up(&["memory:1MiB"]);
    let began = Instant::now();
    let mut crowd: Vec<TcpStream> = (0..CROWD).map(|_| connect(&target)).collect();
    // Sooner than the limit of a login would.
    for stream in &mut crowd[..CROWD - PLACES] {
        assert!(until_closed(stream).is_empty());
    }
    assert!(began.elapsed() < Duration::from_secs(14), "{:?}", began.elapsed());
    Session::open(&target).read(0, 0, 4096);
    bystander.read(0, 0, 4096);
    let said = target.service.stderr();
    let lines = said.matches("the connection was needed for another").count();
    assert!((1..50).contains(&lines), "{lines} lines");
    assert_eq!(target.service.terminate(), 0, "{}", target.service.stderr());
}

/// A discovery session in which nothing is asked does not last for ever.
#[test]
fn an_idle_discovery_session_ends() {
    let (target, _bystander) = set_up(&["memory:1MiB"]);
    let keys = [("InitiatorName", "iqn.2026-11.org.example:raw"), ("SessionType", "Discovery")];
    let (request, text) =
        raw_login::request(Badge { isid: [0x80, 0, 9, 9, 9, 9], tsih: 0, cid: 0, cmd_sn: 1 }, &keys);
    let mut stream = connect(&target);
    stream.write_all(&pdu::bytes(request, &text)).expect("the target takes it");
    let answers = until_closed(&mut stream);
    assert!(
        matches!(answers[..], [(Pdu::LoginResponse(response), _)] if response.status_class == 0),
        "{answers:?}"
    );
    let said = target.service.stderr();
    assert!(said.contains("discovery session for 30 s"), "{said}");
}

/// That something comes now and then does not make a login last for ever.
#[test]
fn a_login_byte_by_byte_has_a_limit() {
    let (target, mut bystander) = set_up(&["memory:1MiB"]);
    let request = login_request(&target, 0);
    let silent = connect(&target);
    let mut half_open = connect(&target);
    half_open.write_all(&request[..BHS_LEN + 1]).expect("the target takes it");
    let mut slow = connect(&target);
    let mut sent = 0;
    let began = Instant::now();
    while began.elapsed() < MINUTE && sent < request.len() - 1 {
        if slow.write_all(&request[sent..=sent]).is_err() {
            break;
        }
        sent += 1;
        bystander.read(0, 0, 4096);
        std::thread::sleep(Duration::from_millis(200));
    }
    for mut stream in [silent, half_open, slow] {
        let answers = until_closed(&mut stream);
        assert!(answers.is_empty(), "{answers:?}");
    }
    let said = target.service.stderr();
    assert_eq!(said.matches("no login within").count(), 3, "{said}");
    // In time it is a login like any other.
    let mut patient = connect(&target);
    for byte in &request {
        patient.write_all(&[*byte]).expect("the target takes it");
    }
    let answer = pdu::read(&mut patient).expect("an answer").expect("an answer");
    assert!(matches!(answer, (Pdu::LoginResponse(response), _) if response.status_class == 0));
}
