//! Reservations: two or three sessions, one LUN, and the commands that each may send.

use wire::scsi::{ReservationType, ReserveIn, ReserveOut, ReserveParameters};

use super::*;
use crate::lun::Save;

mod pending;
mod users;

const A: Nexus = Nexus(1);
const B: Nexus = Nexus(2);
const C: Nexus = Nexus(3);

const READ: [u8; 10] = [0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0];
const WRITE: [u8; 10] = [0x2a, 0, 0, 0, 0, 0, 0, 0, 1, 0];

const TYPES: [ReservationType; 6] = [
    ReservationType::WriteExclusive,
    ReservationType::ExclusiveAccess,
    ReservationType::WriteExclusiveRegistrants,
    ReservationType::ExclusiveAccessRegistrants,
    ReservationType::WriteExclusiveAll,
    ReservationType::ExclusiveAccessAll,
];

/// Three sessions that have seen their first unit attention.
struct Room {
    luns: Luns,
}

impl Room {
    fn new() -> Room {
        Room::of("memory:1MiB")
    }

    fn of(lun: &str) -> Room {
        let specs = [(0, lun.parse().unwrap())].into();
        let mut room = Room { luns: Luns::open(&specs, Opening::of(IQN, None)).unwrap() };
        for nexus in [A, B, C] {
            room.begin(nexus);
        }
        room
    }

    fn begin(&mut self, nexus: Nexus) {
        self.begin_as(nexus, nexus, None);
    }

    /// A session with the name and ISID of that of `like`, by a CHAP user.
    fn begin_as(&mut self, nexus: Nexus, like: Nexus, user: Option<&str>) {
        let name = format!("iqn.2026-11.io.farlun:{}", like.0);
        self.luns.begin(nexus, Port { name, isid: [0x80; 6], user: user.map(str::to_owned) });
        self.run(nexus, &[0; 6]);
    }

    fn run(&mut self, nexus: Nexus, cdb: &[u8]) -> Outcome {
        let mut bytes = [0; 16];
        bytes[..cdb.len()].copy_from_slice(cdb);
        execute(&mut self.luns, Address::from_number(0), nexus, &bytes)
    }

    fn may(&mut self, nexus: Nexus, cdb: &[u8]) -> bool {
        match self.run(nexus, cdb) {
            Outcome::Conflict => false,
            Outcome::Check(sense) => panic!("{nexus:?}: {sense}"),
            _ => true,
        }
    }

    #[track_caller]
    fn out(&mut self, nexus: Nexus, action: ReserveOut, kind: u8, keys: (u64, u64), expected: &Outcome) {
        let cdb = Cdb::PersistentReserveOut { action, scope: 0, kind, list_len: 24 }.emit();
        let list = ReserveParameters { key: keys.0, action_key: keys.1, ..ReserveParameters::default() };
        assert_eq!(self.run(nexus, &cdb), Outcome::Parameters { len_bytes: 24 });
        let outcome = execute_with(&mut self.luns, Address::from_number(0), nexus, &cdb, &list.emit());
        assert_eq!(outcome, *expected, "{nexus:?} {action:?} {kind} {keys:?}");
    }

    #[track_caller]
    fn done(&mut self, nexus: Nexus, action: ReserveOut, kind: u8, keys: (u64, u64)) {
        self.out(nexus, action, kind, keys, &Outcome::Good);
    }

    fn read(&mut self, action: ReserveIn) -> Vec<u8> {
        match self.run(C, &Cdb::PersistentReserveIn { action, allocation_len: 4096 }.emit()) {
            Outcome::DataIn(data) => data,
            other => panic!("{action:?}: {other:?}"),
        }
    }

    /// Generation and keys.
    fn keys(&mut self) -> (u32, Vec<u64>) {
        let data = self.read(ReserveIn::ReadKeys);
        let keys = data[8..].chunks(8).map(|key| u64::from_be_bytes(key.try_into().unwrap())).collect();
        (u32::from_be_bytes(data[..4].try_into().unwrap()), keys)
    }

    /// Key and type of the reservation.
    fn held(&mut self) -> Option<(u64, u8)> {
        let data = self.read(ReserveIn::ReadReservation);
        (data.len() > 8).then(|| (u64::from_be_bytes(data[8..16].try_into().unwrap()), data[21]))
    }

    #[track_caller]
    fn told(&mut self, nexus: Nexus, ascq: u8) {
        let attention = Sense::new(SenseKey::UnitAttention, 0x2a, ascq);
        assert_eq!(self.run(nexus, &[0; 6]), Outcome::Check(attention));
        assert_eq!(self.run(nexus, &[0; 6]), Outcome::Good);
    }
}

#[test]
fn reserve_and_release() {
    for (reserve, release) in [(0x16, 0x17), (0x56, 0x57)] {
        let room = &mut Room::new();
        assert!(room.may(A, &[reserve]) && room.may(A, &[reserve]));
        assert!(room.may(A, &READ) && room.may(A, &WRITE));
        for cdb in [&[0; 6][..], &READ, &WRITE, &[reserve], &[0x25], &[0x5e]] {
            assert!(!room.may(B, cdb), "{cdb:02x?}");
        }
        for cdb in [&[0x12, 0, 0, 0, 36][..], &[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 16], &[0x03], &[release]] {
            assert!(room.may(B, cdb), "{cdb:02x?}");
        }
        assert!(!room.may(B, &READ), "what is another's is not released");
        assert!(room.may(A, &[release]) && room.may(B, &READ));
        // The RESERVE ends with its session, and with a reset.
        assert!(room.may(B, &[reserve]));
        room.luns.end(B, true);
        assert!(room.may(A, &[reserve]));
        room.luns.lun_mut(Address::from_number(0)).unwrap().reset();
        room.run(C, &[0; 6]);
        assert!(room.may(C, &WRITE));
    }
}

#[test]
fn registrations() {
    let room = &mut Room::new();
    use ReserveOut::{Register, RegisterAndIgnore};
    assert_eq!(room.keys(), (0, vec![]));
    room.out(A, Register, 0, (5, 1), &Outcome::Conflict);
    room.done(A, Register, 0, (0, 1));
    room.out(A, Register, 0, (0, 2), &Outcome::Conflict);
    room.done(A, Register, 0, (1, 2));
    room.done(B, RegisterAndIgnore, 0, (77, 3));
    assert_eq!(room.keys(), (3, vec![2, 3]));
    room.done(B, RegisterAndIgnore, 0, (0, 4));
    room.done(B, Register, 0, (4, 0));
    assert_eq!(room.keys(), (5, vec![2]));
    // An unregistered port that unregisters changes nothing.
    room.done(B, RegisterAndIgnore, 0, (0, 0));
    room.done(B, Register, 0, (0, 0));
    assert_eq!(room.keys(), (5, vec![2]));
    // A registration is the initiator's, not the session's.
    room.luns.end(A, true);
    room.begin(A);
    room.done(A, Register, 0, (2, 9));
    assert_eq!(room.keys().1, [9]);
    assert!(!room.may(B, &[0x16]), "RESERVE does not go together with registrations");
    let status = room.read(ReserveIn::ReadFullStatus);
    assert_eq!((status[15], status[20], &status[36..57]), (9, 0, &b"iqn.2026-11.io.farlun"[..]));
    assert_eq!(room.read(ReserveIn::ReportCapabilities), [0, 8, 4, 0x80, 0xea, 1, 0, 0]);
}

#[test]
fn what_each_type_allows() {
    for kind in TYPES {
        let room = &mut Room::new();
        room.done(A, ReserveOut::Register, 0, (0, 1));
        room.done(B, ReserveOut::Register, 0, (0, 2));
        room.out(C, ReserveOut::Reserve, kind as u8, (0, 0), &Outcome::Conflict);
        room.done(A, ReserveOut::Reserve, kind as u8, (1, 0));
        room.done(A, ReserveOut::Reserve, kind as u8, (1, 0));
        assert_eq!(room.held(), Some((if kind.is_held_by_all() { 0 } else { 1 }, kind as u8)));
        let registrant = kind.admits_registrants();
        assert!(room.may(A, &READ) && room.may(A, &WRITE), "{kind:?}");
        assert_eq!(room.may(B, &READ), registrant || kind.allows_reads(), "{kind:?}");
        assert_eq!(room.may(B, &WRITE), registrant, "{kind:?}");
        assert_eq!(room.may(C, &READ), kind.allows_reads(), "{kind:?}");
        for cdb in [&WRITE[..], &[0x42], &[0x89], &[0x41], &[0x35], &[0x0a], &[0x1a], &[0x15]] {
            assert!(!room.may(C, cdb), "{kind:?} {cdb:02x?}");
        }
        for cdb in [&[0; 6][..], &[0x25], &[0x12, 0, 0, 0, 36], &[0x5e], &[0x1b, 0, 0, 0, 1]] {
            assert!(room.may(C, cdb), "{kind:?} {cdb:02x?}");
        }
        let (conflict, other) = (Outcome::Conflict, if kind as u8 == 1 { 3 } else { 1 });
        room.out(A, ReserveOut::Reserve, other, (1, 0), &conflict);
        room.out(A, ReserveOut::Release, other, (1, 0), &Outcome::Check(Sense::INVALID_RELEASE));
        room.out(A, ReserveOut::Release, kind as u8, (2, 0), &conflict);
        if !kind.is_held_by_all() {
            room.done(B, ReserveOut::Release, kind as u8, (2, 0));
            assert!(room.held().is_some(), "what is another's is not released");
        }
        room.done(A, ReserveOut::Release, kind as u8, (1, 0));
        assert_eq!(room.held(), None);
        if registrant {
            room.told(B, 0x04);
        }
        assert!(room.may(C, &WRITE) && room.may(B, &WRITE), "{kind:?}");
    }
}

#[test]
fn a_reservation_ends_with_its_registration() {
    for kind in TYPES {
        let room = &mut Room::new();
        room.done(A, ReserveOut::Register, 0, (0, 1));
        room.done(B, ReserveOut::Register, 0, (0, 2));
        room.done(A, ReserveOut::Reserve, kind as u8, (1, 0));
        room.done(A, ReserveOut::Register, 0, (1, 0));
        assert_eq!(room.held().is_some(), kind.is_held_by_all(), "{kind:?}");
        if kind.admits_registrants() && !kind.is_held_by_all() {
            room.told(B, 0x04);
        }
        room.done(B, ReserveOut::Register, 0, (2, 0));
        assert_eq!(room.held(), None, "{kind:?}");
    }
}

#[test]
fn preempt_and_clear() {
    for action in [ReserveOut::Preempt, ReserveOut::PreemptAndAbort] {
        let room = &mut Room::new();
        let gone = |nexus| match action {
            ReserveOut::PreemptAndAbort => Outcome::Preempted { sessions: vec![nexus], save: None },
            _ => Outcome::Good,
        };
        room.done(A, ReserveOut::Register, 0, (0, 1));
        room.done(B, ReserveOut::Register, 0, (0, 2));
        room.done(A, ReserveOut::Reserve, 3, (1, 0));
        room.out(B, action, 1, (2, 7), &Outcome::Conflict);
        room.out(B, action, 1, (2, 0), &Outcome::Check(Sense::invalid_parameter(8, None)));
        room.out(B, action, 1, (2, 1), &gone(A));
        assert_eq!((room.held(), room.keys().1), (Some((2, 1)), vec![2]));
        room.told(A, 0x05);
        assert!(room.may(A, &READ) && !room.may(A, &WRITE));
        // Removing a registration that holds nothing leaves the reservation.
        room.done(A, ReserveOut::Register, 0, (0, 5));
        room.out(B, action, 1, (2, 5), &gone(A));
        assert_eq!((room.held(), room.keys().1), (Some((2, 1)), vec![2]));
        room.told(A, 0x05);
        // For an "all registrants" type a key of zero means all other registrants.
        room.done(B, ReserveOut::Release, 1, (2, 0));
        room.done(A, ReserveOut::Register, 0, (0, 1));
        room.done(B, ReserveOut::Reserve, 8, (2, 0));
        room.out(A, action, 6, (1, 0), &gone(B));
        assert_eq!((room.held(), room.keys().1), (Some((1, 6)), vec![1]));
        room.told(B, 0x05);
        room.done(B, ReserveOut::Register, 0, (0, 2));
        room.out(C, ReserveOut::Clear, 0, (0, 0), &Outcome::Conflict);
        room.done(B, ReserveOut::Clear, 0, (2, 0));
        assert_eq!((room.held(), room.keys().1), (None, vec![]));
        room.told(A, 0x03);
        assert_eq!(room.run(B, &[0; 6]), Outcome::Good);
    }
}

/// SPC-4 5.12.11.2.4: scope and type are looked at where there is a reservation to make.
#[test]
fn what_removes_registrations_alone_needs_no_type_and_may_remove_its_own() {
    let room = &mut Room::new();
    for (nexus, key) in [(A, 1), (B, 2), (C, 2)] {
        room.done(nexus, ReserveOut::Register, 0, (0, key));
    }
    room.done(A, ReserveOut::Preempt, 0, (1, 2));
    room.told(B, 0x05);
    room.told(C, 0x05);
    assert_eq!(room.keys().1, [1]);
    // Two paths of a host have one key.
    room.done(B, ReserveOut::Register, 0, (0, 1));
    room.done(B, ReserveOut::Preempt, 0, (1, 1));
    assert_eq!(room.keys().1, [0; 0]);
    room.told(A, 0x05);
    assert_eq!(room.run(B, &[0; 6]), Outcome::Good, "it knows");
    // An "all registrants" reservation lasts as long as one registration does.
    room.done(A, ReserveOut::Register, 0, (0, 1));
    room.done(B, ReserveOut::Register, 0, (0, 2));
    room.done(A, ReserveOut::Reserve, 7, (1, 0));
    room.done(B, ReserveOut::Preempt, 0, (2, 1));
    assert_eq!((room.held(), room.keys().1), (Some((0, 7)), vec![2]));
    room.told(A, 0x05);
    room.done(B, ReserveOut::Preempt, 0, (2, 2));
    assert_eq!((room.held(), room.keys().1), (None, vec![]));
    // To take over one, it is to be said which.
    room.done(A, ReserveOut::Register, 0, (0, 1));
    room.done(B, ReserveOut::Register, 0, (0, 2));
    room.done(A, ReserveOut::Reserve, 1, (1, 0));
    room.out(B, ReserveOut::Preempt, 0, (2, 1), &field(2, Some(3)));
    assert_eq!((room.held(), room.keys().1), (Some((1, 1)), vec![1, 2]));
}

#[test]
fn what_is_refused() {
    let room = &mut Room::new();
    let out =
        |action, scope, kind, list_len| Cdb::PersistentReserveOut { action, scope, kind, list_len }.emit();
    assert_eq!(room.run(A, &out(ReserveOut::Reserve, 1, 1, 24)), field(2, Some(7)));
    assert_eq!(room.run(A, &out(ReserveOut::Reserve, 0, 2, 24)), field(2, Some(3)));
    for list_len in [0, 23, 25] {
        let length = Outcome::Check(Sense::PARAMETER_LIST_LENGTH);
        assert_eq!(room.run(A, &out(ReserveOut::Register, 0, 0, list_len)), length);
    }
    for (for_others, persist, bit) in [(true, false, 3), (false, true, 0)] {
        let list = ReserveParameters { action_key: 1, for_others, persist, ..ReserveParameters::default() };
        let cdb = out(ReserveOut::Register, 0, 0, 24);
        let outcome = execute_with(&mut room.luns, Address::from_number(0), A, &cdb, &list.emit());
        assert_eq!(outcome, Outcome::Check(Sense::invalid_parameter(20, Some(bit))));
    }
    assert_eq!(room.run(A, &[0x5e, 4]), field(1, Some(4)));
    assert_eq!(room.run(A, &[0x5f, 7]), field(1, Some(4)));
}

/// Registers with APTPL and sends further actions, with a restart of the target in between.
#[test]
fn what_outlives_the_target() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    File::create(&path).unwrap().set_len(1 << 20).unwrap();
    let spec = format!("file:{}", path.display());
    let mut room = Room::of(&spec);
    let capabilities = |room: &mut Room| match room.run(A, &[0x5e, 2, 0, 0, 0, 0, 0, 0, 8, 0]) {
        Outcome::DataIn(data) => (data[2] & 1, data[3] & 1),
        other => panic!("{other:?}"),
    };
    assert_eq!(capabilities(&mut room), (1, 0));
    // The status waits for the file.
    let out = |room: &mut Room, nexus, action, kind, keys: (u64, u64), persist| {
        let cdb = Cdb::PersistentReserveOut { action, scope: 0, kind, list_len: 24 }.emit();
        let (key, action_key) = keys;
        let list = ReserveParameters { key, action_key, persist, ..ReserveParameters::default() };
        match execute_with(&mut room.luns, Address::from_number(0), nexus, &cdb, &list.emit()) {
            Outcome::Keep(save) => {
                let before = room.keys();
                save.write().unwrap();
                assert_eq!(room.keys(), before, "it is not in force before it is kept");
                room.luns.settle(0, &save, true);
                true
            }
            Outcome::Good => false,
            other => panic!("{other:?}"),
        }
    };
    assert!(!out(&mut room, A, ReserveOut::Register, 0, (0, 1), false), "nobody wants it kept");
    assert!(out(&mut room, B, ReserveOut::Register, 0, (0, 2), true));
    let kind = ReservationType::ExclusiveAccessRegistrants as u8;
    assert!(out(&mut room, B, ReserveOut::Reserve, kind, (2, 0), false));
    // An unregistered cleanup script takes nothing away from registrants.
    out(&mut room, C, ReserveOut::RegisterAndIgnore, 0, (0, 0), false);
    out(&mut room, C, ReserveOut::Register, 0, (0, 0), false);

    // The lock of the file has to go first.
    drop(room);
    let mut room = Room::of(&spec);
    assert_eq!(capabilities(&mut room), (1, 1));
    assert_eq!([A, B, C].map(|nexus| room.may(nexus, &WRITE)), [true, true, false]);
    let lun = room.luns.lun(Address::from_number(0)).unwrap();
    let reservation = [0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, kind, 0, 0];
    assert_eq!(lun.reservations().reservation(), reservation);
    assert!(out(&mut room, A, ReserveOut::Preempt, kind, (1, 2), false), "B is out");

    drop(room);
    let mut room = Room::of(&spec);
    assert_eq!([A, B, C].map(|nexus| room.may(nexus, &READ)), [true, false, false]);
    assert!(out(&mut room, A, ReserveOut::Register, 0, (1, 1), false), "no longer kept: the file goes");
    assert_eq!(capabilities(&mut room), (1, 0));

    drop(room);
    let mut room = Room::of(&spec);
    assert_eq!([A, B, C].map(|nexus| room.may(nexus, &READ)), [true; 3]);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

/// A file that cannot be written: a change to be kept there is not in force, nor is any change built on it.
#[test]
fn what_cannot_be_kept_is_not_in_force() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    File::create(&path).unwrap().set_len(1 << 20).unwrap();
    let mut room = Room::of(&format!("file:{}", path.display()));
    let out = |room: &mut Room, nexus, action, kind, key, action_key| {
        let cdb = Cdb::PersistentReserveOut { action, scope: 0, kind, list_len: 24 }.emit();
        let list = ReserveParameters { key, action_key, persist: true, ..ReserveParameters::default() };
        match execute_with(&mut room.luns, Address::from_number(0), nexus, &cdb, &list.emit()) {
            Outcome::Keep(save) | Outcome::Preempted { save: Some(save), .. } => save,
            other => panic!("{other:?}"),
        }
    };
    let keep = |room: &mut Room, save: Save| {
        let is_kept = save.write().is_ok();
        room.luns.settle(0, &save, is_kept);
        is_kept
    };
    let blocked = dir.path().join("disk.farlun-reservations.new");
    let kind = ReservationType::WriteExclusive as u8;
    let save = out(&mut room, A, ReserveOut::Register, 0, 0, 1);
    assert!(keep(&mut room, save));
    std::fs::create_dir(&blocked).unwrap();
    let first = out(&mut room, B, ReserveOut::Register, 0, 0, 2);
    let second = out(&mut room, B, ReserveOut::Reserve, kind, 2, 0);
    assert!(!keep(&mut room, first));
    std::fs::remove_dir(&blocked).unwrap();
    // A write is possible now, and would include the failed change.
    assert!(!keep(&mut room, second));
    assert_eq!((room.keys(), room.held()), ((1, vec![1]), None));
    assert!([A, B, C].into_iter().all(|nexus| room.may(nexus, &WRITE)));
    // Workers complete changes in any order.
    let register = out(&mut room, B, ReserveOut::Register, 0, 0, 2);
    let reserve = out(&mut room, B, ReserveOut::Reserve, kind, 2, 0);
    assert!(keep(&mut room, reserve) && keep(&mut room, register));
    assert_eq!((room.keys(), room.held()), ((2, vec![1, 2]), Some((2, kind))));
    // The unit attention comes when the preemption is in force.
    std::fs::create_dir(&blocked).unwrap();
    let save = out(&mut room, A, ReserveOut::PreemptAndAbort, kind, 1, 2);
    assert!(!keep(&mut room, save));
    assert_eq!(room.run(B, &[0; 6]), Outcome::Good);
    std::fs::remove_dir(&blocked).unwrap();
    let save = out(&mut room, A, ReserveOut::PreemptAndAbort, kind, 1, 2);
    assert!(keep(&mut room, save));
    room.told(B, 0x05);
    assert_eq!((room.keys().1, room.held()), (vec![1], Some((1, kind))));
}
