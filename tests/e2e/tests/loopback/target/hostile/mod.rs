//! Random bytes and initiators that break the rules on our target's port: at worst their connection is closed; the
//! target stays as it is and others go on. What it answers when the rules are kept is not asked here.
//!
//! `crowd` are many at once, `numbers` requests that are well formed and make no sense, `farewell` is a logout while much is
//! under way, `room` are requests for more memory than there is, `asleep` is who was to read what the target says.

mod asleep;
mod crowd;
mod farewell;
mod numbers;
mod room;

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use e2e::ours::Target;
use e2e::{Service, farlun, farlun_path, run, until};
use tempfile::NamedTempFile;
use wire::iscsi::{BHS_LEN, Pdu, RESERVED_TAG, ScsiCommand, reject_reason, split_sense};
use wire::scsi::{Cdb, Sense, SenseKey};

use crate::peers::pdu;
use crate::peers::raw_initiator::{
    Flow, Session, connect, data_out, login_request, ping, read, until_closed, write,
};

const MINUTE: Duration = Duration::from_secs(60);

/// Bytes that are the same in every run: xorshift over a seed that is never zero.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    std::iter::repeat_with(step).take(length).collect()
}

/// A login request whose header says it carries 16 MiB of text.
fn endless_login() -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    bytes[..8].copy_from_slice(&[0x43, 0x87, 0, 0, 0, 0xff, 0xff, 0xff]);
    bytes
}

/// A SCSI command before any login.
fn command_before_login() -> Vec<u8> {
    let mut bytes = vec![0; 48];
    bytes[0] = 0x01;
    bytes[1] = 0xc1;
    bytes[32] = 0x28;
    bytes
}

/// A login request whose text has a key without a value, an unknown key and no terminating zero.
fn login_with_odd_text() -> Vec<u8> {
    let text = b"InitiatorName\0X-com.example.key=1\0=\0\0\0SessionType=Neither\0MaxBurstLength=-1";
    let mut bytes = vec![0; 48];
    bytes[0] = 0x43;
    bytes[1] = 0x87;
    bytes[7] = text.len() as u8;
    bytes.extend_from_slice(text);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Sends the bytes, says that nothing follows, and waits until the target closes too.
#[track_caller]
fn send_and_expect_close(address: &str, bytes: &[u8]) {
    let mut stream = TcpStream::connect(address).expect("the target accepts");
    stream.set_read_timeout(Some(MINUTE)).expect("a timeout can be set");
    // The target may close before it has taken all: that is its right.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    match stream.read_to_end(&mut Vec::new()) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the target did not close the connection: {error}"),
    }
}

#[test]
fn bytes_that_are_no_pdus() {
    let mut target = Target::serve(&["memory:1MiB"]);
    for bytes in
        [endless_login(), command_before_login(), login_with_odd_text(), b"GET / HTTP/1.1\r\n\r\n".to_vec()]
    {
        send_and_expect_close(target.address(), &bytes);
    }
    assert!(target.service.alive(), "{}", target.service.stderr());
    run(&mut farlun(["ls", &target.portal()]), MINUTE).expect_code(0);
}

#[test]
fn random_bytes_beside_a_session_that_works() {
    let mut target = Target::serve(&["memory:256MiB"]);
    let folder = tempfile::Builder::new().prefix("farlun-hostile-").tempdir().expect("a temporary folder");
    let (image, copy) = (folder.path().join("image"), folder.path().join("copy"));
    fs::write(&image, noise(7, 64 << 20)).expect("an image");

    let mut write = Service::start(farlun(["write", &target.url(0), "--json", "-i"]).arg(&image));
    let mut seed = 1;
    // At least a hundred, and as many as fit while the other session works.
    while seed <= 100 || (write.alive() && seed <= 10_000) {
        send_and_expect_close(target.address(), &noise(seed, 48 + (seed as usize * 37) % 4096));
        seed += 1;
    }
    assert_eq!(write.ended(MINUTE), 0, "{}", write.stderr());

    let mut read = farlun(["read", &target.url(0), "--length", "64MiB", "-o"]);
    run(read.arg(&copy), MINUTE).expect_code(0);
    assert!(fs::read(&copy).expect("the copy") == fs::read(&image).expect("the image"), "the data suffered");
    assert!(target.service.alive(), "{}", target.service.stderr());
    assert_eq!(target.service.terminate(), 0, "{}", target.service.stderr());
}

const MIB: u32 = 1 << 20;

/// A file that is all zeros, for a `file:` LUN.
fn sparse_file(bytes: u32) -> NamedTempFile {
    let file = NamedTempFile::with_prefix("farlun-hostile-").expect("a temporary file");
    file.as_file().set_len(bytes.into()).expect("room for the file");
    file
}

/// The LUN that serves it.
fn file_lun(file: &NamedTempFile) -> String {
    format!("file:{}", file.path().display())
}

/// A target, and a session on it that does nothing wrong.
fn set_up(luns: &[&str]) -> (Target, Session) {
    let target = Target::serve(luns);
    let bystander = Session::open(&target);
    (target, bystander)
}

/// Panics unless the target still runs, a session that was open before still works, and so does a new one.
#[track_caller]
fn expect_unharmed(target: &mut Target, bystander: &mut Session) {
    assert!(target.service.alive(), "{}", target.service.stderr());
    bystander.read(0, 0, 4096);
    run(&mut farlun(["inquiry", &target.url(0)]), MINUTE).expect_code(0);
    let said = target.service.stderr();
    assert!(!said.contains("panicked"), "{said}");
}

/// A NOP-Out that is followed by four bytes of data.
fn ping_with_four_bytes() -> (Vec<u8>, Vec<u8>) {
    let mut header = ping(7, b"four");
    let data = header.split_off(BHS_LEN);
    (header, data)
}

#[test]
fn a_pdu_that_straddles_the_end_of_the_login() {
    let (mut target, mut bystander) = set_up(&["memory:1MiB"]);
    let (header, data) = ping_with_four_bytes();
    let mut stream = connect(&target);
    stream.write_all(&[login_request(&target, 0), header].concat()).expect("the target reads");
    // It may have closed by now.
    let _ = stream.write_all(&data);
    until_closed(&mut stream);
    expect_unharmed(&mut target, &mut bystander);
}

#[test]
fn part_of_a_header_that_straddles_the_end_of_the_login() {
    let (mut target, mut bystander) = set_up(&["memory:1MiB"]);
    let (header, data) = ping_with_four_bytes();
    for part in [1, 20, BHS_LEN - 1] {
        let mut stream = connect(&target);
        let (early, late) = header.split_at(part);
        stream.write_all(&[&login_request(&target, 0), early].concat()).expect("the target reads");
        let answer = pdu::read(&mut stream).expect("an answer to the login").expect("an answer to the login");
        assert!(matches!(answer, (Pdu::LoginResponse(_), _)), "{answer:?}");
        stream.write_all(&[late, &data].concat()).expect("the target reads");
        // The header came to its end after the login, so this is a ping like any other.
        let answer = pdu::read(&mut stream).expect("an answer to the ping");
        assert!(matches!(&answer, Some((Pdu::NopIn(_), data)) if data == b"four"), "{answer:?}");
    }
    expect_unharmed(&mut target, &mut bystander);
}

#[test]
fn a_login_that_is_cut_off_leaves_no_session() {
    let (mut target, mut bystander) = set_up(&["memory:1MiB"]);
    // All with one ISID: only who has it can tell whether a session is there.
    let request = |tsih| {
        let mut bytes = login_request(&target, tsih);
        bytes[8..14].copy_from_slice(&[0x80, 0, 0xcc, 0, 0, 1]);
        // Another connection, if it is of a session that is there: one with the same CID takes its place.
        bytes[21] = u8::from(tsih != 0);
        bytes
    };
    // Handles are random: of so many that stayed, some would be among those that are tried.
    for _ in 0..1000 {
        let mut stream = connect(&target);
        let mut unknown_opcode = [0; BHS_LEN];
        unknown_opcode[0] = 0x3e;
        stream.write_all(&[&request(0)[..], &unknown_opcode].concat()).expect("the target reads");
        until_closed(&mut stream);
    }
    let is_there = |tsih: &u16| {
        let mut stream = connect(&target);
        stream.write_all(&request(*tsih)).expect("the target reads");
        let answers = until_closed(&mut stream);
        let [(Pdu::LoginResponse(response), _)] = &answers[..] else { panic!("no refusal: {answers:?}") };
        assert_eq!(response.status_class, 2, "{response:?}");
        response.status_detail != 0x0a
    };
    let there = (1..=u16::MAX).step_by(61).filter(is_there).collect::<Vec<u16>>();
    assert!(there.is_empty(), "sessions that nobody has: {there:?}");
    let mut stream = connect(&target);
    stream.write_all(&request(0)).expect("the target reads");
    let answer = pdu::read(&mut stream).expect("an answer");
    let Some((Pdu::LoginResponse(response), _)) = answer else {
        panic!("no answer to the login: {answer:?}")
    };
    assert!(
        response.status_class == 0 && is_there(&response.tsih),
        "one that is there is found: {response:?}"
    );
    expect_unharmed(&mut target, &mut bystander);
}

#[test]
fn reads_without_end_by_a_peer_that_never_listens() {
    let file = sparse_file(64 * MIB);
    let (mut target, mut bystander) = set_up(&[&file_lun(&file), "memory:64MiB"]);
    let mut deaf = Session::open(&target);
    let commands: Vec<u8> = (0..300)
        .flat_map(|_| {
            let command = deaf.command(0, read(0, MIB), Flow::In(MIB));
            pdu::bytes(command, &[])
        })
        .collect();
    deaf.send_bytes(&commands);
    deaf.wait_for_a_byte();
    let dir = tempfile::tempdir().expect("a temporary directory");
    for lun in [0, 1] {
        let copy = dir.path().join(format!("lun{lun}.img"));
        let mut read = farlun(["read", &target.url(lun), "--length", "4MiB", "-o"]);
        run(read.arg(&copy), MINUTE).expect_code(0);
        assert_eq!(copy.metadata().expect("the copy").len(), u64::from(4 * MIB));
    }
    deaf.wait_for_a_byte();
    expect_unharmed(&mut target, &mut bystander);
}

#[test]
fn pings_without_end_by_a_peer_that_never_listens() {
    const FULL_FOR: Duration = Duration::from_secs(2);
    let (mut target, mut bystander) = set_up(&["memory:1MiB"]);
    let mut deaf = Session::open(&target);
    deaf.until_pong();
    let before_bytes = target.service.resident_bytes();
    let mut stream = deaf.into_stream();
    stream.set_nonblocking(true).expect("a socket option");
    let pings = ping(9, &[0x5a; 64 << 10]).repeat(4000);
    let (mut sent, mut moved, mut most_bytes) = (0, Instant::now(), 0);
    while sent < pings.len() && moved.elapsed() < FULL_FOR {
        match stream.write(&pings[sent..pings.len().min(sent + (1 << 20))]) {
            Ok(written) => (sent, moved) = (sent + written, Instant::now()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(5));
                most_bytes = most_bytes.max(target.service.resident_bytes());
            }
            Err(error) => panic!("after {sent} bytes: {error}"),
        }
    }
    let grown_bytes = most_bytes.max(target.service.resident_bytes()).saturating_sub(before_bytes);
    assert!(grown_bytes < 64 << 20, "{grown_bytes} bytes are held for a peer that does not listen");
    expect_unharmed(&mut target, &mut bystander);
}

#[test]
fn one_command_number_thousands_of_times() {
    const LEN: u32 = 8192;
    let (mut target, mut bystander) = set_up(&["memory:1MiB"]);
    let mut session = Session::open(&target);
    session.until_pong();
    let before_bytes = target.service.resident_bytes();
    let gap = session.command(0, Cdb::TestUnitReady, Flow::Nothing);
    let early = session.command(0, write(0, LEN), Flow::Out(LEN));
    for turn in 0..5000 {
        let command = ScsiCommand { itt: early.itt + turn, ..early };
        session.send(command, &[if turn == 0 { 1 } else { 2 }; LEN as usize]);
    }
    assert!(session.until_pong().is_empty(), "nothing is answered while a command before it is missing");
    let grown_bytes = target.service.resident_bytes().saturating_sub(before_bytes);
    assert!(grown_bytes < 32 << 20, "{grown_bytes} bytes are held for commands that came twice");
    session.send(gap, &[]);
    let answers = session.until_pong();
    let tags: Vec<u32> = answers.iter().map(|(pdu, _)| pdu.itt()).collect();
    assert_eq!(tags, [gap.itt, early.itt], "each number is executed once: {answers:?}");
    assert_eq!(session.read(0, 0, LEN), [1; LEN as usize], "the first of them is the command");
    expect_unharmed(&mut target, &mut bystander);
}

#[test]
fn discovery_names_an_address_that_can_be_reached() {
    let mut command = farlun(["target", "--json", "--listen", "0.0.0.0:0", "--insecure"]);
    let target = Target::start(command.args(["--lun", "memory:1MiB"]));
    let port = target.address().rsplit(':').next().expect("a port");
    let portal = format!("iscsi://127.0.0.1:{port}");
    let listed = run(&mut farlun(["ls", &portal, "--json"]), MINUTE).expect_code(0).json();
    let addresses = &listed["targets"][0]["addresses"];
    assert_eq!(addresses.as_array().map(Vec::len), Some(1), "{listed}");
    let address = addresses[0].as_str().expect("an address");
    assert_eq!(address.split(',').next(), Some(&*format!("127.0.0.1:{port}")), "{listed}");
    assert_eq!(listed["targets"][0]["luns"][0]["bytes"], MIB, "{listed}");
}

#[test]
fn data_that_goes_the_wrong_way() {
    let (mut target, mut bystander) = set_up(&["memory:1MiB"]);
    let mut session = Session::open(&target);
    let command = session.command(0, write(0, 4096), Flow::Out(4096));
    session.send(command, &[7; 4096]);
    session.until_pong();
    let wrong = session.command(0, write(0, 4096), Flow::In(4096));
    session.send(wrong, &[]);
    let answers = session.until_pong();
    let [(Pdu::ScsiResponse(response), data)] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((response.itt, response.status), (wrong.itt, 2));
    let sense = Sense::parse(split_sense(data).expect("sense data").0).expect("sense data");
    assert_eq!((sense.key, sense.asc, sense.ascq), (SenseKey::IllegalRequest, 0x0e, 0x03));
    // A READ that expects to write moves nothing and harms nothing: GOOD, and the residual says it all.
    let wrong = session.command(0, read(0, 4096), Flow::Out(4096));
    session.send(wrong, &[]);
    let answers = session.until_pong();
    let [(Pdu::ScsiResponse(response), _)] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((response.itt, response.status), (wrong.itt, 0));
    assert_eq!((response.underflow, response.residual), (true, 4096));
    assert_eq!(session.read(0, 0, 4096), [7; 4096], "the data has changed");
    expect_unharmed(&mut target, &mut bystander);
}

/// An initiator that expects to send less than its command writes: whole blocks are written, and the residual says that
/// it was not all.
#[test]
fn less_than_a_block_is_not_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("disk");
    fs::write(&path, vec![0; MIB as usize]).expect("a file");
    let (mut target, mut bystander) = set_up(&["memory:1MiB", &format!("file:{}", path.display())]);
    let mut session = Session::open(&target);
    for lun in [0, 1] {
        for (sent_bytes, written_bytes) in [(200, 0), (511, 0), (512, 512), (700, 512), (1023, 512)] {
            assert_eq!(session.write(lun, 0, &[7; 1024]), None);
            let command = session.command(lun, write(0, 1024), Flow::Out(sent_bytes));
            session.send(command, &vec![9; sent_bytes as usize]);
            let (Pdu::ScsiResponse(response), _) = session.receive() else { panic!("no status") };
            assert_eq!((response.itt, response.status), (command.itt, 0));
            assert_eq!((response.overflow, response.residual), (true, 1024 - sent_bytes), "{sent_bytes}");
            let mut expected = vec![7; 1024];
            expected[..written_bytes].fill(9);
            assert_eq!(session.read(lun, 0, 1024), expected, "LUN {lun}, {sent_bytes} bytes");
        }
    }
    expect_unharmed(&mut target, &mut bystander);
}

#[test]
fn data_out_for_nobody_is_rejected() {
    let (mut target, mut bystander) = set_up(&["memory:1MiB"]);
    let mut session = Session::open(&target);
    session.send_bytes(&data_out(0xdead, RESERVED_TAG, 0, &[1; 512]));
    session.send_bytes(&data_out(0xdead, 5, 0, &[1; 512]));
    let answers = session.until_pong();
    let rejected =
        |pdu: &Pdu| matches!(pdu, Pdu::Reject(it) if it.reason == reject_reason::INVALID_PDU_FIELD);
    assert!(answers.len() == 2 && answers.iter().all(|(pdu, _)| rejected(pdu)), "{answers:?}");
    assert_eq!(session.read(0, 0, 512), [0; 512]);
    expect_unharmed(&mut target, &mut bystander);
}

#[test]
fn a_burst_that_goes_wrong_ends_the_connection() {
    let file = sparse_file(MIB);
    let (mut target, mut bystander) = set_up(&["memory:1MiB", &file_lun(&file)]);
    for lun in [0, 1] {
        for (offset, len) in [(512, 512), (u32::MAX - 511, 512), (0, 8192), (4096, 0)] {
            let mut session = Session::open(&target);
            let command = session.command(lun, write(0, 4096), Flow::Out(4096));
            session.send(command, &[]);
            let (Pdu::R2t(r2t), _) = session.receive() else { panic!("the data is not sent for") };
            session.send_bytes(&data_out(command.itt, r2t.ttt, offset, &vec![9; len]));
            let answers = session.until_closed();
            assert!(answers.is_empty(), "LUN {lun}, offset {offset}, {len} bytes: {answers:?}");
        }
        assert_eq!(bystander.read(lun, 0, 4096), [0; 4096], "LUN {lun} has changed");
    }
    expect_unharmed(&mut target, &mut bystander);
}

#[test]
fn more_immediate_data_than_allowed_ends_the_connection() {
    let (mut target, mut bystander) = set_up(&["memory:1MiB"]);
    // Above the expected length, above FirstBurstLength, above our MaxRecvDataSegmentLength, with a READ.
    for (flow, len) in [
        (Flow::Out(4096), 8192),
        (Flow::Out(MIB), 128 << 10),
        (Flow::Out(MIB), MIB as usize),
        (Flow::In(4096), 4096),
        (Flow::Nothing, 4096),
    ] {
        let mut session = Session::open(&target);
        let command = session.command(0, write(0, 4096), flow);
        session.send(command, &vec![9; len]);
        let answers = session.until_closed();
        assert!(answers.is_empty(), "{len} bytes: {answers:?}");
    }
    assert_eq!(bystander.read(0, 0, 4096), [0; 4096], "the LUN has changed");
    expect_unharmed(&mut target, &mut bystander);
}

#[test]
fn a_task_tag_that_is_in_use_ends_the_connection() {
    let (mut target, mut bystander) = set_up(&["memory:1MiB"]);
    let mut session = Session::open(&target);
    let first = session.command(0, write(0, 4096), Flow::Out(4096));
    session.send(first, &[]);
    assert!(matches!(session.receive(), (Pdu::R2t(_), _)), "the data is sent for, so the task is open");
    let second = session.command(0, Cdb::TestUnitReady, Flow::Nothing);
    session.send(ScsiCommand { itt: first.itt, ..second }, &[]);
    let answers = session.until_closed();
    assert!(answers.is_empty(), "{answers:?}");
    expect_unharmed(&mut target, &mut bystander);
}

#[test]
fn every_one_of_many_immediate_commands_is_answered() {
    const COMMANDS: usize = 200;
    let (mut target, mut bystander) = set_up(&["memory:1MiB"]);
    let mut session = Session::open(&target);
    // Writes whose data never comes stay open.
    for _ in 0..COMMANDS {
        let command = session.command(0, write(0, 4096), Flow::Out(4096));
        session.cmd_sn -= 1;
        session.send(ScsiCommand { immediate: true, cmd_sn: session.cmd_sn, ..command }, &[]);
    }
    let answers = session.until_pong();
    let sent_for = answers.iter().filter(|(pdu, _)| matches!(pdu, Pdu::R2t(_))).count();
    let rejects =
        |pdu: &Pdu| matches!(pdu, Pdu::Reject(it) if it.reason == reject_reason::TOO_MANY_IMMEDIATE);
    let rejected = answers.iter().filter(|(pdu, _)| rejects(pdu)).count();
    assert_eq!((sent_for + rejected, answers.len()), (COMMANDS, COMMANDS), "{sent_for} are sent for");
    assert!(sent_for > 0 && rejected > 0, "{sent_for} of {COMMANDS} may be open at once");
    expect_unharmed(&mut target, &mut bystander);
}

#[test]
fn a_crowd_that_takes_all_descriptors() {
    const LOOK: Duration = Duration::from_secs(2);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 64; exec \"$0\" target --json --listen 127.0.0.1:0 --lun memory:1MiB"]);
    let mut target = Target::start(command.arg(farlun_path()));
    let crowd: Vec<TcpStream> = (0..100).map(|_| connect(&target)).collect();
    until("the descriptors have run out", MINUTE, || target.service.stderr().contains("cannot accept"));
    let began = Instant::now();
    while began.elapsed() < LOOK {
        assert!(target.service.alive(), "{}", target.service.stderr());
        std::thread::sleep(Duration::from_millis(20));
    }
    let said = target.service.stderr();
    assert!(said.lines().count() < 200, "{} lines in {LOOK:?}", said.lines().count());
    drop(crowd);
    run(&mut farlun(["inquiry", &target.url(0)]), MINUTE).expect_code(0);
    let mut bystander = Session::open(&target);
    expect_unharmed(&mut target, &mut bystander);
}
