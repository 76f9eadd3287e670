//! Loads over delays at 1 Gb/s, as a committed table of numbers: a change of behaviour shows as a diff.
//!
//! `throughput.txt` beside this file says what each column is and how to write it anew.

use std::fmt::Write;
use std::time::Duration;

use event::BitRate;
use link::Shape;
use sim::{Kind, Load, World};

const RATE: BitRate = BitRate(1_000_000_000);
const WINDOW: u32 = 4096;
const HEAD: &str = "\
# Two farlun sessions over 1 Gb/s in virtual time: hosts that take no time, a pipe like TCP without loss
# (slow start from 10 segments up to twice the bandwidth-delay product, at least 4 MiB), the policy auto.
# Written by: UPDATE_SNAPSHOTS=1 cargo test -p sim --test throughput
#
# load      read and write: 1 MiB requests, as many as the policy wants; write-1: 1 MiB, one at a time;
#           read-32: 4 KiB, 32 at a time
# delay_ms  one way
# mbit      10^6 bits of payload per second, after the warm-up
# requests  that were counted for it
# first_ms  how long the very first request took, with TCP's window at its smallest
# median_ms how long half of the counted ones took at most; turns: the same in round trips of the empty path
#
load    delay_ms     mbit requests  first_ms median_ms   turns
";

fn cell(name: &str, delay_ms: u64, text: &mut String) {
    let delay = Duration::from_millis(delay_ms);
    let (kind, block_bytes, depth) = match name {
        "read" => (Kind::Read, 1 << 20, None),
        "write" => (Kind::Write, 1 << 20, None),
        "write-1" => (Kind::Write, 1 << 20, Some(1)),
        _ => (Kind::Read, 4 << 10, Some(32)),
    };
    let window_max_bytes = (2 * RATE.bytes_in(2 * delay)).max(4 << 20);
    let shape = Shape { delay, rate: RATE, queue_bytes: 2 * window_max_bytes + (1 << 20) };
    // Slow start doubles every round trip; after sixteen of them any window is open.
    let warmup = 32 * delay + Duration::from_millis(100);
    let time = (16 * delay).max(Duration::from_millis(400));
    let mut world = World::new(&shape, WINDOW, window_max_bytes);
    let outcome = world.run(Load { kind, block_bytes, depth, warmup, time });
    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    let median = outcome.median();
    let turns = match delay_ms {
        0 => "-".to_owned(),
        _ => format!("{:.3}", median.as_secs_f64() / shape.base_rtt().as_secs_f64()),
    };
    writeln!(
        text,
        "{name:7} {delay_ms:8} {:8.1} {:8} {:9.3} {:9.3} {turns:>7}",
        outcome.requests_per_s(depth.unwrap_or(1)) * f64::from(block_bytes) * 8e-6,
        outcome.latencies.len(),
        ms(outcome.first),
        ms(median),
    )
    .expect("a string takes everything");
}

#[test]
fn throughputs_are_what_they_were() {
    let mut table = String::from(HEAD);
    for name in ["read", "write", "write-1", "read-32"] {
        for delay_ms in [0, 8, 50, 250] {
            cell(name, delay_ms, &mut table);
        }
    }
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some_and(|value| value == "1") {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/throughput.txt");
        std::fs::write(path, &table).expect("the table can be written");
        return;
    }
    let committed = include_str!("throughput.txt");
    assert!(table == committed, "the throughputs are now\n{table}\nand were\n{committed}");
}
