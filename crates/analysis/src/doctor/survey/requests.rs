//! Requests as the caller and the layers saw them: how fast, how many, how long where. From `io` and `layers`.

use std::path::PathBuf;

use event::{Host, Io, Layers, Op};
use store::tables::{self, Ios, LayerColumns, TableError};

use super::super::facts::{Facts, Outstanding};
use super::{BEGINNING, Question};
use crate::{Span, latency};

/// The requests that the figures are of.
pub(super) struct Seen {
    pub(super) op: Op,
    pub(super) window: Span,
    pub(super) count: u64,
    pub(super) request_bytes: f64,
    pub(super) bytes_per_s: f64,
    pub(super) latency_s: f64,
    pub(super) outstanding: Outstanding,
}

/// From `io`; `None` if it has no such request.
pub(super) fn seen(dirs: &[PathBuf], question: Question) -> Result<Option<Seen>, TableError> {
    let mut io = Ios::default();
    for dir in dirs {
        if let Some(more) = tables::read_optional::<Io>(dir)? {
            io.append(more);
        }
    }
    let moved = |op: Op| -> u64 {
        (0..io.op.len()).filter(|row| io.op[*row] == op).map(|row| u64::from(io.len_bytes[row])).sum()
    };
    let op = question.op.unwrap_or(if moved(Op::Write) > moved(Op::Read) { Op::Write } else { Op::Read });
    let is_good = |row: &usize| io.op[*row] == op && io.status[*row] == 0;
    let Some(window) = question.window.or_else(|| usual((0..io.op.len()).filter(is_good), &io)) else {
        return Ok(None);
    };
    let ended = |row: &usize| (window.start_ns..window.end_ns).contains(&io.completed_t_ns[*row]);
    let rows: Vec<usize> = (0..io.op.len()).filter(is_good).filter(ended).collect();
    let length_s = window.length_s();
    if rows.is_empty() || length_s <= 0.0 {
        return Ok(None);
    }
    let bytes: f64 = rows.iter().map(|row| f64::from(io.len_bytes[*row])).sum();
    let spent: f64 = rows
        .iter()
        .map(|row| io.completed_t_ns[*row].saturating_sub(io.issued_t_ns[*row]) as f64 / 1e9)
        .sum();
    let count = rows.len() as f64;
    let mean = spent / length_s;
    Ok(Some(Seen {
        op,
        window,
        count: rows.len() as u64,
        request_bytes: bytes / count,
        bytes_per_s: bytes / length_s,
        latency_s: spent / count,
        outstanding: Outstanding {
            called: mean,
            queued: mean,
            granted: mean,
            caller_most: Some(most(&rows, &io)),
            ..Outstanding::default()
        },
    }))
}

/// All of the load but its beginning.
fn usual(rows: impl Iterator<Item = usize> + Clone, io: &Ios) -> Option<Span> {
    let start_ns = rows.clone().map(|row| io.issued_t_ns[row]).min()?;
    let end_ns = rows.map(|row| io.completed_t_ns[row]).max()?.saturating_add(1);
    let skipped = ((end_ns - start_ns.min(end_ns)) as f64 * BEGINNING) as u64;
    Some(Span { start_ns: start_ns + skipped, end_ns })
}

/// The most that were under way at once.
fn most(rows: &[usize], io: &Ios) -> f64 {
    let mut changes: Vec<(u64, i64)> =
        rows.iter().flat_map(|row| [(io.issued_t_ns[*row], 1), (io.completed_t_ns[*row], -1)]).collect();
    // One that ends makes room for the next at the same moment.
    changes.sort_unstable();
    let (mut level, mut most) = (0, 0);
    for (_, change) in changes {
        level += change;
        most = most.max(level);
    }
    most as f64
}

/// Sums over the rows of one host.
#[derive(Default)]
struct Sums {
    count: f64,
    of: [f64; 7],
}

impl Sums {
    fn add(&mut self, times: [f64; 7]) {
        self.count += 1.0;
        self.of.iter_mut().zip(times).for_each(|(sum, time)| *sum += time);
    }

    fn mean(&self, which: usize) -> Option<f64> {
        (self.count > 0.0).then(|| self.of[which] / self.count / 1e9)
    }
}

const NEAR: &[&str] = &[
    "host",
    "op",
    "status",
    "session",
    "called_t_ns",
    "queued_t_ns",
    "granted_t_ns",
    "socketed_t_ns",
    "data_first_t_ns",
    "data_last_t_ns",
    "status_t_ns",
    "completed_t_ns",
];
const FAR: &[&str] = &[
    "host",
    "op",
    "status",
    "received_t_ns",
    "executed_t_ns",
    "data_out_last_t_ns",
    "store_begin_t_ns",
    "store_end_t_ns",
    "answered_t_ns",
    "sent_t_ns",
];

/// Where time is spent, from `layers`; what has no times there stays unknown.
pub(super) fn stages(dirs: &[PathBuf], seen: &Seen, facts: &mut Facts) -> Result<(), TableError> {
    let (mut near, mut far) = (Sums::default(), Sums::default());
    let (mut sessions, mut stores) = (Vec::new(), Vec::new());
    for dir in dirs {
        tables::read_pieces::<Layers>(dir, Some(NEAR), |piece| {
            add_near(&piece, seen, &mut near, &mut sessions);
        })?;
        tables::read_pieces::<Layers>(dir, Some(FAR), |piece| add_far(&piece, seen, &mut far, &mut stores))?;
    }
    let rate = seen.bytes_per_s / seen.request_bytes.max(1.0);
    if let (Some(called), Some(queued), Some(granted)) = (near.mean(0), near.mean(1), near.mean(2)) {
        let out = &mut facts.outstanding;
        (out.called, out.queued, out.granted) = (rate * called, rate * queued, rate * granted);
    }
    facts.sessions = (sessions.len() as f64).max(1.0);
    if let Some(most) = &mut facts.outstanding.caller_most {
        *most /= facts.sessions;
    }
    let stages = &mut facts.stages;
    stages.sending = near.mean(3);
    if facts.is_write {
        stages.soliciting = near.mean(4);
    } else {
        (stages.status_gap, stages.data_spread) = (near.mean(5), near.mean(6));
    }
    if far.count > 0.0 {
        (stages.target_wait, stages.target, stages.answering) = (far.mean(0), far.mean(1), far.mean(2));
    }
    if !stores.is_empty() {
        stores.sort_unstable();
        let mean = stores.iter().map(|ns| *ns as f64).sum::<f64>() / stores.len() as f64 / 1e9;
        stages.store = Some(mean);
        stages.store_least = latency::percentile(&stores, 0.1).map(|ns| ns as f64 / 1e9);
        stages.store_inside = Some(mean * rate);
    }
    Ok(())
}

fn add_near(piece: &LayerColumns, seen: &Seen, sums: &mut Sums, sessions: &mut Vec<u64>) {
    for row in 0..piece.host.len() {
        let ended = piece.completed_t_ns[row];
        let is_in = (seen.window.start_ns..seen.window.end_ns).contains(&ended);
        if piece.host[row] != Host::Near || piece.op[row] != seen.op || piece.status[row] != 0 || !is_in {
            continue;
        }
        if !sessions.contains(&piece.session[row]) {
            sessions.push(piece.session[row]);
        }
        let since = |from: u64, to: u64| if from > 0 { to.saturating_sub(from) as f64 } else { 0.0 };
        let (socketed, first, last) =
            (piece.socketed_t_ns[row], piece.data_first_t_ns[row], piece.data_last_t_ns[row]);
        sums.add([
            since(piece.called_t_ns[row], ended),
            since(piece.queued_t_ns[row], ended),
            since(piece.granted_t_ns[row], ended),
            since(piece.granted_t_ns[row], socketed),
            if last > 0 { since(socketed, last) } else { 0.0 },
            since(last, piece.status_t_ns[row]),
            since(first, last),
        ]);
    }
}

fn add_far(piece: &LayerColumns, seen: &Seen, sums: &mut Sums, stores: &mut Vec<u64>) {
    for row in 0..piece.host.len() {
        let answered = piece.answered_t_ns[row];
        let is_in = (seen.window.start_ns..seen.window.end_ns).contains(&answered);
        if piece.host[row] != Host::Far || piece.op[row] != seen.op || piece.status[row] != 0 || !is_in {
            continue;
        }
        let since = |from: u64, to: u64| if from > 0 { to.saturating_sub(from) as f64 } else { 0.0 };
        let received = piece.received_t_ns[row];
        // A write's data may still be on its way when its command is there.
        let ready = if seen.op == Op::Write { received.max(piece.data_out_last_t_ns[row]) } else { received };
        let (begin, end) = (piece.store_begin_t_ns[row], piece.store_end_t_ns[row]);
        let begun = if begin > 0 { begin } else { piece.executed_t_ns[row].max(ready) };
        sums.add([
            since(ready, begun),
            since(ready, answered),
            since(answered, piece.sent_t_ns[row]),
            0.0,
            0.0,
            0.0,
            0.0,
        ]);
        if begin > 0 && end >= begin {
            stores.push(end - begin);
        }
    }
}
