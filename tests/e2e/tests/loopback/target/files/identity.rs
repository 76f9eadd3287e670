//! Names of LUNs: which files keep them, and which get others.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use e2e::ours::Target;
use e2e::{farlun, run};
use serde_json::Value;

const MINUTE: Duration = Duration::from_secs(60);

fn disk(path: &Path) {
    File::create(path).and_then(|file| file.set_len(1 << 20)).expect("a disk");
}

/// Serial number and NAA designator of the LUNs of a target in `folder`, which is started for that.
fn names(folder: &Path, specs: &[&str]) -> Vec<(String, String)> {
    let mut command =
        farlun(["target", "--json", "--listen", "127.0.0.1:0", "--iqn", "iqn.2026-11.org.example:a"]);
    for spec in specs {
        command.args(["--lun", spec]);
    }
    let target = Target::start(command.current_dir(folder));
    let names = |lun: usize| {
        let said =
            run(&mut farlun(["inquiry", "--json", &target.url(lun as u32)]), MINUTE).expect_code(0).json();
        let text = |name: &str| said[name].as_str().unwrap_or_else(|| panic!("no {name}: {said}")).to_owned();
        (text("serial"), text("naa"))
    };
    (0..specs.len()).map(names).collect()
}

#[test]
fn a_file_that_moves_keeps_its_names_and_a_second_site_has_others() {
    let [near, far] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    disk(&near.path().join("disk"));
    disk(&far.path().join("disk"));
    let here = names(near.path(), &["file:disk"]);
    assert_eq!(names(near.path(), &["file:disk"]), here, "after a restart");
    // The same command, and a target of the same name.
    let there = names(far.path(), &["file:disk"]);
    assert!(there[0].0 != here[0].0 && there[0].1 != here[0].1, "{there:?}");
    fs::create_dir(near.path().join("elsewhere")).expect("a folder");
    for name in ["disk", "disk.farlun-identity"] {
        // The second is there where the file system has no attributes.
        let _ = fs::rename(near.path().join(name), near.path().join("elsewhere").join(name));
    }
    disk(&near.path().join("disk"));
    let moved = names(near.path(), &["file:disk", "memory:1MiB", "file:elsewhere/disk,ro"]);
    assert_eq!(moved[2], here[0], "another folder and another number");
    assert!(moved[0] != here[0], "another file in its old place");
}

#[test]
fn names_that_are_set_and_names_that_two_have() {
    let folder = tempfile::tempdir().expect("a folder");
    disk(&folder.path().join("disk"));
    let set = "file:disk,serial=store1-disk7,naa=600140500a1b2c3d4e5f60718293a4b5";
    let plain = names(folder.path(), &["file:disk"]);
    assert_eq!(
        names(folder.path(), &[set]),
        [("store1-disk7".to_owned(), "600140500a1b2c3d4e5f60718293a4b5".to_owned())]
    );
    assert_eq!(names(folder.path(), &["file:disk"]), plain, "they are set for that time only");
    let copy = folder.path().join("copy");
    fs::write(&copy, fs::read(folder.path().join("disk")).expect("the disk")).expect("a copy");
    let both = names(folder.path(), &["file:disk", "file:copy"]);
    assert!(both[0] == plain[0] && both[1] != plain[0], "{both:?}");
    let clone = format!("file:copy,naa={}", plain[0].1);
    for check in [&[][..], &["--check"]] {
        let mut command =
            farlun(["target", "--listen", "127.0.0.1:0", "--lun", "file:disk", "--lun", &clone]);
        run(command.args(check).current_dir(folder.path()), MINUTE)
            .expect_code(2)
            .expect_sentence(&["LUN 1 and LUN 0 have the same NAA designator"]);
    }
}

#[test]
fn a_check_gives_no_names() {
    let folder = tempfile::tempdir().expect("a folder");
    disk(&folder.path().join("disk"));
    let path = folder.path().join("disk.farlun-identity");
    fs::create_dir(&path).expect("in the way");
    // That it cannot be read shows that it is looked for there.
    let mut check = farlun(["target", "--check", "--lun", "file:disk"]);
    run(check.current_dir(folder.path()), MINUTE)
        .expect_code(2)
        .expect_sentence(&["cannot read the identity"]);
    fs::remove_dir(&path).expect("it is empty");
    let state = folder.path().join("state");
    let checked = farlun(["target", "--check", "--json", "--lun", "file:disk", "--state"])
        .arg(&state)
        .current_dir(folder.path())
        .output()
        .expect("farlun runs");
    let checked: Value = serde_json::from_slice(&checked.stdout).expect("a document");
    assert_eq!((&checked["ok"], &checked["state"]), (&true.into(), &state.display().to_string().into()));
    assert!(!state.exists() && fs::read_dir(folder.path()).expect("the folder").count() == 1);
}
