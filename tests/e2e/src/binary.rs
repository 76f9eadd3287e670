//! Where the binary under test is: `FARLUN_BIN`, or a release build made here once.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

/// A command that starts `farlun`.
pub fn farlun<I, S>(args: I) -> Command
where
    I: IntoIterator<Item = S>,
    S: AsRef<std::ffi::OsStr>,
{
    let mut command = Command::new(farlun_path());
    command.args(args);
    command
}

/// The path of the binary under test.
pub fn farlun_path() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os("FARLUN_BIN") {
        Some(path) => PathBuf::from(path),
        None => build(),
    })
}

fn build() -> PathBuf {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .args(["build", "--release", "--package", "farlun", "--message-format", "json-render-diagnostics"])
        .output()
        .expect("cargo starts");
    assert!(
        output.status.success(),
        "`cargo build --release` failed; FARLUN_BIN=PATH names a binary built elsewhere:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let path = messages.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).next_back();
    path.expect("cargo names the executable it built")
}
