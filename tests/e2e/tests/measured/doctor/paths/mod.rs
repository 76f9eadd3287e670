//! `farlun doctor URL` on live paths, held to intervention: the load runs again without the named limiter, and without the
//! other limiters that the path may have. A few paths in every run, all of them with `--long`.
//!
//! `FARLUN_SEED=N` draws other rates, round trips and depths; `FARLUN_CELLS=WORD` takes the paths with WORD in their name.

mod cell;
mod live;
mod table;

use e2e::{decide, need, path, skip, tgtd};

use self::cell::{CELLS, Cell};
use self::live::{Judged, judge};

/// Paths of the usual run, half a minute each: a full line and few requests, which look alike from one end.
const USUAL: [&str; 2] = ["line-ours-200m-40ms", "depth-ours-200m-40ms"];

/// Share of the paths on which the first verdict is right; of those with a gain that have a figure, and a right one.
const RIGHT: f64 = 0.95;
const FIGURES: f64 = 0.8;
const FIGURES_RIGHT: f64 = 0.85;

fn seed() -> u64 {
    std::env::var("FARLUN_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Runs a path, while no other one is measured.
fn run(cell: &Cell) -> Judged {
    let _turn = path::turn();
    judge(cell, seed())
}

#[test]
fn limiters_of_a_few_live_paths_are_named() {
    need!(path::available());
    for name in USUAL {
        let cell = CELLS.iter().find(|cell| cell.name == name).expect("a path of the list");
        let judged = run(cell);
        println!("{}", table::text(std::slice::from_ref(&judged)));
        decide!(judged.is_right(), judged.validity, "{name}: {judged:#?}");
    }
}

#[test]
fn limiters_of_live_paths_are_named() {
    need!(skip::long(), path::available());
    let word = std::env::var("FARLUN_CELLS").unwrap_or_default();
    println!("FARLUN_SEED={} FARLUN_CELLS={word}", seed());
    let has_tgt = tgtd::available().is_ok();
    let wanted = |cell: &&Cell| cell.name.contains(&word) && (has_tgt || !cell.is_tgt());
    let mut judged: Vec<Judged> = Vec::new();
    for cell in CELLS.iter().filter(wanted) {
        judged.push(run(cell));
        println!("{}", table::row(&judged[judged.len() - 1]));
    }
    println!("{}", table::text(&judged));
    // A path on which the machine itself was too slow says nothing of the doctor.
    judged.retain(|judged| judged.validity.is_ok());
    let share = |of: &dyn Fn(&Judged) -> Option<bool>| {
        let all: Vec<bool> = judged.iter().filter_map(of).collect();
        let holds = all.iter().filter(|holds| **holds).count();
        if all.is_empty() { 1.0 } else { holds as f64 / all.len() as f64 }
    };
    let right = share(&|judged| Some(judged.is_right()));
    let figures = share(&|judged| judged.has_gain().then(|| judged.predicted.is_some()));
    let exact = share(&|judged| judged.is_exact());
    println!("right {right:.2}, figures {figures:.2}, of them within 0.8 to 1.25 {exact:.2}");
    // The paths that count are those of a machine that had time for them.
    let validity = if judged.is_empty() { Err("no path was valid".to_owned()) } else { Ok(()) };
    let is_good = right >= RIGHT && figures >= FIGURES && exact >= FIGURES_RIGHT;
    decide!(is_good, validity, "{judged:#?}");
    assert!(judged.iter().all(|judged| judged.is_right() || !judged.is_full_line), "{judged:#?}");
}
