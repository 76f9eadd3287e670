//! Verdict on one attempt at a cell: valid figures, an invalid run, or a failed command.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};

use super::child::{Ended, LOG_FILE, OUTPUT_FILE, document, last_error};
use crate::plan::{Load, LoadKind};
use crate::run::command::host_name;
use crate::run::outlook::Streak;

/// Exit codes from here on are that of a shell: 128 and the number of the signal that ended the command.
const BY_SIGNAL: i64 = 128;

/// Verdict on one attempt.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::run) enum Verdict {
    /// It yields figures.
    Valid,
    /// The emulator was late or dropped packets by itself: another attempt may be valid.
    Invalid(Vec<String>),
    /// A command failed: another attempt would fail as well.
    Failed {
        /// Command, end and last line of its log.
        reason: String,
        /// True if the path could not be made, so that nothing was measured.
        no_path: bool,
    },
}

impl Verdict {
    /// Reasons if it yields no figures; else empty.
    pub(in crate::run) fn reasons(&self) -> Vec<String> {
        match self {
            Verdict::Valid => Vec::new(),
            Verdict::Invalid(reasons) => reasons.clone(),
            Verdict::Failed { reason, .. } => vec![reason.clone()],
        }
    }

    /// Counts it among the attempts in a row.
    pub(in crate::run) fn add_to(&self, streak: &mut Streak, cell: &str) {
        match self {
            Verdict::Valid => streak.valid(),
            Verdict::Invalid(reasons) => streak.invalid(cell, reasons, Instant::now()),
            Verdict::Failed { .. } => streak.other(),
        }
    }

    /// Reasons as a sentence; `None` if it yields figures.
    pub(in crate::run) fn trouble(&self) -> Option<String> {
        match self {
            Verdict::Valid => None,
            Verdict::Invalid(reasons) => Some(format!("not valid: {}", reasons.join("; "))),
            Verdict::Failed { reason, .. } => Some(format!("failed: {reason}")),
        }
    }
}

/// One attempt, judged.
#[derive(Debug)]
pub(in crate::run) struct Attempt {
    pub(in crate::run) verdict: Verdict,
    /// The document of `farlun wan`, if it printed one.
    pub(in crate::run) wan: Option<Value>,
    /// The document of the load, if it printed one.
    pub(in crate::run) near: Option<Value>,
}

/// Judges the files that a command left in its directory.
pub(in crate::run) fn judge(ended: &Ended, dir: &Path, load: &Load) -> Attempt {
    let wan = document(&dir.join(OUTPUT_FILE));
    let near = wan.as_ref().and_then(|wan| document_of(load, &wan["near"]));
    let mut verdict = verdict(ended, dir, wan.as_ref(), near.is_some(), load);
    if verdict == Verdict::Valid {
        let mut missing = missing(dir);
        missing.extend(wan.iter().flat_map(|wan| unfinished(wan, dir, load)));
        if !missing.is_empty() {
            verdict = Verdict::Invalid(missing);
        }
    }
    Attempt { verdict, wan, near }
}

/// Hosts of the load beyond the first at each end. All others are competing traffic, which runs until the run ends
/// it.
fn further(load: &Load) -> impl Iterator<Item = String> {
    let near = (2..=load.initiators).map(|number| host_name("near", number));
    near.chain((2..=load.far_hosts()).map(|number| host_name("far", number)))
}

/// Reasons from hosts of the load that did not finish, and from lost trace events.
fn unfinished(wan: &Value, dir: &Path, load: &Load) -> Vec<String> {
    let mut reasons = Vec::new();
    for other in wan["others"].as_array().into_iter().flatten() {
        let host = other["host"].as_str().unwrap_or_default();
        let is_near = host.starts_with("near") && further(load).any(|own| own == host);
        if is_near && other["asked_to_end"] == Value::Bool(true) {
            reasons.push(format!("the command in {host} outlived the first one by far and was stopped"));
        }
    }
    let dirs = std::iter::once(dir.to_owned()).chain(further(load).map(|host| dir.join(host)));
    for entry in dirs.flat_map(fs::read_dir).flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(table) = name.strip_suffix(".parquet.partial") {
            reasons
                .push(format!("the table {table} is incomplete: its writer was killed or the disk is full"));
        }
    }
    if let Some(lost @ 1..) = wan["kernel"]["lost_events"].as_u64() {
        reasons.push(format!("{lost} kernel trace events were lost: CPU too busy; stop other programs"));
    }
    reasons
}

/// Reasons from rows missing in the tables of a cell, in its directory and those of its further hosts: figures of the
/// rest would not be those of the load.
pub(in crate::run) fn missing(dir: &Path) -> Vec<String> {
    let further = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let dirs = std::iter::once(dir.to_owned()).chain(further.filter(|path| path.is_dir()));
    let of = |dir: PathBuf| match tables::lost_rows(dir) {
        Ok(lost) => {
            let words = |(table, rows): (String, u64)| {
                format!(
                    "{rows} rows of the table {table} were dropped: CPU or disk too busy; stop other programs"
                )
            };
            lost.into_iter().map(words).collect()
        }
        Err(error) => vec![error.to_string()],
    };
    dirs.flat_map(of).collect()
}

/// JSON result of the load; for a foreign program its start and end.
fn document_of(load: &Load, role: &Value) -> Option<Value> {
    match &load.kind {
        LoadKind::Command(command) => Some(json!({
            "kind": "command",
            "op": command.op.name(),
            "t_start_ns": role.get("t_start_ns")?,
            "t_end_ns": role.get("t_end_ns")?,
        })),
        _ => role.get("output").filter(|output| output.is_object()).cloned(),
    }
}

fn verdict(ended: &Ended, dir: &Path, wan: Option<&Value>, has_load: bool, load: &Load) -> Verdict {
    let words = last_error(&dir.join(LOG_FILE));
    let failed = |what: String, no_path| {
        let reason = words.as_ref().map_or(what.clone(), |words| format!("{what}: {words}"));
        Verdict::Failed { reason, no_path }
    };
    let code = match ended {
        Ended::Exited(code) => *code,
        Ended::Interrupted => return failed("interrupted".to_owned(), false),
        Ended::TimedOut(limit) => {
            return failed(format!("not finished after {} s and was ended", limit.as_secs()), false);
        }
    };
    let Some(wan) = wan else {
        return match words {
            Some(words) if code != 0 => Verdict::Failed { reason: words, no_path: true },
            _ => failed(format!("farlun wan ended with exit code {code} and printed no result"), true),
        };
    };
    for end in ["near", "far"] {
        // A far command that was ended by the run may exit by that signal; its own errors count even then.
        let asked = end == "far" && wan[end]["asked_to_end"] == Value::Bool(true);
        if let Some(code @ 1..) = wan[end]["exit_code"].as_i64().filter(|code| !asked || *code < BY_SIGNAL) {
            return failed(format!("the {end} command {}", ended_with(code)), false);
        }
    }
    for other in wan["others"].as_array().into_iter().flatten() {
        // Far commands and competing traffic run until the run ends them. Errors of the load's own commands count
        // even then.
        let asked = other["asked_to_end"] == Value::Bool(true);
        let host = other["host"].as_str().unwrap_or("other");
        let is_own = further(load).any(|own| own == host);
        let counts = |code: &i64| !asked || is_own && *code < BY_SIGNAL;
        if let Some(code @ 1..) = other["exit_code"].as_i64().filter(counts) {
            return failed(format!("the command in {host} {}", ended_with(code)), false);
        }
    }
    if !has_load {
        return failed("the near command printed no result".to_owned(), false);
    }
    // The command line asks for the verdict on the load's class of figures.
    let judged = &wan["validity"];
    if judged["ok"] == Value::Bool(true) {
        return Verdict::Valid;
    }
    let reasons = judged["reasons"].as_array().into_iter().flatten();
    Verdict::Invalid(reasons.filter_map(Value::as_str).map(str::to_owned).collect())
}

/// An exit code in words.
fn ended_with(code: i64) -> String {
    match code - BY_SIGNAL {
        signal @ 1.. => format!("was killed by signal {signal} (exit code {code}, log in {LOG_FILE})"),
        _ => format!("ended with exit code {code}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Source, Variant};

    fn load(name: &str) -> Load {
        let plan = Source::find("layers-foreign").unwrap().plan(Variant::Full).unwrap();
        plan.loads.into_iter().find(|load| load.name == name).unwrap()
    }

    fn check(document: Option<Value>, log: &str, ended: &Ended, expected: &Verdict) {
        let dir = tempfile::tempdir().unwrap();
        if let Some(document) = document {
            fs::write(dir.path().join(OUTPUT_FILE), document.to_string()).unwrap();
        }
        fs::write(dir.path().join(LOG_FILE), log).unwrap();
        assert_eq!(judge(ended, dir.path(), &load("ours")).verdict, *expected);
    }

    fn failed(reason: &str, no_path: bool) -> Verdict {
        Verdict::Failed { reason: reason.to_owned(), no_path }
    }

    #[test]
    fn of_a_program_of_others_it_is_known_when_it_ran() {
        let role = json!({"exit_code": 0, "t_start_ns": 5, "t_end_ns": 9, "output": {"kind": "else"}});
        let told = document_of(&load("libiscsi"), &role);
        assert_eq!(told, Some(json!({"kind": "command", "op": "read", "t_start_ns": 5, "t_end_ns": 9})));
        assert_eq!(document_of(&load("ours"), &role), Some(json!({"kind": "else"})));
        assert_eq!(document_of(&load("ours"), &json!({"output": null})), None);
    }

    #[test]
    fn a_cell_whose_tables_are_not_whole_yields_no_figures() {
        use event::{Instant, Io, Op, Sink};

        let dir = tempfile::tempdir().unwrap();
        let document = json!({
            "validity": {"ok": true}, "far": {"exit_code": 0},
            "near": {"exit_code": 0, "output": {"kind": "bench"}},
        });
        fs::write(dir.path().join(OUTPUT_FILE), document.to_string()).unwrap();
        fs::write(dir.path().join(LOG_FILE), "").unwrap();
        let judged = || judge(&Ended::Exited(0), dir.path(), &load("ours")).verdict;
        fs::create_dir(dir.path().join("near2")).unwrap();
        for (name, lost, expected) in [
            ("io-near.parquet", 0, Verdict::Valid),
            (
                "near2/io-near.parquet",
                2,
                Verdict::Invalid(vec![
                    "2 rows of the table io were dropped: CPU or disk too busy; stop other programs"
                        .to_owned(),
                ]),
            ),
        ] {
            let mut spool = tables::Spool::<Io>::create(dir.path().join(name), 1).unwrap();
            let t = Instant::ZERO;
            spool.record(&Io {
                issued: t,
                completed: t,
                op: Op::Read,
                offset_bytes: 0,
                len_bytes: 1,
                status: 0,
            });
            (0..lost).for_each(|_| spool.lose());
            spool.finish().unwrap();
            assert_eq!(judged(), expected);
        }
    }

    #[test]
    fn a_cell_of_which_a_host_did_not_come_to_its_end_yields_no_figures() {
        let dir = tempfile::tempdir().unwrap();
        let document = |host: &str, exit_code: i64| {
            json!({
                "validity": {"ok": true}, "far": {"exit_code": 0},
                "near": {"exit_code": 0, "output": {"kind": "bench"}},
                "others": [{"host": host, "exit_code": exit_code, "asked_to_end": true}],
            })
        };
        let judged = |document: &Value, initiators| {
            fs::write(dir.path().join(OUTPUT_FILE), document.to_string()).unwrap();
            fs::write(dir.path().join(LOG_FILE), "").unwrap();
            judge(&Ended::Exited(0), dir.path(), &Load { initiators, ..load("ours") }).verdict
        };
        let invalid = |text: &str| Verdict::Invalid(vec![text.to_owned()]);
        let ended = "the command in near2 outlived the first one by far and was stopped";
        assert_eq!(judged(&document("near2", 143), 2), invalid(ended));
        assert_eq!(judged(&document("near2", 143), 1), Verdict::Valid, "company");
        let full = failed("the command in near2 ended with exit code 1", false);
        assert_eq!(judged(&document("near2", 1), 2), full);

        let mut lost = document("near2", 0);
        lost["kernel"] = json!({"lost_events": 3});
        let words = "3 kernel trace events were lost: CPU too busy; stop other programs";
        assert_eq!(judged(&lost, 1), invalid(words));

        fs::create_dir(dir.path().join("near2")).unwrap();
        fs::write(dir.path().join("near2/sockets-near.parquet.partial"), "").unwrap();
        let partial = "the table sockets-near is incomplete: its writer was killed or the disk is full";
        assert_eq!(judged(&document("near3", 143), 1), Verdict::Valid, "that of company");
        assert_eq!(judged(&document("near3", 143), 2), invalid(partial));
    }

    #[test]
    fn verdicts() {
        let done = Ended::Exited(0);
        let document = |near, far, ok: bool| {
            Some(json!({
                "validity": {"ok": ok, "reasons": ["packets were late"]},
                "near": {"exit_code": near, "output": {"kind": "bench"}}, "far": {"exit_code": far},
            }))
        };
        check(document(0, 0, true), "", &done, &Verdict::Valid);
        let asked = |code| {
            let mut asked = document(0, code, true).unwrap();
            asked["far"]["asked_to_end"] = json!(true);
            Some(asked)
        };
        check(asked(143), "", &done, &Verdict::Valid);
        check(asked(1), "", &done, &failed("the far command ended with exit code 1", false));
        let crashed =
            failed("the far command was killed by signal 11 (exit code 139, log in wan.log)", false);
        check(document(0, 139, true), "", &done, &crashed);
        let killed = failed("the near command was killed by signal 9 (exit code 137, log in wan.log)", false);
        check(document(137, 0, true), "", &Ended::Exited(137), &killed);
        check(
            document(0, 0, false),
            "",
            &Ended::Exited(4),
            &Verdict::Invalid(vec!["packets were late".into()]),
        );
        check(
            document(3, 0, true),
            "working\nfarlun: login refused\n{\"ready\": true}\nbye\n\n",
            &Ended::Exited(3),
            &failed("the near command ended with exit code 3: login refused", false),
        );
        check(document(0, 1, true), "", &done, &failed("the far command ended with exit code 1", false));
        let crowd = |exit_code, asked_to_end| {
            let mut crowd = document(0, 0, true).unwrap();
            crowd["others"] =
                json!([{"host": "near2", "exit_code": exit_code, "asked_to_end": asked_to_end}]);
            Some(crowd)
        };
        check(crowd(0, false), "", &done, &Verdict::Valid);
        check(crowd(143, true), "", &done, &Verdict::Valid);
        check(
            crowd(1, false),
            "",
            &Ended::Exited(1),
            &failed("the command in near2 ended with exit code 1", false),
        );
        let silent = Some(json!({"validity": {"ok": true}, "near": {"exit_code": 0, "output": null}}));
        check(silent, "", &done, &failed("the near command printed no result", false));
        check(
            None,
            "farlun: cannot make a TUN device\n",
            &Ended::Exited(1),
            &failed("cannot make a TUN device", true),
        );
        let text = "farlun wan ended with exit code 0 and printed no result";
        check(None, "", &done, &failed(text, true));
        let limit = std::time::Duration::from_secs(7);
        check(None, "", &Ended::TimedOut(limit), &failed("not finished after 7 s and was ended", false));
    }
}
