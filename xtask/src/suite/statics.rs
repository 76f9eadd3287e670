//! Checks that run no code of the product.

use std::process::Command;

use anyhow::{Result, bail};

use crate::package;
use crate::step::{self, Outcome, Steps};
use crate::tidy;
use crate::workspace::{self, ALL_FEATURES, cargo};

/// Runs them, the cheapest first.
pub(super) fn run(steps: &mut Steps) -> Result<()> {
    steps.run("format", || passed(&mut cargo(&["fmt", "--all", "--check"])))?;
    steps.run("tidy", house_rules)?;
    steps.run("licences and sources", deny)?;
    steps.run("clippy", || {
        let mut clippy = cargo(&["clippy", "--workspace", "--all-targets"]);
        passed(clippy.args(ALL_FEATURES).args(["--", "--deny", "warnings"]))
    })?;
    steps.run("documentation of the crates", documentation)?;
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

/// Links of the crates' documentation lead somewhere. Doc comments of the binary are its help.
fn documentation() -> Result<Outcome> {
    let mut doc = cargo(&["doc", "--workspace", "--lib", "--no-deps", "--keep-going"]);
    passed(doc.env("RUSTDOCFLAGS", "--deny warnings"))
}

/// Builds the crates without I/O for a target without any. `xtask/pure/clippy.toml` lists calls forbidden to them, such
/// as clocks.
fn wasm() -> Result<Outcome> {
    const TARGET: &str = "wasm32-unknown-unknown";
    if let Some(missing) = workspace::without(TARGET)? {
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
    let target = package::static_target();
    if let Some(missing) = workspace::without(&target)? {
        return Ok(missing);
    }
    let clippy = ["clippy", "--workspace", "--target", &target, "--", "--deny", "warnings"];
    passed(&mut cargo(&clippy))
}
