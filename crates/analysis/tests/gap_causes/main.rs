//! Causes of gaps that were put in, against those that are found: a committed table of how often each was told right.
//!
//! Everything happens in virtual time over `link`: a sender, a path, a receiver that acknowledges every second packet,
//! the path back. `table.txt` beside this file says what each column is and how to write it anew.

mod scene;

use std::fmt::Write;
use std::path::Path;

use analysis::gaps::Cause;
use scene::{Injected, Scene};

/// Seeds of each row.
const SEEDS: u64 = 16;
/// Share of scenes in which exactly what was put in is found.
const RIGHT_MIN: f64 = 0.95;
const HEAD: &str = "\
# Causes that were put into a path in virtual time, and how often `analysis::gaps` named each.
# Written by: UPDATE_SNAPSHOTS=1 cargo test -p analysis --test gap_causes
#
# injected   what was put in; `clean-` rows have nothing in them
# seeds      from 1: load, periods and gaps differ
# right      in how many exactly that was named
# line .. emulator  in how many each cause was named: serialisation, timer tick, interrupt coalescing, ACK merging, the
#            emulator itself
# off_%      by how much a period differed from the injected one at most. A card that holds interrupts back for packets that
#            come regularly shows a multiple of their time, or a part of the tick that sent them
# wrong      seeds that were not right
#
injected            seeds right   line  tick coalescing merging emulator  off_%  wrong
";

#[test]
fn causes_are_named_and_none_is_invented() {
    let mut text = HEAD.to_owned();
    let (mut injected, mut right, mut invented) = (0, 0, 0);
    for row in Injected::ROWS {
        let mut counts = [0; 5];
        let (mut row_right, mut off, mut wrong) = (0, 0.0_f64, String::new());
        for seed in 1..=SEEDS {
            let scene = Scene::new(row, seed);
            let found = scene.found();
            for (cause, _) in &found {
                counts[*cause as usize] += 1;
            }
            let mut names: Vec<Cause> = found.iter().map(|(cause, _)| *cause).collect();
            names.sort_unstable();
            if names == scene.truth() {
                row_right += 1;
            } else {
                let _ = write!(wrong, " {seed}");
            }
            for (cause, period_s) in found {
                off = scene.period_s(cause).map_or(off, |true_s| off.max((period_s / true_s - 1.0).abs()));
            }
        }
        match row.is_clean() {
            true => invented += SEEDS - row_right,
            false => (injected, right) = (injected + SEEDS, right + row_right),
        }
        let [line, tick, coalescing, merging, emulator] = counts;
        let line = format!(
            "{:19} {SEEDS:5} {row_right:5} {line:6} {tick:5} {coalescing:10} {merging:7} {emulator:8} {:6.2} {wrong}",
            row.name(),
            off * 100.0,
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let _ = writeln!(text, "\n{right} of {injected} scenes right, {invented} clean ones with a cause");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gap_causes/table.txt");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &text).expect("the table can be written");
    }
    println!("{text}");
    assert_eq!(invented, 0, "no cause is invented");
    assert!(right as f64 >= RIGHT_MIN * injected as f64, "{right} of {injected}");
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == committed, "not as committed in {}:\n{text}", path.display());
}
