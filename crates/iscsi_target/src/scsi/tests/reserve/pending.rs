//! Changes of reservations on their way to stable storage.

use super::*;

/// Each change holds all registrations until it is written, and an initiator may send thousands at once.
#[test]
fn changes_on_their_way_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    std::fs::write(&path, [0; 4096]).unwrap();
    let mut room = Room::of(&format!("file:{}", path.display()));
    let action = ReserveOut::RegisterAndIgnore;
    let cdb = Cdb::PersistentReserveOut { action, scope: 0, kind: 0, list_len: 24 }.emit();
    let register = |room: &mut Room, key| {
        let list = ReserveParameters { action_key: key, persist: true, ..ReserveParameters::default() };
        execute_with(&mut room.luns, Address::from_number(0), A, &cdb, &list.emit())
    };
    let mut saves = Vec::new();
    while let Outcome::Keep(save) = register(&mut room, saves.len() as u64 + 1) {
        saves.push(save);
        assert!(saves.len() <= 64, "there is no bound");
    }
    assert!(saves.len() >= 16, "a cluster's hosts may change theirs at the same moment");
    assert_eq!(register(&mut room, 99), Outcome::Full);
    saves[0].write().unwrap();
    room.luns.settle(0, &saves[0], true);
    assert!(matches!(register(&mut room, 99), Outcome::Keep(_)), "one is written");
    assert_eq!(room.keys().1, [1], "what is not written is not in force");
}
