//! Result of one cell: a load at a point of the matrix, and its repeats.

use std::collections::BTreeMap;

use diagnosis::Diagnosis;
use serde::Serialize;
use tables::manifest;

use crate::Sample;
use crate::diagram::Diagram;
use crate::gaps::Gaps;
use crate::layers::{DeviceFlight, Stack};
use crate::load::arrivals::Source;
use crate::load::latency::Latency;
use crate::load::turnaround::Turnaround;
use crate::metrics::Spread;
use crate::tcp::sockets::Connection;

/// A place in a plan's matrix: axes and their values as written.
pub type Point = BTreeMap<String, String>;

/// One cell: a load at a point of the matrix, over all repeats.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct CellResult {
    /// Name within the plan.
    pub slug: String,
    /// The load's name.
    pub load: String,
    /// `read`, `write` or `stream`; empty without a document of the load.
    pub op: String,
    /// True for a bulk load, which adapts to the path and is measured by throughput; otherwise single requests are.
    pub bulk: bool,
    /// True for a load that is compared with the bulk loads.
    pub compared: bool,
    /// Block of a request.
    pub block_bytes: Option<u64>,
    /// Requests outstanding; `None` if they follow the path.
    pub depth: Option<u64>,
    /// Point in the matrix.
    pub point: Point,
    /// The path; `None` without a document of the emulator.
    pub path: Option<manifest::Path>,
    /// Figures of the load over valid repeats, by the names of [`crate::METRICS`].
    pub values: BTreeMap<&'static str, Spread>,
    /// Figures of the path, by name.
    pub line: BTreeMap<&'static str, Spread>,
    /// Main limiter of its first valid repeat: a stream's own verdict, or the doctor's for requests.
    pub limit: Option<String>,
    /// The repeats.
    pub repeats: Vec<Repeat>,
}

/// One repeat of a cell.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Repeat {
    /// Number, from 1.
    pub repeat: u32,
    /// Directory, relative to the run.
    pub dir: String,
    /// The command that runs it alone.
    pub command: String,
    /// True if it yields figures.
    pub valid: bool,
    /// Reasons if it is not valid.
    pub reasons: Vec<String>,
    /// No rule of validity was applied to its path.
    pub unvalidated: bool,
    /// Figures, also of an invalid repeat, by the names of [`crate::METRICS`].
    pub values: BTreeMap<&'static str, f64>,
    /// Throughput of each initiator, bits per second over the window; with several.
    pub initiators: Vec<f64>,
    /// Place of counting the throughput.
    pub source: Option<Source>,
    /// Latency, if there were requests.
    pub latency: Option<Latency>,
    /// Median latency in stretches of the window.
    #[serde(skip)]
    pub latency_stretches: Vec<f64>,
    /// Latency against the path.
    pub turnaround: Option<Turnaround>,
    /// The throughput window: seconds since the load began.
    pub window_s: Option<(f64, f64)>,
    /// Bits per second over time.
    #[serde(skip)]
    pub rate: Vec<Sample>,
    /// Connections, the one with most bytes sent first.
    #[serde(skip)]
    pub connections: Vec<Connection>,
    /// Its layers, if they were recorded. Drawings only of a cell's first valid repeat.
    pub stack: Option<Stack>,
    /// Requests of the block devices below the store, if there is one and the kernel was traced.
    pub devices: Vec<DeviceFlight>,
    /// Its limiters; of a cell's first valid repeat.
    pub diagnosis: Option<Diagnosis>,
    /// Its packets around a typical request; of a cell's first valid repeat.
    #[serde(skip)]
    pub diagram: Option<Diagram>,
    /// The gaps between its packets; of bulk loads. Drawings only of a cell's first valid repeat.
    pub gaps: Option<Gaps>,
}

impl CellResult {
    /// True if the path of its figures was not validated.
    pub fn is_unvalidated(&self) -> bool {
        self.repeats.iter().any(|repeat| repeat.valid && repeat.unvalidated)
    }

    /// Takes the diagnosis of the measurement that its repeats are steps of, where they are.
    pub(crate) fn steps(&mut self, stepped: &BTreeMap<String, Option<Diagnosis>>) {
        for repeat in &mut self.repeats {
            let Some(diagnosis) = stepped.get(&repeat.dir) else { continue };
            repeat.diagnosis.clone_from(diagnosis);
            let first = diagnosis.as_ref().and_then(Diagnosis::first);
            self.limit = first.map(|verdict| verdict.limiter.name().to_owned());
        }
    }
}
