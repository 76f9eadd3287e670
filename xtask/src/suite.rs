//! `cargo xtask test`: every check CI makes, in the order in which a mistake is cheapest to find.
//!
//! Debug builds carry the overflow checks that the unit tests want; the end-to-end tests run the release binary, built
//! once and handed to them in `FARLUN_BIN`.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::step::{self, Outcome, Steps};
use crate::tally::Tally;
use crate::workspace::{self, cargo};
use crate::{packages, tidy};

/// The file whose tests all need the emulated path: if none of them ran, CI has proved nothing about it.
const PATH_SUITE: &str = "tests/path.rs";

/// The crate of the end-to-end tests: they come last, and want the release binary.
const E2E: &str = "e2e";

/// The binary is copied to storage hosts: what makes it larger than this must be worth it.
const BINARY_BYTES_MAX: u64 = 25_000_000;

/// How much of a good thing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// What CI runs: within 20 minutes on two cores from a clean clone.
    Usual,
    /// Larger images and the whole tour.
    Long,
}

/// Runs everything; false if a step failed. The totals are the last line.
pub(crate) fn run(length: Length) -> Result<bool> {
    let mut steps = Steps::default();
    let mut tally = Tally::default();
    let outcome = all(length, &mut steps, &mut tally);

    println!("\n== totals\n{steps}");
    if let Err(error) = &outcome {
        println!("\n{error:#}");
    }
    let skipped = steps.skips().count() + tally.skips().len();
    if skipped > 0 {
        println!("\nskipped on this machine:");
    }
    for (name, reason) in steps.skips() {
        println!("  {name}: {reason}");
    }
    for skip in tally.skips() {
        println!("  {} {}: {}", skip.suite, skip.name, skip.reason);
    }
    // A failing test makes its step fail too: it is counted once, as the test.
    let failed = if tally.failed() > 0 { tally.failed() } else { steps.failed() };
    println!("\n{} passed, {failed} failed, {skipped} skipped", steps.passed() + tally.passed());
    Ok(outcome.is_ok())
}

fn all(length: Length, steps: &mut Steps, tally: &mut Tally) -> Result<()> {
    steps.run("packages", || packages::ensure(packages::TESTS))?;
    let python = workspace::target_dir()?.join("python");
    steps.run("a reader of Parquet", || packages::ensure_parquet_reader(&python))?;
    steps.run("format", || passed(&mut cargo(&["fmt", "--all", "--check"])))?;
    steps.run("tidy", tidy_step)?;
    steps.run("licences and sources", deny)?;
    steps.run("clippy", || {
        passed(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"]))
    })?;
    steps.run("pure crates on wasm32", wasm)?;
    steps.run("farlun on musl", musl)?;
    steps.run("unit and simulation tests", || {
        let mut command = cargo(&["test", "--workspace", "--exclude", E2E]);
        tests(command.env("PYTHONPATH", &python), tally)
    })?;
    let mut binary = None;
    steps.run("release build", || {
        let built = workspace::release_binary()?;
        let bytes = std::fs::metadata(&built).context("the release build left no binary")?.len();
        println!("{}: {:.1} MB", built.display(), bytes as f64 / 1e6);
        if bytes > BINARY_BYTES_MAX {
            bail!("the release binary has {bytes} bytes, {BINARY_BYTES_MAX} at most: look at what was added last");
        }
        binary = Some(built);
        Ok(Outcome::Passed)
    })?;
    let binary = binary.context("the release build named no binary")?;
    steps.run("end-to-end tests", || {
        let mut command = cargo(&["test", "--package", E2E]);
        command.env("FARLUN_BIN", &binary);
        if length == Length::Long {
            command.env("FARLUN_LONG", "1");
        }
        // Other crates have a file of this name too.
        let before = tally.passed_in(PATH_SUITE);
        tests(&mut command, tally)?;
        if tally.passed_in(PATH_SUITE) == before && std::env::var_os("CI").is_some_and(|value| value == "true") {
            bail!("every test of the emulated path ({E2E}, {PATH_SUITE}) was skipped, and CI must run at least one");
        }
        Ok(Outcome::Passed)
    })
}

fn passed(command: &mut Command) -> Result<Outcome> {
    step::shown(command)?;
    Ok(Outcome::Passed)
}

fn tidy_step() -> Result<Outcome> {
    let findings = tidy::findings()?;
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{} house rules broken, listed above", findings.len());
    }
    Ok(Outcome::Passed)
}

/// cargo-deny where it is installed; `tidy` guards the licences everywhere.
fn deny() -> Result<Outcome> {
    if !step::have("cargo-deny") {
        return Ok(Outcome::Skipped("cargo-deny is not installed (`cargo install cargo-deny`)".to_owned()));
    }
    passed(&mut cargo(&["deny", "check", "bans", "licenses", "sources"]))
}

/// The crates without I/O build where there is none, and name no clock: `xtask/pure/clippy.toml` lists what they may not call.
fn wasm() -> Result<Outcome> {
    const TARGET: &str = "wasm32-unknown-unknown";
    if let Some(missing) = without(TARGET)? {
        return Ok(missing);
    }
    let crates: Vec<&str> = tidy::PURE.iter().flat_map(|name| ["--package", name]).collect();
    step::shown(cargo(&["build", "--target", TARGET]).args(&crates))?;
    let mut clippy = cargo(&["clippy", "--target", TARGET, "--lib"]);
    clippy.args(&crates).args(["--", "--deny", "warnings"]);
    passed(clippy.env("CLIPPY_CONF_DIR", workspace::root().join("xtask/pure")))
}

/// A binary that runs on any Linux is one for musl: that it compiles without warnings is cheap to know.
fn musl() -> Result<Outcome> {
    const TARGET: &str = "x86_64-unknown-linux-musl";
    if let Some(missing) = without(TARGET)? {
        return Ok(missing);
    }
    let clippy = ["clippy", "--workspace", "--target", TARGET, "--", "--deny", "warnings"];
    passed(&mut cargo(&clippy))
}

/// What becomes of a step whose target is not installed and cannot be.
fn without(target: &str) -> Result<Option<Outcome>> {
    let sysroot =
        step::captured(Command::new("rustc").args(["--print", "sysroot"]).current_dir(workspace::root()))?;
    if Path::new(sysroot.trim()).join("lib/rustlib").join(target).exists() {
        return Ok(None);
    }
    let added =
        step::shown(Command::new("rustup").args(["target", "add", target]).current_dir(workspace::root()));
    Ok(added.err().map(|error| Outcome::Skipped(format!("the target {target} cannot be had: {error:#}"))))
}

/// Runs `cargo test …` to its end, failures or not, and counts what it says.
fn tests(command: &mut Command, tally: &mut Tally) -> Result<Outcome> {
    command
        .args(["--no-fail-fast", "--", "--show-output"])
        .env("CARGO_TERM_COLOR", "never")
        .env("RUST_BACKTRACE", "1");
    // One pipe for both streams, so that a result line is read after the line that names its file.
    let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().context("cannot start cargo")?;
    // The command holds the last writing end on our side: while it does the reader never sees the end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut out = std::io::stdout();
    for line in BufReader::new(reader).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        if tally.line(&line) {
            writeln!(out, "{line}")?;
        }
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("`cargo test` ended with {status}; {} tests failed", tally.failed());
    }
    Ok(Outcome::Passed)
}
