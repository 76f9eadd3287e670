//! Causes of gaps, injected and found: a committed table of the share that is named correctly.
//!
//! Everything happens in virtual time over `link`: a sender, a path, a receiver that acknowledges every second packet,
//! the path back. `table.txt` beside this file explains its columns and the command that writes it anew.

mod scene;
mod tally;

use std::fmt::Write;
use std::path::Path;

use scene::Injected;
use tally::{Sum, Tally};

/// Seeds of each row; the example `gap_causes` takes any.
const SEEDS: u64 = 16;
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
    let (mut text, mut sum) = (HEAD.to_owned(), Sum::default());
    for row in Injected::ROWS {
        let tally = Tally::of(row, 1..=SEEDS);
        sum.add(&tally);
        let [line, tick, coalescing, merging, emulator] = tally.named;
        let wrong: String = tally.wrong.iter().map(|seed| format!(" {seed}")).collect();
        let line = format!(
            "{:19} {SEEDS:5} {:5} {line:6} {tick:5} {coalescing:10} {merging:7} {emulator:8} {:6.2} {wrong}",
            row.name(),
            tally.right,
            tally.off * 100.0,
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let Sum { injected, right, invented, .. } = sum;
    let _ = writeln!(text, "\n{right} of {injected} scenes right, {invented} clean ones with a cause");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gap_causes/table.txt");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &text).expect("the table can be written");
    }
    println!("{text}");
    assert!(sum.is_good(), "{right} of {injected}, {invented} clean ones with a cause");
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == committed, "not as committed in {}:\n{text}", path.display());
}
