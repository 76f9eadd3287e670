//! Rules that hold in every Rust file of the workspace.

use super::exemptions::Exemptions;
use super::lexer::code_only;
use super::tree::{Tree, lies_in};

/// The crates without clock, I/O and threads; they build for wasm32.
pub(crate) const PURE: &[&str] = &["event", "wire", "proto", "control", "link", "dissect", "diagnosis"];

/// A file longer than this is two files.
const LINES_MAX: usize = 600;

/// Text banned in code (comments and strings do not count).
struct Ban {
    text: &'static str,
    instead: &'static str,
    scope: Scope,
}

/// Extent of a ban.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Everywhere,
    PureCrates,
}

const BANS: &[Ban] = &[
    Ban {
        text: "unsafe",
        instead: "system calls live in crates/net behind a safe function: use or add one there",
        scope: Scope::Everywhere,
    },
    Ban {
        text: "libc::",
        instead: "system calls live in crates/net behind a safe function: use or add one there",
        scope: Scope::Everywhere,
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

/// Every rule broken in the sources of the tree.
pub(super) fn findings(tree: &Tree, exemptions: &Exemptions) -> Vec<String> {
    let mut findings = Vec::new();
    for file in &tree.sources {
        if tree.member_of(&file.path).is_none() {
            findings.push(format!("{}: belongs to no crate of the workspace: move it into one", file.path));
        }
        findings.extend(check(&file.path, &file.text, exemptions));
    }
    findings
}

/// The rules that the file at `path`, relative to the workspace, breaks.
fn check(path: &str, text: &str, exemptions: &Exemptions) -> Vec<String> {
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
            if contains_word(line, ban.text) && !exemptions.excuse(ban.text, path) {
                findings.push(format!("{path}:{number}: `{}`: {}", ban.text, ban.instead));
            }
        }
    }
    findings
}

fn applies(scope: Scope, path: &str) -> bool {
    match scope {
        Scope::Everywhere => true,
        Scope::PureCrates => PURE.iter().any(|name| lies_in(path, &format!("crates/{name}"))),
    }
}

/// True if `needle` occurs in `line` other than as a part of longer words (`unsafe_code` is not `unsafe`).
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

    /// The findings in a file, with one exemption.
    fn found(path: &str, text: &str) -> Vec<String> {
        let mut exemptions = Exemptions::default();
        exemptions.add("unsafe", "crates/net");
        check(path, text, &exemptions)
    }

    /// Checks the number of rules that the text breaks at that place.
    #[track_caller]
    fn broken(path: &str, text: &str, expected: usize) {
        let findings = found(path, &format!("//! Purpose.\n{text}"));
        assert_eq!(findings.len(), expected, "{findings:?}");
    }

    #[test]
    fn each_rule_bites_where_it_holds() {
        broken("crates/wire/src/a.rs", "fn f() {}", 0);
        broken("crates/wire/src/a.rs", "unsafe { f() }", 1);
        broken("crates/net/src/a.rs", "unsafe { f() }", 0);
        broken("crates/net/src/a.rs", "unsafe { libc::close(3) }", 1);
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
        assert_eq!(found("crates/wan/src/a.rs", "fn f() {}").len(), 1);
    }
}
