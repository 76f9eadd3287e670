//! Requests as the caller and the layers saw them: how fast, how many, how long where. From `io` and `layers`.

use std::path::PathBuf;

use diagnosis::Facts;
use diagnosis::facts::Concurrency;
use event::{Host, Io, Layers, Op};
use tables::{Ios, LayerColumns, TableError};

use super::question::{BEGINNING, Question};
use crate::Span;
use crate::load::latency;
use crate::path::clock::ClockOffset;

/// The requests that the figures are of.
pub(super) struct Seen {
    pub(super) op: Op,
    pub(super) window: Span,
    pub(super) count: u64,
    pub(super) request_bytes: f64,
    pub(super) bytes_per_s: f64,
    pub(super) latency_s: f64,
    pub(super) outstanding: Concurrency,
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
        outstanding: Concurrency {
            called: mean,
            queued: mean,
            granted: mean,
            caller_most: Some(most(&rows, &io)),
            ..Concurrency::default()
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
    of: [f64; 8],
}

impl Sums {
    fn add(&mut self, times: [f64; 8]) {
        self.count += 1.0;
        self.of.iter_mut().zip(times).for_each(|(sum, time)| *sum += time);
    }

    fn mean(&self, which: usize) -> Option<f64> {
        (self.count > 0.0).then(|| self.of[which] / self.count / 1e9)
    }
}

/// Number of first requests that may find the store empty when a load begins.
const FIRST: usize = 8;
/// Least number of simultaneous requests for an estimate of their service.
const TOGETHER: usize = 4;
/// Time of each if served one after the other ÷ time of one alone: bounds.
const SERVED: (f64, f64) = (0.6, 1.6);

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

/// Breakdown of the time, from `layers`. Hand-overs without times stay unknown, and so does the far end if its times
/// cannot be related to the window.
pub(super) fn stages(
    dirs: &[PathBuf],
    seen: &Seen,
    clock: &ClockOffset,
    facts: &mut Facts,
) -> Result<(), TableError> {
    let (mut near, mut far) = (Sums::default(), Sums::default());
    let (mut sessions, mut stores) = (Vec::new(), Stores::default());
    for dir in dirs {
        tables::read_pieces::<Layers>(dir, Some(NEAR), |piece| {
            add_near(&piece, seen, &mut near, &mut sessions);
        })?;
        if !clock.is_unknown() {
            tables::read_pieces::<Layers>(dir, Some(FAR), |piece| {
                add_far(&piece, seen, clock, &mut far, &mut stores);
            })?;
        }
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
        stages.first_data = near.mean(7).filter(|first_s| *first_s > 0.0);
    }
    if far.count > 0.0 {
        (stages.target_wait, stages.target, stages.answering) = (far.mean(0), far.mean(1), far.mean(2));
    }
    if let Some(served) = stores.served() {
        (stages.store, stages.store_least) = (Some(served.mean_s), Some(served.least_s));
        stages.store_inside = Some(served.mean_s * rate);
        stages.store_bytes_per_s = served.each_s.map(|each_s| seen.request_bytes / each_s);
    }
    Ok(())
}

/// Times in the store.
#[derive(Default)]
struct Stores {
    /// Service times of requests in the window.
    inside_ns: Vec<u64>,
    /// The first requests, each with the time of its begin: they found the store empty.
    first: Vec<(u64, u64)>,
}

impl Stores {
    fn began(&mut self, begin_ns: u64, end_ns: u64) {
        self.first.push((begin_ns, end_ns - begin_ns));
        if self.first.len() > 2 * FIRST {
            self.first.sort_unstable();
            self.first.truncate(FIRST);
        }
    }

    /// The result; `None` without requests.
    fn served(mut self) -> Option<Served> {
        self.inside_ns.sort_unstable();
        let tenth_ns = latency::percentile(&self.inside_ns, 0.1)?;
        self.first.sort_unstable();
        self.first.truncate(FIRST);
        let first_ns = self.first.iter().map(|(_, ns)| *ns).min().unwrap_or(tenth_ns);
        let mean_ns = self.inside_ns.iter().map(|ns| *ns as f64).sum::<f64>() / self.inside_ns.len() as f64;
        let least_s = tenth_ns.min(first_ns) as f64 / 1e9;
        Some(Served { mean_s: mean_ns / 1e9, least_s, each_s: self.each_s(least_s) })
    }

    /// Service time of the first requests that were in the store together, if they were served one after the other:
    /// each then takes as long as the fastest one.
    fn each_s(&self, least_s: f64) -> Option<f64> {
        let mut ends_ns: Vec<u64> = self.first.iter().map(|(begin, length)| begin + length).collect();
        ends_ns.sort_unstable();
        let first_ns = *ends_ns.first()?;
        let together = self.first.iter().filter(|(begin, _)| *begin < first_ns).count();
        if together < TOGETHER {
            return None;
        }
        let each_s = (ends_ns[together - 1] - first_ns) as f64 / 1e9 / (together - 1) as f64;
        (SERVED.0..=SERVED.1).contains(&(each_s / least_s.max(1e-9))).then_some(each_s)
    }
}

/// Service of requests by a store.
#[derive(Clone, Copy, Debug)]
struct Served {
    /// Mean time in it.
    mean_s: f64,
    /// Service time of the fastest requests: a tenth of all, or one of the first. With a constant queue depth each
    /// waits for as many others, so only the first requests show the service time of one.
    least_s: f64,
    /// Service time of each where they wait for each other.
    each_s: Option<f64>,
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
            if first > 0 { since(socketed, first) } else { 0.0 },
        ]);
    }
}

fn add_far(piece: &LayerColumns, seen: &Seen, clock: &ClockOffset, sums: &mut Sums, stores: &mut Stores) {
    for row in 0..piece.host.len() {
        if piece.host[row] != Host::Far || piece.op[row] != seen.op || piece.status[row] != 0 {
            continue;
        }
        let (begin, end) = (piece.store_begin_t_ns[row], piece.store_end_t_ns[row]);
        let has_store = begin > 0 && end >= begin;
        if has_store {
            stores.began(begin, end);
        }
        let answered = piece.answered_t_ns[row];
        if !(seen.window.start_ns..seen.window.end_ns).contains(&clock.to_near(answered)) {
            continue;
        }
        let since = |from: u64, to: u64| if from > 0 { to.saturating_sub(from) as f64 } else { 0.0 };
        let received = piece.received_t_ns[row];
        // A write's data may still be on its way when its command is there.
        let ready = if seen.op == Op::Write { received.max(piece.data_out_last_t_ns[row]) } else { received };
        let begun = if begin > 0 { begin } else { piece.executed_t_ns[row].max(ready) };
        sums.add([
            since(ready, begun),
            since(ready, answered),
            since(answered, piece.sent_t_ns[row]),
            0.0,
            0.0,
            0.0,
            0.0,
            0.0,
        ]);
        if has_store {
            stores.inside_ns.push(end - begin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store that takes `each_ns` for one request at a time and `delay_ns` besides, and a caller that keeps 32
    /// outstanding.
    fn closed_loop(each_ns: u64, delay_ns: u64) -> Served {
        let mut stores = Stores::default();
        let mut free_ns = 1;
        for n in 0..1000u64 {
            let begin_ns = if n < 32 { 1 } else { free_ns - 32 * each_ns + each_ns };
            free_ns = free_ns.max(begin_ns) + each_ns;
            let end_ns = free_ns + delay_ns;
            stores.began(begin_ns, end_ns);
            if n > 500 {
                stores.inside_ns.push(end_ns - begin_ns);
            }
        }
        stores.served().expect("requests")
    }

    #[test]
    fn a_store_that_serves_one_after_the_other_was_sooner_at_first() {
        let served = closed_loop(1_000_000, 0);
        assert!(served.mean_s > 10.0 * served.least_s, "{served:?}");
        assert!(served.each_s.is_some_and(|each_s| (each_s - 0.001).abs() < 1e-9), "{served:?}");
    }

    #[test]
    fn a_store_that_takes_its_time_for_each_never_was() {
        let served = closed_loop(1, 20_000_000);
        assert!(served.mean_s < 1.1 * served.least_s, "{served:?}");
        assert_eq!(served.each_s, None, "they are served together");
    }
}
