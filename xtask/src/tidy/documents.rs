//! ARCHITECTURE.md and README.md speak of what exists: every path they name is there, every crate has its paragraph.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// A page longer than this is not read.
const ARCHITECTURE_LINES_MAX: usize = 200;

/// Beginnings of the paths of this workspace; other words in backquotes are not looked at.
const ROOTS: &[&str] = &["crates/", "docs/", "experiments/", "fuzz/", "tests/", "xtask/"];

/// Every path that is named but not there, every crate without a paragraph and an invariant.
pub(super) fn findings(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for name in ["ARCHITECTURE.md", "README.md"] {
        let text = fs::read_to_string(root.join(name)).with_context(|| format!("cannot read {name}"))?;
        for path in paths(&text).filter(|path| !root.join(path).exists()) {
            findings.push(format!("{name}: `{path}` is not there: name what took its place"));
        }
        if name == "ARCHITECTURE.md" {
            findings.extend(architecture(root, &text)?);
        }
    }
    Ok(findings)
}

fn architecture(root: &Path, text: &str) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let lines = text.lines().count();
    if lines > ARCHITECTURE_LINES_MAX {
        findings.push(format!(
            "ARCHITECTURE.md: {lines} lines, {ARCHITECTURE_LINES_MAX} at most: leave out detail"
        ));
    }
    for entry in fs::read_dir(root.join("crates")).context("cannot list crates/")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let paragraph =
            text.split("\n\n").find(|paragraph| paragraph.trim().starts_with(&format!("**`{name}`**")));
        if !paragraph.is_some_and(|paragraph| paragraph.contains("**Invariant")) {
            findings.push(format!(
                "ARCHITECTURE.md: no paragraph **`{name}`** with an **Invariant:** for this crate"
            ));
        }
    }
    Ok(findings)
}

/// The paths of the workspace in backquotes. NAME stands for any name: its folder is what must be there.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split('`').skip(1).step_by(2);
    let ours = quoted.filter(|word| ROOTS.iter().any(|root| word.starts_with(root)) && !word.contains(' '));
    ours.map(|word| word.split("/NAME").next().unwrap_or(word))
}

#[cfg(test)]
mod tests {
    use super::paths;

    #[test]
    fn only_paths_of_ours_are_looked_at() {
        let text = "`crates/a.rs` or `crates/b/NAME.rs`, not `cargo xtask tidy` or `xtask/x y` or `struct`";
        assert_eq!(paths(text).collect::<Vec<_>>(), ["crates/a.rs", "crates/b"]);
    }
}
