//! Targets that break the rules while our initiator works with them: it ends with one clear sentence and exit code 1, or
//! works on where it can, and never takes what it got for the whole.

mod link;
mod logins;
mod portals;
mod writes;

use std::fs;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use e2e::{Finished, farlun, run};
use tempfile::TempDir;
use wire::iscsi::{
    BHS_LEN, Bhs, DataIn, Lun, NopIn, Opcode, Pdu, RESERVED_TAG, Reject, ScsiCommand, ScsiResponse,
    reject_reason,
};
use wire::scsi::{Cdb, Sense, SenseKey, Status, page};

use crate::peers::fake_target::{DISK_BYTES, FILLING, FakeTarget, Link, Verdict, is_read};
use crate::peers::{fake_target, pdu};
use writes::r2t;

/// No run takes longer.
const LIMIT: Duration = Duration::from_secs(60);
/// Our ping of the initiator.
const PING_TAG: u32 = 77;

/// `farlun read` of the whole disk into a folder of its own.
fn read_disk(fake: &FakeTarget<Link>) -> (Finished, TempDir) {
    let folder = tempfile::Builder::new().prefix("farlun-fake-").tempdir().expect("a temporary folder");
    let mut read = farlun(["read", &fake.url(), "--timeout", "2s", "-o"]);
    let finished = run(read.arg(folder.path().join("out")), LIMIT);
    (finished, folder)
}

/// Panics unless the whole disk was read.
#[track_caller]
fn expect_whole((finished, folder): (Finished, TempDir)) {
    finished.expect_code(0);
    let copy = fs::read(folder.path().join("out")).expect("the copy");
    assert!(
        copy.len() == DISK_BYTES as usize && copy.iter().all(|&byte| byte == FILLING),
        "the copy differs"
    );
}

/// What a target does about the first READ, and what our initiator has to say about that.
#[track_caller]
fn expect_failure(
    words: &[&str],
    mut misbehave: impl FnMut(&mut Link, &ScsiCommand) -> Verdict + Send + 'static,
) {
    let fake = FakeTarget::serve_one(move |link, request| match request {
        Pdu::ScsiCommand(command) if is_read(command) => misbehave(link, command),
        _ => Verdict::Serve,
    });
    let (finished, folder) = read_disk(&fake);
    finished.expect_code(1).expect_sentence(words);
    assert!(!folder.path().join("out").exists(), "what was read has the name of a whole copy");
    fake.join();
}

/// GOOD in a response of its own.
fn good(link: &mut Link, command: &ScsiCommand) {
    let response = link.response(command, 0);
    link.send(response, &[]);
}

#[test]
fn a_fake_that_behaves_is_read() {
    let fake = FakeTarget::serve_one(|_, _| Verdict::Serve);
    expect_whole(read_disk(&fake));
    assert_eq!(fake.join().reads, 1);
}

/// A ping that is sent with the last response of the login.
fn early_ping(data: &[u8]) -> Vec<u8> {
    let ping = NopIn {
        data_segment_len: 0,
        lun: Lun(0),
        itt: RESERVED_TAG,
        ttt: PING_TAG,
        stat_sn: 0,
        exp_cmd_sn: 1,
        max_cmd_sn: 128,
    };
    pdu::bytes(ping, data)
}

#[track_caller]
fn expect_pong(link: &Link, echo: &[u8]) {
    let [(nop, data)] = &link.pongs[..] else { panic!("one answer to one ping: {:?}", link.pongs) };
    assert_eq!((nop.ttt, nop.immediate, &data[..]), (PING_TAG, true, echo));
}

#[test]
fn a_ping_in_the_segment_that_ends_the_login() {
    for echo in [&b""[..], b"echo", &[7; 1000]] {
        let fake = FakeTarget::serve_after_login(early_ping(echo), |_, _| Verdict::Serve);
        expect_whole(read_disk(&fake));
        expect_pong(&fake.join(), echo);
    }
}

#[test]
fn a_ping_that_straddles_the_end_of_the_login() {
    // Within the header, between header and data, and within the data.
    for part in [1, 20, BHS_LEN - 1, BHS_LEN, BHS_LEN + 2] {
        let mut ping = early_ping(b"echo");
        let mut late = Some(ping.split_off(part));
        let fake = FakeTarget::serve_after_login(ping, move |link, _| {
            // The rest comes when the initiator has gone on.
            if let Some(late) = late.take() {
                link.send_bytes(&late);
            }
            Verdict::Serve
        });
        expect_whole(read_disk(&fake));
        expect_pong(&fake.join(), b"echo");
    }
}

#[test]
fn data_twice() {
    expect_failure(&["out of order"], |link, command| {
        let half = vec![1; 128 << 10];
        let first = link.data_in(command, 0);
        link.send(first, &half);
        link.send(DataIn { data_sn: 1, ..first }, &half);
        good(link, command);
        Verdict::Taken
    });
}

#[test]
fn data_with_a_hole() {
    expect_failure(&["out of order"], |link, command| {
        let first = link.data_in(command, 4096);
        link.send(first, &[1; 4096]);
        good(link, command);
        Verdict::Taken
    });
}

#[test]
fn data_beyond_the_expected_length() {
    for offset in [DISK_BYTES - 512, DISK_BYTES, u32::MAX - 511] {
        expect_failure(&["beyond the expected length"], move |link, command| {
            let pdu = link.data_in(command, offset);
            link.send(pdu, &[1; 1024]);
            Verdict::Taken
        });
    }
}

#[test]
fn data_for_a_task_that_nobody_has() {
    for tag in [RESERVED_TAG, 0, 0xffff, 0x1234_0000] {
        expect_failure(&["not open"], move |link, command| {
            let pdu = link.data_in(command, 0);
            link.send(DataIn { itt: tag, ..pdu }, &[1; 512]);
            Verdict::Taken
        });
    }
}

#[test]
fn data_after_the_status() {
    // All data has come before, so that both are right: to have seen what follows, and to be gone by then.
    let fake = FakeTarget::serve_one(|link, request| match request {
        Pdu::ScsiCommand(command) if is_read(command) => {
            let late = link.data_in(command, 0);
            link.send_data(command, &vec![FILLING; DISK_BYTES as usize]);
            link.send(late, &[1; 512]);
            Verdict::Taken
        }
        _ => Verdict::Serve,
    });
    let (finished, _folder) = read_disk(&fake);
    assert!(matches!(finished.code, 0 | 1), "{finished:#?}");
    assert!(!finished.stderr.contains("panicked"), "{finished:#?}");
    fake.join();
}

#[test]
fn good_without_all_the_data() {
    for len in [0, 512, DISK_BYTES - 512] {
        expect_failure(&["were moved"], move |link, command| {
            for (index, offset) in (0..len).step_by(128 << 10).enumerate() {
                let pdu = link.data_in(command, offset);
                let part = vec![FILLING; (len - offset).min(128 << 10) as usize];
                link.send(DataIn { data_sn: index as u32, ..pdu }, &part);
            }
            good(link, command);
            Verdict::Taken
        });
    }
}

#[test]
fn a_call_for_data_of_a_read() {
    expect_failure(&["r2t"], |link, command| {
        link.send(r2t(command, 0, 4096), &[]);
        Verdict::Taken
    });
}

#[test]
fn a_response_to_a_command_that_was_not_sent() {
    expect_failure(&["not open"], |link, command| {
        let response = link.response(command, 0);
        link.send(ScsiResponse { itt: 0x7777_0000, ..response }, &[]);
        Verdict::Taken
    });
}

#[test]
fn sense_data_that_is_longer_than_its_segment() {
    for segment in [&[0xff, 0xff, 0x70][..], &[0, 19, 0x70, 0], &[0]] {
        expect_failure(&["malformed"], move |link, command| {
            let response = link.response(command, 2);
            link.send(response, segment);
            Verdict::Taken
        });
    }
}

#[test]
fn an_opcode_that_does_not_exist() {
    expect_failure(&["malformed"], |link, _| {
        let mut header = [0; BHS_LEN];
        header[0] = 0x3e;
        link.send_bytes(&header);
        Verdict::Taken
    });
}

#[test]
fn a_request_from_a_target() {
    expect_failure(&["no place here"], |link, command| {
        link.send(*command, &[]);
        Verdict::Taken
    });
}

#[test]
fn a_data_segment_of_16_mib() {
    expect_failure(&["16777215"], |link, command| {
        let pdu = link.data_in(command, 0);
        let mut bytes = pdu::bytes(pdu, &[]);
        bytes[5..8].fill(0xff);
        link.send_bytes(&bytes);
        Verdict::Taken
    });
}

#[test]
fn a_read_that_was_about_more() {
    expect_failure(&["512 bytes more"], |link, command| {
        link.send_data_with(command, &[FILLING; DISK_BYTES as usize], |last| DataIn {
            overflow: true,
            residual: 512,
            ..last
        });
        Verdict::Taken
    });
}

/// Nothing else than what sockets hold, and 1024 answers.
#[test]
fn a_target_that_asks_and_never_listens() {
    const FLOOD_BYTES: usize = 256 << 20;
    let fake = FakeTarget::serve_one(|link, request| match request {
        Pdu::ScsiCommand(command) if is_read(command) => {
            let pings = pdu::bytes(link.nop_in(PING_TAG), &[7; 4096]).repeat(64);
            let flood = FLOOD_BYTES / pings.len();
            assert!(!(0..flood).all(|_| link.is_taken(&pings)), "the initiator takes pings without end");
            Verdict::Close
        }
        _ => Verdict::Serve,
    });
    read_disk(&fake).0.expect_code(1).expect_sentence(&["say anything", "closed", "reset", "cannot connect"]);
    fake.join();
}

/// Bytes that are the same in every run.
fn noise(seed: u64) -> impl Iterator<Item = u8> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    })
}

#[test]
fn random_bytes() {
    for seed in 1..=10 {
        expect_failure(&["malformed"], move |link, _| {
            let mut bytes: Vec<u8> = noise(seed).take(4096).collect();
            // No additional header to wait for, and none of the opcodes that exist.
            (bytes[0], bytes[4]) = (bytes[0] & 0x30 | 0x0c, 0);
            link.send_bytes(&bytes);
            Verdict::Close
        });
    }
}

#[test]
fn random_fields_in_every_pdu_of_a_target() {
    for opcode in Opcode::ALL.into_iter().filter(|opcode| !opcode.is_request()) {
        for seed in 1..=4 {
            let words =
                ["malformed", "broke", "no place", "closed", "reset", "rejected", "logout", "cannot connect"];
            expect_failure(&words, move |link, command| {
                let mut bytes: Vec<u8> = noise(seed).take(BHS_LEN + 1024).collect();
                bytes[0] = opcode.code();
                // 1 KiB of data and no additional header; every other time about a task that is open.
                bytes[4..8].copy_from_slice(&[0, 0, 4, 0]);
                if seed % 2 == 0 {
                    bytes[16..20].copy_from_slice(&command.itt.to_be_bytes());
                }
                link.send_bytes(&bytes);
                Verdict::Close
            });
        }
    }
}

#[test]
fn a_connection_that_ends_within_a_pdu() {
    for len in [1, BHS_LEN - 1, BHS_LEN, BHS_LEN + 1000] {
        expect_failure(&["closed", "reset"], move |link, command| {
            let pdu = link.data_in(command, 0);
            link.send_bytes(&pdu::bytes(pdu, &[1; 4096])[..len]);
            Verdict::Close
        });
    }
}

#[test]
fn a_read_that_is_rejected() {
    expect_failure(&["rejected"], |link, command| {
        reject(link, command, reject_reason::COMMAND_NOT_SUPPORTED);
        Verdict::Taken
    });
}

fn reject(link: &mut Link, command: &ScsiCommand, reason: u8) {
    let mut header = [0; BHS_LEN];
    command.emit(&mut header);
    let reject = Reject {
        reason,
        data_segment_len: 0,
        stat_sn: link.take_stat_sn(),
        exp_cmd_sn: 1,
        max_cmd_sn: 128,
        data_sn: 0,
    };
    link.send(reject, &header);
}

#[test]
fn a_command_that_could_not_be_run() {
    expect_failure(&["0x01"], |link, command| {
        let response = link.response(command, 0);
        link.send(ScsiResponse { response: 1, ..response }, &[]);
        Verdict::Taken
    });
}

#[test]
fn no_room_three_times() {
    const TASK_SET_FULL: u8 = 0x28;
    let fake = FakeTarget::serve_one(|link, request| match request {
        Pdu::ScsiCommand(command) if is_read(command) && link.reads <= 3 => {
            let response = link.response(command, TASK_SET_FULL);
            link.send(response, &[]);
            Verdict::Taken
        }
        _ => Verdict::Serve,
    });
    let mut bench = farlun(["bench", &fake.url(), "--depth", "1", "--time", "2s", "--json"]);
    let finished = run(&mut bench, LIMIT).expect_code(0);
    assert!(finished.json()["ios"].as_u64() > Some(0), "{finished:#?}");
    assert!(fake.join().reads > 4, "the command is issued again until there is room");
}

/// It holds four commands until nothing more comes.
#[test]
fn a_short_queue_is_not_asked_for_more_all_the_time() {
    const QUEUE: usize = 4;
    let (mut held, mut refused) = (Vec::new(), 0);
    let counts = Arc::new(Mutex::new((0, 0)));
    let counted = Arc::clone(&counts);
    let fake = FakeTarget::serve_one(move |link, request| {
        let verdict = match request {
            Pdu::ScsiCommand(command) if is_read(command) && held.len() == QUEUE => {
                refused += 1;
                let response = link.response(command, Status::TASK_SET_FULL.0);
                link.send(response, &[]);
                Verdict::Taken
            }
            Pdu::ScsiCommand(command) if is_read(command) => {
                held.push(*command);
                Verdict::Taken
            }
            _ => Verdict::Serve,
        };
        if !link.has_more() {
            held.drain(..).for_each(|command| link.execute(&command));
        }
        *counted.lock().expect("nobody panics") = (link.reads - refused, refused);
        verdict
    });
    let mut bench = farlun(["bench", &fake.url(), "--depth", "64", "--block", "4KiB", "--time", "1s"]);
    run(&mut bench, LIMIT).expect_code(0);
    fake.join();
    let (served, refused) = *counts.lock().expect("nobody panics");
    assert!(refused > 0 && refused * 8 < served, "{refused} refused, {served} served");
}

/// How the first READs end; that of the end is served.
#[track_caller]
fn expect_again(mut end: impl FnMut(&mut Link, &ScsiCommand) + Send + 'static) {
    let fake = FakeTarget::serve_one(move |link, request| match request {
        Pdu::ScsiCommand(command) if is_read(command) && link.reads <= 3 => {
            end(link, command);
            Verdict::Taken
        }
        _ => Verdict::Serve,
    });
    expect_whole(read_disk(&fake));
    assert_eq!(fake.join().reads, 4);
}

#[test]
fn a_command_that_was_ended_without_a_fault_of_its_own() {
    expect_again(|link, command| {
        let response = link.response(command, Status::TASK_ABORTED.0);
        link.send(response, &[]);
    });
    let taking_over = Sense::new(SenseKey::NotReady, 0x04, 0x0a);
    for sense in [Sense::new(SenseKey::AbortedCommand, 0, 0), Sense::BECOMING_READY, taking_over] {
        expect_again(move |link, command| link.check(command, sense));
    }
}

#[test]
fn a_command_that_is_aborted_for_ever() {
    expect_failure(&["ABORTED COMMAND"], |link, command| {
        link.check(command, Sense::new(SenseKey::AbortedCommand, 0, 0));
        Verdict::Taken
    });
}

#[test]
fn a_unit_that_will_not_be_ready() {
    let fake = FakeTarget::serve_one(|link, request| match request {
        Pdu::ScsiCommand(command) if is_read(command) => {
            link.check(command, Sense::new(SenseKey::NotReady, 0x04, 0x02));
            Verdict::Taken
        }
        _ => Verdict::Serve,
    });
    read_disk(&fake).0.expect_code(1).expect_sentence(&["NOT READY"]);
    assert_eq!(fake.join().reads, 1);
}

#[test]
fn data_that_were_read_with_trouble_are_read() {
    let fake = FakeTarget::serve_one(|link, request| match request {
        Pdu::ScsiCommand(command) if is_read(command) => {
            const PART_BYTES: u32 = 64 << 10;
            let parts = command.expected_data_transfer_len / PART_BYTES;
            for data_sn in 0..parts {
                let part = link.data_in(command, data_sn * PART_BYTES);
                let part = DataIn { is_final: data_sn + 1 == parts, data_sn, ..part };
                link.send(part, &[FILLING; PART_BYTES as usize]);
            }
            link.check(command, Sense::new(SenseKey::RecoveredError, 0x17, 0x01));
            Verdict::Taken
        }
        _ => Verdict::Serve,
    });
    expect_whole(read_disk(&fake));
    fake.join();
}

#[test]
fn data_that_were_damaged_on_their_way_to_the_target() {
    let fake = FakeTarget::start(|listener| {
        let mut link = Link::log_in(fake_target::accept(listener), &[]);
        link.serve(|link, request| match request {
            Pdu::ScsiCommand(command) if is_read(command) => {
                reject(link, command, reject_reason::DATA_DIGEST_ERROR);
                Verdict::Close
            }
            _ => Verdict::Serve,
        });
        let mut again = Link::log_in(fake_target::accept(listener), &[]);
        again.serve(|_, _| Verdict::Serve);
        again
    });
    expect_whole(read_disk(&fake));
    assert_eq!(fake.join().reads, 1);
}

/// Whether the login request that waits on the listener's next connection offers the private key; the connection is
/// closed with the request unread, which makes the kernel send RST.
fn reset_one(listener: &TcpListener) -> bool {
    let stream = pdu::patient(fake_target::accept(listener));
    let mut bytes = [0; 2 * 8192];
    loop {
        let len = pdu::again(|| stream.peek(&mut bytes)).expect("a login request");
        assert!(len > 0, "the initiator closed without a word");
        let Some(header) = bytes[..len].first_chunk::<BHS_LEN>() else { continue };
        if len >= BHS_LEN + Bhs::new(header).data_segment_len() {
            return bytes[..len].windows(16).any(|key| key == b"X-io.farlun.peer");
        }
    }
}

#[test]
fn a_target_that_resets_over_the_private_key() {
    let fake = FakeTarget::start(|listener| {
        assert!(reset_one(listener), "the first login offers the private key");
        let mut link = Link::log_in(fake_target::accept(listener), &[]);
        link.serve(|_, _| Verdict::Serve);
        link
    });
    expect_whole(read_disk(&fake));
    assert_eq!(fake.join().reads, 1);
}

#[test]
fn a_target_that_resets_whatever_is_offered() {
    let fake = FakeTarget::start(|listener| [reset_one(listener), reset_one(listener)]);
    let finished = run(&mut farlun(["inquiry", &fake.url(), "--timeout", "10s"]), LIMIT);
    finished.expect_code(1).expect_sentence(&["reset", "closed"]);
    assert_eq!(fake.join(), [true, false], "the second login does without the private key");
}

/// Whether this asks for a page of vital product data, without which a disk can be used.
fn is_vpd(request: &Pdu, wanted: u8) -> bool {
    let Pdu::ScsiCommand(command) = request else { return false };
    matches!(Cdb::parse(&command.cdb), Ok(Cdb::Inquiry { page: Some(found), .. }) if found == wanted)
}

/// What a target does about the INQUIRY for the serial number. Only a proper refusal of it can be lived with.
#[track_caller]
fn expect_failure_of_inquiry(
    words: &[&str],
    mut misbehave: impl FnMut(&mut Link, &ScsiCommand) -> Verdict + Send + 'static,
) {
    let fake = FakeTarget::serve_one(move |link, request| match request {
        Pdu::ScsiCommand(command) if is_vpd(request, page::UNIT_SERIAL_NUMBER) => misbehave(link, command),
        _ => Verdict::Serve,
    });
    let finished = run(&mut farlun(["inquiry", &fake.url(), "--timeout", "2s"]), LIMIT);
    finished.expect_code(1).expect_sentence(words);
    fake.join();
}

#[test]
fn a_broken_answer_to_a_question_that_may_be_refused() {
    expect_failure_of_inquiry(&["malformed"], |link, command| {
        let response = link.response(command, 2);
        link.send(response, &[0xff, 0xff, 0x70]);
        Verdict::Taken
    });
}

#[test]
fn a_broken_header_in_answer_to_a_question_that_may_be_refused() {
    expect_failure_of_inquiry(&["out of order"], |link, command| {
        let pdu = link.data_in(command, 4);
        link.send(pdu, &[1; 4]);
        Verdict::Taken
    });
}

#[test]
fn a_reject_of_a_question_that_may_be_refused() {
    expect_failure_of_inquiry(&["rejected"], |link, command| {
        reject(link, command, reject_reason::COMMAND_NOT_SUPPORTED);
        Verdict::Taken
    });
}
