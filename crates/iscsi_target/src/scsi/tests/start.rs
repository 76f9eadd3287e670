//! Raw CDBs that Linux, Windows and ESXi send on discovery of a disk. Each returns data, or exactly the refusal that
//! these initiators accept as "not supported" before they continue.
//!
//! Linux: its `sd` and `scsi` drivers. Windows: `disk`, `classpnp`, `mpio` and failover clusters. ESXi: its scan
//! of a path, VMFS and hardware acceleration (VAAI).

use super::*;

/// Expected result of a command.
enum Answer {
    /// GOOD and nothing else.
    Good,
    /// At least so many bytes of data.
    Data(usize),
    /// INVALID FIELD IN CDB: the command is known, this page or action of it is not.
    NoSuchField,
    /// INVALID COMMAND OPERATION CODE.
    NoSuchCommand,
}

use Answer::{Data, Good, NoSuchCommand, NoSuchField};

fn check(commands: &[(&str, &[u8], Answer)]) {
    for lun in [MEMORY, LARGE] {
        let f = &mut Fixture::new();
        for (what, cdb, answer) in commands {
            let outcome = f.run(lun, cdb);
            let sense = match &outcome {
                Outcome::Check(sense) => Some((sense.key, sense.asc, sense.ascq)),
                _ => None,
            };
            let as_expected = match answer {
                Good => outcome == Outcome::Good || outcome == Outcome::Sync,
                Data(least) => matches!(&outcome, Outcome::DataIn(data) if data.len() >= *least),
                NoSuchField => sense == Some((SenseKey::IllegalRequest, 0x24, 0)),
                NoSuchCommand => sense == Some((SenseKey::IllegalRequest, 0x20, 0)),
            };
            assert!(as_expected, "{what}, LUN {lun}: {outcome:?}");
        }
    }
}

#[test]
fn linux() {
    check(&[
        ("REPORT LUNS", &[0xa0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0x08], Data(32)),
        ("INQUIRY", &[0x12, 0, 0, 0, 36], Data(36)),
        ("INQUIRY, the rest", &[0x12, 0, 0, 0, 96], Data(96)),
        ("TEST UNIT READY", &[0; 6], Good),
        ("supported pages", &[0x12, 1, 0, 0, 255], Data(11)),
        ("serial number", &[0x12, 1, 0x80, 0, 255], Data(20)),
        ("identification", &[0x12, 1, 0x83, 0, 255], Data(20)),
        ("ATA information", &[0x12, 1, 0x89, 0, 255], NoSuchField),
        ("block limits", &[0x12, 1, 0xb0, 0, 64], Data(64)),
        ("characteristics", &[0x12, 1, 0xb1, 0, 64], Data(64)),
        ("provisioning", &[0x12, 1, 0xb2, 0, 36], Data(8)),
        ("concurrent ranges", &[0x12, 1, 0xb9, 0, 64], NoSuchField),
        ("READ CAPACITY (16)", &[0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32], Data(32)),
        ("READ CAPACITY (10)", &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0], Data(8)),
        ("MODE SENSE, the header", &[0x1a, 0, 0x3f, 0, 4], Data(4)),
        ("caching page", &[0x1a, 0, 0x08, 0, 4], Data(4)),
        ("caching page, whole", &[0x1a, 0, 0x08, 0, 32], Data(32)),
        ("control page", &[0x5a, 0, 0x0a, 0, 0, 0, 0, 0, 128, 0], Data(28)),
        ("IO advice hints", &[0x5a, 0, 0x0a, 0x05, 0, 0, 0, 2, 0, 0], NoSuchField),
        ("is there WRITE SAME (16)", &[0xa3, 0x0c, 1, 0x93, 0, 0, 0, 0, 2, 0], Data(20)),
        ("is there WRITE ATOMIC (16)", &[0xa3, 0x0c, 1, 0x9c, 0, 0, 0, 0, 2, 0], Data(4)),
        ("target port groups", &[0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 1, 0], NoSuchField),
        ("zones", &[0x95, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0], NoSuchCommand),
    ]);
}

#[test]
fn windows() {
    check(&[
        ("REPORT LUNS", &[0xa0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x00], Data(32)),
        ("INQUIRY", &[0x12, 0, 0, 0, 36], Data(36)),
        ("supported pages", &[0x12, 1, 0, 0, 255], Data(11)),
        ("serial number", &[0x12, 1, 0x80, 0, 255], Data(20)),
        ("identification", &[0x12, 1, 0x83, 0, 255], Data(20)),
        ("block limits", &[0x12, 1, 0xb0, 0, 64], Data(64)),
        ("characteristics", &[0x12, 1, 0xb1, 0, 64], Data(64)),
        ("provisioning", &[0x12, 1, 0xb2, 0, 8], Data(8)),
        ("third party copy (ODX)", &[0x12, 1, 0x8f, 0, 255], NoSuchField),
        ("TEST UNIT READY", &[0; 6], Good),
        ("READ CAPACITY (10)", &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0], Data(8)),
        ("READ CAPACITY (16)", &[0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32], Data(32)),
        ("all mode pages", &[0x1a, 0, 0x3f, 0, 192], Data(36)),
        ("all mode pages, long", &[0x5a, 0, 0x3f, 0, 0, 0, 0, 0, 192, 0], Data(40)),
        ("caching page", &[0x1a, 0, 0x08, 0, 192], Data(32)),
        ("caching page without blocks", &[0x1a, 8, 0x08, 0, 192], Data(24)),
        ("caching page, changeable", &[0x1a, 0, 0x48, 0, 192], Data(32)),
        ("informational exceptions", &[0x1a, 0, 0x1c, 0, 192], Data(24)),
        ("power condition", &[0x1a, 0, 0x1a, 0, 192], NoSuchField),
        ("temperature", &[0x4d, 0, 0x4d, 0, 0, 0, 0, 0x02, 0, 0], NoSuchCommand),
        ("ATA pass-through", &[0x85, 0x08, 0x0e], NoSuchCommand),
        ("START STOP UNIT, start", &[0x1b, 0, 0, 0, 1], Good),
        ("SYNCHRONIZE CACHE", &[0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0], Good),
        ("reservation keys", &[0x5e, 0, 0, 0, 0, 0, 0, 0x20, 0, 0], Data(8)),
        ("the reservation", &[0x5e, 1, 0, 0, 0, 0, 0, 0x20, 0, 0], Data(8)),
        ("reservation capabilities", &[0x5e, 2, 0, 0, 0, 0, 0, 0, 8, 0], Data(8)),
        ("LBA status", &[0x9e, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0], Data(24)),
    ]);
}

#[test]
fn esxi() {
    check(&[
        ("REPORT LUNS", &[0xa0, 0, 0, 0, 0, 0, 0, 0, 0x20, 0x00], Data(32)),
        ("INQUIRY", &[0x12, 0, 0, 0, 36], Data(36)),
        ("INQUIRY, long", &[0x12, 0, 0, 0, 255], Data(96)),
        ("supported pages", &[0x12, 1, 0, 0, 255], Data(11)),
        ("serial number", &[0x12, 1, 0x80, 0, 255], Data(20)),
        ("identification", &[0x12, 1, 0x83, 0, 255], Data(20)),
        // Without it a scan logs a failure, each time, of each path.
        ("extended INQUIRY", &[0x12, 1, 0x86, 0, 255], Data(64)),
        ("block limits", &[0x12, 1, 0xb0, 0, 255], Data(64)),
        ("characteristics", &[0x12, 1, 0xb1, 0, 255], Data(64)),
        ("provisioning", &[0x12, 1, 0xb2, 0, 255], Data(8)),
        ("a vendor's page", &[0x12, 1, 0xc0, 0, 255], NoSuchField),
        ("TEST UNIT READY", &[0; 6], Good),
        ("READ CAPACITY (10)", &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0], Data(8)),
        ("READ CAPACITY (16)", &[0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32], Data(32)),
        ("caching page", &[0x1a, 0, 0x08, 0, 255], Data(32)),
        ("control page", &[0x1a, 0, 0x0a, 0, 255], Data(24)),
        ("informational exceptions", &[0x1a, 0, 0x1c, 0, 255], Data(24)),
        ("provisioning thresholds", &[0x1a, 0, 0x1c, 0x02, 255], NoSuchField),
        ("log page", &[0x4d, 0, 0x40, 0, 0, 0, 0, 0, 255, 0], NoSuchCommand),
        ("ATA pass-through", &[0x85, 0x08, 0x0e], NoSuchCommand),
        ("target port groups", &[0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 0xff, 0], NoSuchField),
        ("EXTENDED COPY", &[0x83], NoSuchCommand),
        ("RECEIVE COPY RESULTS", &[0x84, 0x03, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0], NoSuchCommand),
        ("reservation keys", &[0x5e, 0, 0, 0, 0, 0, 0, 0x20, 0, 0], Data(8)),
        // VMFS locks the whole LUN while it makes a file system.
        ("RESERVE (6)", &[0x16, 0, 0, 0, 0], Good),
        ("RELEASE (6)", &[0x17, 0, 0, 0, 0], Good),
        ("LBA status", &[0x9e, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 24], Data(24)),
    ]);
}

/// VAAI: locks by COMPARE AND WRITE of one block, zeros by WRITE SAME (16) of a megabyte, UNMAP; and the pages that
/// ESXi reads before it uses these commands.
#[test]
fn hardware_acceleration() {
    let f = &mut Fixture::new();
    for lun in [MEMORY, LARGE] {
        let mut swap = [0; 16];
        (swap[0], swap[13]) = (0x89, 1);
        assert_eq!(f.run(lun, &swap), Outcome::Parameters { len_bytes: 1024 });
        let outcome = f.run_with(lun, &sixteen(0x93, 0, 0, 2048), &[0; 512]);
        assert!(matches!(outcome, Outcome::Composite(_)), "{outcome:?}");
        let list = [0, 22, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0];
        let outcome = f.run_with(lun, &[0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0], &list);
        assert!(matches!(outcome, Outcome::Composite(_)), "{outcome:?}");
        let limits = f.data(lun, Cdb::Inquiry { page: Some(page::BLOCK_LIMITS), allocation_len: 64 });
        let limits = BlockLimits::parse(&limits).unwrap();
        assert!(limits.compare_and_write_max > 0 && limits.unmap_max > 0 && limits.unmap_descriptors_max > 0);
        // ESXi frees space a megabyte at a time, so a larger granularity would never be met.
        assert!(limits.unmap_granularity * 512 <= 1 << 20);
        let capacity = Capacity16::parse(&f.data(lun, Cdb::ReadCapacity16 { allocation_len: 32 })).unwrap();
        assert!(capacity.thin && capacity.unmapped_reads_zero);
    }
}
