//! What is answered is kept: `kill -9` of the target, and the power cut.
//!
//! Killing the process alone proves little about FUA, because the page cache survives it. So what would be on
//! the disk is looked at, too: the file system is on a loop device, whose file holds what the kernel was made
//! to write, and a copy of that file is what a power cut would leave.

use std::fs;
use std::path::Path;
use std::process::Command;

use e2e::ours::Target;
use e2e::process::output;
use e2e::{farlun, need, run};
use tempfile::tempdir;
use wire::scsi::{Cdb, ReserveIn, ReserveOut, ReserveParameters};

use super::mounts::{self, Loop, Mount, sparse};
use super::session::{Session, register, synchronize, write};
use crate::peers::pdu;

/// Registered keys, in the order in which they came.
fn keys(session: &mut Session) -> Vec<u64> {
    let cdb = Cdb::PersistentReserveIn { action: ReserveIn::ReadKeys, allocation_len: 8192 };
    let data = session.run(0, cdb, &[], 8192).good();
    data[8..].chunks(8).map(|key| u64::from_be_bytes(key.try_into().expect("8 bytes"))).collect()
}

/// The contents of the `n`th write of a round: no two are alike.
fn page(round: u64, n: u64) -> [u8; 4096] {
    let word = (round << 32 | n | 1 << 63).to_be_bytes();
    std::array::from_fn(|at| word[at % 8])
}

/// Each round one session registers, then several write with FUA until the target is gone.
#[test]
fn twenty_times_killed() {
    const ROUNDS: u64 = 20;
    const WRITERS: u64 = 4;
    const PAGES: u64 = 64;
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("disk");
    sparse(&path, WRITERS * PAGES * 4096);
    let spec = format!("file:{}", path.display());
    let mut registered = Vec::new();
    let mut last_pages = vec![None; (WRITERS * PAGES) as usize];
    let mut answered_total = 0;
    for round in 1..=ROUNDS {
        let mut target = Target::serve(&[&spec]);
        let mut session = Session::open(&target);
        assert_eq!(keys(&mut session), registered, "before round {round}");
        let (cdb, list) = register(round);
        session.run(0, cdb, &list, 0).good();
        registered.push(round);
        if round == 1 {
            // Write exclusive for all who are registered: the writers of later rounds have to be.
            let action = ReserveOut::Reserve;
            let cdb = Cdb::PersistentReserveOut { action, scope: 0, kind: 7, list_len: 24 };
            let list = ReserveParameters { key: 1, ..ReserveParameters::default() }.emit();
            session.run(0, cdb, &list, 0).good();
        }
        let (answers, answered) = std::sync::mpsc::channel();
        let mut writers = Vec::new();
        for writer in 0..WRITERS {
            let mut session = Session::open(&target);
            let key = round << 16 | writer;
            let (cdb, list) = register(key);
            session.run(0, cdb, &list, 0).good();
            registered.push(key);
            let answers = answers.clone();
            writers.push(std::thread::spawn(move || {
                for n in 0.. {
                    let place = writer * PAGES + n % PAGES;
                    match session.try_run(0, write(place * 8, 8, true), &page(round, n), 0) {
                        Ok(answer) => {
                            answer.good();
                            // Nobody listens any more once the target is killed, and that is no answer less.
                            let _ = answers.send((place, n));
                        }
                        // What was not answered may be there or not.
                        Err(error) if pdu::is_end(&error) => return (place, n),
                        Err(error) => panic!("the target neither answers nor is it gone: {error}"),
                    }
                }
                unreachable!("a writer ends with the target")
            }));
        }
        drop(answers);
        let mut pages: Vec<(u64, u64)> = answered.iter().take(40 + 7 * round as usize).collect();
        target.service.kill();
        let unsure: Vec<(u64, u64)> =
            writers.into_iter().map(|writer| writer.join().expect("a writer ends")).collect();
        // Those that were answered while it was being killed.
        pages.extend(answered.iter());
        answered_total += pages.len();
        pages.into_iter().for_each(|(place, n)| last_pages[place as usize] = Some((round, n)));
        let found = fs::read(&path).expect("the file");
        for (place, (last, found)) in last_pages.iter_mut().zip(found.chunks(4096)).enumerate() {
            let later = unsure.iter().find(|(unsure, _)| *unsure == place as u64);
            if let Some((_, n)) = later.filter(|(_, n)| found == page(round, *n)) {
                *last = Some((round, *n));
            }
            let expected = last.map_or([0; 4096], |(round, n)| page(round, n));
            assert!(found == expected, "round {round}: page {place} has lost what was answered: {last:?}");
        }
    }
    assert!(answered_total >= 20 * 40, "{answered_total} writes are too few to prove anything");
    let target = Target::serve(&[&spec]);
    let mut session = Session::open(&target);
    assert_eq!(keys(&mut session), registered);
    assert_eq!(session.run(0, write(0, 8, false), &[0; 4096], 0).status, 0x18, "the reservation holds");
}

/// What a power cut leaves of a file system on `device_file`: mounted from a copy at `at`.
fn after_a_power_cut(device_file: &Path, at: &Path, look: impl FnOnce(&Path)) {
    let copy = at.with_extension("copy");
    fs::copy(device_file, &copy).expect("a copy");
    let device = Loop::over(&copy, 512);
    let mount = Mount::device(&device.path, at);
    look(&mount.path);
    drop(mount);
}

#[test]
fn a_power_cut_takes_nothing_that_was_answered() {
    need!(mounts::available());
    let folder = tempdir().expect("a folder");
    let image = folder.path().join("image");
    sparse(&image, 64 << 20);
    output(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image));
    let device = Loop::over(&image, 512);
    let mount = Mount::device(&device.path, &folder.path().join("mnt"));
    let path = mount.path.join("disk");
    sparse(&path, 4 << 20);
    for flags in ["", ",direct=on"] {
        let target = Target::serve(&[&format!("file:{}{flags}", path.display())]);
        let mut session = Session::open(&target);
        // Beside the file system's blocks there is one that is not synced by itself.
        session.run(0, write(4096, 8, false), &page(9, 9), 0).good();
        for n in 0..8 {
            session.run(0, write(n * 8, 8, true), &page(1, n), 0).good();
            // A block alone, in a page of its own: to sync it must not be what syncs the other.
            session.run(0, write((16 + n) * 8 + 1, 1, true), &page(2, n)[..512], 0).good();
        }
        let (cdb, list) = register(42);
        session.run(0, cdb, &list, 0).good();
        after_a_power_cut(&image, &folder.path().join("cut"), |found| {
            let bytes = fs::read(found.join("disk")).expect("the file of the LUN");
            for (n, found) in (0..8).zip(bytes.chunks(4096)) {
                assert!(found == page(1, n), "page {n} was answered and is not on the disk");
                let block = &bytes[(16 + n as usize) * 4096..][512..1024];
                assert!(block == &page(2, n)[..512], "block {n} was answered and is not on the disk");
            }
            let kept = fs::read_to_string(found.join("disk.farlun-reservations")).expect("reservations");
            assert!(kept.contains("registration 000000000000002a "), "{kept}");
        });
        session.run(0, synchronize(), &[], 0).good();
        after_a_power_cut(&image, &folder.path().join("later"), |found| {
            let bytes = fs::read(found.join("disk")).expect("the file of the LUN");
            assert!(bytes[4096 * 512..][..4096] == page(9, 9), "SYNCHRONIZE CACHE has left something behind");
        });
        let (cdb, list) = register(0);
        let list = [&42u64.to_be_bytes()[..], &list[8..]].concat();
        session.run(0, cdb, &list, 0).good();
        drop(session);
        drop(target);
        sparse(&path, 4 << 20);
    }
}

#[test]
fn damaged_reservations_keep_the_lun_away() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("disk");
    sparse(&path, 1 << 20);
    let spec = format!("file:{}", path.display());
    let kept = folder.path().join("disk.farlun-reservations");
    fs::write(&kept, "farlun reservations 1\nregistration 00").expect("a file");
    let start = || {
        let mut command = farlun(["target", "--listen", "127.0.0.1:0", "--lun", &spec]);
        run(&mut command, std::time::Duration::from_secs(60)).expect_code(2)
    };
    start().expect_sentence(&["disk.farlun-reservations line 3: found '', expected 'end'"]);
    start().expect_sentence(&["restore the file, or delete it"]);
    fs::remove_file(&kept).expect("the file goes");
    Target::serve(&[&spec]);
}
