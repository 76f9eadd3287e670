//! Counts of a test run: passed, failed, skipped and undecided tests, and the time of each.
//!
//! Input is libtest's stream of JSON events, one a line, with the output of passing tests. A test that cannot run here
//! prints `skipped: NAME: REASON`; a check that a busy machine kept from deciding prints `undecided: NAME: REASON`, a
//! decided one `decided: NAME`.

use serde_json::Value;

/// Outcomes of all tests so far.
#[derive(Default)]
pub(crate) struct Tally {
    tests: Vec<Test>,
    /// Test binaries that ended without a result, with the reason.
    broken: Vec<Note>,
}

/// One test that came to its end.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Test {
    /// Test binary that it is part of.
    pub(crate) suite: String,
    /// Path of the function within the binary.
    pub(crate) name: String,
    /// Duration in seconds.
    pub(crate) seconds: f64,
    /// Verdict of the test runner.
    pub(crate) passed: bool,
    /// Reason why it did not run here.
    pub(crate) skipped: Option<String>,
    /// Checks that were made although a busy machine may spoil them.
    pub(crate) decided: u64,
    /// Reasons of checks that a busy machine kept from deciding.
    pub(crate) undecided: Vec<String>,
}

/// A sentence about a test or a test binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// Test binary.
    pub(crate) suite: String,
    /// Test, or empty.
    pub(crate) name: String,
    /// Reason.
    pub(crate) reason: String,
}

impl Test {
    /// Reads one of libtest's events; `None` unless a test ended.
    pub(crate) fn from_event(suite: &str, event: &Value) -> Option<Test> {
        if event["type"] != "test" {
            return None;
        }
        let passed = match event["event"].as_str()? {
            "ok" => true,
            "failed" => false,
            _ => return None,
        };
        let mut test = Test {
            suite: suite.to_owned(),
            name: event["name"].as_str()?.to_owned(),
            seconds: event["exec_time"].as_f64().unwrap_or(0.0),
            passed,
            skipped: None,
            decided: 0,
            undecided: Vec::new(),
        };
        for line in event["stdout"].as_str().unwrap_or("").lines() {
            test.note(line.trim());
        }
        Some(test)
    }

    fn note(&mut self, line: &str) {
        let reason = |rest: &str| rest.split_once(": ").map_or(rest, |(_, reason)| reason).to_owned();
        if let Some(rest) = line.strip_prefix("skipped: ") {
            self.skipped = Some(reason(rest));
        } else if let Some(rest) = line.strip_prefix("undecided: ") {
            self.undecided.push(reason(rest));
        } else if line.starts_with("decided: ") {
            self.decided += 1;
        }
    }
}

impl Tally {
    /// Adds a test that ended.
    pub(crate) fn add(&mut self, test: Test) {
        self.tests.push(test);
    }

    /// Adds a test binary that ended without a result.
    pub(crate) fn add_broken(&mut self, suite: &str, reason: String) {
        self.broken.push(Note { suite: suite.to_owned(), name: String::new(), reason });
    }

    /// Number of tests that ran and passed.
    pub(crate) fn passed(&self) -> usize {
        self.tests.iter().filter(|test| test.passed && test.skipped.is_none()).count()
    }

    /// Number of tests that failed, and of binaries that ended without a result.
    pub(crate) fn failed(&self) -> usize {
        self.tests.iter().filter(|test| !test.passed).count() + self.broken.len()
    }

    /// Tests that failed and binaries that ended without a result.
    pub(crate) fn failures(&self) -> Vec<Note> {
        let failed = self.tests.iter().filter(|test| !test.passed);
        let mut notes: Vec<Note> = failed.map(|test| test.noted(String::new())).collect();
        notes.extend(self.broken.iter().cloned());
        notes
    }

    /// Tests that did not run here.
    pub(crate) fn skips(&self) -> Vec<Note> {
        let of = |test: &Test| test.skipped.clone().map(|reason| test.noted(reason));
        self.tests.iter().filter_map(of).collect()
    }

    /// Checks that were not decided.
    pub(crate) fn undecided(&self) -> Vec<Note> {
        let of = |test: &Test| test.undecided.iter().map(|r| test.noted(r.clone())).collect::<Vec<_>>();
        self.tests.iter().flat_map(of).collect()
    }

    /// Number of checks that were decided although a busy machine may spoil them.
    pub(crate) fn decided(&self) -> u64 {
        self.tests.iter().map(|test| test.decided).sum()
    }

    /// Number of tests of a binary that ran and passed.
    pub(crate) fn passed_in(&self, suite: &str) -> usize {
        self.tests.iter().filter(|test| test.suite == suite && test.passed && test.skipped.is_none()).count()
    }

    /// The slowest tests, the slowest first.
    pub(crate) fn slowest(&self, count: usize) -> Vec<&Test> {
        let mut all: Vec<&Test> = self.tests.iter().collect();
        all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        all.truncate(count);
        all
    }
}

impl Test {
    fn noted(&self, reason: String) -> Note {
        Note { suite: self.suite.clone(), name: self.name.clone(), reason }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(name: &str, event: &str, seconds: f64, stdout: &str) -> Value {
        json!({"type": "test", "name": name, "event": event, "exec_time": seconds, "stdout": stdout})
    }

    #[test]
    fn outcomes_are_counted_and_reasons_kept() {
        let mut tally = Tally::default();
        for event in [
            event("a", "started", 0.0, ""),
            event("a", "ok", 0.5, "chatter\n"),
            event("b", "ok", 0.0, "skipped: b: tgtd is not installed\nskipped: b: tgtd is not installed\n"),
            event("c", "failed", 2.0, "assertion failed\n"),
            event("d", "ok", 9.0, "decided: d\nundecided: d: packets were late: by 3 ms\ndecided: d\n"),
            json!({"type": "suite", "event": "ok", "passed": 3}),
        ] {
            tally.tests.extend(Test::from_event("path", &event));
        }
        tally.add_broken("unit", "ended with signal 6".to_owned());
        assert_eq!((tally.passed(), tally.failed(), tally.decided()), (2, 2, 2));
        assert_eq!((tally.passed_in("path"), tally.passed_in("unit")), (2, 0));
        let note = |suite: &str, name: &str, reason: &str| Note {
            suite: suite.to_owned(),
            name: name.to_owned(),
            reason: reason.to_owned(),
        };
        assert_eq!(tally.skips(), [note("path", "b", "tgtd is not installed")]);
        assert_eq!(tally.undecided(), [note("path", "d", "packets were late: by 3 ms")]);
        assert_eq!(tally.failures(), [note("path", "c", ""), note("unit", "", "ended with signal 6")]);
        let slowest: Vec<&str> = tally.slowest(2).iter().map(|test| test.name.as_str()).collect();
        assert_eq!(slowest, ["d", "c"]);
    }
}
