//! Tests that this machine cannot run say so and why, and are counted by `cargo xtask test`.

use std::process::Command;
use std::time::Duration;

use crate::process;

/// Ends the test as skipped unless every given check is `Ok`: `need!(skip::program("tgtd"), path::available())`.
#[macro_export]
macro_rules! need {
    ($($check:expr),+ $(,)?) => {
        $(
            if let Err(reason) = $check {
                fn here() {}
                $crate::skip::say(std::any::type_name_of_val(&here), &reason);
                return;
            }
        )+
    };
}

/// Prints the line that `cargo xtask test` counts. `place` is the path of something inside the test.
pub fn say(place: &str, reason: &str) {
    println!("skipped: {}: {}", test_name(place), reason.replace('\n', " "));
}

/// Name of the function that contains the item at `place`, also where that lies in a closure.
pub(crate) fn test_name(place: &str) -> &str {
    place.rsplit("::").skip(1).find(|part| !part.starts_with('{')).unwrap_or(place)
}

/// The run is a long one (`cargo xtask test --long`).
pub fn is_long() -> bool {
    std::env::var_os("FARLUN_LONG").is_some()
}

/// Only a long run has the time for the test.
pub fn long() -> Result<(), String> {
    if is_long() { Ok(()) } else { Err("takes long: `cargo xtask test --long` runs it".to_owned()) }
}

/// Whether the program is there.
pub fn program(name: &str) -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|folder| folder.join(name).is_file()) {
        return Ok(());
    }
    Err(format!("`{name}` is not installed"))
}

/// Whether QEMU's tools are there and speak iSCSI.
pub fn qemu_iscsi() -> Result<(), String> {
    program("qemu-img")?;
    // Port 1 answers nobody: what matters is whether the protocol is known.
    let mut command = Command::new("qemu-img");
    command.args(["info", "iscsi://127.0.0.1:1/iqn.2026-11.io.farlun:none/0"]);
    let said = process::run(&mut command, Duration::from_secs(60)).stderr;
    if said.contains("Unknown protocol") {
        return Err("qemu-img has no iSCSI (Debian: qemu-block-extra)".to_owned());
    }
    Ok(())
}

/// Whether the kernel's own account of TCP's congestion state can be read.
pub fn tracepoints() -> Result<(), String> {
    let kinds = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if kinds.contains("tracefs") { Ok(()) } else { Err("this kernel has no tracefs".to_owned()) }
}

/// Whether the tests run as root.
pub fn root() -> Result<(), String> {
    let user = process::output(Command::new("id").arg("-u"));
    if user.trim() == "0" { Ok(()) } else { Err("needs root".to_owned()) }
}
