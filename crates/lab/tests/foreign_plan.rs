//! Plans with foreign programs: problems of a text, and axes of the matrix.

use lab::{Need, Plan, Variant};

const RIGHT: &str = r#"name = "mine"
title = "a plan"

[needs]
perf = "perf-tools"

[[load]]
name = "ours"
kind = "bench"
op = "read"
block = "4KiB"
lun = 1
window = "2s"
server = "serve {host}:{port}"

[[load]]
name = "theirs"
kind = "command"
op = "read"
command = "perf {host} {seconds}"
window = "2s"

[[lun]]
kind = "memory"
size = "64MiB"

[matrix]
target.window = [1, 2]
"#;

/// Replaces `from` by `to` in the right plan and compares all problems, as `line: text`.
#[track_caller]
fn check(from: &str, to: &str, problems: &[&str]) {
    assert!(RIGHT.contains(from), "{from} is in the plan");
    let found = match Plan::parse(&RIGHT.replacen(from, to, 1), Variant::Full) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(|p| format!("{}: {}", p.line, p.text)).collect(),
    };
    assert_eq!(found, problems, "{to}");
}

#[test]
fn what_is_wrong_is_said() {
    check("{host}:", "{hots}:", &["14: server: nothing is put in the place of {hots}; did you mean 'host'?"]);
    check(
        "serve {host}",
        "serve {lun}",
        &["14: server: nothing is put in the place of {lun}; known here: host, port, iqn, dir, farlun"],
    );
    check(
        "command = \"perf {host} {seconds}\"\n",
        "",
        &["16: [[load]] needs command, such as command = \"iscsi-perf iscsi://{host}/{iqn}/{lun}\""],
    );
    check(
        "op = \"read\"\ncommand",
        "op = \"read\"\ndepth = 3\ncommand",
        &["20: a load of kind 'command' has no 'depth'"],
    );
    check(
        "{seconds}\"",
        "{seconds}\"\nlun = 3",
        &["21: load 'theirs' needs lun 3, and the plan has 1 [[lun]]"],
    );
    check("\"perf-tools\"", "7", &["5: perf: expected a text in quotes, found 7"]);
}

#[test]
fn what_a_target_of_others_serves_is_its_own_business() {
    let plan = Plan::parse(RIGHT, Variant::Full).unwrap();
    assert_eq!(plan.needs, [Need { program: "perf".to_owned(), package: "perf-tools".to_owned() }]);
    let slugs: Vec<String> = plan.cells().iter().map(lab::Cell::slug).collect();
    assert_eq!(slugs, ["ours", "theirs-target-window-1", "theirs-target-window-2"]);
    let json = plan.to_json();
    assert_eq!(
        (&json["load"][0]["server"], &json["load"][1]["kind"]),
        (&"serve {host}:{port}".into(), &"command".into())
    );
    assert_eq!(json["needs"]["perf"], "perf-tools");
}

#[test]
fn a_need_is_what_a_shell_finds() {
    let met = |program: &str| Need { program: program.to_owned(), package: "any".to_owned() }.is_met();
    assert!(met("sh") && !met("no-such-program"));
}
