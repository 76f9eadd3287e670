//! Requests with rows of both ends, and the clock offset from them.

use std::collections::HashMap;
use std::path::PathBuf;

use event::{Host, Op, RequestId};
use tables::{LayerColumns, TableError};

use super::rows::{id_of, walk};
use super::sampling::Sampling;
use crate::path::clock::{ClockOffset, Crossing};

/// Requests whose two ends are compared for the clocks.
const MOST: u64 = 100_000;

/// Columns read.
const COLUMNS: &[&str] = &[
    "host",
    "op",
    "session",
    "connection",
    "itt",
    "cmd_sn",
    "started_t_ns",
    "socketed_t_ns",
    "status_t_ns",
    "received_t_ns",
    "sent_t_ns",
];

/// Departure and return of a request at the near end, arrival and departure at the far one; each once it is known.
type Ends = [Option<(u64, u64)>; 2];

/// Both ends of so many requests as are enough.
pub(in crate::layers) struct Crossings {
    sampling: Sampling,
    step: u64,
    ends: HashMap<RequestId, Ends>,
}

impl Crossings {
    /// Prepares for a table with so many rows.
    pub(in crate::layers) fn new(sampling: Sampling, rows: u64) -> Crossings {
        // Both ends may have a row of each.
        Crossings { sampling, step: rows.div_ceil(2 * MOST).max(1), ends: HashMap::new() }
    }

    pub(in crate::layers) fn see(&mut self, piece: &LayerColumns, row: usize) {
        let id = id_of(piece, row);
        if !self.sampling.number(id.cmd_sn).is_some_and(|number| number.is_multiple_of(self.step)) {
            return;
        }
        // The target takes a write up before its immediate data is there, so that it may be received before the
        // socket took its last byte; never before it was started.
        let left = match piece.op[row] {
            Op::Read => piece.socketed_t_ns[row],
            Op::Write => piece.started_t_ns[row],
        };
        let (place, pair) = match piece.host[row] {
            Host::Near => (0, (left, piece.status_t_ns[row])),
            Host::Far => (1, (piece.received_t_ns[row], piece.sent_t_ns[row])),
        };
        if pair.0 > 0 && pair.1 > 0 {
            self.ends.entry(id).or_default()[place] = Some(pair);
        }
    }

    pub(in crate::layers) fn clock(&self) -> ClockOffset {
        let both = |ends: &Ends| {
            let [Some((near_sent_ns, near_received_ns)), Some((far_received_ns, far_sent_ns))] = *ends else {
                return None;
            };
            Some(Crossing { near_sent_ns, far_received_ns, far_sent_ns, near_received_ns })
        };
        let crossings: Vec<Crossing> = self.ends.values().filter_map(both).collect();
        ClockOffset::estimate(&crossings).unwrap_or_default()
    }
}

/// Offset of the clocks of the two ends with tables in these directories.
pub(crate) fn clock(dirs: &[PathBuf]) -> Result<ClockOffset, TableError> {
    let (mut rows, mut is_near, mut is_far) = (0, false, false);
    walk(dirs, Some(&["host"]), |piece| {
        rows += piece.host.len() as u64;
        is_near |= piece.host.contains(&Host::Near);
        is_far |= piece.host.contains(&Host::Far);
    })?;
    if !(is_near && is_far) {
        return Ok(ClockOffset::default());
    }
    let mut crossings = Crossings::new(Sampling::said(dirs)?, rows);
    walk(dirs, Some(COLUMNS), |piece| (0..piece.host.len()).for_each(|row| crossings.see(&piece, row)))?;
    Ok(crossings.clock())
}
