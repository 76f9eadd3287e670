//! What is changed while commands are under way holds for them too: a write cache that is switched off, a task that is
//! ended before its store has begun, a segment that is declared anew.

use std::fs::File;
use std::net::Shutdown;
use std::time::Duration;

use e2e::ours::Target;
use e2e::until;
use wire::iscsi::{
    Lun, Pdu, RESERVED_TAG, ScsiCommand, TaskManagementRequest, TextRequest, reject_reason, split_sense,
    task_function, task_response,
};
use wire::scsi::{BlockForm, Cdb, ModeForm, Sense};

use crate::peers::pdu;
use crate::peers::raw_initiator::{Flow, Session, data_out, read, until_closed, write};

/// MODE SELECT of the caching page without WCE, and its list.
fn cache_off(session: &mut Session) -> (ScsiCommand, Vec<u8>) {
    let list = [&[0, 0, 0, 0, 8, 18][..], &[0; 18]].concat();
    let list_len = list.len() as u16;
    let cdb = Cdb::ModeSelect { form: ModeForm::Six, page_format: true, save: false, list_len };
    (session.command(0, cdb, Flow::Out(list.len() as u32)), list)
}

/// A LUN whose second sync and those after it fail: the first is that of MODE SELECT.
fn serve(folder: &tempfile::TempDir, options: &str) -> Target {
    let path = folder.path().join("disk");
    File::create(&path).and_then(|file| file.set_len(1 << 20)).expect("a file");
    Target::serve(&[&format!("file:{},fault=sync:nth=2-99{options}", path.display())])
}

/// Tag and sense of the answers to so many commands, in the order of their tags.
#[track_caller]
fn answers(session: &mut Session, count: usize) -> Vec<(u32, Option<Sense>)> {
    let answer = |_| {
        let (Pdu::ScsiResponse(response), data) = session.receive() else { panic!("no status") };
        let sense = (response.status != 0)
            .then(|| Sense::parse(split_sense(&data).expect("sense data").0).expect("sense data"));
        (response.itt, sense)
    };
    let mut all: Vec<_> = (0..count).map(answer).collect();
    all.sort_by_key(|(itt, _)| *itt);
    all
}

#[test]
fn data_that_comes_after_the_cache_was_switched_off_goes_to_the_medium() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = serve(&folder, "");
    let mut session = Session::open(&target);
    let command = session.command(0, write(0, 4096), Flow::Out(4096));
    session.send(command, &[]);
    let (Pdu::R2t(r2t), _) = session.receive() else { panic!("the data is not sent for") };
    let (select, list) = cache_off(&mut session);
    session.send(select, &list);
    assert_eq!(answers(&mut session, 1), [(select.itt, None)]);
    session.send_bytes(&data_out(command.itt, r2t.ttt, 0, &[7; 4096]));
    assert_eq!(
        answers(&mut session, 1),
        [(command.itt, Some(Sense::WRITE_ERROR))],
        "it cannot be made durable"
    );
}

#[test]
fn what_a_store_is_at_work_on_when_the_cache_is_switched_off_goes_to_the_medium() {
    let folder = tempfile::tempdir().expect("a folder");
    // The store begins with the writes when MODE SELECT, which comes along with them, has been decided.
    let target = serve(&folder, ",delay=write:2s");
    let mut session = Session::open(&target);
    let command = session.command(0, write(0, 4096), Flow::Out(4096));
    let (form, unmap, no_data) = (BlockForm::Sixteen, false, false);
    let fill = Cdb::WriteSame { form, lba: 16, blocks: 8, unmap, no_data };
    let fill = session.command(0, fill, Flow::Out(512));
    let (select, list) = cache_off(&mut session);
    let all = [pdu::bytes(command, &[7; 4096]), pdu::bytes(fill, &[5; 512]), pdu::bytes(select, &list)];
    session.send_bytes(&all.concat());
    let failed = Some(Sense::WRITE_ERROR);
    let expected = [(command.itt, failed), (fill.itt, failed), (select.itt, None)];
    assert_eq!(answers(&mut session, 3), expected);
}

#[test]
fn what_is_ended_before_its_store_has_begun_is_not_done() {
    let target = Target::serve(&["memory:1MiB,delay=write:2s"]);
    let mut session = Session::open(&target);
    let [lost, kept] = [0, 8].map(|lba| session.command(0, write(lba, 4096), Flow::Out(4096)));
    let abort = manage(&session, task_function::ABORT_TASK);
    let abort = TaskManagementRequest { referenced_itt: lost.itt, ref_cmd_sn: lost.cmd_sn, ..abort };
    let all = [pdu::bytes(lost, &[8; 4096]), pdu::bytes(kept, &[9; 4096]), pdu::bytes(abort, &[])];
    session.send_bytes(&all.concat());
    let mut ended = Vec::new();
    while ended.len() < 2 {
        match session.receive() {
            (Pdu::TaskManagementResponse(response), _) => {
                assert_eq!(response.response, task_response::COMPLETE);
                ended.push(response.itt);
            }
            (Pdu::ScsiResponse(response), _) => {
                assert_eq!(response.status, 0);
                ended.push(response.itt);
            }
            found => panic!("{found:?}"),
        }
    }
    ended.sort_unstable();
    assert_eq!(ended, [kept.itt, abort.itt]);
    assert_eq!(session.read(0, 0, 4096), [0; 4096], "it was ended before it was done");
    assert_eq!(session.read(0, 8, 4096), [9; 4096]);
}

/// More than workers can have begun: most of a gigabyte, whose last block is zero until all the others are filled.
const FILLS: u32 = 100;
const FILL_BLOCKS: u32 = 16_384;

/// Asks for all of it, and what comes behind.
fn send_fills(session: &mut Session, last: &[u8]) {
    let fill = |index| {
        let (form, unmap, no_data) = (BlockForm::Sixteen, false, false);
        let lba = u64::from(index * FILL_BLOCKS);
        let fill = Cdb::WriteSame { form, lba, blocks: FILL_BLOCKS, unmap, no_data };
        pdu::bytes(session.command(0, fill, Flow::Out(512)), &[9; 512])
    };
    let all: Vec<_> = (0..FILLS).flat_map(fill).collect();
    session.send_bytes(&[&all[..], last].concat());
}

fn manage(session: &Session, function: u8) -> TaskManagementRequest {
    TaskManagementRequest {
        immediate: true,
        function,
        lun: Lun(0),
        itt: 0x5000_0000,
        referenced_itt: RESERVED_TAG,
        cmd_sn: session.cmd_sn,
        exp_stat_sn: 0,
        ref_cmd_sn: 0,
        exp_data_sn: 0,
    }
}

/// What comes before the answer to a task management request is the status of what was done in time.
fn wait_for(session: &mut Session, itt: u32) {
    loop {
        match session.receive() {
            (Pdu::TaskManagementResponse(it), _) if it.itt == itt => {
                return assert_eq!(it.response, task_response::COMPLETE);
            }
            (Pdu::ScsiResponse(it), _) if it.status == 0 => {}
            found => panic!("{found:?}"),
        }
    }
}

#[test]
fn what_waits_for_a_worker_is_taken_back_when_it_has_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("disk");
    let len_bytes = u64::from(FILLS * FILL_BLOCKS) * 512;
    File::create(&path).and_then(|file| file.set_len(len_bytes)).expect("a file");
    let target = Target::serve(&[&format!("file:{}", path.display())]);
    let last_lba = u64::from(FILLS * FILL_BLOCKS - 8);
    let mut other = Session::open(&target);

    let mut session = Session::open(&target);
    let cmd_sn = session.cmd_sn.wrapping_add(FILLS);
    let abort = TaskManagementRequest { cmd_sn, ..manage(&session, task_function::ABORT_TASK_SET) };
    send_fills(&mut session, &pdu::bytes(abort, &[]));
    wait_for(&mut session, abort.itt);
    assert!(session.read(0, last_lba, 4096) == [0; 4096], "it was ended by its initiator");

    send_fills(&mut session, &[]);
    session.until_pong();
    let mut stream = session.into_stream();
    stream.shutdown(Shutdown::Write).expect("nothing more to say");
    until_closed(&mut stream);
    // Who is not concerned by it, and is answered when stores are at nothing any more that has ended.
    let clear = manage(&other, task_function::CLEAR_TASK_SET);
    other.send(clear, &[]);
    wait_for(&mut other, clear.itt);
    assert!(other.read(0, last_lba, 4096) == [0; 4096], "it was ended with its session");
}

/// One WRITE SAME of the longest kind: another session is served meanwhile, and it ends when it is aborted.
#[test]
fn a_long_fill_holds_up_nobody_and_ends_when_it_is_aborted() {
    const BLOCKS: u32 = 1 << 26;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("disk");
    File::create(&path).and_then(|file| file.set_len(u64::from(BLOCKS) * 512)).expect("a file");
    let target = Target::serve(&[&format!("file:{}", path.display())]);
    let (mut session, mut other) = (Session::open(&target), Session::open(&target));
    let (form, unmap, no_data) = (BlockForm::Sixteen, false, false);
    let fill = Cdb::WriteSame { form, lba: 0, blocks: BLOCKS, unmap, no_data };
    let fill = session.command(0, fill, Flow::Out(512));
    session.send(fill, &[9; 512]);
    // Its first blocks are there while its last ones, thirty-two gigabytes on, are not.
    until("the fill begins", Duration::from_secs(60), || other.read(0, 0, 4096) == [9; 4096]);
    let last_lba = u64::from(BLOCKS - 8);
    assert!(other.read(0, last_lba, 4096) == [0; 4096], "it is over before another is served");
    let abort = manage(&session, task_function::ABORT_TASK);
    let abort = TaskManagementRequest { referenced_itt: fill.itt, ref_cmd_sn: fill.cmd_sn, ..abort };
    session.send(abort, &[]);
    wait_for(&mut session, abort.itt);
    assert!(session.read(0, last_lba, 4096) == [0; 4096], "it was ended by its initiator");
}

/// Says something by text, and what comes of it: the PDU, and its data.
fn ask(session: &mut Session, text: &[u8]) -> (TextRequest, Pdu, Vec<u8>) {
    let request = TextRequest {
        immediate: true,
        is_final: true,
        is_continued: false,
        data_segment_len: 0,
        lun: Lun(0),
        itt: 0x6000_0000,
        ttt: RESERVED_TAG,
        cmd_sn: session.cmd_sn,
        exp_stat_sn: 0,
    };
    session.send(request, text);
    let (pdu, data) = session.receive();
    (request, pdu, data)
}

/// Says something by text; the text that answers.
#[track_caller]
fn say(session: &mut Session, text: &[u8]) -> String {
    let (request, pdu, answer) = ask(session, text);
    let Pdu::TextResponse(response) = pdu else { panic!("no text answers, but {pdu:?}") };
    assert!(response.is_final && response.itt == request.itt, "{response:?}");
    String::from_utf8(answer).expect("text")
}

/// The newest suite of libiscsi asks so, and its library ends the session at a text that it cannot read.
#[test]
fn a_session_is_told_of_its_own_target_and_refused_what_nobody_has_defined() {
    let target = Target::serve(&["memory:1MiB"]);
    let mut session = Session::open(&target);
    for asked in [&b"SendTargets=All\0"[..], b"SendTargets=\0"] {
        let answer = say(&mut session, asked);
        assert!(answer.starts_with(&format!("TargetName={}\0TargetAddress=", target.iqn())), "{answer:?}");
        assert_eq!(answer.matches("TargetName=").count(), 1, "{answer:?}");
    }
    for refused in ["SendTargets=Alle", "SendTargets=A", "SendTargetsPlease=All", "sENDtARGETS=aLL"] {
        let (request, pdu, header) = ask(&mut session, format!("{refused}\0").as_bytes());
        let Pdu::Reject(reject) = pdu else { panic!("{refused} is answered with {pdu:?}") };
        assert_eq!(reject.reason, reject_reason::PROTOCOL_ERROR, "{refused}");
        let back = header.first_chunk().map(Pdu::parse);
        assert!(matches!(back, Some(Ok(Pdu::TextRequest(back))) if back.itt == request.itt), "{refused}");
    }
    assert_eq!(say(&mut session, b"X-com.example.a=1\0"), "X-com.example.a=NotUnderstood\0");
    assert_eq!(session.read(0, 0, 4096), [0; 4096], "the session goes on");
}

/// RFC 7143 section 13.12: MaxRecvDataSegmentLength may be declared at any time, and is not answered.
#[test]
fn a_segment_that_is_declared_anew_holds_for_what_follows() {
    let target = Target::serve(&["memory:1MiB"]);
    let mut session = Session::open(&target);
    let mut other = Session::open(&target);
    let longest = |session: &mut Session| {
        let command = session.command(0, read(0, 4096), Flow::In(4096));
        session.send(command, &[]);
        let mut longest = 0;
        loop {
            let (Pdu::DataIn(part), data) = session.receive() else { panic!("no data is read") };
            longest = longest.max(data.len());
            if part.status.is_some() {
                return longest;
            }
        }
    };
    assert_eq!(longest(&mut session), 4096);
    assert_eq!(say(&mut session, b"MaxRecvDataSegmentLength=512\0InitiatorAlias=host 1\0"), "");
    assert_eq!((longest(&mut session), longest(&mut other)), (512, 4096));
    let bad = b"MaxRecvDataSegmentLength=511\0";
    assert_eq!(say(&mut session, bad), "MaxRecvDataSegmentLength=Reject\0");
    assert_eq!(longest(&mut session), 512, "what is refused changes nothing");
    let (_, pdu, _) = ask(&mut session, b"MaxRecvDataSegmentLength=4096\0SendTargetsPlease=All\0");
    assert!(matches!(pdu, Pdu::Reject(_)), "{pdu:?}");
    assert_eq!(longest(&mut session), 512, "nor what stands in a text that is refused");
    assert_eq!(say(&mut session, b"MaxRecvDataSegmentLength=2048\0"), "");
    assert_eq!(longest(&mut session), 2048);
}
