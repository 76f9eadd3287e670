//! The Debian packages that the tests' peers come from: installed when root, named otherwise.
//!
//! Never a reason to fail: a test whose peer is missing is skipped and says which one.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::step::{self, Outcome};

/// Packages for `cargo xtask test`: iSCSI initiators, a target, file systems, a browser, tools that measure networks and
/// read captures, `ip`, `mount`, `unshare`, and an installer of [`PARQUET_READER`].
pub(crate) const TESTS: &[&str] = &[
    "libiscsi-bin",
    "qemu-utils",
    "qemu-block-extra",
    "tgt",
    "e2fsprogs",
    "chromium",
    "iperf3",
    "iputils-ping",
    "tcpdump",
    "tcptrace",
    "tshark",
    "iproute2",
    "mount",
    "util-linux",
    "python3-pip",
    "nbdkit",
    "libnbd-bin",
    "fio",
];

/// Packages for the guest part: an emulator, and the tools that make the guest's image from packages without installing
/// them.
pub(crate) const GUEST: &[&str] =
    &["qemu-system-x86", "cpio", "e2fsprogs", "iproute2", "tcpdump", "util-linux", "xz-utils"];

/// Independent reader of Parquet, for python3. Debian packages none.
const PARQUET_READER: &str = "duckdb==2.0.0";

/// Packages for the package part: readers of its manual pages and completions, and namespaces.
pub(crate) const PACKAGE: &[&str] = &["bash", "iproute2", "man-db", "mount", "util-linux"];

/// Further packages for `cargo xtask bench`.
pub(crate) const BENCH: &[&str] = &["iperf3", "iproute2", "libiscsi-bin", "tcpdump", "tgt"];

/// Counter of instructions for it.
pub(crate) const CALLGRIND: &[&str] = &["binutils", "valgrind"];

/// Installs those of `wanted` that are missing, or prints the line that does.
pub(crate) fn ensure(wanted: &[&str]) -> Result<Outcome> {
    if !Path::new("/etc/debian_version").exists() {
        return Ok(Outcome::Skipped(format!(
            "not a Debian system; install by your own means what provides: {}",
            wanted.join(" ")
        )));
    }
    let missing = missing(wanted)?;
    if missing.is_empty() {
        println!("all there: {}", wanted.join(" "));
        return Ok(Outcome::Passed);
    }
    let line = format!("apt-get update && apt-get install -y --no-install-recommends {}", missing.join(" "));
    if step::captured(Command::new("id").arg("-u"))?.trim() != "0" {
        return Ok(Outcome::Skipped(format!("not root; to run every test first run: sudo sh -c '{line}'")));
    }
    match install(&missing) {
        Ok(()) => Ok(Outcome::Passed),
        Err(error) => Ok(Outcome::Skipped(format!("{error:#}; to try it by hand: {line}"))),
    }
}

/// Fetches [`PARQUET_READER`] into `folder`, where python3 has none yet.
pub(crate) fn ensure_parquet_reader(folder: &Path) -> Result<Outcome> {
    let is_there = || {
        let mut python = Command::new("python3");
        step::captured(python.args(["-c", "import duckdb"]).env("PYTHONPATH", folder)).is_ok()
    };
    if is_there() {
        return Ok(Outcome::Passed);
    }
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]).arg(folder);
    match step::captured(pip.arg(PARQUET_READER)) {
        Ok(_) if is_there() => Ok(Outcome::Passed),
        Ok(_) => Ok(Outcome::Skipped(format!("python3 cannot load {PARQUET_READER}"))),
        Err(error) => Ok(Outcome::Skipped(format!("{error:#}"))),
    }
}

/// Names in `wanted` that are not installed according to dpkg.
fn missing<'a>(wanted: &[&'a str]) -> Result<Vec<&'a str>> {
    // dpkg-query ends with 1 when it does not know one of the names: its output is good all the same.
    let output = Command::new("dpkg-query")
        .args(["-W", "-f=${Package} ${db:Status-Status}\n"])
        .args(wanted)
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let installed: BTreeSet<&str> = text.lines().filter_map(|line| line.strip_suffix(" installed")).collect();
    Ok(wanted.iter().copied().filter(|name| !installed.contains(name)).collect())
}

fn install(missing: &[&str]) -> Result<()> {
    println!("installing {}", missing.join(" "));
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args([
            "-qq",
            "-o",
            "Dpkg::Use-Pty=0",
            "-o",
            "DPkg::Lock::Timeout=120",
        ]);
        command
    };
    step::captured(apt().arg("update"))?;
    step::captured(apt().args(["install", "-y", "--no-install-recommends"]).args(missing))?;
    Ok(())
}
