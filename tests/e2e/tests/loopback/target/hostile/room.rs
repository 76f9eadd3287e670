//! Sessions that ask for more memory than there is, by headers alone or by never listening: what all of them hold is
//! bounded, and those that want little are served.

use std::fs;

use e2e::{farlun, run, until};
use wire::iscsi::{Pdu, ScsiCommand};
use wire::scsi::{BlockForm, Cdb, Status};

use super::{MIB, MINUTE, expect_unharmed, file_lun, noise, set_up, sparse_file};
use crate::peers::pdu;
use crate::peers::raw_initiator::{BLOCK_BYTES, Flow, Session, read};

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

/// 6.4 GiB are announced; those that cannot be had are refused at once, and those that can take nothing before data comes.
#[test]
fn writes_without_data_by_two_hundred() {
    const SESSIONS: usize = 200;
    const HELD_MAX_BYTES: u64 = 64 << 20;
    let file = sparse_file(64 * MIB);
    let (mut target, mut bystander) = set_up(&[&file_lun(&file)]);
    let mut sessions: Vec<Session> = (0..SESSIONS).map(|_| Session::open(&target)).collect();
    let before_bytes = target.service.resident_bytes();
    let (mut sent_for, mut refused) = (0, 0);
    for session in &mut sessions {
        let command = long_write(session);
        session.send(command, &[]);
        match answer(session) {
            Pdu::R2t(r2t) if r2t.itt == command.itt => sent_for += 1,
            Pdu::ScsiResponse(response) if response.status == Status::TASK_SET_FULL.0 => refused += 1,
            found => panic!("{found:?}"),
        }
    }
    assert!(
        sent_for > 0 && sent_for * 32 <= 256,
        "{sent_for} of 32 MiB each are sent for, {refused} refused"
    );
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
