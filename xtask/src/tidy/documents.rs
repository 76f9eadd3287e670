//! Pages are about this tree: every path that one names exists, and ARCHITECTURE.md has a paragraph for every crate. No page
//! signals processes by their name.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

const ARCHITECTURE: &str = "ARCHITECTURE.md";
/// Most lines of that page.
const ARCHITECTURE_LINES_MAX: usize = 200;

/// Beginnings of the paths of this workspace; other words in backquotes are not looked at.
const ROOTS: &[&str] = &["crates/", "docs/", "experiments/", "fuzz/", "tests/", "xtask/"];

/// Paths that a page names and that do not exist, crates without a paragraph and an invariant, signals by name.
pub(super) fn findings(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for page in pages(root)? {
        let text = fs::read_to_string(root.join(&page)).with_context(|| format!("cannot read {page}"))?;
        for path in paths(&text).filter(|path| !root.join(path).exists()) {
            findings.push(format!("{page}: `{path}` is not there: name what took its place"));
        }
        findings.extend(signals_by_name(&page, &text));
        if page == ARCHITECTURE {
            findings.extend(architecture(root, &text)?);
        }
    }
    Ok(findings)
}

/// All pages, relative to the workspace.
fn pages(root: &Path) -> Result<Vec<String>> {
    let mut pages = vec![ARCHITECTURE.to_owned(), "README.md".to_owned()];
    collect(root, "docs", &mut pages)?;
    pages.sort();
    Ok(pages)
}

/// The pages of a folder and of the folders in it.
fn collect(root: &Path, folder: &str, pages: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(root.join(folder)).with_context(|| format!("cannot list {folder}/"))? {
        let entry = entry?;
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            collect(root, &path, pages)?;
        } else if path.ends_with(".md") {
            pages.push(path);
        }
    }
    Ok(())
}

/// Commands that end every process of a name, also those of another user's work on the same machine.
fn signals_by_name(page: &str, text: &str) -> Vec<String> {
    let by_name = |line: &str| {
        let looks_up = ["$(pidof", "$(pgrep", "`pidof", "`pgrep"].iter().any(|word| line.contains(word));
        line.contains("pkill ") || line.contains("killall ") || line.contains("kill -") && looks_up
    };
    let found = (1..).zip(text.lines()).filter(|(_, line)| by_name(line));
    found
        .map(|(number, _)| {
            format!(
                "{page}:{number}: signals every process of a name: write `systemctl reload`, or the number in a file"
            )
        })
        .collect()
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
    use super::{paths, signals_by_name};

    #[test]
    fn a_page_signals_one_process() {
        for (line, count) in [
            ("farlun target --check && kill -HUP $(pidof farlun)", 1),
            ("pkill farlun", 1),
            ("kill -HUP \"$(cat /run/farlun-target.pid)\"", 0),
            ("farlun top --netns $(pidof -s tgtd)", 0),
        ] {
            assert_eq!(signals_by_name("docs/page.md", line).len(), count, "{line}");
        }
    }

    #[test]
    fn only_paths_of_ours_are_looked_at() {
        let text = "`crates/a.rs` or `crates/b/NAME.rs`, not `cargo xtask tidy` or `xtask/x y` or `struct`";
        assert_eq!(paths(text).collect::<Vec<_>>(), ["crates/a.rs", "crates/b"]);
    }
}
