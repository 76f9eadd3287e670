//! 1 MiB reads and writes of a LUN in memory beside `farlun stream` that sends from a buffer as large as the LUN:
//! what iSCSI costs over the bare copy through loopback TCP.

use std::time::Duration;

use anyhow::{Context, Result};
use e2e::ours::Target;
use e2e::{Service, farlun, run as run_process};
use serde_json::Value;

use super::{Bound, Length, head, interleave, row};

const SIZE: &str = "1GiB";
const READ_MIN: f64 = 0.8;
const WRITE_MIN: f64 = 0.7;

pub(super) fn run(length: Length) -> Result<bool> {
    let (rounds, seconds) = if length == Length::Full { (7, 5) } else { (1, 2) };
    let target = Target::serve(&[&format!("memory:{SIZE}")]);
    let mut far = Service::start(&mut farlun(["stream", "serve", "--json", "--listen", "127.0.0.1:0"]));
    let ready: Value = serde_json::from_str(&far.next_line(Duration::from_secs(20)))?;
    let address =
        ready["addresses"][0].as_str().context("`farlun stream serve` names no address")?.to_owned();
    let (url, time) = (target.url(0), format!("{seconds}s"));
    let rate = |args: &[&str]| -> Result<f64> {
        let limit = Duration::from_secs(seconds + 60);
        let document = run_process(&mut farlun(args), limit).expect_code(0).json();
        let rate = document["bytes_per_s"].as_f64();
        Ok(rate.with_context(|| format!("no bytes_per_s in {document}"))? / 1e6)
    };
    let stream = || rate(&["stream", &address, "--json", "--buffer", SIZE, "--time", &time]);
    let load = |op: &str| {
        rate(&["bench", &url, "--json", "--op", op, "--block", "1MiB", "--depth", "8", "--time", &time])
    };
    // Memory that was never written is not really there.
    load("write")?;

    head(
        &format!(
            "1 MiB requests at depth 8 beside farlun stream, LUN and buffer of {SIZE}, {rounds} rounds of {seconds} s"
        ),
        ["iSCSI", "stream"],
    );
    let reads = interleave(rounds, || load("read"), stream)?;
    let mut good = row("read, MB/s", &reads, 0, Bound::AtLeast(READ_MIN));
    let writes = interleave(rounds, || load("write"), stream)?;
    good &= row("write, MB/s", &writes, 0, Bound::AtLeast(WRITE_MIN));
    Ok(good)
}
