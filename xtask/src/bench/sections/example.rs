//! Measurements of a crate by one of its examples, which prints them as one document.

use std::ffi::OsStr;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::workspace::cargo;

/// The printed document.
pub(super) struct Found(pub(super) Value);

impl Found {
    /// Runs `example` of the crate `package`.
    pub(super) fn by(package: &str, example: &str, args: &[&OsStr]) -> Result<Found> {
        let mut command = cargo(&["run", "-q", "--release", "-p", package, "--example", example, "--"]);
        let output = command.args(args).output().context("cargo does not start")?;
        if !output.status.success() {
            bail!("the example failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        serde_json::from_slice(&output.stdout).map(Found).context("the example printed no document")
    }

    /// The number of that name.
    pub(super) fn figure(&self, name: &str) -> Result<f64> {
        self.0[name].as_f64().with_context(|| format!("no {name} in {}", self.0))
    }
}
