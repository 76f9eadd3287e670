//! What our initiator does when its session comes to an end that is not of its making: it logs out when it is asked
//! to, logs in again, issues again what was outstanding, and says so; and it gives up in time, with one clear sentence.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use e2e::ours::Target;
use e2e::process::until;
use e2e::relay::{Fate, Line};
use e2e::{Finished, Service, farlun, port, run};
use tempfile::TempDir;
use wire::iscsi::{
    AsyncMessage, Lun, Pdu, ScsiCommand, TaskManagementRequest, TaskManagementResponse, async_event,
    logout_reason, task_function, task_response,
};
use wire::scsi::{Sense, SenseKey};

use crate::peers::fake_target;
use crate::peers::fake_target::{DISK_BYTES, FILLING, FakeTarget, Link, Verdict, is_read};

/// No run takes longer.
const LIMIT: Duration = Duration::from_secs(120);

fn folder() -> TempDir {
    tempfile::Builder::new().prefix("farlun-recovery-").tempdir().expect("a temporary folder")
}

/// `farlun read` of the whole disk into a folder of its own.
fn read_disk(url: &str, timeout: &str) -> (Finished, TempDir) {
    let folder = folder();
    let mut read = farlun(["read", url, "--json", "--timeout", timeout, "-o"]);
    let finished = run(read.arg(folder.path().join("out")), LIMIT);
    (finished, folder)
}

/// Panics unless the whole disk was read, over so many sessions more than one.
#[track_caller]
fn expect_whole((finished, folder): (Finished, TempDir), reconnects: u64) {
    let finished = finished.expect_code(0);
    let copy = fs::read(folder.path().join("out")).expect("the copy");
    assert!(
        copy.len() == DISK_BYTES as usize && copy.iter().all(|&byte| byte == FILLING),
        "the copy differs"
    );
    assert_eq!(finished.json()["reconnects"], reconnects, "{finished:#?}");
}

fn accept(listener: &TcpListener) -> Link {
    Link::log_in(fake_target::accept(listener), &[])
}

fn message(link: &mut Link, event: u8, time2wait_s: u16, within_s: u16) {
    let message = AsyncMessage {
        event,
        vendor_code: 0,
        data_segment_len: 0,
        lun: Lun(0),
        stat_sn: link.take_stat_sn(),
        exp_cmd_sn: 1,
        max_cmd_sn: 128,
        parameter1: 0,
        parameter2: time2wait_s,
        parameter3: within_s,
    };
    link.send(message, &[]);
}

/// Serves one connection whose first READ meets `misbehave`, and then one that behaves; the reason of the logout of
/// the first, if there was one, and the READs of each.
fn first_misbehaves(
    mut misbehave: impl FnMut(&mut Link, &ScsiCommand) -> Verdict + Send + 'static,
) -> FakeTarget<(Option<u8>, [usize; 2])> {
    FakeTarget::start(move |listener| {
        let mut reason = None;
        let mut first = accept(listener);
        first.serve(|link, request| match request {
            Pdu::ScsiCommand(command) if is_read(command) => misbehave(link, command),
            Pdu::LogoutRequest(logout) => {
                reason = Some(logout.reason);
                Verdict::Serve
            }
            _ => Verdict::Serve,
        });
        let mut second = accept(listener);
        second.serve(|_, _| Verdict::Serve);
        (reason, [first.reads, second.reads])
    })
}

#[test]
fn a_logout_that_is_asked_for_comes_when_everything_is_answered() {
    for event in [async_event::LOGOUT_REQUESTED, async_event::NEGOTIATION_REQUESTED] {
        let fake = FakeTarget::start(move |listener| {
            let mut first = accept(listener);
            let (mut asked, mut logged_out) = (None, false);
            first.serve(|link, request| match request {
                Pdu::ScsiCommand(command) if is_read(command) => {
                    message(link, event, 0, 10);
                    asked = Some(*command);
                    // The read is answered when nothing but a logout can follow: after a ping of ours.
                    let ping = link.nop_in(77);
                    link.send(ping, &[]);
                    Verdict::Taken
                }
                Pdu::NopOut(_) => {
                    if let Some(command) = asked.take() {
                        assert!(!logged_out, "the logout waits for what is outstanding");
                        link.send_data(&command, &vec![FILLING; DISK_BYTES as usize]);
                    }
                    Verdict::Serve
                }
                Pdu::LogoutRequest(logout) => {
                    assert_eq!(logout.reason, logout_reason::CLOSE_SESSION);
                    logged_out = true;
                    Verdict::Serve
                }
                _ => Verdict::Serve,
            });
            assert!(logged_out);
        });
        // Everything was read before, so there is nothing to come back for.
        expect_whole(read_disk(&fake.url(), "10s"), 0);
        fake.join();
    }
}

#[test]
fn a_logout_that_is_asked_for_does_not_wait_for_ever() {
    let fake = first_misbehaves(|link, _| {
        message(link, async_event::LOGOUT_REQUESTED, 0, 1);
        Verdict::Taken
    });
    expect_whole(read_disk(&fake.url(), "10s"), 1);
    assert_eq!(fake.join(), (Some(logout_reason::CLOSE_SESSION), [1, 1]));
}

#[test]
fn a_session_that_is_dropped_with_notice_is_made_again() {
    for event in [async_event::CONNECTION_DROP, async_event::SESSION_DROP] {
        let fake = first_misbehaves(move |link, _| {
            message(link, event, 1, 0);
            Verdict::Taken
        });
        expect_whole(read_disk(&fake.url(), "10s"), 1);
        assert_eq!(fake.join(), (None, [1, 1]));
    }
}

#[test]
fn a_target_that_wants_to_be_left_alone_for_an_hour() {
    let fake = FakeTarget::serve_one(|link, request| match request {
        Pdu::ScsiCommand(command) if is_read(command) => {
            message(link, async_event::SESSION_DROP, 3600, 0);
            Verdict::Taken
        }
        _ => Verdict::Serve,
    });
    let (finished, _folder) = read_disk(&fake.url(), "10s");
    finished.expect_code(1).expect_sentence(&["left alone for 3600s", "left alone for 1h"]);
    fake.join();
}

#[test]
fn messages_that_ask_for_nothing_are_taken_note_of() {
    for event in [async_event::SCSI, async_event::TASKS_TERMINATED, async_event::VENDOR, 99] {
        let fake = FakeTarget::serve_one(move |link, request| {
            if matches!(request, Pdu::ScsiCommand(command) if is_read(command)) {
                message(link, event, 0, 0);
            }
            Verdict::Serve
        });
        expect_whole(read_disk(&fake.url(), "10s"), 0);
        fake.join();
    }
}

#[test]
fn a_connection_that_is_closed_is_made_again() {
    let fake = first_misbehaves(|_, _| Verdict::Close);
    expect_whole(read_disk(&fake.url(), "10s"), 1);
    assert_eq!(fake.join(), (None, [1, 1]));
}

#[test]
fn a_target_that_closes_every_time_is_given_up() {
    let fake = FakeTarget::start(|listener| {
        // Three times, and then nobody listens any more.
        for _ in 0..3 {
            accept(listener).serve(|_, request| match request {
                Pdu::ScsiCommand(command) if is_read(command) => Verdict::Close,
                _ => Verdict::Serve,
            });
        }
    });
    let (finished, folder) = read_disk(&fake.url(), "5s");
    let finished = finished.expect_code(1);
    assert!(finished.stderr.contains("gave up connecting again after"), "{finished:#?}");
    assert!(!folder.path().join("out").exists(), "what was read has the name of a whole copy");
    fake.join();
}

/// A READ that is never answered by a target that answers pings; what is said of it.
#[track_caller]
fn unanswered(
    words: &str,
    is_reset: bool,
    mut about_the_abort: impl FnMut(&mut Link, &TaskManagementRequest) + Send + 'static,
) {
    let fake = FakeTarget::start(move |listener| {
        let (mut link, mut read, mut aborts) = (accept(listener), None, Vec::new());
        link.serve(|link, request| match request {
            Pdu::ScsiCommand(command) if is_read(command) => {
                read = Some(*command);
                Verdict::Taken
            }
            Pdu::TaskManagementRequest(request) => {
                aborts.push(*request);
                about_the_abort(link, request);
                Verdict::Taken
            }
            _ => Verdict::Serve,
        });
        (read, aborts)
    });
    let (finished, _folder) = read_disk(&fake.url(), "2s");
    let finished = finished.expect_code(1).expect_sentence(&[words]);
    assert!(finished.stderr.contains("did not answer READ within 2s"), "{finished:#?}");
    let (read, aborts) = fake.join();
    let (Some(read), [abort, resets @ ..]) = (read, &aborts[..]) else { panic!("one read: {aborts:?}") };
    let functions: Vec<u8> = resets.iter().map(|reset| reset.function).collect();
    let expected: &[u8] = if is_reset { &[task_function::LOGICAL_UNIT_RESET] } else { &[] };
    assert_eq!(functions, expected, "what follows the abort");
    assert_eq!((abort.function, abort.immediate), (task_function::ABORT_TASK, true));
    assert_eq!((abort.referenced_itt, abort.ref_cmd_sn, abort.lun), (read.itt, read.cmd_sn, read.lun));
}

fn answer(link: &mut Link, request: &TaskManagementRequest, response: u8) {
    let stat_sn = link.take_stat_sn();
    let response =
        TaskManagementResponse { response, itt: request.itt, stat_sn, exp_cmd_sn: 1, max_cmd_sn: 128 };
    link.send(response, &[]);
}

#[test]
fn a_command_that_is_never_answered_is_aborted() {
    unanswered("it was aborted", false, |link, request| answer(link, request, task_response::COMPLETE));
    unanswered("it was aborted", false, |link, request| answer(link, request, task_response::NO_SUCH_TASK));
    let words = "function not supported";
    unanswered(words, true, |link, request| answer(link, request, task_response::NOT_SUPPORTED));
    // Others share the LUN: that this one may not be ended is no reason to end theirs.
    unanswered("function rejected", false, |link, request| answer(link, request, task_response::REJECTED));
    unanswered("the LUN was reset", true, |link, request| {
        let is_reset = request.function == task_function::LOGICAL_UNIT_RESET;
        answer(link, request, if is_reset { task_response::COMPLETE } else { task_response::NOT_SUPPORTED });
    });
    unanswered("the LUN was reset", true, |link, request| {
        if request.function == task_function::LOGICAL_UNIT_RESET {
            answer(link, request, task_response::COMPLETE);
        }
    });
    unanswered("nor was the LUN reset", true, |_, _| {});
}

#[test]
fn what_a_reset_has_ended_is_asked_again_where_its_reason_was_answered_meanwhile() {
    let fake = FakeTarget::start(|listener| {
        let (mut link, mut held, mut functions) = (accept(listener), Vec::new(), Vec::new());
        link.serve(|link, request| match request {
            Pdu::ScsiCommand(command) if is_read(command) && held.len() < 2 => {
                held.push(*command);
                Verdict::Taken
            }
            Pdu::TaskManagementRequest(request) => {
                functions.push(request.function);
                if request.function == task_function::LOGICAL_UNIT_RESET {
                    // The one that was given up, late; the other is gone with the reset.
                    link.execute(&held[0]);
                    answer(link, request, task_response::COMPLETE);
                }
                Verdict::Taken
            }
            _ => Verdict::Serve,
        });
        (functions, link.reads)
    });
    // Four seconds are over when the reset comes; what is left is for what follows.
    let flags = ["--json", "--block", "4KiB", "--depth", "2", "--time", "9s", "--timeout", "2s"];
    let finished = run(farlun(["bench", &fake.url()]).args(flags), LIMIT).expect_code(0);
    assert_eq!(finished.json()["reconnects"], 0, "{finished:#?}");
    let (functions, reads) = fake.join();
    assert_eq!(functions, [task_function::ABORT_TASK, task_function::LOGICAL_UNIT_RESET]);
    assert!(reads > 4, "it went on: {reads}");
}

/// A target that does not say so of each command (TAS = 0) tells with the next one that others have ended some.
#[test]
fn what_another_initiator_has_ended_is_asked_again() {
    let cleared = Sense::new(SenseKey::UnitAttention, 0x2f, 0x00);
    for told in [cleared, Sense::new(SenseKey::UnitAttention, 0x29, 0x03)] {
        for response in [task_response::COMPLETE, task_response::NO_SUCH_TASK] {
            let fake = FakeTarget::start(move |listener| {
                let (mut link, mut functions) = (accept(listener), Vec::new());
                link.serve(|link, request| match request {
                    Pdu::ScsiCommand(command) if is_read(command) && link.reads == 1 => Verdict::Taken,
                    Pdu::ScsiCommand(command) if is_read(command) && link.reads == 2 => {
                        link.check(command, told);
                        Verdict::Taken
                    }
                    Pdu::TaskManagementRequest(request) => {
                        functions.push(request.function);
                        answer(link, request, response);
                        Verdict::Taken
                    }
                    _ => Verdict::Serve,
                });
                (functions, link.reads)
            });
            let flags = ["--json", "--block", "4KiB", "--depth", "2", "--time", "6s", "--timeout", "2s"];
            let finished = run(farlun(["bench", &fake.url()]).args(flags), LIMIT).expect_code(0);
            assert_eq!(finished.json()["reconnects"], 0, "{finished:#?}");
            let (functions, reads) = fake.join();
            assert_eq!(functions, [task_function::ABORT_TASK]);
            assert!(reads > 4, "it went on: {reads}");
        }
    }
}

#[test]
fn an_end_that_says_nothing_is_pinged_and_left() {
    let fake = FakeTarget::start(|listener| {
        let (mut first, mut pings) = (accept(listener), 0);
        first.serve(|_, request| match request {
            Pdu::ScsiCommand(command) if is_read(command) => Verdict::Taken,
            Pdu::NopOut(nop) => {
                assert!(nop.immediate);
                pings += 1;
                Verdict::Taken
            }
            _ => Verdict::Serve,
        });
        accept(listener).serve(|_, _| Verdict::Serve);
        pings
    });
    expect_whole(read_disk(&fake.url(), "2s"), 1);
    assert_eq!(fake.join(), 1, "one ping, and no command beside it");
}

/// Bytes that are the same in every run and that no other place of the image has.
fn image(path: &Path, len: usize) {
    let words = (0..len as u64 / 8).flat_map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    fs::write(path, words.collect::<Vec<u8>>()).expect("an image");
}

#[test]
fn an_image_survives_a_line_that_is_cut_again_and_again() {
    const LEN: usize = 64 << 20;
    let folder = folder();
    let (disk, source, copy) =
        (folder.path().join("disk"), folder.path().join("image"), folder.path().join("copy"));
    image(&source, LEN);
    fs::File::create(&disk).and_then(|file| file.set_len(LEN as u64)).expect("a file for the disk");
    let target = Target::serve(&[&format!("file:{}", disk.display())]);
    // Silence comes first, before anything is flushed: the relay acknowledges what it does not pass on, and a target that
    // acknowledges and says nothing in a flush is given up rather than asked again. The second session moves more than is
    // outstanding at a time: something completes, and patience begins anew.
    let cuts = [(32 << 20, Fate::Silent), (24 << 20, Fate::Closed), (3 << 20, Fate::Closed)];
    for (command, flag, file) in [("write", "-i", &source), ("read", "-o", &copy)] {
        let line = Line::to(target.address(), &cuts);
        let url = target.url_at(&line.address(), 0);
        let mut command = farlun([command, &url, "--json", "--timeout", "6s", flag]);
        let finished = run(command.arg(file), LIMIT).expect_code(0);
        assert_eq!((&finished.json()["reconnects"], line.connections()), (&3.into(), 4), "{finished:#?}");
    }
    let whole = fs::read(&source).expect("the image");
    assert!(fs::read(&disk).expect("the disk") == whole, "the disk differs from the image");
    assert!(fs::read(&copy).expect("the copy") == whole, "the copy differs from the image");
}

#[test]
fn a_load_goes_on_after_the_target_was_killed() {
    let folder = folder();
    let disk = folder.path().join("disk");
    fs::File::create(&disk).and_then(|file| file.set_len(8 << 20)).expect("a file for the disk");
    let lun = format!("file:{}", disk.display());
    // Another is to listen there when this one is gone.
    let address = format!("127.0.0.1:{}", port::unused());
    let serve = || farlun(["target", "--json", "--listen", &address, "--lun", &lun]);
    let mut target = Target::start(&mut serve());
    let line = Line::to(&address, &[]);
    let url = target.url_at(&line.address(), 0);
    let flags = ["--sessions", "3", "--random", "--depth", "4", "--time", "6s", "--timeout", "10s", "--json"];
    let mut bench = Service::start(farlun(["bench", &url]).args(flags));
    // No session is looked at as long as this takes.
    until("the load has begun", LIMIT, || line.passed_bytes() > 1 << 20);
    target.service.kill();
    let _again = Target::start(&mut serve());
    let line = bench.next_line(LIMIT);
    assert_eq!(bench.ended(LIMIT), 0, "{}", bench.stderr());
    let document: serde_json::Value = serde_json::from_str(&line).expect("a JSON document");
    assert_eq!((&document["reconnects"], &document["sessions"]), (&3.into(), &3.into()), "{document}");
}

#[test]
fn another_lun_in_the_place_of_the_first_is_neither_written_nor_read() {
    const LEN: usize = 24 << 20;
    for (command, flag) in [("write", "-i"), ("read", "-o")] {
        let folder = folder();
        let [first, second, file] = ["first", "second", "file"].map(|name| folder.path().join(name));
        for disk in [&first, &second] {
            fs::File::create(disk).and_then(|file| file.set_len(LEN as u64)).expect("a file for the disk");
        }
        if command == "write" {
            image(&file, LEN);
        }
        let address = format!("127.0.0.1:{}", port::unused());
        let serve = |disk: &Path| {
            let lun = format!("file:{}", disk.display());
            Target::start(&mut farlun(["target", "--json", "--listen", &address, "--lun", &lun]))
        };
        let mut target = serve(&first);
        let line = Line::to(&address, &[(5 << 20, Fate::Silent)]);
        let url = target.url_at(&line.address(), 0);
        let mut work = Service::start(farlun([command, &url, "--timeout", "8s", flag]).arg(&file));
        until("the line is cut", LIMIT, || line.passed_bytes() >= 5 << 20);
        target.service.kill();
        let _other = serve(&second);
        let code = work.ended(LIMIT);
        let said = work.stderr();
        let expected =
            "after connecting again the LUN's serial number is another one; nothing was written to it";
        assert!(code == 1 && said.contains(expected), "{code}: {said}");
        let untouched = fs::read(&second).expect("the other disk");
        assert!(untouched.iter().all(|&byte| byte == 0), "the other disk was written to");
    }
}

/// A READ that meets a unit attention; the LUN then answers INQUIRY with a name of its own, if it does.
fn attention(asc: u8, ascq: u8, name: Option<u8>) -> (Finished, usize) {
    let fake = FakeTarget::serve_one(move |link, request| match request {
        Pdu::ScsiCommand(command) if is_read(command) && link.reads == 1 => {
            let sense = Sense {
                key: SenseKey::UnitAttention,
                asc,
                ascq,
                deferred: false,
                field: None,
                information: None,
            };
            link.check(command, sense);
            Verdict::Taken
        }
        Pdu::ScsiCommand(command) if command.cdb[..2] == [0x12, 0] && link.reads > 0 => match name {
            Some(letter) => {
                link.send_data(command, &[&[0; 8][..], &[letter; 28]].concat());
                Verdict::Taken
            }
            None => Verdict::Serve,
        },
        _ => Verdict::Serve,
    });
    let (finished, _folder) = read_disk(&fake.url(), "10s");
    (finished, fake.join().reads)
}

#[test]
fn a_unit_attention_that_may_mean_another_lun_is_looked_into() {
    for (asc, ascq) in [(0x29, 0), (0x3f, 0x0e), (0x2a, 9)] {
        let (finished, reads) = attention(asc, ascq, Some(b'x'));
        finished.expect_code(1).expect_sentence(&["its vendor and product is another one"]);
        assert_eq!(reads, 1, "nothing is read of the other LUN");
        let (finished, reads) = attention(asc, ascq, None);
        finished.expect_code(0);
        assert_eq!(reads, 2, "it is the same one");
    }
    // The loss of a nexus says nothing of the LUN.
    let (finished, _) = attention(0x29, 7, Some(b'x'));
    finished.expect_code(0);
}
