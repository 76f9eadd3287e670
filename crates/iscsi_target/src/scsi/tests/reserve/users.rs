//! Registrations of CHAP users: one initiator name and ISID under several users, and under none.

use super::*;
use crate::lun::Bereft;

/// Name and ISID of an initiator with an ended session give another user no access to its registration.
#[test]
fn a_registration_belongs_to_the_user_that_made_it() {
    let room = &mut Room::new();
    let [alices, bobs, again] = [Nexus(10), Nexus(11), Nexus(12)];
    room.begin_as(alices, alices, Some("alice"));
    room.done(alices, ReserveOut::Register, 0, (0, 7));
    room.done(alices, ReserveOut::Reserve, 1, (7, 0));
    room.luns.end(alices, false);
    room.begin_as(bobs, alices, Some("bob"));
    assert!(!room.may(bobs, &WRITE));
    room.out(bobs, ReserveOut::Release, 1, (7, 0), &Outcome::Conflict);
    room.luns.end(bobs, true);
    room.begin_as(again, alices, Some("alice"));
    assert!(room.may(again, &WRITE));
    room.done(again, ReserveOut::Release, 1, (7, 0));
}

/// Files of before users were kept have none.
#[test]
fn a_registration_without_a_user_goes_to_the_first_one() {
    let room = &mut Room::new();
    let [before, alices, bobs] = [Nexus(10), Nexus(11), Nexus(12)];
    room.begin(before);
    room.done(before, ReserveOut::Register, 0, (0, 7));
    room.done(before, ReserveOut::Reserve, 1, (7, 0));
    room.luns.end(before, false);
    room.begin_as(alices, before, Some("alice"));
    assert!(room.may(alices, &WRITE) && !room.may(A, &WRITE));
    room.luns.end(alices, false);
    room.begin_as(bobs, before, Some("bob"));
    assert!(!room.may(bobs, &WRITE));
    assert_eq!(room.held(), Some((7, 1)));
}

/// The first user keeps the registration: a user that logs in first after a restart has no part in it.
#[test]
fn the_user_that_has_adopted_a_registration_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    File::create(&path).unwrap().set_len(1 << 20).unwrap();
    let spec = format!("file:{}", path.display());
    let kept = "farlun reservations 1\nregistration 0000000000000007 808080808080 iqn.2026-11.io.farlun:10\n\
                reservation 1 0\nend\n";
    std::fs::write(dir.path().join("disk.farlun-reservations"), kept).unwrap();
    let [alices, bobs] = [Nexus(10), Nexus(11)];
    let mut room = Room::of(&spec);
    assert!(room.luns.take_adoptions().is_empty());
    room.begin_as(alices, alices, Some("alice"));
    assert!(room.may(alices, &WRITE), "it does not wait for the file");
    // A change on top of it, before it is written.
    let cdb = Cdb::PersistentReserveOut { action: ReserveOut::Register, scope: 0, kind: 0, list_len: 24 };
    let list = ReserveParameters { key: 7, action_key: 8, persist: true, ..ReserveParameters::default() };
    let at = Address::from_number(0);
    let Outcome::Keep(change) = execute_with(&mut room.luns, at, alices, &cdb.emit(), &list.emit()) else {
        panic!("it is not to be kept");
    };
    let [(0, adoption)] = &room.luns.take_adoptions()[..] else { panic!("one registration was adopted") };
    assert!(room.luns.is_keeping(0));
    for save in [adoption, &change] {
        save.write().unwrap();
        room.luns.settle(0, save, true);
    }
    assert!(!room.luns.is_keeping(0) && room.keys() == (1, vec![8]));

    // The lock of the file has to go first.
    drop(room);
    let mut room = Room::of(&spec);
    room.begin_as(bobs, alices, Some("bob"));
    room.begin_as(alices, alices, Some("alice"));
    assert!(room.luns.take_adoptions().is_empty());
    assert_eq!([bobs, alices].map(|nexus| room.may(nexus, &WRITE)), [false, true]);
}

/// Registrations of one initiator with and without a user, as in a file of a version that did not distinguish them.
#[test]
fn a_registration_without_a_user_is_dropped_where_the_user_has_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    File::create(&path).unwrap().set_len(1 << 20).unwrap();
    let line = |key, user| format!("registration {key:016x} 808080808080 iqn.2026-11.io.farlun:10{user}\n");
    let kept =
        ["farlun reservations 1\n", &line(7, " alice"), &line(9, ""), "reservation 1 1\nend\n"].concat();
    std::fs::write(dir.path().join("disk.farlun-reservations"), kept).unwrap();
    let mut room = Room::of(&format!("file:{}", path.display()));
    let again = Nexus(10);
    room.begin_as(again, again, Some("alice"));
    assert!(room.may(again, &WRITE) && !room.may(A, &WRITE));
    assert_eq!(room.held(), Some((7, 1)));
    assert_eq!(room.keys().1, [7]);
}

/// Without CHAP a name and an ISID identify an initiator, which keeps its registration; with CHAP again, it is the
/// user's.
#[test]
fn without_chap_a_registration_is_that_of_the_initiator() {
    let room = &mut Room::new();
    let [alices, plain, bobs, again] = [Nexus(10), Nexus(11), Nexus(12), Nexus(13)];
    room.begin_as(alices, alices, Some("alice"));
    room.done(alices, ReserveOut::Register, 0, (0, 7));
    room.done(alices, ReserveOut::Reserve, 1, (7, 0));
    room.luns.end(alices, false);
    room.begin_as(plain, alices, None);
    assert!(room.may(plain, &WRITE) && !room.may(A, &WRITE));
    room.done(plain, ReserveOut::Register, 0, (7, 8));
    room.done(plain, ReserveOut::Release, 1, (8, 0));
    room.done(plain, ReserveOut::Reserve, 1, (8, 0));
    room.luns.end(plain, false);
    assert_eq!(room.luns.take_bereft(), []);
    room.begin_as(bobs, alices, Some("bob"));
    assert!(!room.may(bobs, &WRITE));
    let told = Bereft { nexus: bobs, lun: 0, user: "alice".to_owned() };
    assert_eq!(room.luns.take_bereft(), [told], "bob is told");
    room.luns.end(bobs, true);
    room.begin_as(again, alices, Some("alice"));
    assert!(room.may(again, &WRITE));
    assert_eq!((room.held(), room.luns.take_bereft()), (Some((8, 1)), Vec::new()));
}
