//! Another store under the number of a LUN whose ext4 the guest has mounted: refused, or closed to the session that knows the
//! old one. udev and `sg_inq` send INQUIRY, and iscsid logs in again, by themselves; neither lets the guest write into it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::image::sha256;
use e2e::process::output;
use e2e::{need, skip};

use crate::machine::site::{Site, lun};
use crate::machine::{self, IQN, Machine};
use crate::open_iscsi::{configure, disk, login, logout};

const FORCE: &str = "replace = \"force\"";
const MIB: u64 = 64;
/// Part of the second store that the guest reads at the end.
const HEAD_BYTES: usize = 8 << 20;
/// Files of the first step, whose sums the second one checks.
const FILES: &str =
    "cp -a /usr/sbin /mnt/files; sync; cd /mnt/files; find . -type f -exec sha256sum {} + >/tmp/sums; cd /";

/// The two stores: one for ext4, and one that is full of something else.
struct Stores {
    first: PathBuf,
    second: PathBuf,
    /// Sum of the second, and of its beginning.
    sum: String,
    head_sum: String,
}

impl Stores {
    fn new(machine: &Machine) -> Stores {
        let first = machine.disk("first", MIB);
        let second = machine.folder().join("second");
        let words =
            (0..(MIB << 20) / 8).flat_map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
        let data: Vec<u8> = words.collect();
        let head = machine.folder().join("head");
        fs::write(&head, &data[..HEAD_BYTES]).and_then(|()| fs::write(&second, data)).expect("files of data");
        let (sum, head_sum) = (sha256(&second), sha256(&head));
        Stores { first, second, sum, head_sum }
    }

    #[track_caller]
    fn expect_second_untouched(&self) {
        assert_eq!(sha256(&self.second), self.sum, "the second store was written to");
    }

    /// The guest logs in anew, reads the beginning of the second store, and logs out.
    #[track_caller]
    fn expect_second_read(&self, machine: &mut Machine) {
        login(machine);
        let disk = disk(machine);
        let read = format!("dd if={disk} bs=1M count=8 iflag=direct 2>/dev/null | sha256sum | cut -d' ' -f1");
        assert_eq!(machine.run(&read), self.head_sum, "the guest reads something else from the second store");
        logout(machine);
    }
}

/// The first store is served, and its ext4 is mounted and has files. udev runs.
#[track_caller]
fn mounted(machine: &mut Machine) -> (Site, String) {
    let site = Site::start(machine, &lun(0, "first", ""));
    configure(machine, &[]);
    machine.run("/lib/systemd/systemd-udevd --daemon");
    login(machine);
    let disk = disk(machine);
    machine.run(&format!("set -e; mkfs.ext4 -q {disk}; mount {disk} /mnt; {FILES}"));
    (site, disk)
}

/// INQUIRY by hand and by udev.
#[track_caller]
fn inquire(machine: &mut Machine, disk: &str) -> String {
    machine.run(&format!("udevadm trigger --settle --action=change {disk}; sg_inq {disk} 2>&1 || true"))
}

/// Commands of the guest are answered again after its session was lost.
#[track_caller]
fn killed_and_started_again(machine: &mut Machine, site: &mut Site, luns: &str, disk: &str) {
    let device = format!("/sys/block/{}/device", disk.trim_start_matches("/dev/"));
    let state = "/sys/class/iscsi_session/session*/state";
    site.target.service.kill();
    machine.wait_for(&format!("[ $(cat {state}) = FAILED ]"));
    site.start_again(machine, luns);
    machine.wait_for(&format!("[ $(cat {state}) = LOGGED_IN ] && [ $(cat {device}/state) = running ]"));
}

/// The file system in a store is right once its journal was replayed.
#[track_caller]
fn fsck(store: &Path, replay: bool) {
    if replay {
        // 1: it was mended, which the journal is enough for.
        let code = e2e::run(Command::new("e2fsck").arg("-p").arg(store), machine::LIMIT).code;
        assert!(code <= 1, "the journal is not enough: e2fsck -p ends with {code}");
    }
    output(Command::new("e2fsck").arg("-fn").arg(store));
}

#[test]
fn a_store_is_not_replaced_under_a_mounted_file_system() {
    need!(machine::available(), skip::program("e2fsck"));
    let mut machine = Machine::boot();
    let stores = Stores::new(&machine);
    let (mut site, disk) = mounted(&mut machine);
    let refused = |site: &mut Site| {
        let said = site.reload(&lun(0, "second", ""));
        let error = said["error"].as_str().unwrap_or_default();
        for words in ["is another disk", &format!("{IQN}.initiator (ISID "), FORCE] {
            assert!(said["ok"] == false && error.contains(words), "no '{words}' in {said}");
        }
    };
    refused(&mut site);
    let told = inquire(&mut machine, &disk);
    assert!(told.contains("farlun") && !told.contains("PQual=3"), "{told}");
    machine.run("set -e; cp -a /usr/bin /mnt/more; sync");
    // The session of a lost connection is the same nexus, before and after its next login.
    killed_and_started_again(&mut machine, &mut site, &lun(0, "first", ""), &disk);
    refused(&mut site);
    machine.run("set -e; cp -a /usr/lib/udev /mnt/again; sync");
    inquire(&mut machine, &disk);
    refused(&mut site);
    machine.run("set -e; cd /mnt/files; sha256sum --quiet -c /tmp/sums; cd /; umount /mnt");
    stores.expect_second_untouched();
    fsck(&stores.first, false);
    // A logout ends the nexus.
    logout(&mut machine);
    let said = site.reload(&lun(0, "second", ""));
    assert_eq!(said["ok"], true, "{said}");
    stores.expect_second_read(&mut machine);
}

#[test]
fn a_store_that_is_forced_in_is_never_written_to() {
    need!(machine::available(), skip::program("e2fsck"));
    let mut machine = Machine::boot();
    let stores = Stores::new(&machine);
    let (mut site, disk) = mounted(&mut machine);
    // A writer at work; what it says when the disk is gone is of no account.
    machine.start(
        "writer",
        "n=0; while [ ! -e /run/enough ]; do n=$((n + 1)); dd if=/dev/urandom of=/mnt/new-$n bs=64k count=4 conv=fsync || sleep 0.1; done; exit 0",
    );
    machine.wait_for("[ -e /mnt/new-5 ]");
    let forced = lun(0, "second", FORCE);
    let said = site.reload(&forced);
    let cut_off = &said["cut_off"][0];
    let session = cut_off["sessions"][0].as_str().unwrap_or_default();
    assert!(
        said["ok"] == true && cut_off["lun"] == 0 && session.starts_with(&format!("{IQN}.initiator (ISID ")),
        "{said}"
    );
    machine.wait_for("dmesg | grep -q 'Logical unit not supported'");
    let closed = |machine: &mut Machine| {
        let told = inquire(machine, &disk);
        assert!(told.contains("PQual=3") || told.contains("PDT=0x1f"), "{told}");
        let written =
            machine.try_run(&format!("dd if=/dev/zero of={disk} bs=4k count=1 oflag=direct conv=notrunc"));
        assert_ne!(written.code, 0, "{written:?}");
        stores.expect_second_untouched();
    };
    closed(&mut machine);
    // A session that was lost is made again by iscsid, and is the same nexus.
    killed_and_started_again(&mut machine, &mut site, &forced, &disk);
    closed(&mut machine);
    machine.run("touch /run/enough");
    machine.finish("writer");
    machine.run("umount -l /mnt");
    stores.expect_second_untouched();
    fsck(&stores.first, true);
    // A logout ends the nexus, and the disk of the next session is the second store.
    logout(&mut machine);
    stores.expect_second_read(&mut machine);
}
