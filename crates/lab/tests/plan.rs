//! Plans: problems of a text, in words, and cells of a valid one.

use lab::{LoadKind, Plan, Variant};

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
fn unknown_keys_and_the_nearest_known_one() {
    check(
        "title =",
        "titel =",
        &[
            "1: a plan needs title, such as title = \"what it shows\"",
            "2: unknown key 'titel' in a plan; did you mean 'title'?",
        ],
    );
    check("rate = ", "rat = ", &["5: unknown key 'rat' in [path]; did you mean 'rate'?"]);
    check(
        "rate = \"1gbit\"",
        "colour = 1",
        &[
            "5: unknown key 'colour' in [path]; known here: delay, rate, queue, mtu, ipv6, segment, bdp_max, police, loss, jitter, jitter_overtakes, reorder, reorder_hold, duplicate, merge_acks, coalesce, tick, down, near_rates, ring, device, rcvbuf, sndbuf, congestion",
        ],
    );
    check(
        "delay = [",
        "dealy = [",
        &["8: nothing in this plan has a 'dealy' to vary; did you mean 'delay'?"],
    );
    check(
        "delay = [",
        "raed.depth = [1]\ndelay = [",
        &["8: nothing in this plan has a 'raed.depth' to vary; did you mean 'read.depth'?"],
    );
    check(
        "kind = \"memory\"",
        "kind = \"memroy\"",
        &["11: kind: unknown value 'memroy'; did you mean 'memory'?"],
    );
    check(
        "kind = \"bench\"",
        "kind = \"bench\"\nlun = 1",
        &["23: load 'read' needs lun 1, and the plan has 1 [[lun]]"],
    );
    check(
        "size = ",
        "path = ",
        &[
            "10: [[lun]] needs size, such as size = \"1GiB\"",
            "12: unknown key 'path' in [[lun]]; did you mean 'rate'?",
        ],
    );
    check(
        "block = ",
        "blok = ",
        &[
            "20: [[load]] needs block, such as block = \"1MiB\"",
            "24: unknown key 'blok' in [[load]]; did you mean 'block'?",
        ],
    );
    check("start = \"1s + 20rtt\"", "depth = 3", &["17: a load of kind 'stream' has no 'depth'"]);
    check("op = \">=\"", "op = \"=>\"", &["30: op: unknown value '=>'; did you mean '>='?"]);
    check(
        "bound = 0.9",
        "bound = 0.9\nuint = \"ms\"",
        &["32: unknown key 'uint' in [[expect]]; did you mean 'unit'?"],
    );
}

#[test]
fn wrong_units_and_values() {
    check("\"1gbit\"", "\"1GB\"", &["5: rate: '1GB' is not a rate such as 100mbit, 1gbit, 2.5gbit"]);
    check("\"8ms\"", "8", &["8: delay: '8' is not a time such as 8ms, 250us, 1.5s"]);
    check(
        "\"64MiB\"",
        "\"64 apples\"",
        &["12: size: '64 apples' is not a size such as 512, 4KiB, 1MiB, 2GB"],
    );
    check(
        "\"1s + 20rtt\"",
        "\"1s + 20\"",
        &["17: start: '1s + 20' is not a time such as 500ms, 25rtt or 1s + 25rtt"],
    );
    check(
        "block = \"1MiB\"",
        "block = 1000",
        &["24: block: a block is a multiple of 512 bytes up to 64MiB, found '1000'"],
    );
    check(
        "block = \"1MiB\"",
        "block = \"1MiB\"\nmax_burst = 16773121",
        &["25: max_burst: a burst has 512 to 16773120 bytes, found '16773121'"],
    );
    check(
        "block = \"1MiB\"",
        "block = \"1MiB\"\ndepth = \"many\"",
        &["25: depth: expected a whole number from 1 to 65535, found 'many'"],
    );
    let with = |depth: &str| format!("block = \"1MiB\"\ndepth = {depth}");
    check(
        "block = \"1MiB\"",
        &with("5.0"),
        &["25: depth: expected a whole number from 1 to 65535, found '5.0'"],
    );
    check(
        "block = \"1MiB\"",
        &with("9223372036854775808"),
        &["25: 'depth' must be a whole number from -9223372036854775808 to 9223372036854775807, found \
           9223372036854775808"],
    );
    check(
        "window = \"2s\"\n\n[[load]]",
        "window = 0\n\n[[load]]",
        &["18: window: a window of 0 measures nothing"],
    );
    check("bound = 0.9", "bound = \"0.9\"", &["31: bound: expected a number without quotes, found '0.9'"]);
    check(
        "bound = 0.9",
        "bound = 0.9\nunit = \"ms\"",
        &[
            "27: read.throughput / line.goodput is a ratio or a count, and the unit is 'ms'; fitting: packets, rtt",
        ],
    );
    check(
        " / line.goodput",
        "",
        &[
            "27: read.throughput is a rate of bits, and no unit is given; fitting: bit/s, Mbit/s, Gbit/s, MB/s",
        ],
    );
    check(" / line.goodput", " - line.rtt", &["29: value: a time cannot be taken from a rate of bits"]);
    check("bound = 0.9", "bound = 0.9\nunit = \"mS\"", &["32: unit: unknown unit 'mS'; did you mean 'ms'?"]);
    check(
        "title = \"a plan\"",
        "title = [1]",
        &["2: 'title' must be a single value: a text in quotes, a number, true or false; found an array"],
    );
    check(
        "[path]\nrate = \"1gbit\"",
        "path = \"1gbit\"",
        &["4: 'path' must be a table [path], found a string"],
    );
    check(
        "title = \"a plan\"",
        "title = ",
        &["2: not TOML: string values must be quoted, expected literal string"],
    );
}

#[test]
fn impossible_matrices() {
    check("[\"0\", \"8ms\"]", "[]", &["8: 'delay' has no values; the matrix would be empty"]);
    check("[\"0\", \"8ms\"]", "[\"8ms\", \"8ms\"]", &["8: 'delay' has the value '8ms' twice"]);
    check(
        "delay = [\"0\", \"8ms\"]",
        "direction = [\"far-to-near\", \"up\"]",
        &["8: direction: unknown value 'up'; known here: near-to-far, far-to-near"],
    );
    // As many cells as there may be: the depth is no concern of raw.
    let many = |depths| {
        format!("mtu = {:?}\nread.depth = {:?}", Vec::from_iter(1400..1500), Vec::from_iter(1..depths))
    };
    check("delay = [\"0\", \"8ms\"]", &many(100), &[]);
    check(
        "delay = [\"0\", \"8ms\"]",
        &many(101),
        &["7: the matrix has 10100 cells (10100 × 1 repeats); at most 10000 can be run"],
    );
    check(
        "delay = [\"0\", \"8ms\"]",
        &many(502),
        &["7: the matrix has 100200 places (50100 points × 2 loads); at most 100000 can be looked at"],
    );
}

#[test]
fn hosts_luns_targets_and_what_competes() {
    check(
        "size = \"64MiB\"",
        "size = \"64MiB\"\ndelay = \"2ms..3ms\"\nfault = [\"write:1%\", \"read:nth=3-3\"]",
        &[],
    );
    check(
        "size = \"64MiB\"",
        "size = \"64MiB\"\ndirect = true",
        &["10: [[lun]] of kind 'memory': 'direct' is for files and block devices, not for memory LUNs"],
    );
    check(
        "size = \"64MiB\"",
        "size = \"64MiB\"\nfault = \"wirte\"",
        &["13: fault: 'wirte' is no kind of fault; did you mean 'write'?"],
    );
    check(
        "window = \"2s\"",
        "window = \"2s\"\ninitiators = 20",
        &["19: initiators: expected a whole number from 1 to 16, found '20'"],
    );
    let target = "[target]\nwindow = 100\n\n[[lun]]";
    check("[[lun]]", target, &[]);
    check(
        "[[lun]]",
        &target.replace("window", "windwo"),
        &["11: unknown key 'windwo' in [target]; did you mean 'window'?"],
    );
    check("delay = [\"0\", \"8ms\"]", "target.window = [100, 150]", &[]);
    check(
        "delay = [\"0\", \"8ms\"]",
        "target.compat = [\"none\", \"nagle\", \"nagle,separate-status\"]",
        &[],
    );
    check(
        "delay = [\"0\", \"8ms\"]",
        "target.compat = [\"nagel\"]",
        &["8: target.compat: 'nagel' is none of nagle, separate-status, joined-send; or none of them: none"],
    );
    check(
        "delay = [\"0\", \"8ms\"]",
        "target.windwo = [100, 150]",
        &["8: nothing in this plan has a 'target.windwo' to vary; did you mean 'target.window'?"],
    );
    let noise = "[[background]]\nname = \"noise\"\nkind = \"stream\"\nbeside = [\"read\"]\n\n[[expect]]";
    check("[[expect]]", noise, &[]);
    check(
        "[[expect]]",
        &noise.replace("\"read\"]", "\"raed\"]"),
        &["30: no load is named 'raed'; did you mean 'read'?"],
    );
    check(
        "[[expect]]",
        &noise.replace("\"noise\"", "\"read\""),
        &["28: the name 'read' is taken; every load needs its own"],
    );
    check("op = \"read\"", "op = \"read\"\npath = { delay = \"1ms\", mtu = 1400 }", &[]);
    check(
        "op = \"read\"",
        "op = \"read\"\npath = { dealy = \"1ms\", mtu = 14 }",
        &[
            "24: unknown key 'dealy' in path = { … }; did you mean 'delay'?",
            "24: mtu: expected a whole number from 1280 to 65535, found '14'",
        ],
    );
    check(
        "[[expect]]",
        &noise.replace("\n\n", "\nwindow = \"1s\"\n\n"),
        &["31: a background is not measured and has no 'window'"],
    );
}

#[test]
fn what_is_recorded_and_drawn() {
    let with = |line: &str| format!("title = \"a plan\"\n{line}");
    check(
        "title = \"a plan\"",
        &with("record = [\"io\", \"sockets\"]\ndraw = [\"rate\", \"throughput by delay\"]"),
        &[],
    );
    check(
        "title = \"a plan\"",
        &with("record = [\"packet\"]"),
        &["3: record: unknown value 'packet'; did you mean 'packets'?"],
    );
    check(
        "title = \"a plan\"",
        &with("record = \"packets\""),
        &["3: 'record' must be a list in [ ], found a string"],
    );
    check(
        "title = \"a plan\"",
        &with("draw = [\"rat\"]"),
        &[
            "3: draw: there is no figure 'rat'; write rate, window, block, in-flight, request, packets, gaps, ends or METRIC by AXIS; did you mean 'rate'?",
        ],
    );
    check(
        "title = \"a plan\"",
        &with("draw = [\"thruput by delay\", \"iops by depth\"]"),
        &[
            "3: draw: loads have no metric 'thruput'; did you mean 'throughput'?",
            "3: draw: the matrix has no 'depth'; known here: delay",
        ],
    );
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
fn cells_that_nobody_can_run() {
    check(
        "delay = [\"0\", \"8ms\"]",
        "read.block = [\"1MiB\", \"64MiB\"]\nlun = [0, 1]",
        &["9: load 'read' needs lun 1, and the plan has 1 [[lun]]"],
    );
    check("\"64MiB\"", "\"512KiB\"", &["24: a block of 1048576 does not fit lun 0 of 524288"]);
    let crowd = "initiators = [4, 12]\n\n[[background]]\nname = \"noise\"\nkind = \"stream\"\ninitiators = 6";
    check(
        "delay = [\"0\", \"8ms\"]",
        crowd,
        &[
            "8: raw at initiators 12 needs 18 near and 18 far hosts, competing traffic included; \
             a path has at most 16 of each",
            "8: read at initiators 12 needs 18 near and 7 far hosts, competing traffic included; \
             a path has at most 16 of each",
        ],
    );
    let own = |lines: &str| format!("rate = \"1gbit\"\nnear_rates = \"{lines}\"");
    check("rate = \"1gbit\"", &own("1gbit"), &[]);
    check(
        "rate = \"1gbit\"",
        &own("2gbit"),
        &["6: near_rates come to 2gbit, expected no more than the rate of 1gbit in all; give a larger rate"],
    );
    check(
        "rate = \"1gbit\"",
        &own("60mbit,20mbit"),
        &[
            "6: near_rates gives 2, expected one for each near host, 1 in all, those of competing traffic included",
        ],
    );
    check(
        "rate = \"1gbit\"",
        &format!("{}\nqueue = \"2KB\"", own("500mbit")),
        &[
            "6: the queue of the slowest of near_rates, whose part of queue is as its part of rate, is 1000 bytes, expected \
             1538 for a packet at least; give a larger queue",
        ],
    );
    check(
        "rate = \"1gbit\"",
        &format!("{}\nring = 256", own("1gbit")),
        &["6: a ring empties at the rate of one line, and near_rates make several; leave one of the two out"],
    );
}

#[test]
fn every_cell_and_repeat_has_chances_of_its_own() {
    let plan = Plan::parse(RIGHT, Variant::Full).unwrap();
    let seeds = |seed| -> Vec<u64> {
        plan.cells().iter().flat_map(|cell| (1..=3).map(move |repeat| cell.seed(seed, repeat))).collect()
    };
    let mut all = [seeds(1), seeds(2)].concat();
    assert_eq!(seeds(1), seeds(1));
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 24);
}

#[test]
fn expectations_name_what_is_there() {
    check(
        "read.throughput",
        "raed.throughput",
        &["29: value: no load is named 'raed'; did you mean 'read'?"],
    );
    check(
        "read.throughput",
        "read.thruput",
        &["29: value: 'read' has no metric 'thruput'; did you mean 'throughput'?"],
    );
    check(
        "read.throughput /",
        "read.throughput //",
        &["29: value: found '/' at character 18 of 'read.throughput // line.goodput', \
         expected a number, a metric such as read.throughput, or '('"],
    );
    check(
        "bound = 0.9",
        "bound = 0.9\nwhere = { dely = \"8ms\" }",
        &["32: the matrix has no 'dely'; did you mean 'delay'?"],
    );
    check(
        "bound = 0.9",
        "bound = 0.9\nwhere = { delay = \"9ms\" }",
        &["32: 'delay' is never '9ms' in the matrix; did you mean '8ms'?"],
    );
    check(
        "line.goodput",
        "line.throughput",
        &["29: value: 'line' has no metric 'throughput'; known here: goodput, rate, rtt, bdp"],
    );
    check(
        "bound = 0.9",
        "bound = 0.9\nwhere = { delay = [] }",
        &["32: 'delay' has no value here, so that nothing would be checked; leave it out or name one"],
    );
    check(
        "bound = 0.9",
        "bound = 0.9\nwhere = { read = {} }",
        &[
            "32: 'read' has no value here, so that nothing would be checked; leave it out or name one",
            "32: 'read' must be a single value: a text in quotes, a number, true or false; found a table",
        ],
    );
    check(" / line.goodput\"", "\"\nshape = \"flat\"\nalong = \"delay\"", &[]);
    check(
        " / line.goodput\"",
        "\"\nshape = \"flat\"\nalong = \"delay\"\nwhere = { delay = \"8ms\" }",
        &["27: a shape needs two values or more along its axis, and the value must vary there"],
    );
    check(
        " / line.goodput\"",
        "\"\nshape = \"flatt\"\nalong = \"dealy\"",
        &[
            "30: shape: unknown value 'flatt'; did you mean 'flat'?",
            "31: along: unknown value 'dealy'; did you mean 'delay'?",
        ],
    );
    check(
        " / line.goodput\"",
        " / line.goodput\"\nshape = \"flat\"",
        &["27: [[expect]] needs along, such as along = \"depth\""],
    );
    check("line.goodput", "read.throughput[delay=8ms]", &[]);
    check(
        "bound = 0.9",
        "bound = 0.9\ninterval = \"lower95\"",
        &["27: an interval needs 15 repeats or more, and the plan has 1"],
    );
    check(
        "\"read.throughput / line.goodput\"\nop = \">=\"",
        "\"read.throughput\"\nunit = \"Mbit/s\"\ninterval = \"lower95\"\nop = \"<=\"",
        &[
            "27: an interval needs 15 repeats or more, and the plan has 1",
            "31: an interval is one of ratios; divide by what the value is compared with",
            "31: what a ratio is at least is compared by >= or >",
        ],
    );
    check(
        "bound = 0.9",
        "bound = 0.9\ninterval = \"uper95\"",
        &["32: interval: unknown value 'uper95'; did you mean 'lower95'?"],
    );
    check(
        "line.goodput",
        "read.throughput[delay=9ms]",
        &["29: value: 'delay' is never '9ms' in the matrix; did you mean '8ms'?"],
    );
    check(
        "line.goodput",
        "read.throughput[dealy=8ms]",
        &["29: value: the matrix has no 'dealy'; did you mean 'delay'?"],
    );
    check("name = \"read\"", "name = \"line\"", &["21: the name 'line' is taken; every load needs its own"]);
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

#[test]
fn an_interval_goes_where_quick_has_too_few_repeats() {
    let asked = RIGHT.replacen("bound = 0.9", "bound = 0.9\ninterval = \"lower95\"", 1);
    let parse = |quick: u32, variant| {
        let text = format!("repeats = 15\n{asked}\n[quick]\nrepeats = {quick}\n");
        let plan = Plan::parse(&text, variant).unwrap();
        let written = plan.to_json()["expect"]
            .as_array()
            .map_or(0, |all| all.iter().filter(|expect| expect["interval"] == "lower95").count());
        (plan.repeats, plan.expects.len(), written)
    };
    assert_eq!(parse(14, Variant::Full), (15, 1, 1));
    assert_eq!(parse(15, Variant::Quick), (15, 1, 1));
    assert_eq!(parse(14, Variant::Quick), (14, 0, 0), "its plan is right all the same");
}

#[test]
fn a_cell_for_every_load_at_every_point_that_concerns_it() {
    let matrix = "delay = [\"0\", \"8ms\"]\nread.depth = [1, 8]";
    let plan = Plan::parse(&RIGHT.replacen("delay = [\"0\", \"8ms\"]", matrix, 1), Variant::Full).unwrap();
    let slugs: Vec<_> = plan.cells().iter().map(lab::Cell::slug).collect();
    assert_eq!(
        slugs,
        [
            "raw-delay-0",
            "read-delay-0-read-depth-1",
            "read-delay-0-read-depth-8",
            "raw-delay-8ms",
            "read-delay-8ms-read-depth-1",
            "read-delay-8ms-read-depth-8",
        ]
    );
    let last = &plan.cells()[5];
    assert_eq!((last.number, last.path.delay.as_millis()), (6, 8));
    assert!(matches!(&last.load.kind, LoadKind::Bench(bench) if bench.depth == Some(8)));
    assert_eq!(last.words(), "read at delay 8ms, read.depth 8");
}

#[test]
fn a_load_may_have_a_path_of_its_own() {
    let own = "window = \"2s\"\npath = { delay = \"1ms\", mtu = 1400 }\n\n[[load]]";
    let plan = RIGHT.replacen("window = \"2s\"\n\n[[load]]", own, 1).replacen(
        "delay = [\"0\", \"8ms\"]",
        "delay = [\"0\", \"8ms\"]\nrate = [\"1gbit\", \"100mbit\"]",
        1,
    );
    let plan = Plan::parse(&plan, Variant::Full).unwrap();
    let cells = plan.cells();
    let raw: Vec<_> = cells.iter().filter(|cell| cell.load.name == "raw").collect();
    assert_eq!((cells.len(), raw.len()), (6, 2), "the delay of the matrix is not that of raw");
    assert_eq!(raw[1].words(), "raw at rate 100mbit");
    let path = &raw[1].path;
    assert_eq!((path.delay.as_millis(), path.mtu_bytes, path.rate.0), (1, 1400, 100_000_000));
}
