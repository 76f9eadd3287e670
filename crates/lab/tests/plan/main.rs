//! Plans: problems of a text, in words, and cells of a valid one.

mod cells;
mod checks;
mod keys;

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

[[expect]]
name = "read reaches the line"
value = "read.throughput / line.goodput"
op = ">="
bound = 0.9
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
fn right_as_it_stands() {
    check("\"a plan\"", "\"another\"", &[]);
    check("delay = [\"0\", \"8ms\"]", "queue = [\"256KB\", \"0.5bdp\"]", &[]);
    check("delay = [\"0\", \"8ms\"]", "read.depth = [1, 8]\nblock = [4096, \"1MiB\"]", &[]);
}

#[test]
fn whatever_is_written_there_is_an_error_and_no_panic() {
    let mut random = fastrand::Rng::with_seed(3);
    let lines: Vec<&str> = RIGHT.lines().collect();
    for _ in 0..3000 {
        // Lines that are gone, doubled, cut, or changed in a place.
        let mut text = String::new();
        for line in &lines {
            match random.u8(0..20) {
                0 => {}
                1 => text.push_str(&format!("{line}\n{line}\n")),
                2 => text.push_str(&format!("{}\n", &line[..random.usize(0..=line.len())])),
                3 => text.push_str(&line.replace(|c: char| c.is_ascii_digit(), "-99999999999999999999")),
                4 => text
                    .push_str(&format!("{}\n", line.replace('"', ["", "[", "{a=", "'"][random.usize(0..4)]))),
                _ => text.push_str(&format!("{line}\n")),
            }
        }
        for variant in [Variant::Full, Variant::Quick] {
            if let Ok(plan) = Plan::parse(&text, variant) {
                plan.cells();
                plan.to_json();
            }
        }
    }
}

#[test]
fn quick_overrides_and_its_own_problems() {
    let quick =
        "\n[quick]\nrepeats = 2\n[quick.matrix]\ndelay = [\"8ms\"]\n[quick.load.read]\nwindow = \"500ms\"\n";
    let plan = Plan::parse(&format!("{RIGHT}{quick}"), Variant::Quick).unwrap();
    assert_eq!((plan.repeats, plan.cells().len()), (2, 2));
    assert_eq!(plan.loads[1].window.to_string(), "500ms");
    let full = Plan::parse(&format!("{RIGHT}{quick}"), Variant::Full).unwrap();
    assert_eq!((full.repeats, full.cells().len()), (1, 4));

    let spoiled = format!("{RIGHT}\n[quick]\nrepeat = 2\n[quick.load.raed]\nwindow = \"1s\"\n");
    let problems = Plan::parse(&spoiled, Variant::Full).unwrap_err();
    let texts: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "34:1: unknown key 'repeat' in [quick]; did you mean 'repeats'?",
            "35:13: no load is named 'raed'; did you mean 'read'?",
        ]
    );
}
