//! A real file system through QEMU's initiator onto our target and back.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use e2e::image::{self, Image};
use e2e::ours::Target;
use e2e::{need, run, skip};

/// Copies and compares with `qemu-img`, raw on both sides.
#[track_caller]
fn qemu_img(args: &[&str]) {
    run(Command::new("qemu-img").args(args), Duration::from_secs(180)).expect_code(0);
}

/// Writes the image onto the LUN, compares, reads it back and checks the file system.
#[track_caller]
fn round_trip(image: &Image, url: &str) {
    let (original, copy) = (image.path(), image.file("copy"));
    let text = |path: &Path| path.to_str().expect("a path of plain characters").to_owned();
    qemu_img(&["convert", "-n", "-f", "raw", "-O", "raw", &text(&original), url]);
    qemu_img(&["compare", "-f", "raw", "-F", "raw", &text(&original), url]);
    qemu_img(&["convert", "-f", "raw", "-O", "raw", url, &text(&copy)]);
    image.expect_copy(&copy);
}

#[test]
fn ext4_onto_a_memory_lun_and_back() {
    need!(skip::qemu_iscsi(), image::available());
    let image = Image::ext4();
    let target = Target::serve(&[&format!("memory:{}", image.size())]);
    round_trip(&image, &target.url(0));
}

#[test]
fn ext4_onto_a_file_lun_and_back() {
    need!(skip::qemu_iscsi(), image::available());
    let image = Image::ext4();
    let disk = image.file("disk");
    let file = std::fs::File::create(&disk).expect("a file for the LUN");
    file.set_len(image.bytes).expect("room for the LUN");
    let mut target = Target::serve(&[&format!("file:{}", disk.display())]);
    round_trip(&image, &target.url(0));
    assert_eq!(target.service.terminate(), 0, "a target that is asked to end ends well");
    image.expect_copy(&disk);
}
