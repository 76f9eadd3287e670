//! Checks that run no code of the product.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::step::{self, Outcome, Steps};
use crate::tidy;
use crate::workspace::{self, cargo};

/// Runs them, the cheapest first.
pub(super) fn run(steps: &mut Steps) -> Result<()> {
    steps.run("format", || passed(&mut cargo(&["fmt", "--all", "--check"])))?;
    steps.run("tidy", house_rules)?;
    steps.run("licences and sources", deny)?;
    steps.run("clippy", || {
        passed(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"]))
    })?;
    steps.run("pure crates on wasm32", wasm)
}

fn passed(command: &mut Command) -> Result<Outcome> {
    step::shown(command)?;
    Ok(Outcome::Passed)
}

fn house_rules() -> Result<Outcome> {
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
    // Optimising them would take a minute and show nothing more.
    let plain = ["--config", "profile.dev.opt-level=0", "--config", "profile.dev.debug=false"];
    step::shown(cargo(&["build", "--target", TARGET]).args(plain).args(&crates))?;
    let mut clippy = cargo(&["clippy", "--target", TARGET, "--lib"]);
    clippy.args(&crates).args(["--", "--deny", "warnings"]);
    passed(clippy.env("CLIPPY_CONF_DIR", workspace::root().join("xtask/pure")))
}

/// A binary that runs on any Linux is one for musl: it compiles without warnings.
pub(super) fn musl() -> Result<Outcome> {
    const TARGET: &str = "x86_64-unknown-linux-musl";
    if let Some(missing) = without(TARGET)? {
        return Ok(missing);
    }
    let clippy = ["clippy", "--workspace", "--target", TARGET, "--", "--deny", "warnings"];
    passed(&mut cargo(&clippy))
}

/// The reason to skip a step whose target is not installed and cannot be.
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
