//! Long ranges: a terabyte is unmapped in few commands, since each costs a round trip.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use e2e::ours::Target;
use e2e::{farlun, run};
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

#[test]
fn our_own_command_discards_a_terabyte_in_twenty_commands() {
    const MINUTE: Duration = Duration::from_secs(60);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("disk");
    sparse(&path, LEN_BYTES);
    let target = Target::serve(&[&format!("file:{}", path.display())]);
    let mut session = Session::open(&target);
    let used = || fs::metadata(&path).expect("the file").blocks();
    let empty = used();
    let places = [8, BLOCKS / 2, BLOCKS - 8];
    let mut fill = || {
        for lba in places {
            session.run(0, write(lba, 8, true), &[7; 4096], 0).good();
        }
    };
    let discard = |flags: &[&str]| run(farlun(["discard", &target.url(0), "--json"]).args(flags), MINUTE);
    fill();
    let full = used();
    discard(&[]).expect_code(2).expect_sentence(&["expected --overwrite"]);
    discard(&["--overwrite", "--offset", "100"]).expect_code(2).expect_sentence(&["a multiple of 512 bytes"]);
    discard(&["--overwrite", "--length", "2TiB"]).expect_code(2).expect_sentence(&["to the end of the LUN"]);
    assert_eq!(used(), full, "nothing is discarded");
    // The ends stay.
    let done = discard(&["--overwrite", "--offset", "8192", "--length", "1000GiB"]).expect_code(0).json();
    assert_eq!(done["bytes"], 1000_u64 << 30, "{done}");
    for (lba, byte) in places.into_iter().zip([7, 0, 7]) {
        assert_eq!(session.run(0, read(lba, 8), &[], 4096).good(), [byte; 4096], "block {lba}");
    }
    let done = discard(&["--overwrite"]).expect_code(0).json();
    assert_eq!(
        (&done["bytes"], &done["reconnects"], &done["flushed"]),
        (&LEN_BYTES.into(), &0.into(), &true.into())
    );
    assert!(done["commands"].as_u64().is_some_and(|commands| (1..=20).contains(&commands)), "{done}");
    assert_eq!(used(), empty, "all of it is given back");
    let said = run(&mut farlun(["discard", &target.url(0), "--overwrite"]), MINUTE).expect_code(0).stdout;
    assert!(said.starts_with("1TiB discarded in ") && said.contains(" commands of "), "{said}");
}
