//! Stores that fail: the sense data that says how, and what works again when it has passed.

use std::fs;
use std::time::Duration;

use e2e::ours::Target;
use e2e::{farlun, need, run, until};
use tempfile::tempdir;
use wire::scsi::{BlockForm, ByteCheck, Cdb, Sense};

use super::mounts::{self, Mount, sparse};
use super::session::{Session, read, synchronize, unmap, write};

#[test]
fn what_fails_is_told_and_passes() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("disk");
    sparse(&path, 1 << 20);
    let target = Target::serve(&[
        "memory:1MiB,fault=read:lba=8-15:nth=1-2,fault=write:nth=2,fault=full:nth=3,fault=notready:nth=9",
        &format!("file:{},fault=sync:nth=1-2", path.display()),
    ]);
    let mut session = Session::open(&target);
    session.run(0, read(0, 8), &[], 4096).good();
    session.run(0, read(0, 9), &[], 4608).expect(Sense::READ_ERROR);
    let verify =
        Cdb::Verify { form: BlockForm::Ten, lba: 15, blocks: 1, dpo: false, check: ByteCheck::Nothing };
    session.run(0, verify, &[], 0).expect(Sense::READ_ERROR);
    session.run(0, read(8, 1), &[], 512).good();
    session.run(0, write(0, 1, false), &[1; 512], 0).good();
    session.run(0, write(0, 1, false), &[2; 512], 0).expect(Sense::WRITE_ERROR);
    session.run(0, write(0, 1, true), &[3; 512], 0).expect(Sense::SPACE_ALLOCATION_FAILED);
    assert_eq!(session.run(0, read(0, 1), &[], 512).good(), [1; 512], "what failed has changed nothing");
    session.run(0, write(0, 1, false), &[4; 512], 0).expect(Sense::BECOMING_READY);
    session.run(0, write(0, 1, false), &[4; 512], 0).good();
    assert_eq!(session.run(0, read(0, 1), &[], 512).good(), [4; 512]);

    session.run(1, write(0, 1, false), &[5; 512], 0).good();
    session.run(1, synchronize(), &[], 0).expect(Sense::WRITE_ERROR);
    session.run(1, write(1, 1, true), &[6; 512], 0).expect(Sense::WRITE_ERROR);
    session.run(1, synchronize(), &[], 0).good();
    let said = target.service.stderr();
    assert!(said.contains("fault=read:lba=8-15:nth=1-2 struck at access 1"), "{said}");
}

#[test]
fn a_file_that_is_cut_fails_where_it_ends_and_that_is_said_once() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("disk");
    fs::write(&path, [7; 8192]).expect("a file");
    let target = Target::serve(&[&format!("file:{}", path.display())]);
    let mut session = Session::open(&target);
    fs::OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(4096)).expect("it is cut");
    for _ in 0..20 {
        session.run(0, read(8, 8), &[], 4096).expect(Sense::READ_ERROR);
    }
    assert_eq!(session.run(0, read(0, 8), &[], 4096).good(), [7; 4096]);
    // A write behind the end would make it longer, and what is in between would be read as zeros.
    for fua in [false, true] {
        session.run(0, write(12, 4, fua), &[9; 2048], 0).expect(Sense::WRITE_ERROR);
        session.run(0, read(8, 4), &[], 2048).expect(Sense::READ_ERROR);
    }
    fs::OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(8192)).expect("it is longer");
    session.run(0, read(8, 4), &[], 2048).expect(Sense::READ_ERROR);
    session.run(0, write(4, 4, true), &[5; 2048], 0).good();
    let said = target.service.stderr();
    assert_eq!(said.matches("it was cut to 4096 bytes, and had 8192").count(), 1, "{said}");
}

#[test]
fn a_file_that_others_delete_is_missed() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("disk");
    fs::write(&path, [7; 8192]).expect("a file");
    let target = Target::serve(&["memory:1MiB", &format!("file:{}", path.display())]);
    fs::remove_file(&path).expect("it is deleted");
    until("the log names the loss", Duration::from_secs(60), || {
        target.service.stderr().contains("disk was deleted while it is served")
    });
    let said = target.service.stderr();
    assert!(said.contains("LUN 1: ") && said.matches("was deleted").count() == 1, "{said}");
    let mut session = Session::open(&target);
    assert_eq!(session.run(1, read(0, 8), &[], 4096).good(), [7; 4096], "it is still served");
}

#[test]
fn a_read_only_lun_refuses_every_write() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("disk");
    fs::write(&path, [7; 8192]).expect("a file");
    let target = Target::serve(&[&format!("file:{},ro", path.display()), "memory:8KiB,ro"]);
    let mut session = Session::open(&target);
    for lun in [0, 1] {
        session.run(lun, write(0, 1, false), &[1; 512], 0).expect(Sense::WRITE_PROTECTED);
        let (cdb, list) = unmap(0, 8);
        session.run(lun, cdb, &list, 0).expect(Sense::WRITE_PROTECTED);
        session.run(lun, synchronize(), &[], 0).good();
        session.run(lun, read(0, 1), &[], 512).good();
    }
    assert_eq!(session.run(0, read(0, 1), &[], 512).good(), [7; 512]);
    assert_eq!(fs::read(&path).expect("the file"), [7; 8192]);
}

/// A file of 8 MiB where there is room for 1 MiB: thin provisioning that runs out, for real.
#[test]
fn a_full_file_system_recovers_when_something_is_unmapped() {
    need!(mounts::available());
    let folder = tempdir().expect("a folder");
    let mount = Mount::memory(1 << 20, &folder.path().join("mnt"));
    let path = mount.path.join("disk");
    sparse(&path, 8 << 20);
    let target = Target::serve(&[&format!("file:{}", path.display())]);
    let mut session = Session::open(&target);
    let block = |n: u64| [n as u8 | 1; 4096];
    let mut written = 0;
    let failed = loop {
        let answer = session.run(0, write(written * 8, 8, written % 2 == 0), &block(written), 0);
        if answer.status != 0 {
            break answer;
        }
        written += 1;
        assert!(written <= 256, "more is stored than there is room for");
    };
    failed.expect(Sense::SPACE_ALLOCATION_FAILED);
    assert!(written > 100, "only {written} pages fit");
    session.run(0, synchronize(), &[], 0).good();
    for n in 0..written {
        assert_eq!(session.run(0, read(n * 8, 8), &[], 4096).good(), block(n), "page {n}");
    }
    session.run(0, write(0, 8, true), &block(77), 0).good();
    let (cdb, list) = unmap(8, 8 * 16);
    session.run(0, cdb, &list, 0).good();
    session.run(0, write(written * 8, 8, true), &block(99), 0).good();
    assert_eq!(session.run(0, read(written * 8, 8), &[], 4096).good(), block(99));
    assert_eq!(session.run(0, read(8, 8), &[], 4096).good(), [0; 4096]);
}

/// Eight workers that slept could answer 80 commands a second; a store with latency answers all of them at once.
#[test]
fn commands_wait_side_by_side() {
    let target = Target::serve(&["memory:16MiB,delay=read:100ms..110ms"]);
    let load = ["--op", "read", "--random", "--depth", "256", "--time", "2s", "--json"];
    let found =
        run(farlun(["bench", &target.url(0)]).args(load), Duration::from_secs(60)).expect_code(0).json();
    let iops = found["iops"].as_f64().expect("IOPS");
    assert!(iops > 4.0 * 80.0, "{found}");
    assert!(found["latency_ns"]["min"].as_f64().expect("a latency") >= 100e6, "{found}");
    let load = ["--op", "write", "--overwrite", "--depth", "1", "--block", "4KiB", "--time", "1s", "--json"];
    let found =
        run(farlun(["bench", &target.url(0)]).args(load), Duration::from_secs(60)).expect_code(0).json();
    assert!(
        found["latency_ns"]["min"].as_f64().expect("a latency") < 100e6,
        "writes are not delayed: {found}"
    );
}
