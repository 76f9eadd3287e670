//! `run.json` and `cell.json` as plain serde types.
//!
//! The documents that commands print (`wan --json`, `bench --json`, `stream --json`) are kept whole, as
//! JSON, so that nothing they say is lost; [`Cell::wan`] and [`Cell::load`] give typed views of the parts
//! the analysis needs. Fields that are not there read as their defaults: a foreign end may not say them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Written;

/// `run.json`: plan, machine, cells and checks of a run, and its validity.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// Version of farlun that ran it.
    pub farlun: String,
    /// The command line, quoted so that a shell takes it.
    pub command_line: String,
    /// The plan's name.
    pub plan_name: String,
    /// The plan, in full, after `--quick` and the like were applied.
    pub plan: Value,
    /// The plan as its author wrote it (TOML), for readers; empty without a plan.
    #[serde(default)]
    pub plan_text: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Commit of the checkout that farlun was built from, if the build set it.
    #[serde(default)]
    pub commit: Option<String>,
    /// SHA-256 of the program that ran it, as sha256sum(1) prints it; null if it could not be read.
    #[serde(default)]
    pub program_sha256: Option<String>,
    /// Kernel release.
    pub kernel: String,
    /// CPUs the run could use.
    pub cpus: u32,
    /// Sysctls in force in the lab's namespaces.
    #[serde(default)]
    pub sysctls: BTreeMap<String, String>,
    /// Start, seconds since 1970.
    pub started_unix_s: f64,
    /// Duration, without interruptions.
    pub elapsed_s: f64,
    /// Resumption after an interruption, seconds since 1970.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed_unix_s: Vec<f64>,
    /// Throughput of cells, bits per second, whose rate other cells follow; by their slugs, as found first.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub found: BTreeMap<String, f64>,
    /// True if every cell is valid in the end.
    pub valid: bool,
    /// No rule of validity was applied to any cell, against the plan (`--validity off`, a smoke run): no figure is validated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unvalidated: bool,
    /// Programs that kept processors busy before the first cell, the busiest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub busy: Vec<BusyProgram>,
    /// Loads of the plan that were left out, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// The cells, one entry per repeat, in the order they were run.
    pub cells: Vec<CellEntry>,
    /// The plan's expectations, evaluated.
    #[serde(default)]
    pub checks: Vec<Check>,
}

/// A program of this machine that is not part of the run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct BusyProgram {
    /// Name.
    pub name: String,
    /// Process id.
    pub pid: u32,
    /// Processors that it kept busy.
    pub processors: f64,
}

/// One cell and repeat, as `run.json` lists it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct CellEntry {
    /// Directory, relative to the run's.
    pub dir: String,
    /// Name within the plan, the same for all repeats.
    pub slug: String,
    /// The load's name in the plan (`read`, `write1m`), by which metrics are addressed.
    #[serde(default)]
    pub load: String,
    /// Point in the plan's matrix: axis and value as written, `{"delay": "8ms"}`.
    pub parameters: BTreeMap<String, Value>,
    /// Number of the repeat, from 1.
    pub repeat: u32,
}

/// Comparison of a value with its bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Comparison {
    /// At least.
    #[serde(rename = ">=")]
    AtLeast,
    /// At most.
    #[serde(rename = "<=")]
    AtMost,
    /// More than.
    #[serde(rename = ">")]
    Above,
    /// Less than.
    #[serde(rename = "<")]
    Below,
    /// Equal.
    #[serde(rename = "==")]
    Equal,
}

/// One expectation and its outcome.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Check {
    /// The expectation in words.
    pub name: String,
    /// Value found; null if the run has no such figure.
    pub value: Option<f64>,
    /// The comparison.
    pub op: Comparison,
    /// Bound of the value.
    pub bound: f64,
    /// Unit of both; empty for a ratio.
    pub unit: String,
    /// True if it holds. Never true without a value.
    pub ok: bool,
}

/// `cell.json`: one cell of the plan's matrix, run once.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Cell {
    /// Name within the plan.
    pub slug: String,
    /// The load's name in the plan (`read`, `write1m`), by which metrics are addressed.
    #[serde(default)]
    pub load: String,
    /// Number of the repeat, from 1.
    pub repeat: u32,
    /// Point in the plan's matrix: axis and value as written, `{"delay": "8ms"}`.
    pub parameters: BTreeMap<String, Value>,
    /// The command that runs it alone, quoted for a shell.
    pub command: String,
    /// The window of a throughput figure; null: from the end of the load's warm-up to its end.
    #[serde(default)]
    pub window: Option<Window>,
    /// Hosts at the near end that run the load: near, near2, …; 0 is one, too.
    #[serde(default)]
    pub initiators: u32,
    /// Hosts at the far end that serve it: far, far2, …; 0 is one, too.
    #[serde(default)]
    pub targets: u32,
    /// The document of `farlun wan --json`; null if it printed none.
    #[serde(default)]
    pub wan: Option<Value>,
    /// The document of the load (`bench --json`, `stream --json`); null if it printed none.
    #[serde(default)]
    pub near: Option<Value>,
    /// Offset of the clocks of its two ends, computed after the run; null if no layers were recorded.
    #[serde(default)]
    pub clock: Option<Value>,
    /// True if it yields figures.
    pub valid: bool,
    /// Reasons if it does not.
    #[serde(default)]
    pub reasons: Vec<String>,
    /// True if the path of its figures was not validated (`validity = "off"`, `--validity off`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unvalidated: bool,
    /// True for a load measured by throughput although its depth is given, or its program is foreign.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub for_throughput: bool,
}

/// A stretch of a load.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Window {
    /// Seconds from the beginning of the load.
    pub start_s: f64,
    /// Length in seconds.
    pub length_s: f64,
}

/// Document of `farlun wan --json`, as far as it is analysed.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Wan {
    /// The path it emulated.
    pub path: Path,
    /// Validity of the emulation.
    pub validity: Validity,
    /// Cost of the emulation.
    pub emulator: Emulator,
}

/// Cost of emulating a path.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Emulator {
    /// CPU time of the thread that moves packets, over the whole run.
    pub cpu_ns: u64,
    /// Part of it in which it only waited.
    pub spin_ns: u64,
}

/// An emulated path.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Path {
    /// One-way delay: half of the round trip if the two directions differ.
    pub delay_ns: u64,
    /// Rate of the line; 0 if it has none.
    pub rate_bits_per_s: u64,
    /// Bytes that may wait for the line.
    pub queue_bytes: u64,
    /// Largest IP packet.
    pub mtu: u32,
    /// True for a path without IPv4.
    pub ipv6: bool,
}

impl Default for Path {
    fn default() -> Path {
        Path { delay_ns: 0, rate_bits_per_s: 0, queue_bytes: 0, mtu: 1500, ipv6: false }
    }
}

/// Validity of the emulation: lateness, losses and their limits.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Validity {
    /// True if the emulation is valid.
    pub ok: bool,
    /// Reasons if it is not.
    pub reasons: Vec<String>,
    /// Lateness of deliveries.
    pub lateness_ns: Lateness,
    /// Packets and super-packets.
    pub packets: u64,
    /// MTU-sized packets.
    pub segments: u64,
    /// Dropped by the model: its queue was full.
    pub dropped_queue_full: u64,
    /// Dropped by the emulator or a device: the run is not valid.
    pub dropped_unasked: u64,
}

/// Lateness of deliveries.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Lateness {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

/// Document of `bench --json` and `stream --json`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Load {
    /// `bench` or `stream`; `command` for a program of others, of which only the times are known.
    pub kind: String,
    /// `read`, `write` or `stream`.
    pub op: String,
    /// Block of a request; null for a stream.
    pub block_bytes: Option<u64>,
    /// Requests outstanding; null: follows the path.
    pub depth: Option<u64>,
    /// Largest number of requests outstanding, for a depth that follows the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_outstanding: Option<u64>,
    /// Direction of a stream, `near-to-far` or `far-to-near`; null for a bench.
    pub direction: Option<String>,
    /// True for random offsets.
    pub random: bool,
    /// Start of the load, CLOCK_MONOTONIC.
    pub t_start_ns: u64,
    /// End of the load, CLOCK_MONOTONIC.
    pub t_end_ns: u64,
    /// Length of the warm-up, which the figures below exclude.
    pub warmup_ns: u64,
    /// Bytes moved after the warm-up.
    pub bytes: u64,
    /// Requests completed after the warm-up.
    pub ios: u64,
    /// Requests per second after the warm-up.
    pub iops: f64,
    /// Bytes per second after the warm-up.
    pub bytes_per_s: f64,
    /// Latency of requests; null for a stream.
    pub latency_ns: Option<Latency>,
    /// Smallest round-trip time that TCP measured; null without a measurement.
    pub base_rtt_ns: Option<f64>,
    /// Median latency ÷ base RTT.
    pub turnaround_rtt: Option<f64>,
    /// CPU time of the load.
    pub cpu: Option<Cpu>,
    /// Limiter of a stream, by its name in `farlun stream`; null for a bench.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// Software that the peer reports; null for another implementation.
    pub peer: Option<String>,
    /// Sessions that shared the load; null for a stream.
    pub sessions: Option<u64>,
    /// Largest number of connections of a session at the end; null for a stream.
    pub connections: Option<u64>,
    /// True if the policy chose the number of connections; null for a stream.
    pub chose_connections: Option<bool>,
    /// Sessions that were lost during the load and re-established; null for a stream.
    pub reconnects: Option<u64>,
    /// Row counts of the tables of `--trace`; null without it and for a stream.
    pub trace: Option<Trace>,
}

/// Row counts of the trace tables of one end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Trace {
    /// Rows of `io`; null at a target.
    pub io: Option<Written>,
    /// Rows of `layers`.
    pub layers: Written,
    /// Rows of `pdus`.
    pub pdus: Written,
    /// Rows of `sessions`.
    pub sessions: Written,
    /// Rows of `sockets`.
    pub sockets: Written,
}

impl Trace {
    /// Rows that could not be kept, of all tables.
    pub fn lost_rows(&self) -> u64 {
        let Trace { io, layers, pdus, sessions, sockets } = self;
        let all = [io.unwrap_or_default(), *layers, *pdus, *sessions, *sockets];
        all.iter().map(|written| written.lost_rows).sum()
    }
}

/// Latency of requests.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Latency {
    /// Smallest.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Largest.
    pub max: f64,
}

/// CPU time of a load; the far end's is null if it is not ours.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpu {
    /// CPU time of the near end per request.
    pub near_ns_per_io: Option<f64>,
    /// CPU time of the far end per request.
    pub far_ns_per_io: Option<f64>,
    /// CPU time of the near end in all.
    pub near_ns: Option<f64>,
    /// CPU time of the far end in all.
    pub far_ns: Option<f64>,
}

impl Comparison {
    /// True if `value` compares so with `bound`.
    pub fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Comparison::AtLeast => value >= bound,
            Comparison::AtMost => value <= bound,
            Comparison::Above => value > bound,
            Comparison::Below => value < bound,
            Comparison::Equal => value == bound,
        }
    }

    /// Operator in plans and run.json: `>=`.
    pub const fn symbol(self) -> &'static str {
        match self {
            Comparison::AtLeast => ">=",
            Comparison::AtMost => "<=",
            Comparison::Above => ">",
            Comparison::Below => "<",
            Comparison::Equal => "==",
        }
    }
}

impl Check {
    /// Compares. A missing or non-finite value is never ok.
    pub fn evaluate(
        name: impl Into<String>,
        value: Option<f64>,
        op: Comparison,
        bound: f64,
        unit: impl Into<String>,
    ) -> Check {
        let value = value.filter(|v| v.is_finite());
        let ok = value.is_some_and(|v| op.holds(v, bound));
        Check { name: name.into(), value, op, bound, unit: unit.into(), ok }
    }
}

impl Check {
    /// Takes its value away: the figure is not validated.
    pub fn unmeasured(&mut self) {
        (self.value, self.ok) = (None, false);
    }
}

impl Cell {
    /// Typed view of the document of `farlun wan`; an error if it has another shape. Its path is the one in the
    /// direction of the load's data.
    pub fn wan(&self) -> Result<Option<Wan>, serde_json::Error> {
        let Some(document) = &self.wan else { return Ok(None) };
        let mut wan = Wan::deserialize(document)?;
        let lines = [&document["path"]["near"], &document["path"]["far"]];
        // Its writer may not distinguish the directions.
        if let [Ok(near), Ok(far)] = lines.map(Path::deserialize)
            && near.rate_bits_per_s > 0
        {
            let line = if self.is_homeward() { far } else { near };
            let Path { rate_bits_per_s, queue_bytes, .. } = line;
            let delay_ns = near.delay_ns.midpoint(far.delay_ns);
            wan.path = Path { delay_ns, rate_bits_per_s, queue_bytes, ..wan.path };
        }
        Ok(Some(wan))
    }

    /// True if the load's data go from far to near.
    fn is_homeward(&self) -> bool {
        let said = |key: &str| self.near.as_ref().and_then(|near| near[key].as_str());
        said("op") == Some("read") || said("direction") == Some("far-to-near")
    }

    /// The documents of the further initiators' loads, near2 first, as far as they printed any; an error if one is
    /// of another shape.
    pub fn other_loads(&self) -> Result<Vec<Load>, serde_json::Error> {
        let others = self.wan.as_ref().and_then(|wan| wan["others"].as_array()).into_iter().flatten();
        let ours = (2..=self.initiators).map(|n| format!("near{n}"));
        let of_host =
            |host: String| others.clone().find(|role| role["host"] == *host).map(|role| &role["output"]);
        ours.filter_map(of_host).filter(|output| output.is_object()).map(Load::deserialize).collect()
    }

    /// Typed view of the document of the load; an error if it has another shape.
    pub fn load(&self) -> Result<Option<Load>, serde_json::Error> {
        self.near.as_ref().map(Load::deserialize).transpose()
    }
}

#[cfg(test)]
mod tests;
