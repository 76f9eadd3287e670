//! MODE SELECT and its effects.

use super::*;

/// A list with these pages.
fn list(form: ModeForm, pages: &[&[u8]]) -> Vec<u8> {
    let header = match form {
        ModeForm::Six => vec![0; 4],
        ModeForm::Ten => vec![0; 8],
    };
    [&[&header[..]], pages].concat().concat()
}

fn select(form: ModeForm, list: &[u8]) -> [u8; 16] {
    Cdb::ModeSelect { form, page_format: true, save: false, list_len: list.len() as u16 }.emit()
}

fn caching(flags: u8) -> Vec<u8> {
    [&[8, 18, flags][..], &[0; 17]].concat()
}

fn control(flags: u8) -> Vec<u8> {
    [&[10, 10, 0, 0x10, flags][..], &[0; 7]].concat()
}

#[test]
fn what_can_be_changed_is_changed() {
    for form in [ModeForm::Six, ModeForm::Ten] {
        let f = &mut Fixture::new();
        let mut check = |lun, pages: &[&[u8]], expected: &Outcome| {
            let list = list(form, pages);
            f.check_with(lun, &select(form, &list), &list, expected);
        };
        let at = |page: usize, byte: u16| {
            let header = if form == ModeForm::Six { 4 } else { 8 };
            Outcome::Check(Sense::invalid_parameter(header + page as u16 * 20 + byte, None))
        };
        let refused = Outcome::Check(Sense::INVALID_FIELD_IN_PARAMETER_LIST);
        check(LARGE, &[&caching(4)], &Outcome::Good);
        check(LARGE, &[&caching(0)], &Outcome::Sync);
        check(MEMORY, &[&caching(0)], &Outcome::Good);
        check(MEMORY, &[&caching(4)], &refused);
        check(LARGE, &[&caching(1)], &refused);
        check(LARGE, &[&caching(2)], &at(0, 2));
        check(LARGE, &[&caching(0), &control(8)], &Outcome::Good);
        check(LARGE, &[&caching(4), &[2, 2, 0, 0]], &refused);
        check(LARGE, &[&caching(4)[..10]], &Outcome::Check(Sense::PARAMETER_LIST_LENGTH));
        // The last that was taken as a whole: no cache, and no writes.
        f.check(LARGE, &ten(0x2a, 0, 0, 1), &Outcome::Check(Sense::WRITE_PROTECTED));
        let list = list(form, &[&control(0)]);
        f.check_with(LARGE, &select(form, &list), &list, &Outcome::Good);
        f.check(LARGE, &ten(0x2a, 0, 0, 1), &Outcome::Write(range(0, 1, true)));
        f.check(LARGE, &ten(0x28, 0, 0, 1), &Outcome::Read(range(0, 1, false)));
        let current = f.data(
            LARGE,
            Cdb::ModeSense {
                form,
                dbd: true,
                llbaa: false,
                page_control: PageControl::Current,
                page: ModePage::CACHING,
                subpage: 0,
                allocation_len: 255,
            },
        );
        assert_eq!(ModeParameters::parse(form, &current).unwrap().write_cache(), Some(false));
        f.luns.lun_mut(Address::from_number(LARGE)).unwrap().reset();
        f.check(LARGE, &ten(0x2a, 0, 0, 1), &Outcome::Write(range(0, 1, false)));
    }
}

#[test]
fn what_mode_select_refuses() {
    let f = &mut Fixture::new();
    f.check(MEMORY, &[0x15, 0x00, 0, 0, 24], &field(1, Some(4)));
    f.check(MEMORY, &[0x15, 0x11, 0, 0, 24], &field(1, Some(0)));
    f.check(MEMORY, &[0x15, 0x10, 0, 0, 0], &Outcome::Good);
    for (blocks, block_len, expected) in [
        (0, 512, Outcome::Good),
        (2048, 512, Outcome::Good),
        (u32::MAX, 512, Outcome::Good),
        (2048, 4096, Outcome::Check(Sense::INVALID_FIELD_IN_PARAMETER_LIST)),
        (1024, 512, Outcome::Check(Sense::INVALID_FIELD_IN_PARAMETER_LIST)),
    ] {
        let descriptor = [u32::to_be_bytes(blocks), u32::to_be_bytes(block_len)].concat();
        let list = [&[0, 0, 0, 8], &descriptor[..]].concat();
        f.check_with(MEMORY, &select(ModeForm::Six, &list), &list, &expected);
    }
}

#[test]
fn others_are_told() {
    let f = &mut Fixture::new();
    let other = Nexus(8);
    f.luns.begin(NEXUS, Port::default());
    f.luns.begin(other, Port::default());
    for nexus in [NEXUS, other] {
        f.luns.lun_mut(Address::from_number(LARGE)).unwrap().take_attention(nexus);
    }
    let list = list(ModeForm::Six, &[&caching(0)]);
    f.check_with(LARGE, &select(ModeForm::Six, &list), &list, &Outcome::Sync);
    f.check_with(LARGE, &select(ModeForm::Six, &list), &list, &Outcome::Good);
    f.check(LARGE, &[0; 6], &Outcome::Good);
    let told = execute(&mut f.luns, Address::from_number(LARGE), other, &[0; 16]);
    assert_eq!(told, Outcome::Check(Sense::MODE_PARAMETERS_CHANGED));
}

#[test]
fn operation_codes() {
    let f = &mut Fixture::new();
    let ask = |options, opcode| Cdb::ReportOpcodes {
        timeouts: false,
        options,
        opcode,
        service_action: 0,
        allocation_len: 4096,
    };
    let all = f.data(MEMORY, ask(0, 0));
    assert_eq!(u32::from_be_bytes(all[..4].try_into().unwrap()) as usize, all.len() - 4);
    for command in all[4..].chunks(8) {
        let known = f.run(MEMORY, &[command[0], command[3]]);
        assert_ne!(known, illegal(0x20, 0), "{command:02x?}");
    }
    assert_eq!(f.data(MEMORY, ask(1, 0xff)), [0, 1, 0, 0]);
    f.check(MEMORY, &ask(1, 0x9e).emit(), &field(2, Some(2)));
    let tasks = |extended| Cdb::ReportTaskManagement { extended, allocation_len: 255 };
    assert_eq!(f.data(MEMORY, tasks(false)), [0xda, 0, 0, 0]);
    assert_eq!(f.data(MEMORY, tasks(true)), [0xda, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
}
