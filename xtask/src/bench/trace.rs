//! What recording requests at every hand-over costs: requests per second of a load that wants all of both processors,
//! with nothing recorded, with everything, and with one request in sixteen. Both ends record.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::ours::Target;
use e2e::{farlun, run as run_process};

use super::{Bound, Length, head, row};

/// What must be left of the untraced rate.
const ROWS: [(&str, &[&str], f64); 2] = [
    ("every request, PDUs as by default", &[], 0.90),
    ("one request in 16", &["--trace-sample", "16", "--trace-pdus", "4096"], 0.97),
];
/// Enough requests for every way the loops can fall into step, before they count.
const WARMUP_SECONDS: u32 = 1;

pub(super) fn run(length: Length) -> Result<bool> {
    let (rounds, seconds) = if length == Length::Full { (9, 4) } else { (1, 1) };
    let mut good = true;
    for op in ["read", "write"] {
        head(
            &format!(
                "4 KiB {op}s per second at depth 32, recorded by both ends, {rounds} rounds of {seconds} s"
            ),
            ["recorded", "not recorded"],
        );
        let mut measured = [Vec::new(), Vec::new()];
        for round in 0..rounds {
            // Not recorded, everything, a part; each round begins with another.
            let mut iops = [0.0; 3];
            for place in 0..3 {
                let which = (place + round) % 3;
                iops[which] = load(op, seconds, (which > 0).then(|| ROWS[which - 1].1))?;
            }
            measured[0].push([iops[1], iops[0]]);
            measured[1].push([iops[2], iops[0]]);
        }
        for ((name, _, least), figures) in ROWS.iter().zip(&measured) {
            good &= row(name, figures, 0, Bound::AtLeast(*least));
        }
    }
    Ok(good)
}

/// Requests per second of a load of its own target, recorded with these flags if any.
fn load(op: &str, seconds: u32, flags: Option<&[&str]>) -> Result<f64> {
    let folder = tempfile::Builder::new().prefix("farlun-bench-trace-").tempdir()?;
    let traced = |command: &mut std::process::Command, dir: &Path| {
        if let Some(flags) = flags {
            command.arg("--trace").arg(dir).args(flags);
        }
    };
    let mut command = farlun(["target", "--json", "--listen", "127.0.0.1:0", "--lun", "memory:64MiB"]);
    traced(&mut command, folder.path());
    let target = Target::start(&mut command);
    let (time, warmup) = (format!("{}s", seconds + WARMUP_SECONDS), format!("{WARMUP_SECONDS}s"));
    let mut command = farlun(["bench", &target.url(0), "--json", "--random", "--block", "4KiB"]);
    command.args(["--depth", "32", "--op", op, "--time", &time, "--warmup", &warmup]);
    traced(&mut command, folder.path());
    // The tables are encoded after the load.
    let limit = Duration::from_secs(u64::from(seconds) + 120);
    let document = run_process(&mut command, limit).expect_code(0).json();
    for table in ["io", "layers", "pdus"] {
        let lost = &document["trace"][table]["lost_rows"];
        ensure!(lost.is_null() || *lost == 0, "{table} lost {lost} rows: the figure means nothing");
    }
    document["iops"].as_f64().ok_or_else(|| anyhow::anyhow!("no IOPS in {document}"))
}
