//! Long ranges: a terabyte is unmapped in few commands, since each costs a round trip.

use std::fs;
use std::os::unix::fs::MetadataExt;

use e2e::ours::Target;
use wire::scsi::{BlockForm, BlockLimits, Cdb, Sense, VpdPage, page};

use super::mounts::sparse;
use super::session::{Session, read, unmap, write};

const LEN_BYTES: u64 = 1 << 40;
const BLOCKS: u64 = LEN_BYTES / 512;

#[test]
fn a_terabyte_is_unmapped_in_twenty_commands() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("disk");
    sparse(&path, LEN_BYTES);
    let target = Target::serve(&[&format!("file:{}", path.display())]);
    let mut session = Session::open(&target);
    let limits = Cdb::Inquiry { page: Some(page::BLOCK_LIMITS), allocation_len: 64 };
    let limits = BlockLimits::parse(&session.run(0, limits, &[], 64).good()).expect("block limits");
    let most_blocks = u64::from(limits.unmap_max).min(limits.write_same_max);
    assert!(BLOCKS.div_ceil(most_blocks) <= 20, "{limits:?}");
    let empty = fs::metadata(&path).expect("the file").blocks();
    let written = [8, most_blocks - 8, BLOCKS - 8];
    let discard = |session: &mut Session, lba, blocks: u32, by_write_same: bool| {
        let (cdb, sent) = match by_write_same {
            true => {
                let form = BlockForm::Sixteen;
                (Cdb::WriteSame { form, lba, blocks, unmap: true, no_data: false }, vec![0; 512])
            }
            false => unmap(lba, blocks),
        };
        session.run(0, cdb, &sent, 0).good();
    };
    for by_write_same in [false, true] {
        for lba in written {
            session.run(0, write(lba, 8, true), &[7; 4096], 0).good();
        }
        assert!(fs::metadata(&path).expect("the file").blocks() > empty);
        let mut lba = 0;
        while lba < BLOCKS {
            let blocks = most_blocks.min(BLOCKS - lba);
            discard(&mut session, lba, blocks as u32, by_write_same);
            lba += blocks;
        }
        for lba in written {
            assert_eq!(session.run(0, read(lba, 8), &[], 4096).good(), [0; 4096], "block {lba}");
        }
        assert_eq!(fs::metadata(&path).expect("the file").blocks(), empty, "all of it is given back");
    }
    let (cdb, list) = unmap(0, most_blocks as u32 + 1);
    session.run(0, cdb, &list, 0).expect(Sense::invalid_parameter(16, None));
}
