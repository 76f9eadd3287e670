//! A LUN that grows while the guest has its ext4 mounted.

use std::process::Command;

use e2e::process::output;
use e2e::{need, skip};
use serde_json::json;

use crate::machine::site::{Site, lun, set_mib};
use crate::machine::{self, Machine};
use crate::open_iscsi::{configure, disk, login, logout};

/// Rule of udev with which Linux takes a new size by itself, as the manual has it (`docs/reference/target-reload.md`).
const RULE: &str =
    r#"ACTION=="change", SUBSYSTEM=="scsi", ENV{SDEV_UA}=="CAPACITY_DATA_HAS_CHANGED", ATTR{rescan}="1""#;

#[test]
fn ext4_grows_with_its_lun() {
    need!(machine::available(), skip::program("e2fsck"));
    let mut machine = Machine::boot();
    let file = machine.disk("disk", 64);
    let second = machine.disk("second", 16);
    let luns = lun(0, "disk", "") + &lun(1, "second", "");
    let mut site = Site::start(&machine, &luns);
    configure(&mut machine, &[]);
    machine.run("/lib/systemd/systemd-udevd --daemon");
    login(&mut machine);
    let disk = disk(&mut machine);
    let sectors = format!("/sys/block/{}/size", disk.trim_start_matches("/dev/"));
    machine.run(&format!(
        "set -e; mkfs.ext4 -q {disk}; mount {disk} /mnt; cp -a /usr/sbin /mnt/files; cd /mnt/files\n\
         find . -type f -exec sha256sum {{}} + >/tmp/sums"
    ));
    machine.start(
        "writer",
        "while [ ! -e /run/enough ]; do dd if=/dev/zero of=/mnt/log bs=16k count=8 conv=fsync 2>/dev/null || exit 1; done",
    );
    for (before_mib, mib, by) in [(64, 128, "a rescan"), (128, 192, "udev")] {
        if by == "udev" {
            machine.run(&format!(
                "echo '{RULE}' >/etc/udev/rules.d/60-farlun-resize.rules; udevadm control --reload"
            ));
        }
        set_mib(&file, mib);
        let said = site.reload(&luns);
        let grown = json!([{"lun": 0, "before_bytes": before_mib << 20, "bytes": mib << 20}]);
        assert_eq!((&said["ok"], &said["grown"]), (&json!(true), &grown), "{said}");
        if by == "a rescan" {
            machine.wait_for("dmesg | grep -q 'Capacity data has changed'");
            assert_eq!(machine.run(&format!("cat {sectors}")), (before_mib << 11).to_string());
            machine.run("iscsiadm -m session -R");
        }
        machine.wait_for(&format!("[ $(cat {sectors}) = {} ]", mib << 11));
        machine.run(&format!(
            "set -e; resize2fs {disk} 2>&1; [ $(stat -fc %b /mnt) -gt $(({before_mib} * 1024 * 1024 / $(stat -fc %S /mnt))) ]\n\
             dd if=/dev/urandom of=/mnt/grown-{mib} bs=1M count=30 conv=fsync 2>/dev/null"
        ));
    }
    // A shrunk store changes nothing, for no LUN.
    set_mib(&second, 8);
    set_mib(&file, 200);
    let said = site.reload(&luns);
    let error = said["error"].as_str().unwrap_or_default();
    assert!(said["ok"] == false && error.contains("has shrunk from 16777216 to 8388608 bytes"), "{said}");
    machine.run("set -e; iscsiadm -m session -R; udevadm settle");
    assert_eq!(machine.run(&format!("cat {sectors}")), (192 << 11).to_string(), "it has grown all the same");
    machine.run("touch /run/enough");
    machine.finish("writer");
    machine.run(&format!(
        "set -e; cd /mnt/files; sha256sum --quiet -c /tmp/sums; cd /; umount /mnt\n\
         e2fsck -fn {disk} >/tmp/said 2>&1 || {{ cat /tmp/said; exit 1; }}"
    ));
    logout(&mut machine);
    set_mib(&file, 192);
    output(Command::new("e2fsck").arg("-fn").arg(&file));
}
