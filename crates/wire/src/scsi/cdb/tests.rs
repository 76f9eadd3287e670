//! Every command as bytes.

use super::*;

/// The CDB `hex` reads as `expected`, which writes the same bytes.
#[track_caller]
fn check(hex: &str, expected: Cdb) {
    let cdb = cdb(hex);
    assert_eq!(Cdb::parse(&cdb), Ok(expected));
    assert_eq!(expected.emit(), cdb);
}

fn cdb(hex: &str) -> [u8; 16] {
    let mut cdb = [0; 16];
    let bytes = crate::scsi::check::bytes(hex);
    cdb[..bytes.len()].copy_from_slice(&bytes);
    cdb
}

#[track_caller]
fn refused(hex: &str, byte: u16, bit: Option<u8>) {
    assert_eq!(Cdb::parse(&cdb(hex)), Err(CdbError::InvalidField { byte, bit }));
}

#[test]
fn commands_of_six_bytes() {
    check("00", Cdb::TestUnitReady);
    check("03 01 00 00 fc", Cdb::RequestSense { descriptor: true, allocation_len: 252 });
    check("12 00 00 00 40", Cdb::Inquiry { page: None, allocation_len: 64 });
    check("12 01 83 01 00", Cdb::Inquiry { page: Some(0x83), allocation_len: 256 });
    check(
        "1a 08 3f 00 ff",
        Cdb::ModeSense {
            form: ModeForm::Six,
            dbd: true,
            llbaa: false,
            page_control: PageControl::Current,
            page: 0x3f,
            subpage: 0,
            allocation_len: 255,
        },
    );
}

#[test]
fn commands_of_ten_and_twelve_bytes() {
    check(
        "5a 10 88 02 00 00 00 10 00",
        Cdb::ModeSense {
            form: ModeForm::Ten,
            dbd: false,
            llbaa: true,
            page_control: PageControl::Default,
            page: 8,
            subpage: 2,
            allocation_len: 4096,
        },
    );
    check("25", Cdb::ReadCapacity10);
    let form = BlockForm::Ten;
    check("28 10 00 00 10 00 00 10 00", Cdb::Read { form, lba: 4096, blocks: 4096, dpo: true, fua: false });
    check(
        "2a 08 ff ff ff ff 00 00 01",
        Cdb::Write { form, lba: 0xffff_ffff, blocks: 1, dpo: false, fua: true },
    );
    check("35 02 00 00 00 08", Cdb::SynchronizeCache { form, lba: 8, blocks: 0, immed: true });
    check("a0 00 02 00 00 00 00 00 10", Cdb::ReportLuns { select: 2, allocation_len: 0x1000 });
}

#[test]
fn commands_of_sixteen_bytes() {
    check("9e 10 00 00 00 00 00 00 00 00 00 00 00 20", Cdb::ReadCapacity16 { allocation_len: 32 });
    let (form, lba, blocks) = (BlockForm::Sixteen, 1 << 32, 0x1_0000);
    check("88 00 00 00 00 01 00 00 00 00 00 01", Cdb::Read { form, lba, blocks, dpo: false, fua: false });
    check("8a 18 00 00 00 01 00 00 00 00 00 01", Cdb::Write { form, lba, blocks, dpo: true, fua: true });
    check("91 00 00 00 00 01 00 00 00 00 00 01", Cdb::SynchronizeCache { form, lba, blocks, immed: false });
    assert_eq!(BlockForm::for_range(lba, 1), form);
    assert_eq!(BlockForm::for_range(lba - 1, blocks - 1), BlockForm::Ten);
}

#[test]
fn all_forms_of_reads_and_writes() {
    let (dpo, fua) = (false, false);
    let form = BlockForm::Six;
    check("08 1f ff ff 00", Cdb::Read { form, lba: 0x1f_ffff, blocks: 256, dpo, fua });
    check("0a 00 00 02 08", Cdb::Write { form, lba: 2, blocks: 8, dpo, fua });
    let (form, lba, blocks) = (BlockForm::Twelve, 0xffff_ffff, 0x1_0000);
    check("a8 10 ff ff ff ff 00 01 00 00", Cdb::Read { form, lba, blocks, dpo: true, fua });
    check("aa 08 ff ff ff ff 00 01 00 00", Cdb::Write { form, lba, blocks, dpo, fua: true });
    check("ae 02 ff ff ff ff 00 01 00 00", Cdb::WriteAndVerify { form, lba, blocks, dpo, compare: true });
    check(
        "af 06 ff ff ff ff 00 01 00 00",
        Cdb::Verify { form, lba, blocks, dpo, check: ByteCheck::OneBlock },
    );
}

#[test]
fn comparing_filling_and_unmapping() {
    let (form, lba, blocks) = (BlockForm::Ten, 2, 3);
    let tail = "00 00 00 02 00 00 03";
    let dpo = false;
    check(&format!("2f 02 {tail}"), Cdb::Verify { form, lba, blocks, dpo, check: ByteCheck::Blocks });
    check(&format!("2e 10 {tail}"), Cdb::WriteAndVerify { form, lba, blocks, dpo: true, compare: false });
    check(&format!("34 02 {tail}"), Cdb::PreFetch { form, lba, blocks, immed: true });
    check(&format!("41 08 {tail}"), Cdb::WriteSame { form, lba, blocks, unmap: true, no_data: false });
    let form = BlockForm::Sixteen;
    let tail = "00 00 00 00 00 00 00 02 00 00 00 03";
    check(&format!("8f 00 {tail}"), Cdb::Verify { form, lba, blocks, dpo, check: ByteCheck::Nothing });
    check(&format!("8e 00 {tail}"), Cdb::WriteAndVerify { form, lba, blocks, dpo, compare: false });
    check(&format!("90 00 {tail}"), Cdb::PreFetch { form, lba, blocks, immed: false });
    check(&format!("93 09 {tail}"), Cdb::WriteSame { form, lba, blocks, unmap: true, no_data: true });
    let compare = Cdb::CompareAndWrite { lba: 2, blocks: 3, dpo: true, fua: true };
    check("89 18 00 00 00 00 00 00 00 02 00 00 00 03", compare);
    let or = Cdb::OrWrite { lba: 2, blocks: 3, dpo: false, fua: true };
    check("8b 08 00 00 00 00 00 00 00 02 00 00 00 03", or);
    check("42 00 00 00 00 00 00 00 18", Cdb::Unmap { list_len: 24 });
    check("9e 12 00 00 00 00 00 00 00 02 00 00 00 18", Cdb::GetLbaStatus { lba: 2, allocation_len: 24 });
    for hex in ["2f 22", "8e 40", "41 20", "89 80"] {
        refused(hex, 1, Some(7));
    }
    refused("2f 04", 1, Some(2));
    refused("2e 04", 1, Some(2));
    refused("93 10", 1, Some(4));
    refused("41 02", 1, Some(2));
    refused("42 01", 1, Some(0));
}

#[test]
fn reservations_and_settings() {
    check(
        "15 11 00 00 18",
        Cdb::ModeSelect { form: ModeForm::Six, page_format: true, save: true, list_len: 24 },
    );
    let ten = Cdb::ModeSelect { form: ModeForm::Ten, page_format: true, save: false, list_len: 256 };
    check("55 10 00 00 00 00 00 01 00", ten);
    check("16", Cdb::Reserve { form: ModeForm::Six });
    check("57", Cdb::Release { form: ModeForm::Ten });
    refused("16 10", 1, Some(4));
    let stop = Cdb::StartStop { immed: true, power_condition: 3, load_eject: true, start: false };
    check("1b 01 00 00 32", stop);
    check("1e 00 00 00 01", Cdb::PreventAllow { prevent: 1 });
    let action = ReserveIn::ReadFullStatus;
    check("5e 03 00 00 00 00 00 01 00", Cdb::PersistentReserveIn { action, allocation_len: 256 });
    let action = ReserveOut::RegisterAndIgnore;
    check(
        "5f 06 05 00 00 00 00 00 18",
        Cdb::PersistentReserveOut { action, scope: 0, kind: 5, list_len: 24 },
    );
    refused("5e 04", 1, Some(4));
    refused("5f 07", 1, Some(4));
    let codes = Cdb::ReportOpcodes {
        timeouts: true,
        options: 2,
        opcode: 0x9e,
        service_action: 0x10,
        allocation_len: 512,
    };
    check("a3 0c 82 9e 00 10 00 00 02 00", codes);
    check("a3 0d 80 00 00 00 00 00 00 10", Cdb::ReportTaskManagement { extended: true, allocation_len: 16 });
    refused("a3 05", 1, Some(4));
}

#[test]
fn what_is_not_supported_is_pointed_at() {
    assert_eq!(Cdb::parse(&cdb("04")), Err(CdbError::UnsupportedOpcode(0x04)));
    refused("28 20", 1, Some(7));
    refused("8a 80", 1, Some(7));
    refused("9e 13", 1, Some(4));
    refused("12 00 80", 2, None);
    refused("12 02", 1, Some(1));
    refused("00 00 00 00 00 04", 5, Some(2));
    refused("2a 00 00 00 00 00 00 00 00 04", 9, Some(2));
    refused("a0 00 00 00 00 00 00 00 00 00 00 04", 11, Some(2));
    refused("88 00 00 00 00 00 00 00 00 00 00 00 00 00 00 04", 15, Some(2));
}

#[test]
fn reserved_and_obsolete_bits_are_ignored() {
    // RARC, FUA_NV, RELADR, the group number, and bytes behind the CDB.
    let read = Cdb::parse(&cdb("28 07 00 00 00 00 1f 00 01 c0 ff ff ff ff ff ff"));
    assert_eq!(read, Ok(Cdb::Read { form: BlockForm::Ten, lba: 0, blocks: 1, dpo: false, fua: false }));
}

#[test]
fn what_is_read_is_written_the_same() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for round in 0..200_000u64 {
        let mut cdb = [0; 16];
        cdb[..8].copy_from_slice(&next().to_ne_bytes());
        cdb[8..].copy_from_slice(&next().to_ne_bytes());
        // Every operation code with every value of the byte that most of them check.
        cdb[0] = round as u8;
        cdb[1] = (round >> 8) as u8;
        cdb[cdb_len(cdb[0]) - 1] &= !0x04;
        if let Ok(command) = Cdb::parse(&cdb) {
            assert_eq!(Cdb::parse(&command.emit()), Ok(command), "{cdb:02x?}");
        }
    }
}
