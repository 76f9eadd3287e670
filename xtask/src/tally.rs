//! Reads the output of `cargo test -- --show-output` line by line: what passed, what failed, what was skipped and why.
//!
//! A test that cannot run on this machine prints `skipped: NAME: REASON` and returns; to the test runner it passed,
//! and `--show-output` hands its words on. What passing tests print besides is not shown.

use std::collections::BTreeMap;

/// Totals of a test run.
#[derive(Default)]
pub(crate) struct Tally {
    /// Tests the runner calls passed, skipped ones among them.
    ran: u64,
    failed: u64,
    skips: Vec<Skip>,
    /// Per test file or library: tests that passed, skipped ones among them.
    suites: BTreeMap<String, u64>,
    suite: String,
    inside_successes: bool,
}

/// One test that could not run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Skip {
    /// The test file it lies in.
    pub(crate) suite: String,
    /// The test's name.
    pub(crate) name: String,
    /// Why it could not run.
    pub(crate) reason: String,
}

impl Tally {
    /// Takes the next line; whether a reader wants to see it.
    pub(crate) fn line(&mut self, line: &str) -> bool {
        let text = line.trim();
        if let Some(rest) = text.strip_prefix("Running ") {
            let file = rest.split(" (").next().unwrap_or(rest);
            // Unit tests of different crates have the same file name: the binary's name tells them apart.
            let binary = rest.rsplit('/').next().unwrap_or("").trim_end_matches(')');
            self.suite =
                if file.starts_with("unittests") { format!("{file} {binary}") } else { file.to_owned() };
            return true;
        }
        if let Some(name) = text.strip_prefix("Doc-tests ") {
            self.suite = format!("doc-tests {name}");
            return true;
        }
        if let Some(result) = text.strip_prefix("test result: ") {
            self.inside_successes = false;
            let passed = number_before(result, " passed");
            self.ran += passed;
            self.failed += number_before(result, " failed");
            *self.suites.entry(self.suite.clone()).or_default() += passed;
            return true;
        }
        if let Some((name, reason)) = text.strip_prefix("skipped: ").and_then(|rest| rest.split_once(": ")) {
            let skip = Skip { suite: self.suite.clone(), name: name.to_owned(), reason: reason.to_owned() };
            // The list of successes repeats nothing, but a test may say it twice.
            if !self.skips.contains(&skip) {
                self.skips.push(skip);
            }
            return false;
        }
        match text {
            "successes:" => self.inside_successes = true,
            "failures:" => self.inside_successes = false,
            _ => {}
        }
        !self.inside_successes
    }

    /// Tests that ran and passed.
    pub(crate) fn passed(&self) -> u64 {
        self.ran.saturating_sub(self.skips.len() as u64)
    }

    /// Tests that failed.
    pub(crate) fn failed(&self) -> u64 {
        self.failed
    }

    /// What could not run here.
    pub(crate) fn skips(&self) -> &[Skip] {
        &self.skips
    }

    /// How many tests of the file `suite` (as cargo names it, `tests/path.rs`) ran and passed.
    pub(crate) fn passed_in(&self, suite: &str) -> u64 {
        let skipped = self.skips.iter().filter(|skip| skip.suite == suite).count() as u64;
        self.suites.get(suite).copied().unwrap_or(0).saturating_sub(skipped)
    }
}

/// The number that stands before `unit` in a line such as `ok. 3 passed; 0 failed; …`.
fn number_before(line: &str, unit: &str) -> u64 {
    let before = line.find(unit).map_or("", |at| &line[..at]);
    before.rsplit(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
     Running unittests src/lib.rs (target/debug/deps/event-0a1b)
running 2 tests
test unit::one ... ok
test unit::two ... ok

successes:

---- unit::one stdout ----
chatter

successes:
    unit::one
    unit::two

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

     Running tests/path.rs (target/debug/deps/path-0a1b)
running 3 tests
test a ... ok
test b ... ok
test c ... FAILED

successes:

---- a stdout ----
skipped: a: tgtd is not installed
skipped: a: tgtd is not installed

failures:

---- c stdout ----
assertion failed

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

    #[test]
    fn counts_and_keeps_reasons() {
        let mut tally = Tally::default();
        let shown: Vec<&str> = OUTPUT.lines().filter(|line| tally.line(line)).collect();
        assert_eq!((tally.passed(), tally.failed()), (3, 1));
        assert_eq!((tally.passed_in("tests/path.rs"), tally.passed_in("tests/none.rs")), (1, 0));
        let skip = Skip {
            suite: "tests/path.rs".to_owned(),
            name: "a".to_owned(),
            reason: "tgtd is not installed".to_owned(),
        };
        assert_eq!(tally.skips(), [skip]);
        assert!(!shown.contains(&"chatter"), "a passing test's words are not shown");
        assert!(shown.contains(&"assertion failed"), "a failing test's words are");
    }
}
