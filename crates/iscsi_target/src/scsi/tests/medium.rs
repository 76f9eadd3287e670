//! Commands that compare, fill and unmap blocks, and the short and long forms of commands that transfer blocks.

use block::Composite;
use wire::scsi::{ByteCheck, UnmapRange, emit_unmap};

use super::*;

fn span(lba: u64, blocks: u64) -> ByteRange {
    ByteRange { offset_bytes: lba * 512, len_bytes: blocks * 512 }
}

fn order(action: CompositeAction, fua: bool) -> Outcome {
    Outcome::Composite(Composite { action, fua })
}

const OUT_OF_RANGE: (u8, u8) = (0x21, 0);

fn out_of_range() -> Outcome {
    illegal(OUT_OF_RANGE.0, OUT_OF_RANGE.1)
}

fn protected() -> Outcome {
    Outcome::Check(Sense::WRITE_PROTECTED)
}

#[test]
fn other_forms() {
    let f = &mut Fixture::new();
    let (dpo, fua) = (false, false);
    let form = BlockForm::Six;
    f.check(
        MEMORY,
        &Cdb::Read { form, lba: 2047, blocks: 1, dpo, fua }.emit(),
        &Outcome::Read(range(2047, 1, false)),
    );
    f.check(MEMORY, &[0x0a, 0, 0, 8, 0], &Outcome::Write(range(8, 256, false)));
    f.check(MEMORY, &[0x08, 0x1f, 0xff, 0xff, 1], &out_of_range());
    let form = BlockForm::Twelve;
    f.check(
        MEMORY,
        &Cdb::Read { form, lba: 0, blocks: 2048, dpo, fua }.emit(),
        &Outcome::Read(range(0, 2048, false)),
    );
    f.check(
        LARGE,
        &Cdb::Write { form, lba: 1, blocks: 1, dpo, fua: true }.emit(),
        &Outcome::Write(range(1, 1, true)),
    );
    f.check(LARGE, &Cdb::Read { form, lba: 0, blocks: 65537, dpo, fua }.emit(), &field(6, None));
    for opcode in [0xa8, 0xaa, 0xae, 0xaf, 0x2e, 0x2f, 0x8e, 0x8f] {
        f.check(MEMORY, &[opcode, 0x20], &field(1, Some(7)));
    }
    f.check(READ_ONLY, &[0x0a, 0, 0, 0, 1], &protected());
}

#[test]
fn verify() {
    let f = &mut Fixture::new();
    let verify = |form, lba, blocks, check| Cdb::Verify { form, lba, blocks, dpo: false, check }.emit();
    for form in [BlockForm::Ten, BlockForm::Twelve, BlockForm::Sixteen] {
        f.check(
            MEMORY,
            &verify(form, 8, 16, ByteCheck::Nothing),
            &order(CompositeAction::Verify(span(8, 16)), false),
        );
        let data = vec![3; 1024];
        let compare = |span| order(CompositeAction::Compare { span, pattern: data.clone() }, false);
        f.check_with(MEMORY, &verify(form, 8, 2, ByteCheck::Blocks), &data, &compare(span(8, 2)));
        let block = vec![3; 512];
        let expected = order(CompositeAction::Compare { span: span(0, 2048), pattern: block.clone() }, false);
        f.check_with(MEMORY, &verify(form, 0, 2048, ByteCheck::OneBlock), &block, &expected);
        for check in [ByteCheck::Nothing, ByteCheck::Blocks, ByteCheck::OneBlock] {
            f.check(MEMORY, &verify(form, 2048, 0, check), &Outcome::Good);
            f.check(MEMORY, &verify(form, 2049, 0, check), &out_of_range());
            f.check(MEMORY, &verify(form, 2040, 9, check), &out_of_range());
        }
    }
    f.check(MEMORY, &[0x2f, 0x04], &field(1, Some(2)));
}

#[test]
fn write_and_verify_reaches_the_medium() {
    let f = &mut Fixture::new();
    for form in [BlockForm::Ten, BlockForm::Twelve, BlockForm::Sixteen] {
        for compare in [false, true] {
            let cdb = Cdb::WriteAndVerify { form, lba: 4, blocks: 2, dpo: true, compare }.emit();
            f.check(MEMORY, &cdb, &Outcome::Write(range(4, 2, false)));
            f.check(LARGE, &cdb, &Outcome::Write(range(4, 2, true)));
            f.check(READ_ONLY, &cdb, &protected());
        }
    }
}

#[test]
fn pre_fetch_start_stop_and_removal() {
    let f = &mut Fixture::new();
    for form in [BlockForm::Ten, BlockForm::Sixteen] {
        let fetch = |lba, blocks| Cdb::PreFetch { form, lba, blocks, immed: true }.emit();
        f.check(MEMORY, &fetch(0, 8), &Outcome::ConditionMet);
        f.check(MEMORY, &fetch(2048, 0), &Outcome::ConditionMet);
        f.check(MEMORY, &fetch(2041, 8), &out_of_range());
    }
    let power =
        |load_eject, start| Cdb::StartStop { immed: false, power_condition: 0, load_eject, start }.emit();
    f.check(LARGE, &power(false, true), &Outcome::Good);
    f.check(LARGE, &power(false, false), &Outcome::Sync);
    f.check(MEMORY, &power(false, false), &Outcome::Good);
    f.check(MEMORY, &power(true, false), &field(4, Some(1)));
    f.check(MEMORY, &Cdb::PreventAllow { prevent: 1 }.emit(), &Outcome::Good);
    f.check(MEMORY, &Cdb::PreventAllow { prevent: 2 }.emit(), &field(4, Some(1)));
}

#[test]
fn write_same() {
    let f = &mut Fixture::new();
    let same = |form, lba, blocks, unmap| Cdb::WriteSame { form, lba, blocks, unmap, no_data: false }.emit();
    let fill = |span, value| order(CompositeAction::Fill { span, pattern: vec![value; 512] }, false);
    for form in [BlockForm::Ten, BlockForm::Sixteen] {
        f.check_with(MEMORY, &same(form, 8, 16, false), &[3; 512], &fill(span(8, 16), 3));
        f.check_with(MEMORY, &same(form, 8, 16, false), &[0; 512], &fill(span(8, 16), 0));
        f.check_with(MEMORY, &same(form, 2040, 0, false), &[3; 512], &fill(span(2040, 8), 3));
        f.check_with(MEMORY, &same(form, 2048, 0, false), &[3; 512], &Outcome::Good);
        f.check(MEMORY, &same(form, 2040, 9, false), &out_of_range());
        f.check(MEMORY, &same(form, 2049, 0, false), &out_of_range());
        f.check(LARGE, &same(form, 0, 0, false), &field(form.blocks_byte(), None));
        f.check(READ_ONLY, &same(form, 0, 1, false), &protected());
        f.check(READ_ONLY, &same(form, 0, 1, true), &protected());
    }
    f.check(MEMORY, &same(BlockForm::Ten, 8, 16, true), &field(1, Some(3)));
    let form = BlockForm::Sixteen;
    f.check_with(LARGE, &same(form, 1, 1 << 27, false), &[3; 512], &fill(span(1, 1 << 27), 3));
    f.check(LARGE, &same(form, 1, (1 << 27) + 1, false), &field(form.blocks_byte(), None));
    f.check_with(MEMORY, &same(form, 8, 16, true), &[3; 512], &fill(span(8, 16), 3));
    let unmap = order(CompositeAction::Unmap(vec![span(8, 16)]), false);
    f.check_with(MEMORY, &same(form, 8, 16, true), &[0; 512], &unmap);
    let no_data = Cdb::WriteSame { form, lba: 0, blocks: 8, unmap: true, no_data: true };
    f.check(MEMORY, &no_data.emit(), &order(CompositeAction::Unmap(vec![span(0, 8)]), false));
    f.check(MEMORY, &[0x93, 0x10], &field(1, Some(4)));
}

#[test]
fn unmap() {
    let f = &mut Fixture::new();
    let mut check = |lun, ranges: &[(u64, u32)], expected: &Outcome| {
        let ranges: Vec<_> = ranges.iter().map(|&(lba, blocks)| UnmapRange { lba, blocks }).collect();
        let list = emit_unmap(&ranges);
        f.check_with(lun, &Cdb::Unmap { list_len: list.len() as u16 }.emit(), &list, expected);
    };
    let done = |spans: &[ByteRange]| order(CompositeAction::Unmap(spans.to_vec()), false);
    check(MEMORY, &[(0, 8), (2047, 1)], &done(&[span(0, 8), span(2047, 1)]));
    check(MEMORY, &[], &done(&[]));
    check(MEMORY, &[(2048, 0)], &done(&[]));
    check(MEMORY, &[(0, 8), (2048, 1)], &out_of_range());
    check(MEMORY, &[(u64::MAX, 2)], &out_of_range());
    let most = 1 << 27;
    check(LARGE, &[(9, most)], &done(&[span(9, most.into())]));
    let too_many = |byte| Outcome::Check(Sense::invalid_parameter(byte, None));
    check(LARGE, &[(0, most), (0, 1)], &too_many(32));
    check(LARGE, &[(0, 1); 257], &too_many(2));
    f.check(MEMORY, &Cdb::Unmap { list_len: 0 }.emit(), &Outcome::Good);
    f.check(READ_ONLY, &Cdb::Unmap { list_len: 24 }.emit(), &protected());
    let length = Outcome::Check(Sense::PARAMETER_LIST_LENGTH);
    f.check_with(MEMORY, &Cdb::Unmap { list_len: 4 }.emit(), &[0; 4], &length);
    f.check_with(MEMORY, &Cdb::Unmap { list_len: 8 }.emit(), &[0, 22, 0, 16, 0, 0, 0, 0], &length);
}

#[test]
fn lba_status() {
    let f = &mut Fixture::new();
    let ask = |lba| Cdb::GetLbaStatus { lba, allocation_len: 24 };
    let data = f.data(MEMORY, ask(2040));
    assert_eq!(data[8..], [0, 0, 0, 0, 0, 0, 7, 0xf8, 0, 0, 0, 8, 0, 0, 0, 0]);
    assert_eq!(f.data(LARGE, ask(0))[16..20], u32::MAX.to_be_bytes());
    f.check(MEMORY, &ask(2048).emit(), &out_of_range());
}

#[test]
fn compare_and_write() {
    let f = &mut Fixture::new();
    let swap = |lba, blocks, fua| Cdb::CompareAndWrite { lba, blocks, dpo: true, fua }.emit();
    let data = [[1; 1024], [2; 1024]].concat();
    let done = |fua| {
        let action = CompositeAction::CompareAndWrite {
            offset_bytes: 4096,
            expected: vec![1; 1024],
            new: vec![2; 1024],
        };
        order(action, fua)
    };
    f.check_with(MEMORY, &swap(8, 2, true), &data, &done(false));
    f.check_with(LARGE, &swap(8, 2, true), &data, &done(true));
    f.check_with(LARGE, &swap(8, 2, false), &data, &done(false));
    f.check_with(MEMORY, &swap(2048, 0, false), &[], &Outcome::Good);
    f.check(MEMORY, &swap(2048, 1, false), &out_of_range());
    f.check(READ_ONLY, &swap(0, 1, false), &protected());
    f.check(MEMORY, &[0x89, 0x20], &field(1, Some(7)));
    let short = execute_with(&mut f.luns, Address::from_number(MEMORY), NEXUS, &swap(8, 2, false), &[1; 512]);
    assert_eq!(short, Outcome::Check(Sense::INVALID_FIELD_IN_CDB));
}

#[test]
fn or_write() {
    let f = &mut Fixture::new();
    let or = |lba, blocks, fua| Cdb::OrWrite { lba, blocks, dpo: true, fua }.emit();
    let done = |fua| order(CompositeAction::Or { offset_bytes: 4096, bits: vec![5; 1024] }, fua);
    f.check_with(MEMORY, &or(8, 2, true), &[5; 1024], &done(false));
    f.check_with(LARGE, &or(8, 2, true), &[5; 1024], &done(true));
    f.check(MEMORY, &or(2048, 0, false), &Outcome::Good);
    f.check(MEMORY, &or(2048, 1, false), &out_of_range());
    f.check(READ_ONLY, &or(0, 1, false), &protected());
    f.check(LARGE, &or(0, 2048, false), &Outcome::Parameters { len_bytes: 1 << 20 });
    f.check(LARGE, &or(0, 2049, false), &field(10, None));
    f.check(MEMORY, &[0x8b, 0x20], &field(1, Some(7)));
}
