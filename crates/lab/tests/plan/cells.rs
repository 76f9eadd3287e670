//! Cells: those of a matrix, and infeasible ones.

use lab::{LoadKind, Plan, Variant};

use super::{RIGHT, check};

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
