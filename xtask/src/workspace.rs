//! Location of the workspace and its facts from cargo.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::step::{self, Outcome};

/// Arguments of cargo that switch on the features of the workspace. No release has them, but tests and lints cover them.
pub(crate) const ALL_FEATURES: &[&str] = &["--features", "farlun/pages"];

/// The folder of the workspace's `Cargo.toml`.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

/// A `cargo` that runs in the workspace.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(args);
    command
}

/// Output of `cargo metadata` about the packages of this host. Those of other platforms need not be downloaded.
pub(crate) fn metadata() -> Result<Value> {
    let about = step::captured(Command::new("rustc").arg("-vV").current_dir(root()))?;
    let host =
        about.lines().find_map(|line| line.strip_prefix("host: ")).context("`rustc -vV` names no host")?;
    let mut command = cargo(&["metadata", "--format-version", "1", "--filter-platform", host]);
    let text = step::captured(&mut command)?;
    serde_json::from_str(&text).context("`cargo metadata` printed something else than JSON")
}

/// The folder cargo builds into.
pub(crate) fn target_dir() -> Result<PathBuf> {
    let text = step::captured(&mut cargo(&["metadata", "--format-version", "1", "--no-deps"]))?;
    let metadata: Value =
        serde_json::from_str(&text).context("`cargo metadata` printed something else than JSON")?;
    let folder =
        metadata["target_directory"].as_str().context("`cargo metadata` names no target directory")?;
    Ok(PathBuf::from(folder))
}

/// Builds the release binary, once for all measurements and tests; its path. The binary names the commit in its runs.
pub(crate) fn release_binary() -> Result<PathBuf> {
    release_binary_of(root(), &target_dir()?, commit().as_deref())
}

/// Builds the release binary for another target; its path.
pub(crate) fn release_binary_for(target: &str) -> Result<PathBuf> {
    let mut build = cargo(&["build", "--release", "--package", "farlun", "--target", target]);
    if let Some(commit) = commit() {
        build.env("FARLUN_COMMIT", commit);
    }
    step::shown(&mut build)?;
    Ok(target_dir()?.join(target).join("release/farlun"))
}

/// The reason to skip a step whose target is not installed and cannot be.
pub(crate) fn without(target: &str) -> Result<Option<Outcome>> {
    let sysroot = step::captured(Command::new("rustc").args(["--print", "sysroot"]).current_dir(root()))?;
    if Path::new(sysroot.trim()).join("lib/rustlib").join(target).exists() {
        return Ok(None);
    }
    let added = step::shown(Command::new("rustup").args(["target", "add", target]).current_dir(root()));
    Ok(added.err().map(|error| Outcome::Skipped(format!("the target {target} cannot be had: {error:#}"))))
}

/// Builds the release binary of the checkout at `root` into the folder `target`; its path.
pub(crate) fn release_binary_of(root: &Path, target: &Path, commit: Option<&str>) -> Result<PathBuf> {
    let mut build = cargo(&["build", "--release", "--package", "farlun", "--target-dir"]);
    build.arg(target).current_dir(root);
    if let Some(commit) = commit {
        build.env("FARLUN_COMMIT", commit);
    }
    step::shown(&mut build)?;
    Ok(target.join("release/farlun"))
}

/// The commit that is checked out, and `-dirty` behind it if something was changed since; `None` outside a checkout.
fn commit() -> Option<String> {
    let describe = ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"];
    let found = step::captured(Command::new("git").args(describe).current_dir(root())).ok()?;
    Some(found.trim().to_owned()).filter(|commit| !commit.is_empty())
}
