//! Discards of Linux on LUNs of terabytes: a command covers gigabytes, since each costs a round trip.

use std::time::Instant;

use e2e::need;

use crate::machine::{self, Machine};
use crate::open_iscsi::{commands_sent, configure, disk, login, logout};

/// Bytes that a discard of Linux has at most: 32 bits of them, in whole discard granularities of 4 KiB.
const DISCARD_MAX_BYTES: u64 = (4 << 30) - 4096;
/// Bytes that mkfs.ext4 discards at a time.
const MKFS_STEP_BYTES: u64 = 2 << 30;
const TIB: u64 = 1 << 40;

/// A guest with a disk in a sparse file of so many TiB.
#[track_caller]
fn with_disk(tib: u64) -> (Machine, e2e::ours::Target, String) {
    let mut machine = Machine::boot();
    let lun = format!("file:{}", machine.disk("disk", tib << 20).display());
    let target = machine.serve(["--insecure", "--lun", &lun]);
    configure(&mut machine, &[]);
    login(&mut machine);
    let disk = disk(&mut machine);
    (machine, target, disk)
}

/// Discards that a disk has completed, and their bytes.
#[track_caller]
fn discards(machine: &mut Machine, disk: &str) -> (u64, u64) {
    let name = disk.trim_start_matches("/dev/");
    let text = machine.run(&format!("awk '{{ print $12, $14 }}' /sys/block/{name}/stat"));
    let numbers: Vec<u64> = text.split(' ').map(|word| word.parse().expect("a number")).collect();
    (numbers[0], numbers[1] * 512)
}

#[test]
fn blkdiscard_of_a_tebibyte() {
    need!(machine::available());
    let (mut machine, _target, disk) = with_disk(1);
    // Both ends and a place between hold something.
    let places = [0, (TIB >> 20) / 2, (TIB >> 20) - 1];
    for place in places {
        machine.run(&format!(
            "dd if=/dev/urandom of={disk} bs=1M count=1 seek={place} oflag=direct 2>/dev/null"
        ));
    }
    // A long path: one way of it is delayed, by the whole round trip.
    machine.run("set -e; modprobe sch_netem; tc qdisc add dev eth0 root netem delay 20ms");
    let before = commands_sent(&mut machine);
    let began = Instant::now();
    machine.run(&format!("blkdiscard {disk}"));
    let seconds = began.elapsed().as_secs_f64();
    let commands = commands_sent(&mut machine) - before;
    println!("{commands} commands in {seconds:.1} s");
    assert_eq!(discards(&mut machine, &disk), (TIB.div_ceil(DISCARD_MAX_BYTES), TIB));
    // Between the two counts udev may ask the disk something.
    assert!(commands <= 260, "{commands} commands for 1 TiB");
    let left = std::fs::metadata(machine.folder().join("disk")).expect("the file");
    assert_eq!(std::os::unix::fs::MetadataExt::blocks(&left), 0, "the file holds something");
    for place in places {
        let zeros = format!(
            "dd if={disk} bs=1M count=1 skip={place} iflag=direct 2>/dev/null | cmp -n 1048576 - /dev/zero"
        );
        machine.run(&zeros);
    }
    logout(&mut machine);
}

#[test]
fn mkfs_on_eight_tebibytes() {
    need!(machine::available());
    let (mut machine, _target, disk) = with_disk(8);
    let before = commands_sent(&mut machine);
    machine.run(&format!("mkfs.ext4 -q {disk}"));
    let commands = commands_sent(&mut machine) - before;
    let (count, bytes) = discards(&mut machine, &disk);
    println!("{commands} commands, of which {count} discards of {bytes} bytes");
    // One command for each of its steps, which wait for each other, and one for the journal; the rest are writes in a queue.
    assert!(bytes >= 8 * TIB && count <= 8 * TIB / MKFS_STEP_BYTES + 8, "{count} discards of {bytes} bytes");
    assert!(commands - count <= 6000, "{commands} commands beside {count} discards");
    machine.run(&format!("set -e; mount {disk} /mnt; cp -a /usr/lib/udev /mnt; umount /mnt"));
    logout(&mut machine);
}
