//! The house rules, kept by a test: what is banned, and what to use instead.
//!
//! `source` reads the Rust files, `documents` the pages about them, `arrows` and `licences` what `cargo metadata` says. A finding is one line that names
//! the place, what was found and its replacement.

mod arrows;
mod documents;
mod lexer;
mod licences;
mod source;

use anyhow::Result;

use crate::workspace;

/// The crates without clock, I/O and threads; they build for wasm32.
pub(crate) const PURE: &[&str] = &["event", "wire", "proto", "control", "link"];

/// Every rule broken in the workspace, one line each.
pub(crate) fn findings() -> Result<Vec<String>> {
    let metadata = workspace::metadata()?;
    let mut findings = source::findings(workspace::root())?;
    findings.extend(documents::findings(workspace::root())?);
    findings.extend(arrows::findings(&metadata)?);
    findings.extend(licences::findings(&metadata)?);
    Ok(findings)
}

/// `cargo xtask tidy`: prints the findings; true if there are none.
pub(crate) fn run() -> Result<bool> {
    let findings = findings()?;
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} findings", findings.len());
    Ok(findings.is_empty())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_workspace_is_tidy() {
        let findings = super::findings().expect("cargo metadata runs here");
        assert!(findings.is_empty(), "house rules broken:\n{}", findings.join("\n"));
    }
}
