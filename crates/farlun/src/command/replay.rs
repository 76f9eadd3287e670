//! `farlun replay`: decisions of a policy on a recorded run, computed by `lab::replay`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use control::{Choice, Decision};
use event::{Host, Instant, Io, SocketSample, parse_delay};
use lab::replay::{self, Agreement, Outstanding, Replayed, Step};
use serde_json::{Value, json};
use tables::TableError;
use tables::{RunDir, RunError};

use crate::exit::{self, Exit};

/// Say what a policy would have decided on a recorded run.
///
/// The samples of every connection (table `sockets`) are shown to a policy of its own; what it says stands beside what
/// was recorded. What happened does not change: a policy that would have paced sees the rates of one that did not. The
/// policy that the connection had says again what it said.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  farlun replay runs/tour/cells/*-read-delay-50ms/r1 --policy auto\n  \
                  farlun replay /tmp/trace --policy auto --every 100ms --json")]
pub(crate) struct ReplayArgs {
    /// Run directory, one of its cells, or what --trace has written.
    run: PathBuf,
    /// The policy.
    #[arg(long)]
    policy: Choice,
    /// Time between two lines.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_delay)]
    every: Duration,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Connections of one folder with tables.
struct Part {
    dir: String,
    outstanding: Outstanding,
    connections: Vec<Replayed>,
}

pub(crate) fn run(args: ReplayArgs) -> anyhow::Result<u8> {
    let ReplayArgs { run, policy, every, json } = args;
    let mut parts = Vec::new();
    for (dir, path) in folders(&run)? {
        let Some(sockets) = tables::read_optional::<SocketSample>(&path)? else { continue };
        let outstanding = Outstanding::of(&tables::read_optional::<Io>(&path)?.unwrap_or_default());
        parts.push(Part { dir, outstanding, connections: replay::replay(&sockets, || policy.policy()) });
    }
    if parts.iter().all(|part| part.connections.is_empty()) {
        return Err(Exit::usage(format!(
            "{} has no samples of connections (table sockets), which bench, stream, target and plans write with --trace",
            run.display()
        )));
    }
    if json {
        let cells: Vec<Value> = parts.iter().map(|part| part.document(every)).collect();
        say!("{}", json!({"run": run, "policy": policy.name(), "cells": cells}));
    } else {
        parts.iter().for_each(|part| part.print(every));
    }
    Ok(exit::DONE)
}

/// The folders with tables of a run, by the names that they have in it.
fn folders(run: &Path) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let dir = match RunDir::open(run) {
        Ok(dir) => dir,
        Err(error @ RunError::NotARun { .. }) => {
            let is_trace =
                |found: Result<Vec<PathBuf>, TableError>| found.is_ok_and(|files| !files.is_empty());
            return match is_trace(tables::files::<SocketSample>(run)) {
                true => Ok(vec![(".".to_owned(), run.to_owned())]),
                false => Err(Exit::usage(error)),
            };
        }
        Err(error) => return Err(error.into()),
    };
    let mut folders = Vec::new();
    for entry in dir.manifest()?.cells {
        let cell = dir.cell(&entry.dir)?;
        // The first host of each end writes beside cell.json, the others into folders of their own.
        let near = (2..=cell.cell.initiators).map(|n| format!("near{n}"));
        let far = (2..=cell.cell.targets).map(|n| format!("far{n}"));
        folders.push((entry.dir.clone(), cell.path.clone()));
        let others = near.chain(far).map(|host| (format!("{}/{host}", entry.dir), cell.path.join(&host)));
        folders.extend(others.filter(|(_, path)| path.is_dir()));
    }
    Ok(folders)
}

impl Part {
    /// Bytes outstanding at that time; known per connection only if there is one connection.
    fn outstanding_bytes(&self, replayed: &Replayed, t: Instant) -> Option<u64> {
        let near = self.connections.iter().filter(|other| other.host == Host::Near).count();
        (replayed.host == Host::Near && near == 1).then(|| self.outstanding.at(t)).flatten()
    }

    fn document(&self, every: Duration) -> Value {
        let connections = self.connections.iter().map(|replayed| {
            let steps = replayed.every(every).map(|step| self.step(replayed, step));
            json!({
                "host": replayed.host.name(),
                "connection": replayed.connection,
                "samples": replayed.steps.len(),
                "decisions": {"recorded": replayed.agreement().recorded, "same": replayed.agreement().same},
                "steps": steps.collect::<Vec<_>>(),
            })
        });
        json!({"dir": self.dir, "connections": connections.collect::<Vec<_>>()})
    }

    fn step(&self, replayed: &Replayed, step: &Step) -> Value {
        let Step { sample, decision } = step;
        let Decision {
            block_bytes,
            outstanding_bytes,
            command_window,
            pacing_bytes_per_s,
            burst_bytes_per_s,
            burst_depth_bytes,
            held_bytes,
            thresholds_forgotten,
            congestion,
            look_again,
        } = *decision;
        json!({
            "t_s": replayed.since_start(step).as_secs_f64(),
            "recorded": {
                "cwnd_bytes": u64::from(sample.cwnd_packets) * u64::from(sample.mss_bytes),
                "rtt_s": sample.rtt_ns as f64 / 1e9,
                "delivery_bits_per_s": sample.delivery_rate_bytes_per_s as f64 * 8.0,
                "pacing_bits_per_s": pacing(Some(sample.pacing_rate_bytes_per_s)),
                "outstanding_bytes": self.outstanding_bytes(replayed, sample.t),
            },
            "decided": {
                "block_bytes": block_bytes,
                "outstanding_bytes": outstanding_bytes,
                "command_window": command_window,
                "is_paced": pacing_bytes_per_s.is_some(),
                "pacing_bits_per_s": pacing(pacing_bytes_per_s),
                "burst_bits_per_s": burst_bytes_per_s.map(|rate| rate as f64 * 8.0),
                "burst_depth_bytes": burst_depth_bytes,
                "held_bytes": held_bytes,
                "thresholds_forgotten": thresholds_forgotten,
                "congestion": congestion.choice.name(),
                "congestion_reason": congestion.reason.name(),
                "loss_ppm": congestion.share_ppm,
                "look_again_s": look_again.as_secs_f64(),
            },
        })
    }

    fn print(&self, every: Duration) {
        for replayed in &self.connections {
            let Replayed { host, connection, steps } = replayed;
            let Agreement { recorded, same } = replayed.agreement();
            let agreement = match recorded {
                0 => String::new(),
                _ => format!(" · {same} of {recorded} decisions are those of the run"),
            };
            let samples = steps.len();
            say!("{} · {} · connection {connection} · {samples} samples{agreement}", self.dir, host.name());
            say!("            ---------------- recorded ----------------   ---------- decided ----------");
            say!("     t, s   rtt, ms     cwnd   deliv   paced   outst.     outst.   window   paced, Mb/s");
            for step in replayed.every(every) {
                let Step { sample, decision } = step;
                let cwnd = u64::from(sample.cwnd_packets) * u64::from(sample.mss_bytes);
                let outstanding = self.outstanding_bytes(replayed, sample.t);
                say!(
                    "{:>9.2} {:>9.2} {:>8} {:>7} {:>7} {:>8} {:>10} {:>8} {:>14}",
                    replayed.since_start(step).as_secs_f64(),
                    sample.rtt_ns as f64 / 1e6,
                    size(cwnd),
                    rate(Some(sample.delivery_rate_bytes_per_s)),
                    rate(Some(sample.pacing_rate_bytes_per_s)),
                    outstanding.map_or_else(|| "–".to_owned(), size),
                    size(decision.outstanding_bytes),
                    decision.command_window,
                    rate(decision.pacing_bytes_per_s),
                );
            }
            say!("");
        }
    }
}

/// A rate that caps something; the two largest numbers are none.
fn pacing(bytes_per_s: Option<u64>) -> Option<f64> {
    bytes_per_s.filter(|rate| *rate < u64::MAX - 1).map(|rate| rate as f64 * 8.0)
}

/// Mb/s.
fn rate(bytes_per_s: Option<u64>) -> String {
    match (bytes_per_s, pacing(bytes_per_s)) {
        (None | Some(u64::MAX), _) => "–".to_owned(),
        (Some(_), None) => "no cap".to_owned(),
        (Some(_), Some(bits_per_s)) => format!("{:.1}", bits_per_s / 1e6),
    }
}

/// With a unit that keeps it short.
fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{} K", bytes >> 10),
        _ => format!("{} M", bytes >> 20),
    }
}
