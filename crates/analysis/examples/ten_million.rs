//! Time and memory of a full analysis of ten million events: `cargo run --release -p analysis --example ten_million [--
//! EVENTS]`. An event is one time in the table `layers`.
//!
//! The bound is 10 s and 1 GB. The table is synthetic; the time to write it is not counted, its memory is. Prints one
//! JSON document; `cargo xtask bench analysis` reads it.

#[path = "../tests/synthetic/mod.rs"]
mod synthetic;

use std::time::Instant;

use analysis::Span;
use analysis::layers::{Question, Stack};
use synthetic::{Loop, START_NS};

/// Times of a request that are not 0: ten at the near end, seven at the far one.
const EVENTS_PER_REQUEST: u64 = 17;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let events: u64 = std::env::args().nth(1).map_or(Ok(10_000_000), |text| text.parse())?;
    let (sessions, window) = (4, 100);
    let requests = events / EVENTS_PER_REQUEST / sessions;
    let rtt_ns = 1_000_000;
    let shape = Loop { requests, sessions, window, rtt_ns, far_ahead_ns: 7_000_000_000, ..Loop::STUDY };
    let dir = std::env::temp_dir().join(format!("farlun-ten-million-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    synthetic::write(&dir, shape);
    let end_ns = START_NS + requests * rtt_ns / window;
    let question = Question {
        origin_ns: START_NS,
        window: Span { start_ns: START_NS + rtt_ns, end_ns },
        rtt_ns,
        points: 1000,
        requests: 400,
        request: None,
    };
    let before = Instant::now();
    let stack = Stack::collect(std::slice::from_ref(&dir), question)?.ok_or("the table is empty")?;
    let took = before.elapsed().as_secs_f64();
    std::fs::remove_dir_all(&dir)?;
    println!(
        "{}",
        serde_json::json!({
            "events": events,
            "requests": requests * sessions,
            "seconds": took,
            "peak_bytes": peak_memory_bytes(),
            "gate": stack.gate,
        })
    );
    Ok(())
}

/// The most memory this process had, from its status; 0 where the system does not say.
fn peak_memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).map_or(0, |kib| kib * 1024)
}
