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

/// One cell: a load at a place in the matrix, over all repeats.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct CellResult {
    /// Its name within the plan.
    pub slug: String,
    /// The load's name.
    pub load: String,
    /// `read`, `write` or `stream`; empty if the load said nothing.
    pub op: String,
    /// Whether the load follows the path and so is about throughput, not about single requests.
    pub bulk: bool,
    /// It stands beside the loads that follow the path, to be compared with them.
    pub compared: bool,
    /// Block of a request.
    pub block_bytes: Option<u64>,
    /// Requests outstanding; `None` if they follow the path.
    pub depth: Option<u64>,
    /// Where it lies in the matrix.
    pub point: Point,
    /// The path; `None` if the emulator said nothing.
    pub path: Option<manifest::Path>,
    /// Figures of the load over valid repeats, by the names of [`crate::METRICS`].
    pub values: BTreeMap<&'static str, Spread>,
    /// Figures of the path, by name.
    pub line: BTreeMap<&'static str, Spread>,
    /// What limits it, in one word, as its first valid repeat shows: of a stream as that says itself, of requests as the
    /// doctor says.
    pub limit: Option<String>,
    /// The repeats.
    pub repeats: Vec<Repeat>,
}

/// One cell, run once.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Repeat {
    /// Its number, from 1.
    pub repeat: u32,
    /// Its directory, relative to the run.
    pub dir: String,
    /// The command that runs it alone.
    pub command: String,
    /// Whether it yields figures.
    pub valid: bool,
    /// Why not.
    pub reasons: Vec<String>,
    /// No rule of validity was applied to its path.
    pub unvalidated: bool,
    /// Its figures, also when it is not valid, by the names of [`crate::METRICS`].
    pub values: BTreeMap<&'static str, f64>,
    /// What each initiator got, bits per second over the window; with several.
    pub initiators: Vec<f64>,
    /// Where throughput was counted.
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
    /// Its connections, the one that sent most first.
    #[serde(skip)]
    pub connections: Vec<Connection>,
    /// Its layers, if they were recorded. What is drawn of them only of a cell's first valid repeat.
    pub stack: Option<Stack>,
    /// What block devices did below the store, if there is one and the kernel was traced.
    pub devices: Vec<DeviceFlight>,
    /// What limits it; of a cell's first valid repeat.
    pub diagnosis: Option<Diagnosis>,
    /// Its packets around a typical request; of a cell's first valid repeat.
    #[serde(skip)]
    pub diagram: Option<Diagram>,
    /// The gaps between its packets; of bulk loads. What is drawn of them only of a cell's first valid repeat.
    pub gaps: Option<Gaps>,
}

impl CellResult {
    /// Its figures are of a path that no rule of validity was applied to.
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
