//! What libiscsi's test suite says of a target, held against what `docs/reference/conformance.md` says it will.
//!
//! CUnit counts a test that skips itself as passed, so verdicts are read from the log and never from its summary. The
//! document is the only list of expected skips and failures: tables of tests, the LUNs they end so on, and the reason.

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

const PASSED: &str = "passed";
const SKIPPED: &str = "skipped";
const FAILED: &str = "failed";

impl Verdict {
    fn word(&self) -> &'static str {
        match self {
            Verdict::Passed => PASSED,
            Verdict::Skipped => SKIPPED,
            Verdict::Failed(_) => FAILED,
        }
    }
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

/// `docs/reference/conformance.md`, as far as the tests hold it.
pub struct Document {
    exceptions: Vec<Exception>,
    results: Vec<Result>,
}

/// A row of the table of skips, or of failures.
struct Exception {
    /// Verdict in a word.
    word: &'static str,
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
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/conformance.md");
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        Document::parse(&text)
    }

    /// Takes the tables below `## Results`, `## Skips` and `## Failures`. Panics, naming the row, where they cannot be read.
    #[track_caller]
    pub fn parse(text: &str) -> Document {
        let exceptions =
            [("## Skips", SKIPPED), ("## Failures", FAILED)].into_iter().flat_map(|(heading, word)| {
                table(text, heading).into_iter().map(move |row| {
                    let [test, luns, reason] = &row[..] else {
                        panic!("a test that is {word} has LUNs and a reason: {row:?}")
                    };
                    assert!(!reason.is_empty(), "a test that is {word} has a reason: {row:?}");
                    Exception {
                        word,
                        test: test.clone(),
                        luns: luns.split(", ").map(str::to_owned).collect(),
                    }
                })
            });
        let results = table(text, "## Results").into_iter().map(|row| {
            let [lun, counts @ ..] = &row[..] else { panic!("a result begins with its LUN: {row:?}") };
            let counts: Vec<usize> = counts.iter().filter_map(|count| count.parse().ok()).collect();
            let counts = counts.try_into().unwrap_or_else(|_| panic!("a result has three counts: {row:?}"));
            Result { lun: lun.clone(), counts }
        });
        Document { exceptions: exceptions.collect(), results: results.collect() }
    }

    /// What of a run against the LUN called `lun` is otherwise than written, one sentence each.
    pub fn differences(&self, lun: &str, verdicts: &BTreeMap<String, Verdict>) -> Vec<String> {
        let mut found = Vec::new();
        let is_here = |name: &String| name == lun || name == "every";
        let here: Vec<&Exception> = self.exceptions.iter().filter(|it| it.luns.iter().any(is_here)).collect();
        for (test, verdict) in verdicts {
            let written = here.iter().find(|it| it.covers(test)).map_or(PASSED, |it| it.word);
            if verdict.word() != written {
                let said = if let Verdict::Failed(said) = verdict { said.trim() } else { "" };
                found.push(format!(
                    "{test} {}, and docs/reference/conformance.md says {written} {said}",
                    verdict.word()
                ));
            }
        }
        for it in here.iter().filter(|it| !verdicts.keys().any(|test| it.covers(test))) {
            found.push(format!(
                "there is no test {}, and docs/reference/conformance.md says {}",
                it.test, it.word
            ));
        }
        let counts = [PASSED, SKIPPED, FAILED]
            .map(|word| verdicts.values().filter(|verdict| verdict.word() == word).count());
        let written = self.results.iter().find(|result| result.lun == lun).map(|result| result.counts);
        if written != Some(counts) {
            found.push(format!(
                "passed, skipped, failed are {counts:?}; for `{lun}` docs/reference/conformance.md says {written:?}"
            ));
        }
        found
    }
}

impl Exception {
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
    assert!(!rows.is_empty(), "docs/reference/conformance.md has no table below `{heading}`");
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

## Failures

| Test | LUN | Reason |
|---|---|---|
| `Inquiry.Limits` | large | the suite takes the limit for too large |

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
        let failed = || Verdict::Failed("why".to_owned());
        let as_written =
            [("Read6.BeyondEol", Verdict::Skipped), ("A.B", Verdict::Passed), ("C.D", Verdict::Passed)];
        assert_eq!(differences("memory", &as_written), "");
        for (place, verdict, expected) in [
            (1, failed(), "A.B failed, and docs/reference/conformance.md says passed why\n"),
            (1, failed(), "[1, 1, 1]; for `memory` docs/reference/conformance.md says Some([2, 1, 0])"),
            (1, Verdict::Skipped, "A.B skipped, and docs/reference/conformance.md says passed"),
            (0, Verdict::Passed, "Read6.BeyondEol passed, and docs/reference/conformance.md says skipped"),
            (0, failed(), "Read6.BeyondEol failed, and docs/reference/conformance.md says skipped why"),
        ] {
            let mut other = as_written.clone();
            other[place].1 = verdict;
            let said = differences("memory", &other);
            assert!(said.contains(expected), "{said}");
        }
        for (lun, verdicts, expected) in [
            ("memory", &as_written[1..], "there is no test Read6.BeyondEol, and"),
            ("file", &as_written, "there is no test Sanitize.*, and"),
            ("file", &as_written, "says None"),
            (
                "large",
                &as_written,
                "there is no test Inquiry.Limits, and docs/reference/conformance.md says failed",
            ),
            (
                "large",
                &[("Inquiry.Limits", Verdict::Passed)],
                "Limits passed, and docs/reference/conformance.md says failed",
            ),
            ("file", &[("Sanitize.Crypto", Verdict::Passed)], "Sanitize.Crypto passed, and"),
        ] {
            let said = differences(lun, verdicts);
            assert!(said.contains(expected), "{said}");
        }
    }
}
