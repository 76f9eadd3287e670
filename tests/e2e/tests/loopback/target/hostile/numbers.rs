//! Requests that are well formed and make no sense where they come: numbers outside the window, additional header
//! segments that say nothing, data that overlaps, segments longer than was declared.

use std::io::Write;

use wire::iscsi::{DataOut, Pdu, ScsiCommand, TaskAttribute, split_sense};
use wire::scsi::{Cdb, Sense};

use super::{MIB, expect_unharmed, file_lun, set_up, sparse_file};
use crate::peers::pdu;
use crate::peers::raw_initiator::{Flow, Session, data_out, read, write};

/// A command outside the window is as if it had never been sent (RFC 7143 section 4.2.2.1).
#[test]
fn command_numbers_outside_the_window() {
    let (mut target, mut bystander) = set_up(&["memory:1MiB"]);
    let mut session = Session::open(&target);
    let next = session.command(0, Cdb::TestUnitReady, Flow::Nothing);
    for far in [1, 2, 1 << 20, 1 << 31, (1 << 31) + 1] {
        let outside = ScsiCommand { itt: 0x5000, cmd_sn: next.cmd_sn.wrapping_sub(far), ..next };
        session.send(outside, &[]);
        assert!(session.until_pong().is_empty(), "{far} before the next command");
    }
    for far in [1 << 16, (1 << 31) - 1] {
        let outside = ScsiCommand { itt: 0x5001, cmd_sn: next.cmd_sn.wrapping_add(far), ..next };
        session.send(outside, &[]);
        assert!(session.until_pong().is_empty(), "{far} after the next command");
    }
    // Its data goes nowhere either.
    let late = session.command(0, write(0, 4096), Flow::Out(4096));
    session.send(ScsiCommand { cmd_sn: next.cmd_sn.wrapping_sub(1), ..late }, &[9; 4096]);
    assert!(session.until_pong().is_empty(), "a write that was there before");
    session.send(next, &[]);
    let answers = session.until_pong();
    assert!(answers.len() == 1 && answers[0].0.itt() == next.itt, "{answers:?}");
    assert_eq!(bystander.read(0, 0, 4096), [0; 4096], "the LUN has changed");
    expect_unharmed(&mut target, &mut bystander);
}

/// A reserved task attribute is refused by the command's status, and the session goes on.
#[test]
fn task_attributes_that_are_reserved() {
    let (mut target, mut bystander) = set_up(&["memory:1MiB"]);
    let mut session = Session::open(&target);
    for attribute in [5, 6, 7].map(TaskAttribute::Reserved) {
        let command = session.command(0, write(0, 4096), Flow::Out(4096));
        session.send(ScsiCommand { attribute, ..command }, &[9; 4096]);
        let answers = session.until_pong();
        let [(Pdu::ScsiResponse(response), data)] = &answers[..] else { panic!("{answers:?}") };
        let sense = Sense::parse(split_sense(data).expect("sense data").0).expect("sense data");
        assert_eq!((response.itt, response.status, sense), (command.itt, 2, Sense::INVALID_FIELD_IN_CDB));
    }
    assert_eq!(session.read(0, 0, 4096), [0; 4096], "what was refused is written");
    expect_unharmed(&mut target, &mut bystander);
}

/// Segments of no known type, of lengths that do not fit, and as many as the header can count: the command is
/// answered, or the connection ends.
#[test]
fn additional_header_segments_that_say_nothing() {
    let (mut target, mut bystander) = set_up(&["memory:1MiB"]);
    for words in [1, 2, 16, 255_u8] {
        for fill in [0x00, 0x01, 0x02, 0x7f, 0xff] {
            let mut session = Session::open(&target);
            let command = session.command(0, read(0, 4096), Flow::In(4096));
            let mut bytes = pdu::bytes(command, &[]);
            bytes[4] = words;
            bytes.resize(bytes.len() + usize::from(words) * 4, fill);
            session.send_bytes(&bytes);
            let next = session.command(0, Cdb::TestUnitReady, Flow::Nothing);
            session.send(next, &[]);
            let mut stream = session.into_stream();
            let mut answered = Vec::new();
            while let Ok(Some((pdu, _))) = pdu::read(&mut stream) {
                answered.push(pdu.itt());
                if matches!(pdu, Pdu::ScsiResponse(_)) {
                    break;
                }
            }
            assert!(
                answered.is_empty() || answered.contains(&next.itt),
                "{words} words of {fill:#x}: {answered:x?}"
            );
        }
    }
    expect_unharmed(&mut target, &mut bystander);
}

/// Data that was sent already, and data from a negative offset, are not taken twice, nor laid down elsewhere: the
/// command fails or the connection ends.
#[test]
fn data_that_overlaps() {
    let file = sparse_file(MIB);
    let (mut target, mut bystander) = set_up(&["memory:1MiB", &file_lun(&file)]);
    for lun in [0, 1] {
        for (offset, data_sn) in [(0, 1), (512, 1), (1023, 1), (u32::MAX - 1023, 1), (1024, 0), (1024, 7)] {
            let mut session = Session::open(&target);
            let command = session.command(lun, write(8, 4096), Flow::Out(4096));
            session.send(command, &[]);
            let (Pdu::R2t(r2t), _) = session.receive() else { panic!("the data is not sent for") };
            let part = |data_sn, buffer_offset, is_final| DataOut {
                is_final,
                data_segment_len: 0,
                lun: command.lun,
                itt: command.itt,
                ttt: r2t.ttt,
                exp_stat_sn: 0,
                data_sn,
                buffer_offset,
            };
            session.send(part(0, 0, false), &[3; 1024]);
            session.send(part(data_sn, offset, true), &[4; 3072]);
            let mut stream = session.into_stream();
            let answer = pdu::read(&mut stream);
            let failed = |pdu: &Pdu| {
                matches!(pdu, Pdu::ScsiResponse(it) if it.status != 0) || matches!(pdu, Pdu::Reject(_))
            };
            assert!(
                !matches!(&answer, Ok(Some((pdu, _))) if !failed(pdu)),
                "LUN {lun}, offset {offset}, DataSN {data_sn}: {answer:?}"
            );
            assert_eq!(bystander.read(lun, 0, 4096), [0; 4096], "before what the command names");
            assert_eq!(bystander.read(lun, 16, 4096), [0; 4096], "behind what the command names");
        }
    }
    expect_unharmed(&mut target, &mut bystander);
}

/// What is longer than we have said that we take is refused before it is kept.
#[test]
fn segments_longer_than_declared() {
    const LONGEST: usize = (1 << 24) - 1;
    let (mut target, mut bystander) = set_up(&["memory:1MiB"]);
    let before_bytes = target.service.resident_bytes();
    for _ in 0..20 {
        for kind in 0..2 {
            let mut session = Session::open(&target);
            let command = session.command(0, write(0, 4096), Flow::Out(4096));
            session.send(command, &[]);
            let (Pdu::R2t(r2t), _) = session.receive() else { panic!("the data is not sent for") };
            let mut bytes = match kind {
                0 => data_out(command.itt, r2t.ttt, 0, &[]),
                _ => crate::peers::raw_initiator::ping(9, &[]),
            };
            bytes[5..8].copy_from_slice(&(LONGEST as u32).to_be_bytes()[1..]);
            let mut stream = session.into_stream();
            stream.write_all(&bytes).expect("the target reads");
            // It closes while this is on its way.
            let _ = stream.write_all(&vec![1; 4 << 20]);
            crate::peers::raw_initiator::until_closed(&mut stream);
        }
    }
    let grown_bytes = target.service.resident_bytes().saturating_sub(before_bytes);
    assert!(grown_bytes < 32 << 20, "{grown_bytes} bytes are held for segments that were refused");
    assert_eq!(bystander.read(0, 0, 4096), [0; 4096], "the LUN has changed");
    expect_unharmed(&mut target, &mut bystander);
}
