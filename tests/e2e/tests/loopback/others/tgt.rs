//! Our initiator against Debian's tgt: discovery, inquiry, an image written and read back, a LUN that is not there.

use std::fs;
use std::time::Duration;

use e2e::image::{self, Image};
use e2e::tgtd::{self, Tgtd};
use e2e::{farlun, need, run};

const MINUTE: Duration = Duration::from_secs(60);

/// An image, and a tgtd with an empty disk of its size.
fn set_up() -> (Image, Tgtd) {
    let image = Image::ext4();
    let disk = image.file("disk");
    let file = fs::File::create(&disk).expect("a file for the disk");
    file.set_len(image.bytes).expect("room for the disk");
    let tgtd = Tgtd::serve(&disk);
    (image, tgtd)
}

#[test]
fn discovery_and_inquiry() {
    need!(tgtd::available(), image::available());
    let (_image, tgtd) = set_up();
    let listed = run(&mut farlun(["ls", &tgtd.portal(), "--json"]), MINUTE).expect_code(0);
    assert!(listed.json().to_string().contains(tgtd::IQN), "{listed:#?}");
    let described = run(&mut farlun(["inquiry", &tgtd.url(1), "--json"]), MINUTE).expect_code(0);
    let text = described.json().to_string();
    assert!(text.contains("IET") && text.contains("VIRTUAL-DISK"), "{described:#?}");
    for command in [["ls", &tgtd.portal()], ["inquiry", &tgtd.url(1)]] {
        let said = run(&mut farlun(command), MINUTE).expect_code(0);
        assert!(!said.stdout.trim().is_empty(), "without --json it is written for people\n{said:#?}");
    }
}

#[test]
fn image_written_and_read_back() {
    need!(tgtd::available(), image::available());
    let (image, tgtd) = set_up();
    let url = tgtd.url(1);
    run(farlun(["write", &url, "--json", "-i"]).arg(image.path()), MINUTE).expect_code(0);
    let copy = image.file("copy");
    run(farlun(["read", &url, "--json", "-o"]).arg(&copy), MINUTE).expect_code(0);
    image.expect_copy(&copy);
    image.expect_copy(&image.file("disk"));
}

#[test]
fn a_part_in_the_middle() {
    need!(tgtd::available(), image::available());
    let (image, tgtd) = set_up();
    let url = tgtd.url(1);
    run(farlun(["write", &url, "-i"]).arg(image.path()), MINUTE).expect_code(0);
    let part = image.file("part");
    let mut read = farlun(["read", &url, "--offset", "1MiB", "--length", "3MiB", "-o"]);
    run(read.arg(&part), MINUTE).expect_code(0);
    let whole = fs::read(image.path()).expect("the image");
    let part = fs::read(&part).expect("the part");
    assert!(part == whole[1 << 20..4 << 20], "the part differs from the same part of the image");
}

#[test]
fn a_lun_that_is_not_there() {
    need!(tgtd::available(), image::available());
    let (image, tgtd) = set_up();
    let copy = image.file("copy");
    let finished = run(farlun(["read", &tgtd.url(7), "-o"]).arg(&copy), MINUTE);
    finished.expect_code(1).expect_sentence(&["lun 7", "no lun", "logical unit"]);
    assert!(!copy.exists(), "nothing was read, so there is no file");
}

#[test]
fn a_lun_is_discarded_where_it_is_thin() {
    need!(tgtd::available(), image::available());
    let (image, tgtd) = set_up();
    let url = tgtd.url(1);
    run(farlun(["write", &url, "-i"]).arg(image.path()), MINUTE).expect_code(0);
    let discard = || run(&mut farlun(["discard", &url, "--overwrite", "--offset", "1MiB", "--json"]), MINUTE);
    discard().expect_code(1).expect_sentence(&["found no unmap"]);
    image.expect_copy(&image.file("disk"));
    tgtd.set_disk("thin_provisioning=1");
    let done = discard().expect_code(0).json();
    assert_eq!(done["bytes"], image.bytes - (1 << 20), "{done}");
    let (before, after) =
        (fs::read(image.path()).expect("the image"), fs::read(image.file("disk")).expect("the disk"));
    assert!(after[..1 << 20] == before[..1 << 20], "more was discarded");
    assert!(after[1 << 20..].iter().all(|byte| *byte == 0), "something is left");
}
