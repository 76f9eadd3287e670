//! Keys of a plan: problems with names, units and values.

use super::check;

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
