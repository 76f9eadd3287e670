//! Targets that break the rules about a write.

use std::sync::mpsc;

use e2e::{Finished, farlun, run};
use wire::iscsi::{Pdu, R2t, ScsiCommand, ScsiResponse};
use wire::scsi::{Cdb, Sense};

use super::LIMIT;
use crate::peers::fake_target::{DISK_BYTES, FakeTarget, Link, Verdict};
use crate::peers::pdu;

/// What a target does about the first WRITE, and what our initiator has to say about that.
#[track_caller]
fn expect_failure_of_write(
    words: &[&str],
    mut misbehave: impl FnMut(&mut Link, &ScsiCommand) -> Verdict + Send + 'static,
) {
    let fake = FakeTarget::serve_one(move |link, request| match request {
        Pdu::ScsiCommand(command) if command.write => misbehave(link, command),
        _ => Verdict::Serve,
    });
    write_disk(&fake).expect_code(1).expect_sentence(words);
    fake.join();
}

/// `farlun write` of an image as long as the whole disk.
fn write_disk<T: Send + 'static>(fake: &FakeTarget<T>) -> Finished {
    let image = tempfile::NamedTempFile::with_prefix("farlun-fake-").expect("a temporary file");
    image.as_file().set_len(DISK_BYTES.into()).expect("room for an image");
    let mut write = farlun(["write", &fake.url(), "--timeout", "2s", "--json", "-i"]);
    run(write.arg(image.path()), LIMIT)
}

pub(crate) fn r2t(command: &ScsiCommand, buffer_offset: u32, desired_len: u32) -> R2t {
    R2t {
        lun: command.lun,
        itt: command.itt,
        ttt: 5,
        stat_sn: 0,
        exp_cmd_sn: 1,
        max_cmd_sn: 128,
        r2t_sn: 0,
        buffer_offset,
        desired_len,
    }
}

#[test]
fn a_call_for_data_that_does_not_exist() {
    for (offset, len) in
        [(DISK_BYTES, 512), (DISK_BYTES - 512, 1024), (u32::MAX - 511, 512), (0, 0), (512, u32::MAX)]
    {
        expect_failure_of_write(&["R2T outside"], move |link, command| {
            link.send(r2t(command, offset, len), &[]);
            Verdict::Taken
        });
    }
}

/// The write has gone out whole, unasked.
#[test]
fn data_asked_for_that_was_sent() {
    expect_failure_of_write(&["R2T out of order"], |link, command| {
        link.send_bytes(&pdu::bytes(r2t(command, 0, DISK_BYTES), &[]).repeat(1000));
        Verdict::Taken
    });
}

#[test]
fn a_write_of_which_a_part_is_missing() {
    for residual in [512, DISK_BYTES, u32::MAX] {
        expect_failure_of_write(&["were moved"], move |link, command| {
            let response = link.response(command, 0);
            link.send(ScsiResponse { underflow: true, residual, ..response }, &[]);
            Verdict::Taken
        });
    }
}

/// The answer comes behind the last data: before it, the initiator may say how little it has sent.
#[test]
fn a_write_that_was_about_more() {
    let mut write = None;
    let fake = FakeTarget::serve_one(move |link, request| match request {
        Pdu::ScsiCommand(command) if command.write => {
            write = Some(*command);
            Verdict::Taken
        }
        Pdu::DataOut(data) if data.is_final => {
            let response = link.response(&write.take().expect("data after their command"), 0);
            link.send(ScsiResponse { overflow: true, residual: 512, ..response }, &[]);
            Verdict::Taken
        }
        _ => Verdict::Serve,
    });
    write_disk(&fake).expect_code(1).expect_sentence(&["512 bytes more"]);
    fake.join();
}

/// A target that takes every write; `flush` answers flushes.
fn taking_writes(
    mut flush: impl FnMut(&mut Link, &ScsiCommand) -> Verdict,
) -> impl FnMut(&mut Link, &Pdu) -> Verdict {
    let mut write = None;
    move |link, request| match request {
        Pdu::ScsiCommand(command) if command.write => {
            write = Some(*command);
            Verdict::Taken
        }
        Pdu::ScsiCommand(command) if matches!(Cdb::parse(&command.cdb), Ok(Cdb::SynchronizeCache { .. })) => {
            flush(link, command)
        }
        Pdu::DataOut(data) if data.is_final => {
            let command = write.take().expect("data after their command");
            let response = link.response(&command, 0);
            link.send(response, &[]);
            Verdict::Taken
        }
        _ => Verdict::Serve,
    }
}

/// Result of a write at a target that answers a flush with `sense`.
fn flushed_with(sense: Sense) -> Finished {
    let fake = FakeTarget::serve_one(taking_writes(move |link, command| {
        link.check(command, sense);
        Verdict::Taken
    }));
    let finished = write_disk(&fake);
    fake.join();
    finished
}

#[test]
fn a_flush_that_is_not_answered_ends_the_write() {
    let fake = FakeTarget::serve_one(taking_writes(|_, _| Verdict::Taken));
    let said = "did not answer SYNCHRONIZE CACHE within 8s, 4 times --timeout";
    write_disk(&fake).expect_code(1).expect_said(said);
    fake.join();
}

/// Some targets read nothing while they flush; in another session it would be the same.
#[test]
fn a_target_that_falls_silent_at_a_flush_ends_the_write() {
    let (end, ended) = mpsc::channel::<()>();
    let fake = FakeTarget::serve_one(taking_writes(move |_, _| {
        // Until the initiator has ended, which closes its side of the channel.
        let _ = ended.recv();
        Verdict::Close
    }));
    let finished = write_disk(&fake);
    drop(end);
    let finished =
        finished.expect_code(1).expect_said("answered neither SYNCHRONIZE CACHE nor a ping within 8");
    finished.expect_said("s, 4 times --timeout because a cache may have much to write");
    fake.join();
}

#[test]
fn a_lun_that_has_no_flush_is_written_and_that_is_said() {
    let finished = flushed_with(Sense::INVALID_OPCODE).expect_code(0);
    assert_eq!(finished.json()["flushed"], false, "{finished:#?}");
}

#[test]
fn a_flush_that_fails_is_a_write_that_failed() {
    for sense in [Sense::WRITE_ERROR, Sense::INVALID_FIELD_IN_CDB] {
        flushed_with(sense).expect_code(1).expect_sentence(&["SYNCHRONIZE CACHE"]);
    }
}
