//! Every command as a line of data: the bytes of the CDB, and the expected outcome.

mod medium;
mod replaced;
mod reserve;
mod settings;
mod start;

use std::fs::File;

use block::{ByteRange, CompositeAction, TRANSFER_MAX_BYTES};
use wire::scsi::{
    Association, BlockDeviceCharacteristics, BlockForm, BlockLimits, Capacity10, Capacity16, Cdb,
    DesignatorId, DeviceIdentification, ModeForm, ModePage, ModeParameters, PageControl, ReportLuns,
    SenseKey, StandardInquiry, SupportedPages, UnitSerialNumber, VpdPage, page,
};

use super::*;
use crate::lun::{Opening, Port};

const IQN: &str = "iqn.2026-11.io.farlun:test";
const NEXUS: Nexus = Nexus(7);

/// The LUNs of every test.
const MEMORY: u16 = 0;
const READ_ONLY: u16 = 1;
/// 3 TiB: more than ten bytes can address.
const LARGE: u16 = 2;
const ABSENT: u16 = 3;

const MEMORY_BLOCKS: u64 = 2048;
const LARGE_BYTES: u64 = 3 << 40;
const LARGE_BLOCKS: u64 = LARGE_BYTES / 512;

/// The LUNs, and the directory that holds their files.
struct Fixture {
    luns: Luns,
    _dir: Option<tempfile::TempDir>,
}

impl Fixture {
    fn new() -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let file = |name, len_bytes| {
            let path = dir.path().join(name);
            File::create(&path).unwrap().set_len(len_bytes).unwrap();
            path.display().to_string()
        };
        let specs = ["memory:1MiB".to_owned(), format!("file:{},ro", file("small", 8192)), {
            format!("file:{}", file("large", LARGE_BYTES))
        }];
        Fixture { _dir: Some(dir), ..Fixture::of(&specs) }
    }

    fn of(specs: &[String]) -> Fixture {
        let specs = (0..).zip(specs.iter().map(|spec| spec.parse().unwrap()));
        Fixture { luns: Luns::open(&specs.collect(), Opening::of(IQN, None)).unwrap(), _dir: None }
    }

    fn run(&mut self, lun: u16, cdb: &[u8]) -> Outcome {
        // Bytes behind a short CDB in the PDU are ignored.
        let mut bytes = [0; 16];
        bytes[..cdb.len()].copy_from_slice(cdb);
        execute(&mut self.luns, Address::from_number(lun), NEXUS, &bytes)
    }

    /// Runs a command with its parameter data, which [`Outcome::Parameters`] requires.
    fn run_with(&mut self, lun: u16, cdb: &[u8], data: &[u8]) -> Outcome {
        assert_eq!(
            self.run(lun, cdb),
            Outcome::Parameters { len_bytes: data.len() as u32 },
            "CDB {cdb:02x?}"
        );
        let mut bytes = [0; 16];
        bytes[..cdb.len()].copy_from_slice(cdb);
        execute_with(&mut self.luns, Address::from_number(lun), NEXUS, &bytes, data)
    }

    fn check_with(&mut self, lun: u16, cdb: &[u8], data: &[u8], expected: &Outcome) {
        assert_eq!(self.run_with(lun, cdb, data), *expected, "LUN {lun}, CDB {cdb:02x?}");
    }

    fn check(&mut self, lun: u16, cdb: &[u8], expected: &Outcome) {
        assert_eq!(self.run(lun, cdb), *expected, "LUN {lun}, CDB {cdb:02x?}");
    }

    fn data(&mut self, lun: u16, cdb: Cdb) -> Vec<u8> {
        match self.run(lun, &cdb.emit()) {
            Outcome::DataIn(data) => data,
            other => panic!("{cdb:?}: {other:?}"),
        }
    }
}

fn illegal(asc: u8, ascq: u8) -> Outcome {
    Outcome::Check(Sense::new(SenseKey::IllegalRequest, asc, ascq))
}

fn field(byte: u16, bit: Option<u8>) -> Outcome {
    Outcome::Check(Sense::invalid_field(byte, bit))
}

fn range(offset_blocks: u64, blocks: u32, fua: bool) -> Transfer {
    Transfer { offset_bytes: offset_blocks * 512, len_bytes: blocks * 512, fua }
}

/// READ or WRITE of sixteen bytes, or SYNCHRONIZE CACHE.
fn sixteen(opcode: u8, flags: u8, lba: u64, blocks: u32) -> [u8; 16] {
    let mut cdb = [opcode, flags, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    cdb[2..10].copy_from_slice(&lba.to_be_bytes());
    cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

fn ten(opcode: u8, flags: u8, lba: u32, blocks: u16) -> [u8; 10] {
    let mut cdb = [opcode, flags, 0, 0, 0, 0, 0, 0, 0, 0];
    cdb[2..6].copy_from_slice(&lba.to_be_bytes());
    cdb[7..9].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

#[test]
fn reads_and_writes() {
    let f = &mut Fixture::new();
    let max = TRANSFER_MAX_BYTES / 512;
    let out_of_range = illegal(0x21, 0);
    for (ten_bytes, sixteen_bytes, moved) in
        [(0x28, 0x88, Outcome::Read as fn(Transfer) -> Outcome), (0x2a, 0x8a, Outcome::Write)]
    {
        f.check(MEMORY, &ten(ten_bytes, 0, 0, 1), &moved(range(0, 1, false)));
        f.check(MEMORY, &ten(ten_bytes, 0x18, 2040, 8), &moved(range(2040, 8, false)));
        f.check(MEMORY, &ten(ten_bytes, 0, 2041, 8), &out_of_range);
        f.check(MEMORY, &ten(ten_bytes, 0, u32::MAX, 1), &out_of_range);
        f.check(MEMORY, &ten(ten_bytes, 0, 2048, 0), &Outcome::Good);
        f.check(MEMORY, &ten(ten_bytes, 0, 2049, 0), &out_of_range);
        f.check(MEMORY, &ten(ten_bytes, 0x20, 0, 1), &field(1, Some(7)));
        f.check(MEMORY, &sixteen(sixteen_bytes, 0, u64::MAX, 1), &out_of_range);
        f.check(MEMORY, &sixteen(sixteen_bytes, 0, u64::MAX - 1, u32::MAX), &out_of_range);
        f.check(MEMORY, &sixteen(sixteen_bytes, 0, 0, 2048), &moved(range(0, 2048, false)));
        f.check(MEMORY, &sixteen(sixteen_bytes, 0, 0, 2049), &out_of_range);
        f.check(LARGE, &ten(ten_bytes, 0, u32::MAX, u16::MAX), &moved(range((1 << 32) - 1, 65535, false)));
        f.check(
            LARGE,
            &sixteen(sixteen_bytes, 0x08, LARGE_BLOCKS - 1, 1),
            &moved(range(LARGE_BLOCKS - 1, 1, true)),
        );
        f.check(LARGE, &sixteen(sixteen_bytes, 0, 0, max), &moved(range(0, max, false)));
        f.check(LARGE, &sixteen(sixteen_bytes, 0, 0, max + 1), &field(10, None));
        f.check(ABSENT, &ten(ten_bytes, 0, 0, 1), &illegal(0x25, 0));
    }
    let protected = Outcome::Check(Sense::new(SenseKey::DataProtect, 0x27, 0));
    f.check(READ_ONLY, &ten(0x28, 0, 15, 1), &Outcome::Read(range(15, 1, false)));
    f.check(READ_ONLY, &ten(0x2a, 0, 15, 1), &protected);
    f.check(READ_ONLY, &ten(0x2a, 0, 16, 1), &out_of_range);
    f.check(READ_ONLY, &sixteen(0x8a, 0, 0, 1), &protected);
}

#[test]
fn synchronize_cache() {
    let f = &mut Fixture::new();
    for (lun, done) in [(MEMORY, Outcome::Good), (LARGE, Outcome::Sync)] {
        f.check(lun, &ten(0x35, 0, 0, 0), &done);
        f.check(lun, &ten(0x35, 0x02, 5, 8), &done);
        f.check(lun, &sixteen(0x91, 0, 5, 8), &done);
    }
    f.check(MEMORY, &ten(0x35, 0, 2041, 8), &illegal(0x21, 0));
    f.check(LARGE, &sixteen(0x91, 0, LARGE_BLOCKS, 1), &illegal(0x21, 0));
    f.check(ABSENT, &ten(0x35, 0, 0, 0), &illegal(0x25, 0));
}

#[test]
fn small_commands_and_unknown_ones() {
    let f = &mut Fixture::new();
    f.check(MEMORY, &[0; 6], &Outcome::Good);
    f.check(ABSENT, &[0; 6], &illegal(0x25, 0));
    // READ TOC, FORMAT UNIT, EXTENDED COPY, RECEIVE COPY RESULTS, SANITIZE, a vendor's own.
    for opcode in [0x43, 0x04, 0x83, 0x84, 0x48, 0xff] {
        f.check(MEMORY, &[opcode], &illegal(0x20, 0));
        f.check(ABSENT, &[opcode], &illegal(0x25, 0));
    }
    // NACA, and another service action of the opcode that READ CAPACITY (16) has.
    f.check(MEMORY, &[0, 0, 0, 0, 0, 0x04], &field(5, Some(2)));
    f.check(MEMORY, &[0x9e, 0x13], &field(1, Some(4)));
}

#[test]
fn capacity() {
    let f = &mut Fixture::new();
    let (ten, sixteen) = (Cdb::ReadCapacity10, Cdb::ReadCapacity16 { allocation_len: 32 });
    for (lun, blocks, short) in
        [(MEMORY, MEMORY_BLOCKS, 2047), (READ_ONLY, 16, 15), (LARGE, LARGE_BLOCKS, u32::MAX)]
    {
        let data = Capacity10::parse(&f.data(lun, ten)).unwrap();
        assert_eq!(data, Capacity10 { last_lba: short, block_len: 512 });
        let data = Capacity16::parse(&f.data(lun, sixteen)).unwrap();
        assert_eq!((data.last_lba, data.block_len, data.physical_block_exponent), (blocks - 1, 512, 0));
        assert!(data.thin && data.unmapped_reads_zero);
    }
    assert_eq!(f.data(MEMORY, Cdb::ReadCapacity16 { allocation_len: 12 }).len(), 12);
    f.check(MEMORY, &Cdb::ReadCapacity16 { allocation_len: 0 }.emit(), &Outcome::DataIn(Vec::new()));
    f.check(ABSENT, &ten.emit(), &illegal(0x25, 0));
    f.check(ABSENT, &sixteen.emit(), &illegal(0x25, 0));
}

#[test]
fn inquiry() {
    let f = &mut Fixture::new();
    let standard = |allocation_len| Cdb::Inquiry { page: None, allocation_len };
    let vital = |page| Cdb::Inquiry { page: Some(page), allocation_len: 1024 };

    for (lun, product) in [(MEMORY, "farlun memory"), (READ_ONLY, "farlun file")] {
        let data = StandardInquiry::parse(&f.data(lun, standard(255))).unwrap();
        assert_eq!((data.qualifier, data.device_type, data.version), (0, 0, 6));
        assert_eq!((&*data.vendor, &*data.product, &*data.revision), ("FARLUN", product, "0.1"));
        assert_eq!(data.version_descriptors[..5], [0x00a0, 0x0460, 0x04c0, 0x0960, 0]);
        assert!(data.command_queue && !data.removable && !data.protect);
    }
    assert_eq!(f.data(MEMORY, standard(36)).len(), 36);
    assert_eq!(f.data(MEMORY, standard(0)).len(), 0);
    assert_eq!(f.data(ABSENT, standard(5))[0], 0x7f);
    f.check(MEMORY, &[0x12, 0, 0x80, 0, 255], &field(2, None));
    f.check(MEMORY, &[0x12, 1, 0xb3, 0, 255], &field(2, None));

    let pages = SupportedPages::parse(&f.data(MEMORY, vital(page::SUPPORTED_PAGES))).unwrap().pages;
    assert_eq!(pages, [0x00, 0x80, 0x83, 0x86, 0xb0, 0xb1, 0xb2]);
    for page in pages {
        assert_eq!(f.data(MEMORY, vital(page))[..2], [0, page], "every page that is listed is there");
    }
    assert_eq!(f.data(ABSENT, vital(page::SUPPORTED_PAGES)), [0x7f, 0, 0, 1, 0]);
    f.check(ABSENT, &vital(page::UNIT_SERIAL_NUMBER).emit(), &field(2, None));

    let serial = UnitSerialNumber::parse(&f.data(MEMORY, vital(page::UNIT_SERIAL_NUMBER))).unwrap().serial;
    assert_eq!(
        (serial.len(), serial.as_str()),
        (16, f.luns.lun(Address::from_number(0)).unwrap().identity().serial.as_str())
    );
    let limits = BlockLimits::parse(&f.data(MEMORY, vital(page::BLOCK_LIMITS))).unwrap();
    assert_eq!((limits.granularity, limits.transfer_max, limits.transfer_optimal), (8, 65536, 2048));
    assert_eq!((limits.compare_and_write_max, limits.write_same_max), (255, 1 << 27));
    let unmap = (limits.unmap_max, limits.unmap_descriptors_max, limits.unmap_granularity);
    assert_eq!((unmap, limits.unmap_alignment), ((1 << 27, 256, 1), Some(0)));
    let file = BlockLimits::parse(&f.data(LARGE, vital(page::BLOCK_LIMITS))).unwrap();
    assert_eq!((file.granularity, file.unmap_granularity), (8, 8));
    let most_blocks = u64::from(limits.unmap_max.min(file.unmap_max)).min(file.write_same_max);
    assert!((1_u64 << 40).div_ceil(most_blocks * 512) <= 20, "commands for 1 TiB");
    assert_eq!(f.data(MEMORY, vital(page::LOGICAL_BLOCK_PROVISIONING)), [0, 0xb2, 0, 4, 0, 0xc4, 2, 0]);
    for (lun, cache) in [(MEMORY, 0), (LARGE, 1)] {
        assert_eq!(f.data(lun, vital(page::EXTENDED_INQUIRY))[..7], [0, 0x86, 0, 60, 0, 1, cache]);
    }
    let kind = f.data(MEMORY, vital(page::BLOCK_DEVICE_CHARACTERISTICS));
    assert_eq!(BlockDeviceCharacteristics::parse(&kind).unwrap().rotation_rate, 1);
}

/// Everything that counts blocks, where they have 4096 bytes.
#[test]
fn large_blocks() {
    let f = &mut Fixture::of(&["memory:1MiB,block=4096".to_owned()]);
    let data = Capacity16::parse(&f.data(0, Cdb::ReadCapacity16 { allocation_len: 32 })).unwrap();
    assert_eq!((data.last_lba, data.block_len, data.physical_block_exponent), (255, 4096, 0));
    let data = Capacity10::parse(&f.data(0, Cdb::ReadCapacity10)).unwrap();
    assert_eq!(data, Capacity10 { last_lba: 255, block_len: 4096 });
    let range = |offset_bytes, len_bytes| Transfer { offset_bytes, len_bytes, fua: false };
    f.check(0, &ten(0x28, 0, 8, 2), &Outcome::Read(range(32768, 8192)));
    f.check(0, &sixteen(0x8a, 0, 255, 1), &Outcome::Write(range(255 * 4096, 4096)));
    f.check(0, &sixteen(0x88, 0, 255, 2), &illegal(0x21, 0));
    f.check(0, &ten(0x41, 0, 0, 1), &Outcome::Parameters { len_bytes: 4096 });
    let compare_and_write = Cdb::CompareAndWrite { lba: 1, blocks: 3, dpo: false, fua: false }.emit();
    f.check(0, &compare_and_write, &Outcome::Parameters { len_bytes: 2 * 3 * 4096 });
    let limits = Cdb::Inquiry { page: Some(page::BLOCK_LIMITS), allocation_len: 64 };
    let limits = BlockLimits::parse(&f.data(0, limits)).unwrap();
    assert_eq!((limits.granularity, limits.transfer_max, limits.transfer_optimal), (1, 8192, 256));
    assert_eq!((limits.unmap_max, limits.unmap_granularity, limits.write_same_max), (1 << 24, 1, 1 << 24));
    let mode = Cdb::ModeSense {
        form: ModeForm::Six,
        dbd: false,
        llbaa: false,
        page_control: PageControl::Current,
        page: ModePage::ALL,
        subpage: 0,
        allocation_len: 255,
    };
    let mode = ModeParameters::parse(ModeForm::Six, &f.data(0, mode)).unwrap();
    let descriptor = mode.block_descriptor.unwrap();
    assert_eq!((descriptor.blocks, descriptor.block_len), (256, 4096));
}

#[test]
fn identification() {
    let f = &mut Fixture::new();
    let cdb = Cdb::Inquiry { page: Some(page::DEVICE_IDENTIFICATION), allocation_len: 1024 };
    let names = |data: &[u8]| DeviceIdentification::parse(data).unwrap().designators;
    let (one, other) = (names(&f.data(MEMORY, cdb)), names(&f.data(LARGE, cdb)));
    let text: Vec<_> = one
        .iter()
        .filter_map(|name| match &name.id {
            DesignatorId::ScsiName(text) => Some((name.association, name.protocol, text.as_str())),
            _ => None,
        })
        .collect();
    let port = format!("{IQN},t,0x0001");
    assert_eq!(text, [(Association::TargetPort, Some(5), &*port), (Association::TargetDevice, Some(5), IQN)]);
    for (a, b) in one.iter().zip(&other) {
        assert_eq!(a != b, a.association == Association::LogicalUnit, "{a:?} {b:?}");
    }
    assert!(matches!(&one[0].id, DesignatorId::Naa(naa) if naa.len() == 8 && naa[0] >> 4 == 3));
}

#[test]
fn mode_sense() {
    let f = &mut Fixture::new();
    let cdb = |form, page, page_control| Cdb::ModeSense {
        form,
        dbd: false,
        llbaa: form == ModeForm::Ten,
        page_control,
        page,
        subpage: 0,
        allocation_len: 255,
    };
    let all = |form| cdb(form, ModePage::ALL, PageControl::Current);
    for form in [ModeForm::Six, ModeForm::Ten] {
        for (lun, blocks, read_only, write_cache) in
            [(MEMORY, MEMORY_BLOCKS, false, false), (READ_ONLY, 16, true, true)]
        {
            let data = ModeParameters::parse(form, &f.data(lun, all(form))).unwrap();
            assert_eq!((data.write_protected, data.dpo_fua), (read_only, true));
            assert_eq!(data.write_cache(), Some(write_cache));
            assert_eq!(
                data.block_descriptor.map(|d| (d.blocks, d.block_len, d.long)),
                Some((blocks, 512, false))
            );
            let codes: Vec<_> = data.pages.iter().map(ModePage::page).collect();
            assert_eq!(codes, [0x01, 0x08, 0x0a, 0x1c]);
        }
        let large = ModeParameters::parse(form, &f.data(LARGE, all(form))).unwrap().block_descriptor.unwrap();
        match form {
            ModeForm::Six => assert_eq!((large.blocks, large.long), (u64::from(u32::MAX), false)),
            ModeForm::Ten => assert_eq!((large.blocks, large.long), (LARGE_BLOCKS, true)),
        }
        for page in [0x01, 0x08, 0x0a, 0x1c] {
            let current = f.data(LARGE, cdb(form, page, PageControl::Current));
            assert_eq!(current, f.data(LARGE, cdb(form, page, PageControl::Default)));
            assert_eq!(ModeParameters::parse(form, &current).unwrap().pages[0].page(), page);
            let changeable = f.data(LARGE, cdb(form, page, PageControl::Changeable));
            assert_eq!(changeable.len(), current.len());
        }
        for (lun, has_cache) in [(LARGE, true), (MEMORY, false)] {
            let changeable = f.data(lun, cdb(form, ModePage::CACHING, PageControl::Changeable));
            assert_eq!(ModeParameters::parse(form, &changeable).unwrap().write_cache(), Some(has_cache));
        }
        f.check(MEMORY, &cdb(form, 0x08, PageControl::Saved).emit(), &illegal(0x39, 0));
        f.check(MEMORY, &cdb(form, 0x02, PageControl::Current).emit(), &field(2, Some(5)));
        f.check(ABSENT, &all(form).emit(), &illegal(0x25, 0));
    }
    // A subpage, all subpages, no block descriptor, a short allocation length.
    f.check(MEMORY, &[0x1a, 0, 0x0a, 0x01, 255], &field(3, None));
    assert!(matches!(f.run(MEMORY, &[0x1a, 0, 0x3f, 0xff, 255]), Outcome::DataIn(_)));
    assert!(matches!(f.run(MEMORY, &[0x1a, 0x08, 0x08, 0, 255]), Outcome::DataIn(data) if data.len() == 24));
    assert!(matches!(f.run(MEMORY, &[0x1a, 0, 0x3f, 0, 4]), Outcome::DataIn(data) if data.len() == 4));
}

#[test]
fn report_luns() {
    let f = &mut Fixture::new();
    let cdb = |select, allocation_len| Cdb::ReportLuns { select, allocation_len };
    for lun in [MEMORY, ABSENT] {
        for (select, luns) in [(0, &[0, 1, 2][..]), (1, &[]), (2, &[0, 1, 2])] {
            let luns: Vec<_> = luns.iter().map(|&n| Address::from_number(n)).collect();
            assert_eq!(ReportLuns::parse(&f.data(lun, cdb(select, 4096))).unwrap().luns, luns, "{select}");
        }
        assert_eq!(f.data(lun, cdb(0, 16))[..4], 24u32.to_be_bytes(), "the length of the whole list");
        assert_eq!(f.data(lun, cdb(0, 16)).len(), 16);
        f.check(lun, &cdb(3, 4096).emit(), &field(2, None));
    }
}

#[test]
fn request_sense_and_unit_attention() {
    let f = &mut Fixture::new();
    let request = |descriptor| Cdb::RequestSense { descriptor, allocation_len: 252 };
    let told = |f: &mut Fixture, lun, descriptor| Sense::parse(&f.data(lun, request(descriptor))).unwrap();
    let attention = |ascq| Sense::new(SenseKey::UnitAttention, 0x29, ascq);
    let ready = [0; 6];

    for descriptor in [false, true] {
        assert_eq!(told(f, ABSENT, descriptor), Sense::new(SenseKey::IllegalRequest, 0x25, 0));
        assert_eq!(told(f, MEMORY, descriptor), Sense::NO_SENSE);
    }
    f.luns.begin(NEXUS, Port::default());
    // These neither report it nor clear it, whether they are valid or not.
    f.data(MEMORY, Cdb::Inquiry { page: None, allocation_len: 96 });
    f.data(MEMORY, Cdb::ReportLuns { select: 0, allocation_len: 96 });
    f.check(MEMORY, &[0x12, 1, 0xb3, 0, 255], &field(2, None));
    f.check(MEMORY, &[0x12, 2, 0, 0, 255], &field(1, Some(1)));
    // Each LUN reports its unit attention before any other status.
    f.check(MEMORY, &ready, &Outcome::Check(attention(0)));
    f.check(MEMORY, &ready, &Outcome::Good);
    f.check(READ_ONLY, &[0xff], &Outcome::Check(attention(0)));
    f.check(READ_ONLY, &[0xff], &illegal(0x20, 0));
    assert_eq!(told(f, LARGE, true), attention(0));
    f.check(LARGE, &ready, &Outcome::Good);
    f.luns.lun_mut(Address::from_number(LARGE)).unwrap().reset();
    f.check(MEMORY, &ready, &Outcome::Good);
    f.check(LARGE, &sixteen(0x88, 0, 0, 1), &Outcome::Check(attention(3)));
    f.check(LARGE, &sixteen(0x88, 0, 0, 1), &Outcome::Read(range(0, 1, false)));
}

#[test]
fn other_forms_of_an_address() {
    let f = &mut Fixture::new();
    let ready = |f: &mut Fixture, raw| execute(&mut f.luns, Address(raw), NEXUS, &[0; 16]);
    assert_eq!(ready(f, 0x4000 << 48), Outcome::Good, "flat space addressing of LUN 0");
    for raw in [1, 0x0100 << 48, 0x8000 << 48, 0xc101 << 48, u64::MAX] {
        assert_eq!(ready(f, raw), illegal(0x25, 0), "{raw:#x}");
    }
}

#[test]
fn no_bytes_panic() {
    let f = &mut Fixture::new();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for round in 0..100_000u64 {
        let mut cdb = [0; 16];
        cdb[..8].copy_from_slice(&next().to_ne_bytes());
        cdb[8..].copy_from_slice(&next().to_ne_bytes());
        // Every opcode in turn, and small addresses half of the time.
        cdb[0] = round as u8;
        cdb[10..13].fill(0);
        if next() & 1 == 0 {
            cdb[2..9].fill(0);
        }
        let lun = (next() % 4) as u16;
        match f.run(lun, &cdb) {
            Outcome::Read(t) | Outcome::Write(t) => {
                let lun = f.luns.lun(Address::from_number(lun)).unwrap();
                assert!(t.len_bytes > 0 && t.len_bytes <= TRANSFER_MAX_BYTES, "{t:?}");
                assert!(t.offset_bytes + u64::from(t.len_bytes) <= lun.len_bytes(), "{t:?}");
            }
            Outcome::Parameters { len_bytes } => {
                assert!(len_bytes <= TRANSFER_MAX_BYTES, "{len_bytes}");
                let data: Vec<u8> = (0..len_bytes).map(|_| (next() >> 60) as u8).collect();
                execute_with(&mut f.luns, Address::from_number(lun), NEXUS, &cdb, &data);
            }
            _ => {}
        }
    }
}

#[test]
fn what_our_initiator_sends_is_understood() {
    let f = &mut Fixture::new();
    let form = BlockForm::for_range(4, 4);
    let write = Cdb::Write { form, lba: 4, blocks: 4, dpo: false, fua: true };
    f.check(MEMORY, &write.emit(), &Outcome::Write(range(4, 4, false)));
    f.check(LARGE, &write.emit(), &Outcome::Write(range(4, 4, true)));
}
