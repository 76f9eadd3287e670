//! The table `layers` of a cell, read a column at a time: memory holds the columns of one question.
//!
//! Kept of every row are its session and connection, the other end's row of the same request, and its last known time.

use std::collections::HashMap;
use std::path::PathBuf;

use event::{Host, Layers, RequestId};
use tables::{LayerColumns, TableError};

use super::passage::{Pass, Passage};
use super::sampling::Sampling;
use crate::Span;
use crate::layers::layer::Layer;
use crate::layers::stamp::Stamp;
use crate::path::clock::ClockOffset;

/// Limit on separate connections; requests of further ones are counted in the sum alone.
const MOST_PLACES: usize = u16::MAX as usize;
/// Partner of a request whose row at the other end is missing.
const ALONE: u32 = u32::MAX;
/// Partner of a request that the other end's sampling leaves out.
const UNKNOWN: u32 = u32::MAX - 1;

/// Rows of a cell's requests.
pub(in crate::layers) struct Rows<'a> {
    dirs: &'a [PathBuf],
    sampling: Sampling,
    rows: Vec<Row>,
    /// Requests that both ends have.
    both: usize,
    /// True if both ends have rows.
    has_both: bool,
    /// The sessions, the one with most rows first.
    sessions: Vec<u64>,
    places: Vec<Place>,
}

/// A connection of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::layers) struct Place {
    /// Number of the session, the one with most rows first.
    pub(in crate::layers) session: usize,
    /// CID.
    pub(in crate::layers) connection: u32,
}

/// Known of a row without reading it again.
#[derive(Clone, Copy)]
struct Row {
    /// The last of its times, on its own clock.
    last_ns: u64,
    /// Number of its request among those with rows of both ends, or [`ALONE`] or [`UNKNOWN`].
    both: u32,
    /// Number of its connection; there may be more of them than have one.
    place: u16,
    host: Host,
    /// True if the sampling of all files of its end includes it.
    counts: bool,
}

/// Name of a row's request, and the row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Named {
    session: u64,
    cmd_sn: u32,
    connection: u32,
    itt: u32,
    row: u32,
}

impl Named {
    fn id(&self) -> (u64, u32, u32, u32) {
        (self.session, self.cmd_sn, self.connection, self.itt)
    }
}

impl Rows<'_> {
    /// `None` if nothing is recorded.
    pub(in crate::layers) fn open(
        dirs: &[PathBuf],
        sampling: Sampling,
    ) -> Result<Option<Rows<'_>>, TableError> {
        let mut columns = vec!["session", "connection", "itt", "cmd_sn"];
        columns.extend(Stamp::ALL.map(Stamp::column));
        let (mut rows, mut of_connection, mut named) = (Vec::new(), Vec::new(), Vec::new());
        walk(dirs, Some(&columns), |piece| {
            for n in 0..piece.session.len() {
                // A row of the near host has been called.
                let host = if piece.called_t_ns[n] > 0 { Host::Near } else { Host::Far };
                let (session, connection) = (piece.session[n], piece.connection[n]);
                let (cmd_sn, itt) = (piece.cmd_sn[n], piece.itt[n]);
                let last_ns = Stamp::ALL.iter().map(|stamp| stamp.of(&piece)[n]).max().unwrap_or(0);
                let mut both = UNKNOWN;
                if let (Some(_), Ok(row)) = (sampling.number(cmd_sn), u32::try_from(rows.len())) {
                    both = ALONE;
                    named.push(Named { session, cmd_sn, connection, itt, row });
                }
                of_connection.push((session, connection));
                let counts = sampling.takes(host, cmd_sn);
                rows.push(Row { last_ns, both, place: 0, host, counts });
            }
        })?;
        let (sessions, places) = place(&mut rows, &of_connection);
        let has = |host| rows.iter().any(|row| row.host == host);
        let has_both = has(Host::Near) && has(Host::Far);
        let both = if has_both { join(&mut rows, named) } else { 0 };
        let found = Rows { dirs, sampling, rows, both, has_both, sessions, places };
        Ok((!found.sessions.is_empty()).then_some(found))
    }

    pub(in crate::layers) fn sessions(&self) -> &[u64] {
        &self.sessions
    }

    /// Connections, those of the session with most rows first.
    pub(in crate::layers) fn places(&self) -> &[Place] {
        &self.places
    }

    /// Passage of a layer; `None` if nothing entered or left it, or if it lies between two hosts without rows of one or
    /// without a known offset of their clocks.
    pub(in crate::layers) fn passage(
        &self,
        layer: &Layer,
        clock: &ClockOffset,
        window: Span,
    ) -> Result<Option<Passage>, TableError> {
        let [enter, leave] = [layer.enter, layer.leave].map(Stamp::host);
        let passage = match enter == leave {
            true => self.within(layer, clock)?,
            false if clock.is_unknown() || !self.has_both => return Ok(None),
            false => self.between(layer, clock, window)?,
        };
        // A layer whose end is not recorded shows only its beginning: it is left out.
        Ok(passage.passes.iter().any(|pass| pass.has_left).then_some(passage))
    }

    /// Passage of a layer of one host.
    fn within(&self, layer: &Layer, clock: &ClockOffset) -> Result<Passage, TableError> {
        let host = layer.enter.host();
        let mut passes = Vec::new();
        let mut first_row = 0;
        walk(self.dirs, Some(&[layer.enter.column(), layer.leave.column()]), |piece| {
            let (enters, leaves) = (layer.enter.of(&piece), layer.leave.of(&piece));
            for (row, (enter_ns, leave_ns)) in self.rows[first_row..].iter().zip(enters.iter().zip(leaves)) {
                if row.host == host && row.counts && *enter_ns > 0 {
                    let times = [*enter_ns, *leave_ns, row.last_ns].map(|t| near(clock, host, t));
                    passes.push(Pass::new(times, row.place));
                }
            }
            first_row += enters.len();
        })?;
        let of_host = self.rows.iter().filter(|row| row.host == host && row.counts).count();
        let sample = self.sampling.of(host) as f64;
        let share = if layer.enter.is_sampled() { of_host as f64 / passes.len() as f64 } else { 1.0 };
        Ok(Passage { passes, one_in: sample * share, is_whole: share == 1.0, alone: 0 })
    }

    /// Passage of a layer between the hosts, by requests with rows of both: one host may have lost rows that the other
    /// kept.
    fn between(&self, layer: &Layer, clock: &ClockOffset, window: Span) -> Result<Passage, TableError> {
        let mut found = vec![([0; 3], u16::MAX); self.both];
        let (mut alone, mut first_row) = (0, 0);
        walk(self.dirs, Some(&[layer.enter.column(), layer.leave.column()]), |piece| {
            let (enters, leaves) = (layer.enter.of(&piece), layer.leave.of(&piece));
            for (row, (enter_ns, leave_ns)) in self.rows[first_row..].iter().zip(enters.iter().zip(leaves)) {
                let t = |stamp: Stamp, t: u64| {
                    if stamp.host() == row.host { near(clock, row.host, t) } else { 0 }
                };
                let (enter_ns, leave_ns) = (t(layer.enter, *enter_ns), t(layer.leave, *leave_ns));
                if let Some((times, place)) = found.get_mut(row.both as usize) {
                    let own = [enter_ns, leave_ns, near(clock, row.host, row.last_ns)];
                    *times = [0, 1, 2].map(|n| times[n].max(own[n]));
                    *place = row.place;
                } else if row.both == ALONE
                    && (window.start_ns..window.end_ns).contains(&enter_ns.max(leave_ns))
                {
                    alone += 1;
                }
            }
            first_row += enters.len();
        })?;
        let entered = found.into_iter().filter(|(times, _)| times[0] > 0);
        let passes = entered.map(|(times, place)| Pass::new(times, place)).collect();
        Ok(Passage { passes, one_in: self.sampling.both() as f64, is_whole: true, alone })
    }
}

/// Numbers the connections, and sets the number of each row.
fn place(rows: &mut [Row], of_connection: &[(u64, u32)]) -> (Vec<u64>, Vec<Place>) {
    let mut found: HashMap<(u64, u32), u64> = HashMap::new();
    of_connection.iter().for_each(|connection| *found.entry(*connection).or_default() += 1);
    let mut of_session: HashMap<u64, u64> = HashMap::new();
    found.iter().for_each(|((session, _), count)| *of_session.entry(*session).or_default() += count);
    let mut sessions: Vec<u64> = of_session.keys().copied().collect();
    sessions.sort_unstable_by_key(|session| (std::cmp::Reverse(of_session[session]), *session));
    let numbers: HashMap<u64, usize> = sessions.iter().copied().zip(0..).collect();
    let mut connections: Vec<(u64, u32)> = found.into_keys().collect();
    connections.sort_unstable_by_key(|(session, connection)| (numbers[session], *connection));
    connections.truncate(MOST_PLACES);
    let places: Vec<Place> = connections
        .iter()
        .map(|(session, connection)| Place { session: numbers[session], connection: *connection })
        .collect();
    let numbers: HashMap<(u64, u32), u16> = connections.into_iter().zip(0..).collect();
    for (row, connection) in rows.iter_mut().zip(of_connection) {
        row.place = numbers.get(connection).copied().unwrap_or(u16::MAX);
    }
    (sessions, places)
}

/// Numbers the requests with rows of both ends, sets the number of each row, and returns their count.
fn join(rows: &mut [Row], mut named: Vec<Named>) -> usize {
    named.sort_unstable();
    let mut count = 0;
    for same in named.chunk_by(|a, b| a.id() == b.id()) {
        let first = |host| same.iter().map(|named| named.row as usize).find(|row| rows[*row].host == host);
        if let (Some(near), Some(far)) = (first(Host::Near), first(Host::Far)) {
            (rows[near].both, rows[far].both) = (count, count);
            count += 1;
        }
    }
    count as usize
}

/// A time on the near host's clock; 0 for a hand-over that did not happen.
fn near(clock: &ClockOffset, host: Host, t: u64) -> u64 {
    if host == Host::Far && t > 0 { clock.to_near(t) } else { t }
}

/// Id of a row's request.
pub(in crate::layers) fn id_of(columns: &LayerColumns, row: usize) -> RequestId {
    RequestId {
        session: columns.session[row],
        connection: columns.connection[row],
        itt: columns.itt[row],
        cmd_sn: columns.cmd_sn[row],
    }
}

/// Shows the table of every directory to `each`, piece by piece and always in the same order.
pub(in crate::layers) fn walk(
    dirs: &[PathBuf],
    names: Option<&[&str]>,
    mut each: impl FnMut(LayerColumns),
) -> Result<(), TableError> {
    dirs.iter().try_for_each(|dir| tables::read_pieces::<Layers>(dir, names, &mut each).map(drop))
}
