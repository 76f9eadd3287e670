//! Share of gap causes that are named correctly: `cargo run --release -p analysis --example gap_causes [-- FIRST
//! SEEDS]`.
//!
//! Plays the scenes of the test of that name with other seeds, which played no part in the choice of thresholds: each
//! cause alone, every two together, and none. Prints one JSON document; `cargo xtask bench gaps` reads it.

#[path = "../tests/gap_causes/scene.rs"]
mod scene;
#[path = "../tests/gap_causes/tally.rs"]
mod tally;

use scene::Injected;
use tally::{RIGHT_MIN, Sum, Tally};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let first = numbers.next().unwrap_or(Ok(1001))?;
    let seeds = numbers.next().unwrap_or(Ok(64))?.clamp(1, 10_000);
    let (mut sum, mut rows) = (Sum::default(), Vec::new());
    for row in Injected::ROWS {
        let tally = Tally::of(row, first..=first.saturating_add(seeds - 1));
        sum.add(&tally);
        rows.push(serde_json::json!({
            "injected": row.name(),
            "right": tally.right,
            "named": tally.named,
            "off": tally.off,
            "wrong": tally.wrong,
        }));
    }
    let document = serde_json::json!({
        "first_seed": first,
        "seeds": seeds,
        "injected": sum.injected,
        "right": sum.right,
        "share": sum.right as f64 / sum.injected as f64,
        "share_min": RIGHT_MIN,
        "clean": sum.clean,
        "invented": sum.invented,
        "good": sum.is_good(),
        "rows": rows,
    });
    println!("{document}");
    Ok(())
}
