//! LUNs with blocks of 4096 bytes, as other people's initiators and ours see them.

use std::process::Command;
use std::time::Duration;

use e2e::image::{self, Image};
use e2e::ours::Target;
use e2e::process::output;
use e2e::{farlun, need, run, skip};

const MINUTES: Duration = Duration::from_secs(180);

/// The same image, as LUNs of every kind that keeps it.
#[track_caller]
fn luns(image: &Image) -> Target {
    let disk = image.file("disk");
    super::mounts::sparse(&disk, image.bytes);
    Target::serve(&[
        &format!("memory:{},block=4096", image.size()),
        &format!("file:{},block=4096", disk.display()),
    ])
}

#[test]
fn our_initiator_writes_and_reads_them() {
    need!(image::available());
    let image = Image::ext4();
    let target = luns(&image);
    for lun in [0, 1] {
        let copy = image.file(&format!("copy{lun}"));
        run(farlun(["write", &target.url(lun), "-i"]).arg(image.path()), MINUTES).expect_code(0);
        run(farlun(["read", &target.url(lun), "-o"]).arg(&copy), MINUTES).expect_code(0);
        image.expect_copy(&copy);
        let load = [
            "--op",
            "read,write",
            "--overwrite",
            "--random",
            "--block",
            "4KiB",
            "--depth",
            "8",
            "--time",
            "1s",
        ];
        run(farlun(["bench", &target.url(lun)]).args(load), MINUTES).expect_code(0);
    }
}

#[test]
fn qemu_writes_and_reads_them() {
    need!(skip::qemu_iscsi(), skip::program("iscsi-readcapacity16"), image::available());
    let image = Image::ext4();
    let target = luns(&image);
    let path = image.path();
    let original = path.to_str().expect("a path of plain characters");
    for lun in [0, 1] {
        let url = target.url(lun);
        let said = output(Command::new("iscsi-readcapacity16").arg(&url));
        assert!(said.contains("LOGICAL BLOCK LENGTH IN BYTES:4096"), "{said}");
        let qemu = |args: &[&str]| run(Command::new("qemu-img").args(args), MINUTES).expect_code(0);
        qemu(&["convert", "-n", "-f", "raw", "-O", "raw", original, &url]);
        qemu(&["compare", "-f", "raw", "-F", "raw", original, &url]);
    }
}
