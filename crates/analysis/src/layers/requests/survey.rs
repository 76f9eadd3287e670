//! A walk over all of `layers`: sample requests with times of both ends, and the pairs that give the offset of the
//! clocks.
//!
//! The sample has the requests at the percentiles of latency, the slowest, and others spread evenly over the run, for a
//! drawing of them all from which each can be opened.

use std::collections::HashMap;
use std::path::PathBuf;

use event::{Host, RequestId};
use tables::{LayerColumns, TableError};

use super::stages::{Request, stages};
use crate::Span;
use crate::layers::question::Question;
use crate::layers::stamp::Stamp;
use crate::layers::table::crossings::Crossings;
use crate::layers::table::rows::{id_of, walk};
use crate::layers::table::sampling::Sampling;
use crate::load::latency::percentile;
use crate::path::clock::ClockOffset;

/// A request that stands for many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Example {
    /// `median`, `p99` …
    pub name: &'static str,
    /// Index in the list of requests.
    pub request: usize,
}

/// Sample requests with times of both ends, and the clock offset.
#[derive(Debug, Default)]
pub(in crate::layers) struct Survey {
    pub(in crate::layers) clock: ClockOffset,
    pub(in crate::layers) requests: Vec<Request>,
    pub(in crate::layers) examples: Vec<Example>,
}

/// Chosen requests, by their row.
#[derive(Debug, Default)]
struct Choice {
    rows: HashMap<u64, Vec<&'static str>>,
    rows_in_all: u64,
}

/// A request, as far as it was found.
#[derive(Default)]
struct Found {
    near: Option<Near>,
    times: Vec<(Stamp, u64)>,
}

struct Near {
    op: &'static str,
    offset_bytes: u64,
    len_bytes: u32,
    names: Vec<&'static str>,
}

/// Chooses about `question.requests` requests of the window besides those at the percentiles, and the requested CmdSN
/// if it is there.
pub(in crate::layers) fn of(
    dirs: &[PathBuf],
    sampling: Sampling,
    question: Question,
) -> Result<Survey, TableError> {
    let also = question.request;
    let choice = choose(dirs, question.window, question.requests)?;
    let mut crossings = Crossings::new(sampling, choice.rows_in_all);
    let mut found: HashMap<RequestId, Found> = HashMap::new();
    let mut first_row = 0_u64;
    // Rows of the far host may come before the near host's, which choose: so the table is walked twice.
    walk(dirs, None, |piece| {
        for row in 0..piece.host.len() {
            let id = id_of(&piece, row);
            crossings.see(&piece, row);
            let names = choice.rows.get(&(first_row + row as u64));
            if piece.host[row] == Host::Near && (names.is_some() || also == Some(id.cmd_sn)) {
                let mut names = names.cloned().unwrap_or_default();
                if also == Some(id.cmd_sn) {
                    names.push("asked for");
                }
                let near = Near {
                    op: piece.op[row].name(),
                    offset_bytes: piece.offset_bytes[row],
                    len_bytes: piece.len_bytes[row],
                    names,
                };
                found.insert(id, Found { near: Some(near), times: times(&piece, row, Host::Near) });
            }
        }
        first_row += piece.host.len() as u64;
    })?;
    let clock = crossings.clock();
    // A time that cannot be placed between the near ones is left out.
    let of_far: &[PathBuf] = if clock.is_unknown() { &[] } else { dirs };
    walk(of_far, None, |piece| {
        for row in (0..piece.host.len()).filter(|row| piece.host[*row] == Host::Far) {
            if let Some(found) = found.get_mut(&id_of(&piece, row)) {
                let far =
                    times(&piece, row, Host::Far).into_iter().map(|(stamp, t)| (stamp, clock.to_near(t)));
                found.times.extend(far);
            }
        }
    })?;
    Ok(assemble(found, clock))
}

/// The requests in the order in which they were called, and which of them is which example.
fn assemble(found: HashMap<RequestId, Found>, clock: ClockOffset) -> Survey {
    let mut named: Vec<(Request, Vec<&'static str>)> = found
        .into_iter()
        .filter_map(|(id, found)| {
            let near = found.near?;
            let stages = stages(&found.times);
            let called_ns = found.times.iter().find(|(stamp, _)| *stamp == Stamp::Called)?.1;
            let request = Request {
                id,
                op: near.op,
                offset_bytes: near.offset_bytes,
                len_bytes: near.len_bytes,
                called_ns,
                latency_s: stages.last().map(|stage| stage.start_s + stage.length_s)?,
                stages,
            };
            Some((request, near.names))
        })
        .collect();
    named.sort_unstable_by_key(|(request, _)| (request.called_ns, request.id.session, request.id.cmd_sn));
    let mut examples: Vec<Example> = Vec::new();
    for (n, (_, names)) in named.iter().enumerate() {
        examples
            .extend(names.iter().filter(|name| !name.is_empty()).map(|name| Example { name, request: n }));
    }
    let latency = |example: &Example| named[example.request].0.latency_s;
    examples.sort_unstable_by(|a, b| latency(a).total_cmp(&latency(b)));
    Survey { clock, requests: named.into_iter().map(|(request, _)| request).collect(), examples }
}

fn choose(dirs: &[PathBuf], window: Span, spread: usize) -> Result<Choice, TableError> {
    let (mut called, mut completed) = (Vec::new(), Vec::new());
    walk(dirs, Some(&["called_t_ns", "completed_t_ns"]), |piece| {
        called.extend(piece.called_t_ns);
        completed.extend(piece.completed_t_ns);
    })?;
    let ended = |row: &usize| {
        completed[*row] >= called[*row] && (window.start_ns..window.end_ns).contains(&called[*row])
    };
    let rows: Vec<u32> = (0..called.len()).filter(ended).filter_map(|row| u32::try_from(row).ok()).collect();
    let latency = |row: u32| completed[row as usize] - called[row as usize];
    let mut choice = Choice { rows: HashMap::new(), rows_in_all: called.len() as u64 };
    if rows.is_empty() {
        return Ok(choice);
    }
    for row in rows.iter().step_by(rows.len().div_ceil(spread.max(1))) {
        choice.rows.entry(u64::from(*row)).or_default();
    }
    let mut ordered: Vec<u64> = rows.iter().map(|row| latency(*row)).collect();
    ordered.sort_unstable();
    for (name, share) in [("fastest", 0.0), ("median", 0.5), ("p90", 0.9), ("p99", 0.99), ("slowest", 1.0)] {
        let wanted = percentile(&ordered, share);
        // Of equal ones the one in the middle: it is the least likely to be a special case.
        let equal: Vec<u32> = rows.iter().copied().filter(|row| Some(latency(*row)) == wanted).collect();
        if let Some(row) = equal.get(equal.len() / 2) {
            choice.rows.entry(u64::from(*row)).or_default().push(name);
        }
    }
    // Readers open the slowest.
    let slow = percentile(&ordered, 1.0 - spread as f64 / 4.0 / rows.len() as f64).unwrap_or(u64::MAX);
    for row in rows.iter().filter(|row| latency(**row) > slow).take(spread / 4) {
        choice.rows.entry(u64::from(*row)).or_default();
    }
    Ok(choice)
}

fn times(columns: &LayerColumns, row: usize, host: Host) -> Vec<(Stamp, u64)> {
    let of_host = Stamp::ALL.into_iter().filter(|stamp| stamp.host() == host);
    of_host.map(|stamp| (stamp, stamp.of(columns)[row])).filter(|(_, t)| *t > 0).collect()
}
