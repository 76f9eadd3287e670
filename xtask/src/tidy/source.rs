//! Rules that hold in every Rust file of the workspace.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::PURE;
use super::lexer::code_only;

/// A file longer than this is two files.
const LINES_MAX: usize = 600;

/// Folders with sources. Below them only build folders are skipped (see [`is_build_folder`]).
const FOLDERS: &[&str] = &["crates", "fuzz", "tests", "xtask"];

/// Text banned in code (comments and strings do not count).
struct Ban {
    text: &'static str,
    instead: &'static str,
    scope: Scope,
}

/// Where a ban holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Everywhere,
    OutsideNet,
    PureCrates,
}

const BANS: &[Ban] = &[
    Ban {
        text: "unsafe",
        instead: "system calls live in crates/net behind a safe function: use or add one there",
        scope: Scope::OutsideNet,
    },
    Ban {
        text: "libc::",
        instead: "system calls live in crates/net behind a safe function: use or add one there",
        scope: Scope::OutsideNet,
    },
    Ban {
        text: "Instant::now",
        instead: "a pure crate reads no clock: take `now: event::Instant` as an argument",
        scope: Scope::PureCrates,
    },
    Ban {
        text: "SystemTime::now",
        instead: "a pure crate reads no clock: take `now: event::Instant` as an argument",
        scope: Scope::PureCrates,
    },
    Ban {
        text: "thread::sleep",
        instead: "a pure crate does not wait: return the next deadline from `poll_timeout`",
        scope: Scope::PureCrates,
    },
    Ban {
        text: "std::thread",
        instead: "a pure crate has no threads: let the caller own them",
        scope: Scope::PureCrates,
    },
    Ban {
        text: "std::process",
        instead: "a pure crate starts nothing: return what to do and let the caller do it",
        scope: Scope::PureCrates,
    },
    Ban {
        text: "allow(dead_code)",
        instead: "delete what nobody calls; the history keeps it",
        scope: Scope::Everywhere,
    },
    Ban {
        text: "#[ignore",
        instead: "print `skipped: NAME: REASON` and return where the machine cannot run it, so that it is counted",
        scope: Scope::Everywhere,
    },
];

/// Words banned in all text, comments above all; split so that this file does not contain them.
const BANNED_WORDS: &[(&str, &str)] = &[
    (concat!("TO", "DO"), "do it, or say in the comment what is left out and why"),
    (concat!("FIX", "ME"), "fix it, or say in the comment what is wrong and why it stays"),
];

/// Every rule broken in the sources below `root`.
pub(super) fn findings(root: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        collect(&root.join(folder), &mut files)?;
    }
    files.sort();
    let mut findings = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let path = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().into_owned();
        findings.extend(check(&path, &text));
    }
    Ok(findings)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            if !is_build_folder(&path) {
                collect(&path, files)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Cargo marks its build folder with this file; a source folder may have the name `target` too.
fn is_build_folder(folder: &Path) -> bool {
    folder.join("CACHEDIR.TAG").exists()
}

/// The rules that the file at `path`, relative to the workspace, breaks.
fn check(path: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    if !text.starts_with("//!") {
        findings.push(format!("{path}:1: begins without `//!`: say what the file is for, what it does not do, and where to read on"));
    }
    let lines = text.lines().count();
    if lines > LINES_MAX {
        findings.push(format!("{path}: {lines} lines, {LINES_MAX} at most: split it by noun"));
    }
    for (number, line) in (1..).zip(text.lines()) {
        for (word, instead) in BANNED_WORDS {
            if line.contains(word) {
                findings.push(format!("{path}:{number}: `{word}`: {instead}"));
            }
        }
    }
    let code = code_only(text);
    for ban in BANS.iter().filter(|ban| applies(ban.scope, path)) {
        for (number, line) in (1..).zip(code.lines()) {
            if contains_word(line, ban.text) {
                findings.push(format!("{path}:{number}: `{}`: {}", ban.text, ban.instead));
            }
        }
    }
    findings
}

fn applies(scope: Scope, path: &str) -> bool {
    match scope {
        Scope::Everywhere => true,
        Scope::OutsideNet => !path.starts_with("crates/net/"),
        Scope::PureCrates => PURE.iter().any(|name| path.starts_with(&format!("crates/{name}/"))),
    }
}

/// Whether `needle` occurs in `line` other than as a part of longer words (`unsafe_code` is not `unsafe`).
fn contains_word(line: &str, needle: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(needle).any(|(at, _)| {
        let before = line[..at].chars().next_back().is_some_and(is_word) && needle.starts_with(is_word);
        let after =
            line[at + needle.len()..].chars().next().is_some_and(is_word) && needle.ends_with(is_word);
        !before && !after
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many rules the text breaks at that place.
    #[track_caller]
    fn broken(path: &str, text: &str, expected: usize) {
        let findings = check(path, &format!("//! Purpose.\n{text}"));
        assert_eq!(findings.len(), expected, "{findings:?}");
    }

    #[test]
    fn each_rule_bites_where_it_holds() {
        broken("crates/wire/src/a.rs", "fn f() {}", 0);
        broken("crates/wire/src/a.rs", "unsafe { f() }", 1);
        broken("crates/net/src/a.rs", "unsafe { libc::close(3) }", 0);
        broken("crates/wire/src/a.rs", "#![deny(unsafe_code)] // unsafe is banned", 0);
        broken("crates/link/src/a.rs", "let now = Instant::now();", 1);
        broken("crates/wan/src/a.rs", "let now = Instant::now();", 0);
        broken("crates/wan/src/a.rs", "let text = \"Instant::now\";", 0);
        broken("crates/wan/src/a.rs", "#[ignore = \"slow\"]\nfn f() {}", 1);
        broken("crates/wan/src/a.rs", "#[allow(dead_code)]\nfn f() {}", 1);
        broken("crates/wan/src/a.rs", concat!("// TO", "DO: later"), 1);
        broken("crates/wan/src/a.rs", &"\n".repeat(LINES_MAX), 1);
    }

    #[test]
    fn a_file_without_a_purpose_is_found() {
        assert_eq!(check("crates/wan/src/a.rs", "fn f() {}").len(), 1);
    }
}
