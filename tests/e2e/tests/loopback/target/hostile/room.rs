//! Sessions that ask for more memory than there is, by headers alone or by never listening: what all of them hold is
//! bounded, and those that want little are served.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use e2e::ours::Target;
use e2e::{farlun, farlun_path, run, until};
use wire::iscsi::{DataOut, Lun, Pdu, ScsiCommand};
use wire::scsi::{BlockForm, Cdb};

use super::{MIB, MINUTE, expect_unharmed, file_lun, noise, set_up, sparse_file};
use crate::peers::pdu;
use crate::peers::raw_initiator::{BLOCK_BYTES, Flow, Session, ping, read, write};

/// The longest write that there is, of which only the header comes.
fn long_write(session: &mut Session) -> ScsiCommand {
    const LONGEST: u32 = 32 * MIB;
    let (form, blocks) = (BlockForm::Sixteen, LONGEST / BLOCK_BYTES);
    session.command(0, Cdb::Write { form, lba: 0, blocks, dpo: false, fua: false }, Flow::Out(LONGEST))
}

/// What comes next but for pings, which those get that are silent for long.
#[track_caller]
fn answer(session: &mut Session) -> Pdu {
    loop {
        let (pdu, _) = session.receive();
        if !matches!(pdu, Pdu::NopIn(_)) {
            return pdu;
        }
    }
}

/// Panics unless a session reads and writes requests of all lengths on LUN 0.
#[track_caller]
fn expect_served(session: &mut Session) {
    for bytes in [4096, 64 << 10, MIB, 8 * MIB] {
        assert_eq!(session.read(0, 0, bytes).len(), bytes as usize);
        let command = session.command(0, write(0, bytes), Flow::Out(bytes));
        session.send(command, &[]);
        let mut sent = 0;
        while sent < bytes {
            let Pdu::R2t(r2t) = answer(session) else { panic!("{bytes} bytes are not sent for") };
            let burst = vec![0; r2t.desired_len as usize];
            for pdu in parts(command.itt, r2t.ttt, r2t.buffer_offset, &burst) {
                session.send_bytes(&pdu);
            }
            sent += r2t.desired_len;
        }
        let found = answer(session);
        assert!(matches!(found, Pdu::ScsiResponse(response) if response.status == 0), "{found:?}");
    }
}

/// A burst in Data-Out PDUs of 8 KiB.
fn parts(itt: u32, ttt: u32, offset: u32, burst: &[u8]) -> Vec<Vec<u8>> {
    const PART: usize = 8 << 10;
    let count = burst.len().div_ceil(PART);
    let part = |(n, data): (usize, &[u8])| {
        let pdu = DataOut {
            is_final: n + 1 == count,
            data_segment_len: 0,
            lun: Lun::from_number(0),
            itt,
            ttt,
            exp_stat_sn: 0,
            data_sn: n as u32,
            buffer_offset: offset + (n * PART) as u32,
        };
        pdu::bytes(pdu, data)
    };
    burst.chunks(PART).enumerate().map(part).collect()
}

/// Two sessions announce all that they may and send none of it: others are served as ever. The two are ended.
#[test]
fn writes_whose_data_never_come() {
    let file = sparse_file(64 * MIB);
    let (mut target, mut bystander) = set_up(&[&file_lun(&file)]);
    let mut two = [Session::open(&target), Session::open(&target)];
    for session in &mut two {
        for _ in 0..8 {
            let command = long_write(session);
            session.send(command, &[]);
        }
        session.until_pong();
    }
    expect_served(&mut bystander);
    for mut session in two {
        session.until_closed();
    }
    let said = target.service.stderr();
    assert_eq!(said.matches("the data of a write do not come").count(), 2, "{said}");
    expect_served(&mut Session::open(&target));
    assert!(target.service.alive(), "{}", target.service.stderr());
}

/// Headers alone do not use up the part of the memory that is for small requests.
#[test]
fn small_writes_whose_data_never_come() {
    const SESSIONS: usize = 580;
    const LITTLE: u32 = 64 << 10;
    let file = sparse_file(64 * MIB);
    let (mut target, mut bystander) = set_up(&[&file_lun(&file)]);
    let mut sessions: Vec<Session> = (0..SESSIONS).map(|_| Session::open(&target)).collect();
    for (n, session) in sessions.iter_mut().enumerate() {
        let small = |session: &mut Session| session.command(0, write(0, LITTLE), Flow::Out(LITTLE));
        let command = if n < 8 { long_write(session) } else { small(session) };
        session.send(command, &[]);
        assert!(matches!(answer(session), Pdu::R2t(r2t) if r2t.itt == command.itt), "session {n}");
    }
    expect_served(&mut bystander);
    drop(sessions);
    expect_unharmed(&mut target, &mut bystander);
}

/// 6.4 GiB are announced, which take nothing before data comes.
#[test]
fn writes_without_data_by_two_hundred() {
    const SESSIONS: usize = 200;
    const HELD_MAX_BYTES: u64 = 64 << 20;
    let file = sparse_file(64 * MIB);
    let (mut target, mut bystander) = set_up(&[&file_lun(&file)]);
    let mut sessions: Vec<Session> = (0..SESSIONS).map(|_| Session::open(&target)).collect();
    let before_bytes = target.service.resident_bytes();
    for session in &mut sessions {
        let command = long_write(session);
        session.send(command, &[]);
        assert!(matches!(answer(session), Pdu::R2t(r2t) if r2t.itt == command.itt));
    }
    let grown_bytes = target.service.resident_bytes().saturating_sub(before_bytes);
    assert!(grown_bytes < HELD_MAX_BYTES, "{grown_bytes} bytes are held for headers");

    assert_eq!(bystander.read(0, 0, 64 << 10), [0; 64 << 10]);
    let folder = tempfile::tempdir().expect("a folder");
    let (image, copy) = (folder.path().join("image"), folder.path().join("copy"));
    fs::write(&image, noise(3, 8 << 20)).expect("an image");
    run(farlun(["write", &target.url(0), "-i"]).arg(&image), MINUTE).expect_code(0);
    run(farlun(["read", &target.url(0), "--length", "8MiB", "-o"]).arg(&copy), MINUTE).expect_code(0);
    assert!(fs::read(&copy).expect("the copy") == noise(3, 8 << 20), "the data suffered");

    // What they held is free when they are gone.
    drop(sessions);
    let mut late = Session::open(&target);
    until("there is room again", MINUTE, || {
        let command = long_write(&mut late);
        late.send(command, &[]);
        matches!(answer(&mut late), Pdu::R2t(r2t) if r2t.itt == command.itt)
    });
    drop(late);
    expect_unharmed(&mut target, &mut bystander);
}

/// One read from the socket brings requests for 600 MiB. They wait until there is room for them, and none is refused.
#[test]
fn reads_for_more_than_there_is() {
    const READS: usize = 600;
    const HELD_MAX_BYTES: u64 = 288 << 20;
    let file = sparse_file(MIB);
    let (mut target, mut bystander) = set_up(&[&file_lun(&file)]);
    let mut deaf = Session::open(&target);
    let before_bytes = target.service.resident_bytes();
    let commands: Vec<ScsiCommand> =
        (0..READS).map(|_| deaf.command(0, read(0, MIB), Flow::In(MIB))).collect();
    deaf.send_bytes(&commands.iter().flat_map(|command| pdu::bytes(*command, &[])).collect::<Vec<_>>());
    deaf.wait_for_a_byte();
    // The store takes turns between the two, so that much has been done for it by then.
    for _ in 0..READS {
        bystander.read(0, 0, 4096);
    }
    let grown_bytes = target.service.resident_bytes().saturating_sub(before_bytes);
    assert!(grown_bytes < HELD_MAX_BYTES, "{grown_bytes} bytes are held for a peer that does not listen");
    let mut done = Vec::new();
    while done.len() < READS {
        match answer(&mut deaf) {
            Pdu::DataIn(part) if part.status.is_none() => {}
            Pdu::DataIn(last) => {
                assert_eq!(last.status, Some(0));
                done.push(last.itt);
            }
            found => panic!("after {} of {READS}: {found:?}", done.len()),
        }
    }
    done.sort_unstable();
    assert_eq!(done, commands.iter().map(|command| command.itt).collect::<Vec<_>>());
    expect_unharmed(&mut target, &mut bystander);
}

/// Many that ask and never listen: their answers have a bound together, and who holds most of them is closed.
#[test]
fn answers_that_nobody_reads() {
    const SESSIONS: usize = 180;
    const HELD_MAX_BYTES: u64 = 192 << 20;
    /// Each brings as much back.
    const ECHO_BYTES: usize = 8 << 10;
    let (mut target, mut bystander) = set_up(&["memory:1MiB"]);
    let before_bytes = target.service.resident_bytes();
    let asks = ping(7, &[0; ECHO_BYTES]).repeat(16);
    let mut deaf: Vec<TcpStream> = (0..SESSIONS).map(|_| Session::open(&target).into_stream()).collect();
    for stream in &mut deaf {
        stream.set_write_timeout(Some(Duration::from_millis(100))).expect("a timeout can be set");
        // Until the target has enough of it, and the socket as well.
        while stream.write_all(&asks).is_ok() {}
        bystander.read(0, 0, 4096);
    }
    let grown_bytes = target.service.resident_bytes().saturating_sub(before_bytes);
    assert!(grown_bytes < HELD_MAX_BYTES, "{grown_bytes} bytes are held for those that do not listen");
    until("some are closed", MINUTE, || {
        target.service.stderr().contains("answers that initiators do not take")
    });
    drop(deaf);
    expect_unharmed(&mut target, &mut bystander);
}

/// The same with less memory than all of them ask for: sessions end for want of it, the target does not.
#[test]
fn answers_that_nobody_reads_under_a_limit_of_memory() {
    const SESSIONS: usize = 400;
    /// Anonymous memory of the process (RLIMIT_DATA).
    const LIMIT_KIB: u32 = 384 << 10;
    const ECHO_BYTES: usize = 8 << 10;
    let mut command = Command::new("sh");
    let line =
        format!("ulimit -d {LIMIT_KIB}; exec \"$0\" target --json --listen 127.0.0.1:0 --lun memory:1MiB");
    let mut target = Target::start(command.args(["-c", &line]).arg(farlun_path()));
    let mut bystander = Session::open(&target);
    let asks = ping(7, &[0; ECHO_BYTES]).repeat(16);
    let mut deaf = Vec::new();
    for _ in 0..SESSIONS {
        let mut stream = Session::open(&target).into_stream();
        stream.set_write_timeout(Some(Duration::from_millis(25))).expect("a timeout can be set");
        while stream.write_all(&asks).is_ok() {}
        deaf.push(stream);
        bystander.read(0, 0, 4096);
    }
    until("some are closed", MINUTE, || {
        target.service.stderr().contains("answers that initiators do not take")
    });
    expect_unharmed(&mut target, &mut bystander);
}

/// Commands that stay open take memory: full windows of them, in many sessions, have a bound together.
#[test]
fn commands_that_stay_open() {
    const SESSIONS: usize = 150;
    const WINDOW: usize = 4000;
    const HELD_MAX_BYTES: u64 = 512 << 20;
    let (mut target, mut bystander) = set_up(&["memory:1MiB"]);
    let before_bytes = target.service.resident_bytes();
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        let mut session = Session::open(&target);
        let mut commands = Vec::new();
        for _ in 0..WINDOW {
            let command = session.command(0, write(0, BLOCK_BYTES), Flow::Out(BLOCK_BYTES));
            commands.extend(pdu::bytes(command, &[]));
        }
        session.send_bytes(&commands);
        sessions.push(session);
        bystander.read(0, 0, 4096);
    }
    until("some are closed", MINUTE, || target.service.stderr().contains("open commands fill the memory"));
    let grown_bytes = target.service.resident_bytes().saturating_sub(before_bytes);
    assert!(grown_bytes < HELD_MAX_BYTES, "{grown_bytes} bytes are held for commands");
    drop(sessions);
    expect_unharmed(&mut target, &mut bystander);
}
