//! The clients of others: nbdinfo and nbdcopy of libnbd, QEMU, fio.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use e2e::image::{Image, sha256};
use e2e::ours::NbdServer;
use e2e::process::{Finished, output};
use e2e::{image, need, run, skip};
use serde_json::{Value, json};

use super::raw::pattern;

const LIMIT: Duration = Duration::from_secs(180);

/// A file of this size without data.
fn sparse(dir: &Path, name: &str, len_bytes: u64) -> String {
    let path = dir.join(name);
    File::create(&path).and_then(|file| file.set_len(len_bytes)).expect("a file for the export");
    format!("file:{}", path.display())
}

fn nbdinfo(args: &[&str]) -> Value {
    let text = output(Command::new("nbdinfo").arg("--json").args(args));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn nbdcopy(args: &[&str]) -> Finished {
    run(Command::new("nbdcopy").args(args), LIMIT)
}

fn text(path: &Path) -> String {
    path.to_str().expect("a path of plain characters").to_owned()
}

#[test]
fn size_and_flags_are_those_of_the_device() {
    need!(skip::program("nbdinfo"));
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = sparse(dir.path(), "disk", 64 << 20);
    let check = |spec: &str, flags: &[&str], minimum: u32, expected: Value| {
        let mut all = vec!["--listen", "127.0.0.1:0"];
        all.extend(flags);
        let server = NbdServer::serve_with(spec, &all);
        let info = nbdinfo(&[&server.uri()]);
        let export = &info["exports"][0];
        assert_eq!(info["structured"], true, "{spec}: {info:#}");
        assert_eq!(export["export-size"], 64 << 20, "{spec}: {info:#}");
        assert_eq!(export["contexts"], json!(["base:allocation"]), "{spec}: {info:#}");
        assert_eq!(export["block_size_minimum"], minimum, "{spec}: {info:#}");
        assert_eq!(export["block_size_preferred"], 4096, "{spec}: {info:#}");
        assert_eq!(export["block_size_maximum"], 32 << 20, "{spec}: {info:#}");
        assert_eq!(export["can_multi_conn"], true, "{spec}: {info:#}");
        assert_eq!(export["can_df"], true, "{spec}: {info:#}");
        for (name, value) in expected.as_object().expect("flags") {
            assert_eq!(export[name], *value, "{spec}: {name} in {info:#}");
        }
    };
    let changes = |is_on: bool| json!({"can_trim": is_on, "can_zero": is_on, "can_fast_zero": is_on});
    let cache = |is_on: bool| json!({"can_flush": is_on, "can_fua": is_on});
    let read_only = |is_on: bool| json!({"is_read_only": is_on, "can_cache": true, "is_rotational": false});
    for (spec, flags, minimum, has_cache, is_read_only) in [
        ("memory:64MiB".to_owned(), &[][..], 512, false, false),
        ("null:64MiB,block=4096".to_owned(), &[], 4096, false, false),
        ("memory:64MiB,ro".to_owned(), &[], 512, false, true),
        (file.clone(), &[], 512, true, false),
        (format!("{file},block=4096"), &[], 4096, true, false),
        (file.clone(), &["--read-only"], 512, false, true),
        (format!("{file},ro"), &[], 512, false, true),
    ] {
        check(&spec, flags, minimum, cache(has_cache));
        check(&spec, flags, minimum, read_only(is_read_only));
        // A file on a file system that punches no holes has none of these.
        if is_read_only || !spec.starts_with("file:") {
            check(&spec, flags, minimum, changes(!is_read_only));
        }
    }
}

#[test]
fn the_export_is_listed_and_another_is_refused() {
    need!(skip::program("nbdinfo"));
    let server = NbdServer::serve_with("memory:1MiB", &["--listen", "127.0.0.1:0", "--export", "disk/1"]);
    let address = server.address();
    let list = nbdinfo(&["--list", &format!("nbd://{address}")]);
    let exports = list["exports"].as_array().expect("a list");
    assert_eq!(exports.len(), 1, "{list:#}");
    assert_eq!(
        (&exports[0]["export-name"], &exports[0]["description"]),
        (&json!("disk/1"), &json!("memory"))
    );
    for name in ["disk/1", ""] {
        assert_eq!(nbdinfo(&[&format!("nbd://{address}/{name}")])["exports"][0]["export-size"], 1 << 20);
    }
    let refused = run(Command::new("nbdinfo").arg(format!("nbd://{address}/other")), LIMIT);
    assert_ne!(refused.code, 0, "{refused:#?}");
    assert!(refused.stderr.contains("No such file or directory for export: other"), "{refused:#?}");
}

/// Copies a file onto an export and back over four connections.
fn copies_both_ways(spec: &str, flags: &[&str], image: &Path, dir: &Path) {
    let server = NbdServer::serve_with(spec, flags);
    nbdcopy(&["-C", "4", &text(image), &server.uri()]).expect_code(0);
    let copy = dir.join("copy");
    let _ = fs::remove_file(&copy);
    nbdcopy(&["-C", "4", &server.uri(), &text(&copy)]).expect_code(0);
    assert_eq!(sha256(&copy), sha256(image), "{spec} {flags:?}");
    assert!(server.service.stderr().is_empty(), "{}", server.service.stderr());
}

#[test]
fn nbdcopy_over_four_connections_in_and_out() {
    need!(skip::program("nbdcopy"));
    let dir = tempfile::tempdir().expect("a temporary folder");
    let image = dir.path().join("image");
    // Data, a hole, data; no multiple of any request.
    let mut bytes = pattern(1, 5 << 20);
    bytes.resize(40 << 20, 0);
    bytes.extend(pattern(2, (3 << 20) + 4096 * 3));
    bytes.resize(48 << 20, 0);
    fs::write(&image, &bytes).expect("an image");
    let file = sparse(dir.path(), "disk", 48 << 20);
    let socket = text(&dir.path().join("socket"));
    let tcp = ["--listen", "127.0.0.1:0"];
    let unix = ["--socket", &socket];
    copies_both_ways("memory:48MiB", &tcp, &image, dir.path());
    copies_both_ways("memory:48MiB", &unix, &image, dir.path());
    copies_both_ways(&file, &tcp, &image, dir.path());
    assert_eq!(sha256(&dir.path().join("disk")), sha256(&image));
    copies_both_ways(&file, &unix, &image, dir.path());
    assert!(!Path::new(&socket).exists(), "the socket is removed at the end");
}

#[test]
fn a_file_system_by_qemu_onto_an_export_and_back() {
    need!(skip::program("qemu-img"), image::available());
    let image = Image::ext4();
    let disk = image.file("disk");
    File::create(&disk).and_then(|file| file.set_len(image.bytes)).expect("a file for the export");
    for spec in [format!("memory:{}", image.size()), format!("file:{}", disk.display())] {
        let mut server = NbdServer::serve(&spec);
        let (uri, original, copy) = (server.uri(), text(&image.path()), image.file("copy"));
        let qemu_img = |args: &[&str]| run(Command::new("qemu-img").args(args), LIMIT).expect_code(0);
        qemu_img(&["convert", "-n", "-f", "raw", "-O", "raw", &original, &uri]);
        qemu_img(&["compare", "-f", "raw", "-F", "raw", &original, &uri]);
        qemu_img(&["convert", "-f", "raw", "-O", "raw", &uri, &text(&copy)]);
        image.expect_copy(&copy);
        assert_eq!(server.service.terminate(), 0);
    }
    image.expect_copy(&disk);
}

#[test]
fn fio_verifies_what_it_writes() {
    need!(skip::program("fio"));
    let engines = output(Command::new("fio").arg("--enghelp"));
    if !engines.lines().any(|line| line.trim() == "nbd") {
        fn here() {}
        return skip::say(std::any::type_name_of_val(&here), "fio has no nbd engine");
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    for spec in ["memory:32MiB".to_owned(), sparse(dir.path(), "disk", 32 << 20)] {
        let server = NbdServer::serve(&spec);
        let mut fio = Command::new("fio");
        fio.current_dir(dir.path()).args(["--name=job", "--ioengine=nbd", "--rw=randwrite", "--bs=4k"]);
        fio.args(["--iodepth=32", "--size=32m", "--verify=crc32c", "--do_verify=1", "--verify_fatal=1"]);
        run(fio.arg(format!("--uri={}", server.uri())), LIMIT).expect_code(0);
        assert!(server.service.stderr().is_empty(), "{}", server.service.stderr());
    }
}
