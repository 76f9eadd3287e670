//! Test binaries: built by cargo, run here side by side.
//!
//! `cargo test` runs one binary after the other, waits while a binary waits, and tells no times. libtest's JSON and times
//! are unstable options of every toolchain; `RUSTC_BOOTSTRAP` makes a stable one take them. Nothing is compiled with it.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::tally::{Tally, Test};
use crate::workspace::{ALL_FEATURES, cargo};

/// A running binary tells of its progress no more often.
const PROGRESS: Duration = Duration::from_secs(15);

/// One executable with tests.
#[derive(Clone, Debug)]
pub(super) struct Binary {
    /// `package` for the tests beside the code, `package/target` for those in `tests/`.
    pub(super) name: String,
    path: PathBuf,
    /// Folder of the package, where cargo would run it.
    folder: PathBuf,
}

/// Conditions under which binaries are run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side<'a> {
    /// Binaries at a time.
    pub(super) binaries: usize,
    /// Tests of a binary at a time.
    pub(super) tests: usize,
    /// Variables of their environment.
    pub(super) environment: &'a [(&'a str, &'a Path)],
}

/// Builds the tests of the workspace that `arguments` (of `cargo test`) select. With the whole workspace selected, features of
/// dependencies are the same in every call, and no crate is compiled twice.
pub(super) fn build(arguments: &[&str]) -> Result<Vec<Binary>> {
    let mut command =
        cargo(&["test", "--no-run", "--message-format", "json-render-diagnostics", "--workspace"]);
    command.args(ALL_FEATURES);
    let mut child = command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut said = String::new();
    child.stdout.take().context("cargo has no standard output")?.read_to_string(&mut said)?;
    let status = child.wait()?;
    if !status.success() {
        bail!("the tests do not compile: cargo ended with {status}");
    }
    let messages = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(messages.filter_map(|message| Binary::from_message(&message)).collect())
}

impl Binary {
    /// Reads cargo's message about an artifact; `None` unless that is an executable with tests.
    fn from_message(message: &Value) -> Option<Binary> {
        let path = PathBuf::from(message["executable"].as_str()?);
        if message["profile"]["test"] != true {
            return None;
        }
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
        let target = message["target"]["name"].as_str()?;
        let package = folder.file_name()?.to_str()?;
        let is_beside_code = message["target"]["kind"][0] != "test";
        let name = if is_beside_code { package.to_owned() } else { format!("{package}/{target}") };
        Some(Binary { name, path, folder })
    }

    /// Returns true for a test in `tests/`, not beside the code.
    pub(super) fn is_integration(&self) -> bool {
        self.name.contains('/')
    }

    fn start(&self, side: Side<'_>) -> Result<Child> {
        let mut command = Command::new(&self.path);
        command
            .args(["--show-output", "-Zunstable-options", "--report-time", "--format", "json"])
            .args(["--test-threads", &side.tests.to_string()])
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUST_BACKTRACE", "1")
            .envs(side.environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        command.spawn().with_context(|| format!("cannot start {}", self.path.display()))
    }
}

/// Runs the binaries to their end, failures or not, some of them side by side.
pub(super) fn run(binaries: &[Binary], side: Side<'_>, tally: &mut Tally) -> Result<()> {
    let failed_before = tally.failed();
    let queue = Mutex::new(binaries.iter().collect::<VecDeque<_>>());
    let shared = Mutex::new(&mut *tally);
    let next = || queue.lock().expect("no thread panics with it").pop_front();
    thread::scope(|scope| {
        for _ in 0..side.binaries {
            scope.spawn(|| {
                while let Some(binary) = next() {
                    if let Err(error) = run_one(binary, side, &shared) {
                        let mut tally = shared.lock().expect("no thread panics with it");
                        println!("{}: {error:#}", binary.name);
                        tally.add_broken(&binary.name, format!("{error:#}"));
                    }
                }
            });
        }
    });
    match tally.failed() - failed_before {
        0 => Ok(()),
        failed => bail!("{failed} tests failed"),
    }
}

/// Runs one binary; an error if it ends without a result.
fn run_one(binary: &Binary, side: Side<'_>, shared: &Mutex<&mut Tally>) -> Result<()> {
    let began = Instant::now();
    let mut child = binary.start(side)?;
    let stdout = child.stdout.take().context("the test has no standard output")?;
    let (mut all, mut done, mut failed) = (0, 0, 0);
    let (mut told, mut is_over) = (began, false);
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line?;
        let Ok(event) = serde_json::from_slice::<Value>(&line) else {
            // A process that a test has started may write here too.
            println!("{}", String::from_utf8_lossy(&line));
            continue;
        };
        if event["type"] == "suite" {
            all = event["test_count"].as_u64().unwrap_or(all);
            is_over |= event["event"] != "started";
        }
        let Some(test) = Test::from_event(&binary.name, &event) else { continue };
        done += 1;
        if !test.passed {
            failed += 1;
            let said = event["stdout"].as_str().unwrap_or("");
            println!("\n---- {} {} FAILED after {:.1} s\n{said}", binary.name, test.name, test.seconds);
        }
        shared.lock().expect("no thread panics with it").add(test);
        if told.elapsed() > PROGRESS {
            told = Instant::now();
            println!("           {} … {done} of {all} tests", binary.name);
        }
    }
    let status = child.wait()?;
    if !is_over {
        bail!("ended after {done} of {all} tests without a result: {status}");
    }
    if all > 0 {
        let verdict = if failed == 0 { "ok" } else { "FAILED" };
        println!("{:>8.1} s  {}: {all} tests {verdict}", began.elapsed().as_secs_f64(), binary.name);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_executables_with_tests_are_run() {
        let message = |kind: &str, test: bool, executable: Value| {
            json!({
                "reason": "compiler-artifact",
                "manifest_path": "/somewhere/crates/wire/Cargo.toml",
                "target": {"name": "pdus", "kind": [kind]},
                "profile": {"test": test},
                "executable": executable,
            })
        };
        let name = |message: Value| Binary::from_message(&message).map(|binary| binary.name);
        let executable = || json!("/somewhere/target/debug/deps/pdus-0a1b");
        assert_eq!(name(message("test", true, executable())).as_deref(), Some("wire/pdus"));
        assert_eq!(name(message("lib", true, executable())).as_deref(), Some("wire"));
        assert_eq!(name(message("bin", false, executable())), None);
        assert_eq!(name(message("lib", true, Value::Null)), None);
    }
}
