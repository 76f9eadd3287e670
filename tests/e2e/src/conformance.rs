//! What libiscsi's test suite says of a target, held against what `docs/conformance.md` says it will.
//!
//! CUnit counts a test that skips itself as passed, so verdicts are read from the log and never from its summary. The
//! document is the only list of expected skips: a table of tests, the LUNs they are skipped on, and the reason.

use std::collections::BTreeMap;
use std::fs;

/// How one test of the suite ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It ran and found nothing.
    Passed,
    /// It said that it does not apply.
    Skipped,
    /// It failed, or the log ends before its verdict. With all that it printed.
    Failed(String),
}

/// The verdict of every test in a log of `iscsi-test-cu`, by `SUITE.TEST`.
pub fn verdicts(log: &str) -> BTreeMap<String, Verdict> {
    let mut verdicts = BTreeMap::new();
    let mut suite = "";
    // The test that has no verdict yet, and what it printed.
    let mut running: Option<(String, String)> = None;
    for line in log.lines() {
        let mut said = line;
        if let Some(name) = line.strip_prefix("Suite: ") {
            suite = name.trim();
        } else if let Some((name, rest)) =
            line.strip_prefix("  Test: ").and_then(|line| line.split_once(" ..."))
        {
            unfinished(&mut verdicts, running.take());
            running = Some((format!("{suite}.{name}"), String::new()));
            said = rest;
        }
        let Some((name, text)) = &mut running else { continue };
        // What follows the word on its line was printed by the clean-up after the test.
        if said.starts_with("passed") {
            let skipped = text.contains("[SKIPPED]");
            verdicts.insert(name.clone(), if skipped { Verdict::Skipped } else { Verdict::Passed });
            running = None;
        } else if said.starts_with("FAILED") {
            verdicts.insert(name.clone(), Verdict::Failed(std::mem::take(text)));
            running = None;
        } else {
            text.push_str(said.trim());
            text.push('\n');
        }
    }
    unfinished(&mut verdicts, running);
    verdicts
}

fn unfinished(verdicts: &mut BTreeMap<String, Verdict>, running: Option<(String, String)>) {
    if let Some((name, text)) = running {
        verdicts.insert(name, Verdict::Failed(format!("{text}the log has no verdict\n")));
    }
}

/// `docs/conformance.md`, as far as the tests hold it.
pub struct Document {
    skips: Vec<Skip>,
    results: Vec<Result>,
}

/// A row of the table of skips.
struct Skip {
    /// `SUITE.TEST`, or `SUITE.*` for every test of a suite.
    test: String,
    /// Names of LUNs, or `every`.
    luns: Vec<String>,
}

/// A row of the table of results.
struct Result {
    lun: String,
    /// Passed, skipped, failed.
    counts: [usize; 3],
}

impl Document {
    /// Reads the document of this tree.
    #[track_caller]
    pub fn read() -> Document {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/conformance.md");
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        Document::parse(&text)
    }

    /// Takes the tables below `## Results` and `## Skips`. Panics, naming the row, where they cannot be read.
    #[track_caller]
    pub fn parse(text: &str) -> Document {
        let skips = table(text, "## Skips").into_iter().map(|row| {
            let [test, luns, reason] = &row[..] else {
                panic!("a skip is a test, LUNs and a reason: {row:?}")
            };
            assert!(!reason.is_empty(), "a skip has a reason: {row:?}");
            Skip { test: test.clone(), luns: luns.split(", ").map(str::to_owned).collect() }
        });
        let results = table(text, "## Results").into_iter().map(|row| {
            let [lun, counts @ ..] = &row[..] else { panic!("a result begins with its LUN: {row:?}") };
            let counts: Vec<usize> = counts.iter().filter_map(|count| count.parse().ok()).collect();
            let counts = counts.try_into().unwrap_or_else(|_| panic!("a result has three counts: {row:?}"));
            Result { lun: lun.clone(), counts }
        });
        Document { skips: skips.collect(), results: results.collect() }
    }

    /// What of a run against the LUN called `lun` is otherwise than written, one sentence each.
    pub fn differences(&self, lun: &str, verdicts: &BTreeMap<String, Verdict>) -> Vec<String> {
        let mut found = Vec::new();
        let here: Vec<&Skip> = self
            .skips
            .iter()
            .filter(|skip| skip.luns.iter().any(|name| name == lun || name == "every"))
            .collect();
        for (test, verdict) in verdicts {
            let listed = here.iter().any(|skip| skip.covers(test));
            match (verdict, listed) {
                (Verdict::Failed(said), _) => found.push(format!("{test} failed: {}", said.trim())),
                (Verdict::Skipped, false) => found.push(format!(
                    "{test} was skipped, which docs/conformance.md does not list: make it run, or list it with its reason"
                )),
                (Verdict::Passed, true) => found.push(format!(
                    "{test} passed, and docs/conformance.md lists it as skipped: take it from the list"
                )),
                (Verdict::Passed, false) | (Verdict::Skipped, true) => {}
            }
        }
        for skip in here.iter().filter(|skip| !verdicts.keys().any(|test| skip.covers(test))) {
            found.push(format!(
                "the suite has no test {}, which docs/conformance.md lists as skipped",
                skip.test
            ));
        }
        let count =
            |wanted: fn(&Verdict) -> bool| verdicts.values().filter(|verdict| wanted(verdict)).count();
        let counts = [
            count(|verdict| *verdict == Verdict::Passed),
            count(|verdict| *verdict == Verdict::Skipped),
            count(|verdict| matches!(verdict, Verdict::Failed(_))),
        ];
        let written = self.results.iter().find(|result| result.lun == lun).map(|result| result.counts);
        if written != Some(counts) {
            found.push(format!(
                "passed, skipped, failed are {counts:?}; for `{lun}` docs/conformance.md says {written:?}"
            ));
        }
        found
    }
}

impl Skip {
    fn covers(&self, test: &str) -> bool {
        match self.test.strip_suffix('*') {
            Some(suite) => test.starts_with(suite),
            None => test == self.test,
        }
    }
}

/// The rows of the table below a heading, without its head; cells without spaces and backticks around them.
#[track_caller]
fn table(text: &str, heading: &str) -> Vec<Vec<String>> {
    let lines =
        text.lines().skip_while(|line| *line != heading).skip(1).take_while(|line| !line.starts_with("## "));
    let rows: Vec<_> = lines.filter(|line| line.starts_with('|')).skip(2).map(cells).collect();
    assert!(!rows.is_empty(), "docs/conformance.md has no table below `{heading}`");
    rows
}

fn cells(row: &str) -> Vec<String> {
    let inner = row.trim().trim_matches('|');
    inner.split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "
     CUnit - A unit testing framework for C - Version 2.1-3

Suite: Read6
  Test: Simple ...passed
  Test: BeyondEol ...    [SKIPPED] LUN is too big for read6.
passed    [FAILED] PRIN command: UNIT ATTENTION
Suite: Reserve6
  Test: LUNReset ...
    [FAILED] RESERVE6 command: RESERVATION CONFLICT
FAILED
    1. test_reserve6_lun_reset.c:53  - CU_ASSERT_EQUAL(ret,0)
  Test: Simple ...passed
  Test: Logout ...
    Send RESERVE6
";

    const DOCUMENT: &str = "
## Results

| LUN | Passed | Skipped | Failed |
|---|---:|---:|---:|
| `memory` | 2 | 1 | 0 |

## Skips

| Test | LUN | Reason |
|---|---|---|
| `Read6.BeyondEol` | memory, file | the LUN is too large for six bytes |
| `Sanitize.*` | file | SANITIZE is not there |

## Else
";

    #[test]
    fn every_test_has_a_verdict() {
        let verdicts = verdicts(LOG);
        let names: Vec<&str> = verdicts.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            ["Read6.BeyondEol", "Read6.Simple", "Reserve6.LUNReset", "Reserve6.Logout", "Reserve6.Simple"]
        );
        assert_eq!(verdicts["Read6.Simple"], Verdict::Passed);
        assert_eq!(verdicts["Read6.BeyondEol"], Verdict::Skipped);
        assert_eq!(verdicts["Reserve6.Simple"], Verdict::Passed);
        let said = "\n[FAILED] RESERVE6 command: RESERVATION CONFLICT\n".to_owned();
        assert_eq!(verdicts["Reserve6.LUNReset"], Verdict::Failed(said));
        assert!(matches!(&verdicts["Reserve6.Logout"], Verdict::Failed(said) if said.contains("no verdict")));
    }

    #[test]
    fn whatever_is_otherwise_than_written_is_said() {
        let document = Document::parse(DOCUMENT);
        let differences = |lun, pairs: &[(&str, Verdict)]| {
            let verdicts =
                pairs.iter().map(|(name, verdict)| ((*name).to_owned(), verdict.clone())).collect();
            document.differences(lun, &verdicts).join("\n")
        };
        let as_written =
            [("Read6.BeyondEol", Verdict::Skipped), ("A.B", Verdict::Passed), ("C.D", Verdict::Passed)];
        assert_eq!(differences("memory", &as_written), "");

        let mut other = as_written.clone();
        other[1].1 = Verdict::Failed("why".to_owned());
        let said = differences("memory", &other);
        assert!(said.contains("A.B failed: why") && said.contains("[1, 1, 1]"), "{said}");
        other[1].1 = Verdict::Skipped;
        assert!(differences("memory", &other).contains("A.B was skipped, which"));
        let mut other = as_written.clone();
        other[0].1 = Verdict::Passed;
        assert!(differences("memory", &other).contains("Read6.BeyondEol passed, and"));
        let said = differences("memory", &as_written[1..]);
        assert!(said.contains("no test Read6.BeyondEol"), "{said}");
        let said = differences("file", &as_written);
        assert!(said.contains("no test Sanitize.*") && said.contains("says None"), "{said}");
        let said = differences("file", &[("Sanitize.Crypto", Verdict::Passed)]);
        assert!(said.contains("Sanitize.Crypto passed, and"), "{said}");
    }
}
