//! Options of a `farlun bench` for its load.

use control::Choice;
use event::Op;

use crate::exact;
use crate::plan::Bench;

use super::words::Words;

/// All options of a load.
pub(super) fn bench_words(words: &mut Words, bench: &Bench) {
    words.push(["--op", bench.op.name()]);
    if bench.op == Op::Write {
        // The LUNs are the lab's own, or the plan names a device to be written to.
        words.push(["--overwrite"]);
    }
    words.push(["--block", &exact::bytes(bench.block_bytes)]);
    if let Some(depth) = bench.depth {
        words.push(["--depth", &depth.to_string()]);
    }
    if let Some(limit) = bench.queue_limit {
        words.push(["--queue-limit", &limit.to_string()]);
    }
    if bench.random {
        words.push(["--random"]);
    }
    let bursts = bench.bursts;
    for (flag, bytes) in [("--first-burst", bursts.first_bytes), ("--max-burst", bursts.max_bytes)] {
        if let Some(bytes) = bytes {
            words.push([flag, &exact::bytes(bytes)]);
        }
    }
    if let Some(r2ts) = bursts.r2ts {
        words.push(["--r2ts", &r2ts.to_string()]);
    }
    if bursts.initial_r2t {
        words.push(["--initial-r2t"]);
    }
    if bench.sessions > 1 {
        words.push(["--sessions", &bench.sessions.to_string()]);
    }
    // One connection is explicit, since a comparison must not change with the default.
    if let Some(connections) = bench.connections {
        words.push(["--connections", &connections.to_string()]);
    }
    policy_words(words, bench);
}

/// The policy alone, which the far end gets too.
pub(super) fn policy_words(words: &mut Words, bench: &Bench) {
    if bench.policy != Choice::default() {
        words.push(["--policy", bench.policy.name()]);
    }
}
