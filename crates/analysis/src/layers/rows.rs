//! The table `layers` of a cell, read a column at a time: memory holds what one question needs.

use std::collections::HashMap;
use std::path::PathBuf;

use event::{Host, Layers};
use store::tables::{self, LayerColumns, TableError};

use super::layer::Layer;
use super::stamp::Stamp;
use crate::clock::ClockOffset;

/// Where the requests of a cell are recorded.
pub(super) struct Rows<'a> {
    dirs: &'a [PathBuf],
    /// Number of the session of each row.
    session_of: Vec<u32>,
    /// The sessions, the one with most rows first.
    sessions: Vec<u64>,
}

/// When requests entered a layer and left it.
pub(super) struct Passage {
    /// Times of entering, and the number of each one's session.
    pub(super) enters: Vec<(u64, u32)>,
    /// Times of leaving, likewise. Those of requests that entered, if one host saw both.
    pub(super) leaves: Vec<(u64, u32)>,
    /// Whether the n-th of both is one request (0: it did not come back).
    pub(super) paired: bool,
    /// One request in so many has these times.
    pub(super) one_in: f64,
}

impl Rows<'_> {
    /// `None` if nothing is recorded.
    pub(super) fn open(dirs: &[PathBuf]) -> Result<Option<Rows<'_>>, TableError> {
        let mut counts: HashMap<u64, u64> = HashMap::new();
        let mut names: Vec<u64> = Vec::new();
        walk(dirs, Some(&["session"]), |piece| names.extend(piece.session))?;
        names.iter().for_each(|session| *counts.entry(*session).or_default() += 1);
        let mut sessions: Vec<u64> = counts.keys().copied().collect();
        sessions.sort_unstable_by_key(|session| (std::cmp::Reverse(counts[session]), *session));
        let numbers: HashMap<u64, u32> = sessions.iter().copied().zip(0..).collect();
        let session_of = names.iter().map(|session| numbers[session]).collect();
        Ok((!sessions.is_empty()).then_some(Rows { dirs, session_of, sessions }))
    }

    pub(super) fn sessions(&self) -> &[u64] {
        &self.sessions
    }

    /// How a layer was passed; `None` if nobody entered it, or if it lies between two hosts of which one recorded
    /// nothing or whose clocks cannot be related.
    pub(super) fn passage(&self, layer: &Layer, clock: &ClockOffset) -> Result<Option<Passage>, TableError> {
        let [enter, leave] = [layer.enter, layer.leave].map(Stamp::host);
        if enter != leave && clock.is_unknown() {
            return Ok(None);
        }
        // A row of the near host has been called, one of the far host received; TCP's times are in both.
        let names = ["called_t_ns", "received_t_ns", layer.enter.column(), layer.leave.column()];
        let adjust = |host: Host, t: u64| if host == Host::Far && t > 0 { clock.to_near(t) } else { t };
        let mut passage =
            Passage { enters: Vec::new(), leaves: Vec::new(), paired: enter == leave, one_in: 1.0 };
        let (mut rows, mut first_row) = (0_u64, 0);
        walk(self.dirs, Some(&names), |piece| {
            let (enters, leaves) = (layer.enter.of(&piece), layer.leave.of(&piece));
            let of_host = |row: usize, host: Host| (piece.called_t_ns[row] > 0) == (host == Host::Near);
            for row in 0..enters.len() {
                let session = self.session_of[first_row + row];
                if of_host(row, enter) {
                    rows += 1;
                    if enters[row] > 0 {
                        passage.enters.push((adjust(enter, enters[row]), session));
                        if passage.paired {
                            passage.leaves.push((adjust(leave, leaves[row]), session));
                        }
                    }
                }
                if !passage.paired && of_host(row, leave) && leaves[row] > 0 {
                    passage.leaves.push((adjust(leave, leaves[row]), session));
                }
            }
            first_row += enters.len();
        })?;
        // Nobody comes out of a layer whose end is not seen: it would only fill.
        if passage.enters.is_empty() || !passage.paired && passage.leaves.is_empty() {
            return Ok(None);
        }
        if layer.enter.is_sampled() {
            passage.one_in = rows as f64 / passage.enters.len() as f64;
        }
        Ok(Some(passage))
    }
}

/// Shows the table of every directory to `each`, piece by piece and always in the same order.
pub(super) fn walk(
    dirs: &[PathBuf],
    names: Option<&[&str]>,
    mut each: impl FnMut(LayerColumns),
) -> Result<(), TableError> {
    dirs.iter().try_for_each(|dir| tables::read_pieces::<Layers>(dir, names, &mut each).map(drop))
}

impl Stamp {
    /// Whether only some requests have it.
    pub(super) const fn is_sampled(self) -> bool {
        use Stamp::{FarTcpAcked, FarTcpQueued, FarTcpWire, NearTcpAcked, NearTcpQueued, NearTcpWire};
        matches!(self, FarTcpAcked | FarTcpQueued | FarTcpWire | NearTcpAcked | NearTcpQueued | NearTcpWire)
    }

    /// The name of its column.
    pub(super) const fn column(self) -> &'static str {
        match self {
            Stamp::Called => "called_t_ns",
            Stamp::Scsi => "scsi_t_ns",
            Stamp::Queued => "queued_t_ns",
            Stamp::Granted => "granted_t_ns",
            Stamp::Started => "started_t_ns",
            Stamp::Socketed => "socketed_t_ns",
            Stamp::NearTcpQueued | Stamp::FarTcpQueued => "tcp_queued_t_ns",
            Stamp::NearTcpWire | Stamp::FarTcpWire => "tcp_wire_t_ns",
            Stamp::NearTcpAcked | Stamp::FarTcpAcked => "tcp_acked_t_ns",
            Stamp::Received => "received_t_ns",
            Stamp::Parsed => "parsed_t_ns",
            Stamp::R2tFirst => "r2t_first_t_ns",
            Stamp::DataOutLast => "data_out_last_t_ns",
            Stamp::Executed => "executed_t_ns",
            Stamp::StoreBegin => "store_begin_t_ns",
            Stamp::StoreEnd => "store_end_t_ns",
            Stamp::Answered => "answered_t_ns",
            Stamp::Sent => "sent_t_ns",
            Stamp::DataFirst => "data_first_t_ns",
            Stamp::DataLast => "data_last_t_ns",
            Stamp::Status => "status_t_ns",
            Stamp::Completed => "completed_t_ns",
        }
    }

    /// Its column. TCP's times mean the near host's in the near host's rows, and the far host's in the far one's.
    pub(super) fn of(self, columns: &LayerColumns) -> &[u64] {
        match self {
            Stamp::Called => &columns.called_t_ns,
            Stamp::Scsi => &columns.scsi_t_ns,
            Stamp::Queued => &columns.queued_t_ns,
            Stamp::Granted => &columns.granted_t_ns,
            Stamp::Started => &columns.started_t_ns,
            Stamp::Socketed => &columns.socketed_t_ns,
            Stamp::NearTcpQueued | Stamp::FarTcpQueued => &columns.tcp_queued_t_ns,
            Stamp::NearTcpWire | Stamp::FarTcpWire => &columns.tcp_wire_t_ns,
            Stamp::NearTcpAcked | Stamp::FarTcpAcked => &columns.tcp_acked_t_ns,
            Stamp::Received => &columns.received_t_ns,
            Stamp::Parsed => &columns.parsed_t_ns,
            Stamp::R2tFirst => &columns.r2t_first_t_ns,
            Stamp::DataOutLast => &columns.data_out_last_t_ns,
            Stamp::Executed => &columns.executed_t_ns,
            Stamp::StoreBegin => &columns.store_begin_t_ns,
            Stamp::StoreEnd => &columns.store_end_t_ns,
            Stamp::Answered => &columns.answered_t_ns,
            Stamp::Sent => &columns.sent_t_ns,
            Stamp::DataFirst => &columns.data_first_t_ns,
            Stamp::DataLast => &columns.data_last_t_ns,
            Stamp::Status => &columns.status_t_ns,
            Stamp::Completed => &columns.completed_t_ns,
        }
    }
}
