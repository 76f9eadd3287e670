//! Secrets in URLs and flags: no command shows them, in text or in JSON, in results or in errors, nor writes them down.
//!
//! Commands and flags are those that `--help` lists, so that a new one is tried without a change here.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use e2e::ours::Target;
use e2e::{Finished, farlun, farlun_path, need, path, run};

const MINUTE: Duration = Duration::from_secs(60);
/// With characters that end a word, a host or a string elsewhere.
const SECRET: &str = "hunter2/@\"%:of alice";
const WRONG: &str = "hunter2 is not that of alice";
const DISK: &str = "hunter2 of the disk";
/// Part of all of them.
const MARK: &str = "hunter2";

#[track_caller]
fn expect_hidden(finished: Finished) -> Finished {
    let Finished { stdout, stderr, .. } = &finished;
    assert!(!stdout.contains(MARK) && !stderr.contains(MARK), "a secret is shown\n{finished:#?}");
    finished
}

/// Names below `heading` of a help, one a line, up to the next empty line.
fn listed<'a>(help: &'a str, heading: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = help.lines().skip_while(move |line| *line != heading).skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    lines.filter_map(|line| {
        line.strip_prefix("  ")?.split_whitespace().next().filter(|_| !line.starts_with("   "))
    })
}

/// Every command with its subcommands.
fn commands() -> Vec<Vec<String>> {
    let mut all = Vec::new();
    let mut open = vec![Vec::<String>::new()];
    while let Some(words) = open.pop() {
        let help = help(&words);
        for name in listed(&help, "Commands:").filter(|name| *name != "help") {
            let inner = [&words[..], &[name.to_owned()]].concat();
            all.push(inner.clone());
            open.push(inner);
        }
    }
    assert!(all.len() > 15 && all.contains(&vec!["wan".to_owned(), "selftest".to_owned()]), "{all:?}");
    all
}

fn help(words: &[String]) -> String {
    run(farlun(words).arg("-h"), MINUTE).expect_code(0).stdout
}

/// Flags of a command that take a value.
fn flags(help: &str) -> Vec<String> {
    let lines = help.lines().filter(|line| line.trim_start().starts_with('-'));
    let words = lines.filter_map(|line| {
        let flag = line.trim_start().split(", ").find(|part| part.starts_with("--"))?;
        let (name, value) = flag.split_once(' ')?;
        value.starts_with('<').then(|| name.to_owned())
    });
    words.collect()
}

#[test]
fn no_command_quotes_a_secret_in_an_error_of_its_flags() {
    let url = format!("iscsi://alice%{SECRET}@127.0.0.1:1/iqn.2026-11.io.farlun:x/0");
    let folder = tempfile::tempdir().expect("a folder");
    let fails = |words: &[String], more: &[&str]| {
        let finished = expect_hidden(run(farlun(words).args(more).current_dir(folder.path()), MINUTE));
        assert_eq!(finished.code, 2, "{finished:#?}");
    };
    // The flag at the end is nobody's, so that nothing begins.
    let nobodys = format!("--no-such-flag={url}");
    for words in commands() {
        for json in [&["--json"][..], &[]] {
            fails(&words, &[json, &[&url, &nobodys]].concat());
            fails(&words, &[json, &[&url, &url, &url, &nobodys]].concat());
        }
        for flag in flags(&help(&words)) {
            fails(&words, &[&flag, &url, &nobodys]);
            fails(&words, &[&format!("{flag}={url}"), "--chap-target-secret", DISK, &nobodys]);
        }
    }
}

#[test]
fn no_command_shows_a_secret_of_a_url_that_it_is_given() {
    let folder = tempfile::tempdir().expect("a folder");
    for url in [
        format!("iscsi://alice%{SECRET}@127.0.0.1:1/iqn.2026-11.io.farlun:x/0"),
        format!("iscsi://alice%{SECRET}@127.0.0.1:1"),
        format!("iscsi://alice:{MARK}@127.0.0.1:1/iqn.2026-11.io.farlun:x/0"),
        format!("iscsi://alice%{MARK}"),
        format!("iscsi://127.0.0.1:1/iqn.2026-11.io.farlun:x/0?target_password={MARK}"),
    ] {
        for words in commands() {
            for json in [&["--json"][..], &[]] {
                let mut command = farlun(&words);
                command.arg(&url).args(json).current_dir(folder.path());
                let finished = expect_hidden(run(&mut command, MINUTE));
                assert_ne!(finished.code, 0, "{finished:#?}");
            }
        }
    }
}

#[test]
fn a_run_that_takes_no_secret_shows_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut doctor = farlun(["doctor", "run"]);
    doctor.args([format!("--chap-target-secret={MARK}"), "--chap-target-user=disk".to_owned()]);
    expect_hidden(run(doctor.current_dir(folder.path()), MINUTE))
        .expect_code(2)
        .expect_said("--chap-target-secret is");
}

/// A target that alice may use, and that can prove itself.
fn guarded() -> (TempDir, Target) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("secrets");
    fs::write(&file, format!("alice {SECRET}\ndisk {DISK}\n")).expect("a file of secrets");
    fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("its mode");
    let file = file.to_str().expect("a path of plain characters");
    let flags = ["--chap", "alice", "--chap-secret-file", file, "--chap-target-user", "disk"];
    let target = Target::serve_with(&["memory:4MiB"], &flags);
    (folder, target)
}

/// Panics if a file below `folder` holds a secret.
#[track_caller]
fn expect_nothing_written(folder: &Path) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => expect_nothing_written(&path),
            false => {
                let bytes = fs::read(&path).expect("a file");
                let is_there = bytes.windows(MARK.len()).any(|part| part == MARK.as_bytes());
                assert!(!is_there, "a secret is in {}", path.display());
            }
        }
    }
}

#[test]
fn neither_results_nor_what_a_run_leaves_behind_show_a_secret() {
    let (_folder, target) = guarded();
    let folder = tempfile::tempdir().expect("a folder");
    let image = folder.path().join("image");
    fs::write(&image, [1; 4096]).expect("an image");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (image, copy, trace) = (at("image"), at("copy"), at("trace"));
    let mutual = ["--chap-target-user", "disk", "--chap-target-secret", DISK];
    for (secret, code) in [(SECRET, 0), (WRONG, 3)] {
        let with = |url: &str| url.replace("iscsi://", &format!("iscsi://alice%{secret}@"));
        let (portal, url) = (with(&target.portal()), with(&target.url(0)));
        let doctored = at(&format!("doctored-{code}"));
        for (more, json) in [(&mutual[..], &["--json"][..]), (&[], &[]), (&mutual, &[]), (&[], &["--json"])] {
            let ended = |args: &[&str]| {
                let mut command = farlun(args.iter().copied());
                expect_hidden(run(command.args(more).args(json), MINUTE)).expect_code(code);
            };
            ended(&["ls", &portal]);
            ended(&["inquiry", &url]);
            ended(&["read", &url, "-o", &copy]);
            ended(&["write", &url, "-i", &image]);
            ended(&["discard", &url, "--overwrite"]);
            ended(&["bench", &url, "--time", "100ms", "--trace", &trace]);
        }
        let mut doctor = farlun(["doctor", &url, "--time", "100ms", "--gentle", "--out", &doctored]);
        expect_hidden(run(doctor.args(mutual), MINUTE)).expect_code(code);
    }
    expect_nothing_written(folder.path());
}

#[test]
fn a_path_shows_the_commands_on_it_without_secrets() {
    need!(path::available());
    let (_folder, target) = guarded();
    let url = target.url(0).replace("iscsi://", &format!("iscsi://alice%{SECRET}@"));
    let program = farlun_path().display();
    let shown = |far: &[&str], near: &[&str], json: &[&str]| {
        let mut command = farlun(["wan", "--delay", "1ms", "--validity", "off"]);
        command.args(json);
        command.args(far.iter().flat_map(|line| ["--far", line]));
        expect_hidden(run(command.arg("--").args(near), MINUTE))
    };
    let line = format!("FARLUN_CHAP_SECRET='{SECRET}' {program} ls '{url}' --chap-target-secret '{DISK}'");
    for json in [&["--json"][..], &[]] {
        let near = ["sh", "-c", "exit 0", &url, "--chap-target-secret", DISK];
        let finished = shown(&[], &near, json).expect_code(0);
        if !json.is_empty() {
            let words = finished.json()["near"]["command"].to_string();
            assert!(words.contains("iscsi://alice%...@127.0.0.1"), "{words}");
        }
        shown(&[], &[&url, "--chap-target-secret", DISK], json).expect_code(1);
        // These end before anything listens.
        shown(&[&line], &["true"], json).expect_code(1).expect_said("FARLUN_CHAP_SECRET=...");
        shown(&[&format!("exit 7; {line}")], &["true"], json).expect_code(1).expect_said("exit code 7");
    }
}

#[test]
fn a_server_that_is_reached_with_secrets_logs_none() {
    let (_folder, mut target) = guarded();
    for secret in [SECRET, WRONG] {
        let url = target.url(0).replace("iscsi://", &format!("iscsi://alice%{secret}@"));
        run(&mut farlun(["inquiry", &url]), MINUTE);
    }
    target.service.terminate();
    let said = target.service.stderr();
    assert!(said.contains("wrong CHAP name or secret from 'alice'") && !said.contains(MARK), "{said}");
}
