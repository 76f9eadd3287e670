//! Runs of one cell, made by hand.

use std::collections::BTreeMap;

use super::*;

/// Values that look like chance, around 1.
fn noise(n: u64) -> f64 {
    let z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    1.0 + ((z ^ (z >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as f64 / (1 << 24) as f64 * 0.02
}

fn repeat(number: u32, rate: f64) -> Repeat {
    let series = |n: u64| (n as f64 * 0.1 + 0.05, rate * noise(n + u64::from(number) * 1_000));
    Repeat {
        repeat: number,
        valid: true,
        values: BTreeMap::from([("throughput", rate * noise(number.into())), ("ramp", 2.0)]),
        window_s: Some((2.0, 8.0)),
        rate: (0..120).map(series).collect(),
        ..Repeat::default()
    }
}

fn run(load: &str, repeats: u32, rate: f64) -> Tour {
    let cell = CellResult {
        load: load.to_owned(),
        op: "stream".to_owned(),
        bulk: true,
        repeats: (1..=repeats).map(|n| repeat(n, rate)).collect(),
        ..CellResult::default()
    };
    Tour { run: crate::manifest::Run::default(), gist: crate::RunSummary::default(), cells: vec![cell] }
}

fn row<'a>(comparison: &'a Comparison, name: &str) -> &'a ComparedFigure {
    comparison.pairs[0].rows.iter().find(|row| row.name == name).unwrap()
}

#[test]
fn stretches_of_one_repeat_tell_two_rates_apart() {
    let comparison = Comparison::of([&run("a", 1, 9e8), &run("b", 1, 8e8)]).unwrap();
    let throughput = row(&comparison, "throughput");
    assert_eq!(
        (throughput.outcome, throughput.samples, throughput.of_repeats),
        (Outcome::Differs, [20, 20], false)
    );
    assert!((throughput.ratio.unwrap() - 8.0 / 9.0).abs() < 0.01 && throughput.chance.unwrap() < 1e-6);
    let ramp = row(&comparison, "ramp");
    assert_eq!((ramp.outcome, ramp.chance), (Outcome::Open, None), "one value a side says nothing");
    assert_eq!(comparison.pairs[0].name, "a / b");
}

#[test]
fn what_differs_by_chance_or_by_next_to_nothing_is_alike() {
    let comparison = Comparison::of([&run("a", 1, 9e8), &run("a", 1, 9e8 * 1.000_01)]).unwrap();
    assert_eq!(row(&comparison, "throughput").outcome, Outcome::Alike);
    // Four repeats of each are compared, and not stretches.
    let comparison = Comparison::of([&run("a", 4, 9e8), &run("a", 5, 8e8)]).unwrap();
    let throughput = row(&comparison, "throughput");
    assert_eq!((throughput.samples, throughput.of_repeats), ([4, 5], true));
    assert_eq!(throughput.outcome, Outcome::Differs);
    assert_eq!(row(&comparison, "ramp").outcome, Outcome::Alike);
}

#[test]
fn what_cannot_be_compared_is_refused_with_a_sentence() {
    let said = |a: &Tour, b: &Tour| Comparison::of([a, b]).unwrap_err().to_string();
    let one = run("stream", 1, 9e8);
    let mut other = one.clone();
    other.cells[0].op = "read".to_owned();
    assert_eq!(
        said(&one, &other),
        "stream: the first did 'stream', the second 'read'; only loads of one kind can be compared"
    );
    let mut bad = one.clone();
    bad.cells[0].repeats[0].valid = false;
    assert!(
        said(&one, &bad).starts_with("stream: the second run has no valid repeat"),
        "{}",
        said(&one, &bad)
    );
    let mut two = one.clone();
    two.cells.push(CellResult { load: "late".to_owned(), ..two.cells[0].clone() });
    let mut apart = two.clone();
    for cell in &mut apart.cells {
        cell.point.insert("delay".to_owned(), "8ms".to_owned());
    }
    assert_eq!(
        said(&two, &apart),
        "the runs have no cell in common: the first has 'stream', 'late', the second has 'stream at delay 8ms', \
         'late at delay 8ms'; name two cells to compare them"
    );
    let comparison = Comparison::of([&two, &one]);
    assert_eq!(comparison.unwrap().alone, [vec!["late".to_owned()], vec![]]);
}

#[test]
fn more_cells_are_more_questions() {
    let one = [run("a", 4, 9e8), run("a", 4, 8e8)];
    let many = one.clone().map(|mut run| {
        for n in 1..6 {
            run.cells.push(CellResult { load: format!("a{n}"), ..run.cells[0].clone() });
        }
        run
    });
    let chance =
        |runs: &[Tour; 2]| row(&Comparison::of([&runs[0], &runs[1]]).unwrap(), "throughput").chance.unwrap();
    assert!(chance(&many) > chance(&one), "{} {}", chance(&many), chance(&one));
}

#[test]
fn figures_that_are_not_validated_are_refused_or_left_out() {
    let mut waived = run("read", 1, 9e8);
    waived.cells[0].repeats[0].unvalidated = true;
    let judged = run("read", 1, 8e8);
    let refused = Comparison::of([&judged, &waived]).unwrap_err().to_string();
    assert_eq!(
        refused,
        "read: the figures of the second run are not validated (validity off), expected those of a path that was judged; \
         run it again without --validity off"
    );
    // A load that the plan itself wants no rule for, beside one that was judged.
    let both = [8e8, 9e8].map(|rate| {
        let mut both = run("read", 1, rate);
        let mut free = run("unshaped", 1, rate).cells.remove(0);
        free.repeats[0].unvalidated = true;
        both.cells.push(free);
        both
    });
    let comparison = Comparison::of([&both[0], &both[1]]).unwrap();
    assert_eq!(comparison.pairs.iter().map(|pair| pair.name.as_str()).collect::<Vec<_>>(), ["read"]);
    assert_eq!(comparison.unvalidated, ["unshaped"]);
    assert_eq!(comparison.alone, [Vec::<String>::new(), Vec::new()]);
}
