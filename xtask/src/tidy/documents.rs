//! Pages are about this tree: every path and every link of one leads somewhere, and ARCHITECTURE.md has a paragraph for every
//! crate. Pages and lines in `docs/` are short. No page signals processes by their name.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

const ARCHITECTURE: &str = "ARCHITECTURE.md";
/// Most lines of that page.
const ARCHITECTURE_LINES_MAX: usize = 200;
/// Most lines of a page in `docs/`.
const LINES_MAX: usize = 250;
/// Most characters of a line there.
const LINE_MAX: usize = 120;

/// Beginnings of the paths of this workspace; other words in backquotes are not looked at.
const ROOTS: &[&str] = &["crates/", "docs/", "experiments/", "fuzz/", "packaging/", "tests/", "xtask/"];

/// Paths and links that lead nowhere, pages and lines that are too long, crates without a paragraph and an invariant, signals
/// by name.
pub(super) fn findings(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for page in pages(root)? {
        let text = fs::read_to_string(root.join(&page)).with_context(|| format!("cannot read {page}"))?;
        for path in paths(&text).filter(|path| !root.join(path).exists()) {
            findings.push(format!("{page}: `{path}` is not there: name what took its place"));
        }
        findings.extend(signals_by_name(&page, &text));
        if page.starts_with("docs/") {
            findings.extend(lengths(&page, &text));
            findings.extend(dead_links(root, &page, &text));
        }
        if page == ARCHITECTURE {
            findings.extend(architecture(root, &text)?);
        }
    }
    Ok(findings)
}

/// All pages, relative to the workspace.
fn pages(root: &Path) -> Result<Vec<String>> {
    let mut pages: Vec<String> =
        [ARCHITECTURE, "README.md", "CONTRIBUTING.md", "SECURITY.md"].map(str::to_owned).into();
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

/// A page that is too long, and lines that are.
fn lengths(page: &str, text: &str) -> Vec<String> {
    let lines = text.lines().count();
    let page_too_long = (lines > LINES_MAX).then(|| {
        format!(
            "{page}: {lines} lines, {LINES_MAX} at most: split it by task, or move history to docs/notebook/"
        )
    });
    let long = (1..).zip(text.lines()).map(|(number, line)| (number, line.chars().count()));
    let long = long.filter(|(_, length)| *length > LINE_MAX).map(|(number, length)| {
        format!(
            "{page}:{number}: {length} characters, {LINE_MAX} at most: break the line; make a wide table a list"
        )
    });
    page_too_long.into_iter().chain(long).collect()
}

/// Links to files that do not exist, and to headings that the page in `docs/` does not have.
fn dead_links(root: &Path, page: &str, text: &str) -> Vec<String> {
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    let dead = |link: &&str| {
        let (path, heading) = link.split_once('#').unwrap_or((link, ""));
        let target = if path.is_empty() { root.join(page) } else { root.join(folder).join(path) };
        let is_page = heading.is_empty() || !path.ends_with(".md") && !path.is_empty();
        !target.exists()
            || !is_page
                && !fs::read_to_string(&target).is_ok_and(|text| headings(&text).any(|it| it == heading))
    };
    let links = links(text).filter(|link| !link.contains("://"));
    links.filter(dead).map(|link| format!("{page}: the link ({link}) leads nowhere: name its page")).collect()
}

/// Targets of the links of a page, outside of blocks of code.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let prose = text.split("```").step_by(2);
    prose.flat_map(|part| part.split("](").skip(1)).filter_map(|rest| rest.split([')', '\n']).next())
}

/// Anchors of the headings of a page, as forges make them.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let titles = text.lines().filter(|line| line.starts_with('#'));
    titles.map(|line| {
        let kept = line.trim_start_matches('#').trim().chars().filter_map(|letter| match letter {
            ' ' => Some('-'),
            letter if letter.is_alphanumeric() || letter == '-' || letter == '_' => Some(letter),
            _ => None,
        });
        kept.collect::<String>().to_lowercase()
    })
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

/// The paths of the workspace in backquotes. NAME stands for any name: only its folder must exist.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split('`').skip(1).step_by(2);
    let ours = quoted.filter(|word| ROOTS.iter().any(|root| word.starts_with(root)) && !word.contains(' '));
    ours.map(|word| word.split("/NAME").next().unwrap_or(word))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{dead_links, lengths, paths, signals_by_name};

    #[test]
    fn pages_and_their_lines_are_short() {
        let count = |text: &str| lengths("docs/page.md", text).len();
        assert_eq!(count(&"line\n".repeat(250)), 0);
        assert_eq!(count(&"line\n".repeat(251)), 1);
        assert_eq!(count(&"µ".repeat(120)), 0, "characters, not bytes");
        assert_eq!(count(&"x".repeat(121)), 1);
    }

    #[test]
    fn links_lead_to_a_page_and_a_heading() {
        let root = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(root.path().join("docs")).expect("a writable folder");
        fs::write(root.path().join("docs/other.md"), "# Other\n\n## `auto`: a policy\n").expect("a page");
        for (text, count) in [
            ("[a](other.md) and [b](other.md#auto-a-policy) and [c](https://example.org/x)", 0),
            ("[a](missing.md)", 1),
            ("[a](other.md#missing)", 1),
            ("```\n[a](missing.md)\n```", 0),
        ] {
            assert_eq!(dead_links(root.path(), "docs/page.md", text).len(), count, "{text}");
        }
    }

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
