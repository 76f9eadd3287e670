//! Block devices as LUNs: their sizes, their bytes, and who is refused.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::time::Duration;

use e2e::ours::Target;
use e2e::process::output;
use e2e::{farlun, need, run};
use wire::scsi::{Capacity16, Cdb, Sense};

use super::mounts::{self, Loop, Mount, sparse};
use super::session::{Session, read, synchronize, unmap, write};

const LEN_BYTES: u64 = 16 << 20;

/// The size of a LUN: blocks, bytes per block, logical blocks per physical one as a power of two.
fn capacity(session: &mut Session, lun: u16) -> (u64, u32, u8) {
    let data = session.run(lun, Cdb::ReadCapacity16 { allocation_len: 32 }, &[], 32).good();
    let capacity = Capacity16::parse(&data).expect("READ CAPACITY (16) data");
    (capacity.last_lba + 1, capacity.block_len, capacity.physical_block_exponent)
}

#[test]
fn a_device_is_served_as_it_is() {
    need!(mounts::available());
    let folder = tempfile::tempdir().expect("a folder");
    let (small, large) = (folder.path().join("small"), folder.path().join("large"));
    sparse(&small, LEN_BYTES);
    sparse(&large, LEN_BYTES);
    let (small_device, large_device) = (Loop::over(&small, 512), Loop::over(&large, 4096));
    let state = folder.path().join("state").display().to_string();
    let luns = [
        &*format!("block:{}", small_device.path.display()),
        &format!("block:{},direct=on", large_device.path.display()),
    ];
    let target = Target::serve_with(&luns, &["--state", &state]);
    let mut session = Session::open(&target);
    let (blocks, block_len, _) = capacity(&mut session, 0);
    assert_eq!((blocks, block_len), (LEN_BYTES / 512, 512));
    assert_eq!(capacity(&mut session, 1), (LEN_BYTES / 4096, 4096, 0));

    session.run(0, write(8, 8, false), &[7; 4096], 0).good();
    session.run(1, write(2, 2, false), &[9; 8192], 0).good();
    assert_eq!(
        session.run(0, read(7, 10), &[], 5120).good(),
        [&[0; 512][..], &[7; 4096], &[0; 512]].concat()
    );
    assert_eq!(session.run(1, read(3, 2), &[], 8192).good(), [[9; 4096], [0; 4096]].concat());
    for lun in [0, 1] {
        session.run(lun, synchronize(), &[], 0).good();
    }
    assert!(fs::read(&small).expect("the file")[4096..8192].iter().all(|&byte| byte == 7));
    assert!(fs::read(&large).expect("the file")[8192..16384].iter().all(|&byte| byte == 9));

    // A loop device gives back what is unmapped.
    let before = fs::metadata(&large).expect("the file").blocks();
    let (cdb, list) = unmap(2, 2);
    session.run(1, cdb, &list, 0).good();
    assert!(session.run(1, read(2, 2), &[], 8192).good().iter().all(|&byte| byte == 0));
    session.run(1, synchronize(), &[], 0).good();
    assert!(fs::metadata(&large).expect("the file").blocks() < before);
    session.run(0, read(LEN_BYTES / 512, 1), &[], 512).expect(Sense::LBA_OUT_OF_RANGE);
}

#[test]
fn a_device_in_use_is_refused() {
    need!(mounts::available());
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("disk");
    sparse(&file, LEN_BYTES);
    let state = folder.path().join("state").display().to_string();
    let device = Loop::over(&file, 4096);
    let spec = format!("block:{}", device.path.display());
    let refused = |spec: &str, code: i32, words: &[&str]| {
        let mut command = farlun(["target", "--listen", "127.0.0.1:0", "--state", &state, "--lun", spec]);
        run(&mut command, Duration::from_secs(60)).expect_code(code).expect_sentence(words);
    };
    refused(&format!("{spec},block=512"), 2, &["cannot be served in smaller ones", "block=4096"]);
    refused(&format!("file:{}", device.path.display()), 2, &["use block:DEVICE"]);
    output(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&device.path));
    let mount = Mount::device(&device.path, &folder.path().join("mnt"));
    refused(&spec, 1, &["in use: mounted"]);
    drop(mount);
    let _target = Target::serve_with(&[&spec], &["--state", &state]);
    refused(&spec, 1, &["in use"]);
    let mounted = Command::new("mount").arg(&device.path).arg(folder.path().join("mnt")).output();
    assert!(!mounted.expect("mount runs").status.success(), "a device that is served cannot be mounted");
}
