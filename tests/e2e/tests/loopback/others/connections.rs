//! Several connections in a session and several sessions at once, with tgt and with our own target.

use std::fs;
use std::time::Duration;

use e2e::image::{self, Image};
use e2e::ours::Target;
use e2e::tgtd::{self, Tgtd};
use e2e::{farlun, need, run};

const MINUTE: Duration = Duration::from_secs(60);
const ROOM: &str = "has room for";

/// An image, and a tgtd with an empty disk of its size whose sessions may have so many connections.
fn set_up(connections: &str) -> (Image, Tgtd) {
    let image = Image::ext4();
    let disk = image.file("disk");
    let file = fs::File::create(&disk).expect("a file for the disk");
    file.set_len(image.bytes).expect("room for the disk");
    let tgtd = Tgtd::serve(&disk);
    tgtd.set("MaxConnections", connections);
    (image, tgtd)
}

#[test]
fn an_image_over_as_many_connections_as_tgt_offers() {
    need!(tgtd::available(), image::available());
    for (wanted, offered, found) in [("4", "4", 4), ("4", "3", 3), ("3", "1", 1)] {
        let (image, tgtd) = set_up(offered);
        let url = tgtd.url(1);
        let flags = ["--connections", wanted, "--timeout", "10s", "--json"];
        let written = run(farlun(["write", &url, "-i"]).arg(image.path()).args(flags), MINUTE);
        let copy = image.file("copy");
        let read = run(farlun(["read", &url, "-o"]).arg(&copy).args(flags), MINUTE);
        for finished in [written.expect_code(0), read.expect_code(0)] {
            let told = finished.stderr.matches(ROOM).count();
            assert_eq!(told, usize::from(found < wanted.parse().expect("a number")), "{finished:#?}");
            assert_eq!(finished.json()["connections"], found, "{finished:#?}");
        }
        image.expect_copy(&copy);
        image.expect_copy(&image.file("disk"));
    }
}

#[test]
fn an_image_over_several_connections_of_our_own() {
    const LEN: usize = 48 << 20;
    let folder = tempfile::tempdir().expect("a folder");
    let (source, copy) = (folder.path().join("image"), folder.path().join("copy"));
    let mut seed = 1_u64;
    let words = std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        seed.to_le_bytes()
    });
    let whole: Vec<u8> = words.take(LEN / 8).flatten().collect();
    fs::write(&source, &whole).expect("an image");
    for connections in ["2", "3", "8"] {
        // A LUN that was written before would hide what does not arrive.
        let target = Target::serve(&["memory:48MiB"]);
        let url = target.url(0);
        let flags = ["--connections", connections];
        run(farlun(["write", &url, "-i"]).arg(&source).args(flags), MINUTE).expect_code(0);
        run(farlun(["read", &url, "-o"]).arg(&copy).args(flags), MINUTE).expect_code(0);
        assert!(fs::read(&copy).expect("a copy") == whole, "{connections} connections");
        fs::remove_file(&copy).expect("the copy is there");
    }
}

#[test]
fn loads_over_several_connections_and_sessions() {
    need!(tgtd::available(), image::available());
    let (_image, tgtd) = set_up("4");
    let ours = Target::serve(&["memory:16MiB"]);
    for url in [tgtd.url(1), ours.url(0)] {
        let flags =
            ["--op", "read,write", "--overwrite", "--depth", "16", "--random", "--time", "1s", "--json"];
        let many = ["--sessions", "3", "--connections", "2"];
        let finished = run(farlun(["bench", &url]).args(flags).args(many), MINUTE).expect_code(0);
        for document in finished.json().as_array().expect("reads and writes") {
            assert_eq!(
                (&document["sessions"], &document["reconnects"]),
                (&3.into(), &0.into()),
                "{document}"
            );
            let bytes = document["ios"].as_u64().map(|ios| ios * 4096);
            assert!(bytes > Some(0) && document["bytes"].as_u64() == bytes, "{document}");
        }
    }
}
