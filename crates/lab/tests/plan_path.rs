//! Plans: keys of the path, and the paths of their cells.

use lab::{Plan, Variant};

/// A plan that is right; the cases below add to it or spoil it.
const RIGHT: &str = r#"name = "mine"
title = "a plan"

[path]
rate = "1gbit"

[matrix]
delay = ["0", "8ms"]

[[lun]]
kind = "memory"
size = "64MiB"

[[load]]
name = "raw"
kind = "stream"
start = "1s + 20rtt"
window = "2s"

[[load]]
name = "read"
kind = "bench"
op = "read"
block = "1MiB"
window = "2s"
"#;

/// Replaces `from` by `to` in the right plan and compares all problems, as `line: text`.
fn check(from: &str, to: &str, problems: &[&str]) {
    assert!(RIGHT.contains(from), "{from} is in the plan");
    let found = match Plan::parse(&RIGHT.replacen(from, to, 1), Variant::Full) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(|p| format!("{}: {}", p.line, p.text)).collect(),
    };
    assert_eq!(found, problems, "{to}");
}

#[test]
fn paths_that_nobody_has_the_memory_for() {
    let said = |line: u32, delay: &str, needed: &str, queue: &str| {
        format!(
            "{line}: {delay} one way at 1gbit needs up to {needed} of memory for the packets of a direction (rate x delay, \
             and a queue of {queue}), at most 1GiB are reserved"
        )
    };
    let text = said(8, "5s", "2.14GiB", "1.16GiB");
    check("[\"0\", \"8ms\"]", "[\"0\", \"5s\"]", &[&text]);
    check(
        "rate = \"1gbit\"",
        "queue = \"2GiB\"",
        &[&said(5, "0", "2.45GiB", "2GiB"), &said(5, "8ms", "2.46GiB", "2GiB")],
    );
    check(
        "op = \"read\"",
        "op = \"read\"\npath = { delay = \"5s\" }",
        &[&said(24, "5s", "2.14GiB", "1.16GiB")],
    );
    check("rate = \"1gbit\"", "jitter = \"11s\"", &["5: jitter: '11s' is more than 10s"]);
}

#[test]
fn what_happens_on_a_path_is_read_as_the_command_reads_it() {
    let all = "jitter = \"near:1ms\"\njitter_overtakes = true\nreorder = \"far:1%\"\nreorder_hold = \"2ms\"\n\
               down = \"near:10s+200ms/30s,40s+1s\"\nloss = \"near:burst:0.1%/8,far:0.1%\"\nsegment = true\nrate =";
    check("rate =", all, &[]);
    let plan = Plan::parse(&RIGHT.replacen("rate =", all, 1), Variant::Full).unwrap();
    let json = &plan.to_json()["path"];
    assert_eq!((&json["jitter_overtakes"], &json["segment"]), (&true.into(), &true.into()), "{json}");
    assert_eq!(json["loss"], "near:burst:0.1%/8,far:0.1%");
    check("delay = [", "down = [\"1s+1ms\", \"far:2s+1ms\"]\ndelay = [", &[]);
    check(
        "rate = \"1gbit\"",
        "down = \"5s\"",
        &[
            "5: down: '5s' is not an outage such as 10s+200ms (at 10 s for 200 ms) or 10s+200ms/30s (every 30 s)",
        ],
    );
    check(
        "rate = \"1gbit\"",
        "loss = \"near:1%,near:2%\"",
        &["5: loss: 'near:1%,near:2%' names one side twice, expected a value for near and one for far"],
    );
}

#[test]
fn cells_of_a_load_are_cut_alike() {
    let cut = |from: &str, to: &str| -> Vec<bool> {
        let plan = Plan::parse(&RIGHT.replacen(from, to, 1), Variant::Full).unwrap();
        plan.cells().iter().map(|cell| cell.path.is_segmented()).collect()
    };
    let axis = "delay = [\"0\", \"8ms\"]";
    assert_eq!(cut(axis, axis), [false; 4]);
    for other in [
        "reorder = [\"0%\", \"0.1%\"]",
        "merge_acks = [\"0\", \"125us\"]",
        "queue = [\"50KB\", \"2MB\"]",
        "queue = [\"256 packets\", \"2MB\"]",
    ] {
        assert_eq!(cut(axis, other), [true; 4], "{other}");
    }
    assert_eq!(cut(axis, "segment = [false, true]"), [false, false, true, true]);
    let own = "start = \"1s\"\npath = { loss = \"0%\" }";
    assert_eq!(
        cut("start = \"1s + 20rtt\"", own),
        [true, false, true, false],
        "one load has a path of its own"
    );
}

#[test]
fn a_path_may_differ_by_direction() {
    let sides = "rate = \"near:10mbit,far:123456789bit\"\nqueue = \"near:64 packets,far:2MB\"";
    let plan = Plan::parse(&RIGHT.replacen("rate = \"1gbit\"", sides, 1), Variant::Full).unwrap();
    let json = &plan.to_json()["path"];
    assert_eq!(json["rate"], "near:10mbit,far:123456789bit");
    assert_eq!(json["queue"], "near:64 packets,far:2000000");
    let again = sides.replace("123456789bit", "123456788bit");
    let other = Plan::parse(&RIGHT.replacen("rate = \"1gbit\"", &again, 1), Variant::Full).unwrap();
    assert_ne!(plan.to_json(), other.to_json());
}
