//! Both proofs once more over the emulated path at 8 ms one way, 1 Gb/s. `cargo xtask test` fails in CI if none of
//! these could run.

use std::fs;
use std::time::Duration;

use e2e::image::{self, Image};
use e2e::path::{self, FAR};
use e2e::{farlun_path, need, port, skip, tgtd};

const LIMIT: Duration = Duration::from_secs(240);

/// A shell function: tries a command for a minute, then once more with its words shown.
const PATIENTLY: &str = r#"patiently() {
    n=0
    until "$@" >/dev/null 2>&1; do
        n=$((n + 1))
        if [ $n -ge 600 ]; then "$@"; return; fi
        sleep 0.1
    done
}
"#;

const OURS: &str = "iqn.2026-11.io.farlun:path";

/// The far script that serves one memory LUN of the image's size by our target.
fn our_target(image: &Image) -> String {
    let farlun = farlun_path().display();
    let size = image.size();
    format!("exec {farlun} target --json --insecure --iqn {OURS} --lun memory:{size} --listen {FAR}:3260")
}

#[test]
fn both_ends_ours() {
    need!(path::available(), image::available());
    let image = Image::ext4();
    let (original, copy) = (image.path(), image.file("copy"));
    let near = format!(
        "farlun={}\nurl=iscsi://{FAR}/{OURS}/0\n\
         $farlun ls iscsi://{FAR}\n$farlun inquiry $url\n\
         $farlun write $url -i {}\n$farlun read $url -o {}",
        farlun_path().display(),
        original.display(),
        copy.display()
    );
    let document = path::over_8ms(&our_target(&image), &near, LIMIT);
    image.expect_copy(&copy);
    assert_eq!(document["path"]["delay_ns"], 8_000_000, "{document}");
    assert_eq!(document["path"]["rate_bits_per_s"], 1_000_000_000, "{document}");
}

/// Between two looks at a slow line hardly a packet arrives, and nothing comes back until the whole request is there.
#[test]
fn a_slow_line_is_no_silence() {
    need!(path::available());
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("some");
    fs::write(&file, vec![7; 256 << 10]).expect("a file");
    let farlun = farlun_path().display();
    let far =
        format!("exec {farlun} target --json --insecure --iqn {OURS} --lun memory:1MiB --listen {FAR}:3260");
    let near = format!(
        "{PATIENTLY}\npatiently {farlun} ls iscsi://{FAR} --timeout 1s\n\
         exec {farlun} write iscsi://{FAR}/{OURS}/0 -i {} --json --timeout 2s",
        file.display()
    );
    let document = path::over(["--delay", "8ms", "--rate", "512kbit"], &far, &near, LIMIT);
    let written = document["near"]["output"].to_string();
    assert!(written.contains("\"reconnects\":0"), "{document}");
}

#[test]
fn raw_stream() {
    need!(path::available());
    let farlun = farlun_path().display();
    let far = format!("exec {farlun} stream serve --json --listen {FAR}:5201");
    let near = format!("exec {farlun} stream {FAR}:5201 --json --time 3s");
    let document = path::over_8ms(&far, &near, LIMIT);
    let output = &document["near"]["output"];
    assert_eq!(output["kind"], "stream", "{document}");
    assert!(output["bytes_per_s"].as_f64() > Some(0.0), "{document}");
    assert!(output["base_rtt_ns"].as_f64() >= Some(16e6), "the path delays both ways: {document}");
}

#[test]
fn libiscsi_and_qemu_to_our_target() {
    need!(path::available(), skip::program("iscsi-ls"), skip::qemu_iscsi(), image::available());
    let image = Image::ext4();
    let (original, copy) = (image.path(), image.file("copy"));
    let (original, copy_path) = (original.display(), copy.display());
    let near = format!(
        "url=iscsi://{FAR}:3260/{OURS}/0\n\
         iscsi-ls -s iscsi://{FAR}:3260 | grep -q DIRECT_ACCESS\n\
         iscsi-inq $url | grep -q DIRECT_ACCESS\n\
         iscsi-readcapacity16 $url | grep -q 'Total size:{}'\n\
         iscsi-perf -m 32 -b 256 -t 1 -x 0 $url >/dev/null\n\
         qemu-img convert -n -f raw -O raw {original} $url\n\
         qemu-img compare -f raw -F raw {original} $url\n\
         qemu-img convert -f raw -O raw $url {copy_path}",
        image.bytes
    );
    path::over_8ms(&our_target(&image), &near, LIMIT);
    image.expect_copy(&copy);
}

#[test]
fn our_initiator_to_tgt() {
    need!(path::available(), tgtd::available(), image::available());
    let image = Image::ext4();
    let (disk, copy) = (image.file("disk"), image.file("copy"));
    let file = fs::File::create(&disk).expect("a file for the disk");
    file.set_len(image.bytes).expect("room for the disk");
    // The far end has its own network, but tgt's control sockets lie in the file system: a number of our own again.
    let control = port::unused().to_string();
    let far = format!(
        "{PATIENTLY}tgtd -f -C {control} --iscsi portal={FAR}:3260 &\n\
         daemon=$!\n\
         trap 'kill -KILL $daemon; rm -f /var/run/tgtd/socket.{control} /var/run/tgtd/socket.{control}.lock; exit 0' TERM\n\
         patiently tgtadm -C {control} --op show --mode sys\n\
         {}wait $daemon",
        tgtd::configuration(&control, &disk)
    );
    let near = format!(
        "{PATIENTLY}farlun={}\nurl=iscsi://{FAR}:3260/{}/1\n\
         patiently $farlun inquiry $url\n\
         $farlun ls iscsi://{FAR}:3260\n\
         $farlun write $url -i {}\n\
         $farlun read $url -o {}",
        farlun_path().display(),
        tgtd::IQN,
        image.path().display(),
        copy.display()
    );
    path::over_8ms(&far, &near, LIMIT);
    image.expect_copy(&copy);
}
