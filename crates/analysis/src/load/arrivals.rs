//! Application bytes per second at their arrival, over a window and over time.
//!
//! Counted at the near host for reads, at the far host for writes, and at the receiver of a stream. If the receiver
//! left no samples (a foreign target), requests acknowledged to the sender are counted instead; [`Throughput::source`]
//! names the place.

use std::path::Path;

use event::{Direction, Host, Op};
use serde::Serialize;
use tables::manifest::{Cell, Load};
use tables::{Ios, Sockets, TableError};

use super::counter::Counter;
use crate::{Sample, Span};

/// Samples may miss this share of a window, at either end; the figure is then over the part they cover.
const UNCOVERED_SHARE: f64 = 0.02;

/// Place of counting a throughput.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Payload received by the near host (table `sockets`).
    NearReceived,
    /// Payload received by the far host (table `sockets`).
    FarReceived,
    /// Requests acknowledged to the near host (table `io`).
    Acknowledged,
    /// Payload that the path delivered to the receiving host (table `packets`).
    HandedOver,
}

/// Application bytes per second over a window.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Throughput {
    /// Throughput in bits per second.
    pub bits_per_s: f64,
    /// Place of counting.
    pub source: Source,
}

/// The application bytes of one load, as they arrived.
#[derive(Clone, Debug)]
pub struct Arrivals {
    counter: Counter,
    source: Source,
}

impl Source {
    /// The place in words.
    pub const fn words(self) -> &'static str {
        match self {
            Source::NearReceived => "near host",
            Source::FarReceived => "far host",
            Source::Acknowledged => "near host, acknowledged",
            Source::HandedOver => "the path's end",
        }
    }
}

/// The window in which a load's throughput counts: the cell's, counted from the beginning of the load, or
/// from the end of its warm-up to its end.
pub fn window(cell: &Cell, load: &Load) -> Span {
    let after = |s: f64| load.t_start_ns.saturating_add((s.max(0.0) * 1e9) as u64);
    match cell.window {
        Some(window) => {
            Span { start_ns: after(window.start_s), end_ns: after(window.start_s + window.length_s) }
        }
        None => Span { start_ns: load.t_start_ns.saturating_add(load.warmup_ns), end_ns: load.t_end_ns },
    }
}

impl Arrivals {
    /// Finds the place at which the load's bytes arrived; `None` if no table has it.
    pub fn of(load: &Load, sockets: Option<&Sockets>, io: Option<&Ios>) -> Option<Arrivals> {
        let op = match load.op.as_str() {
            "read" => Some(Op::Read),
            "write" => Some(Op::Write),
            _ => None,
        };
        let from_sockets = sockets.and_then(|sockets| {
            let host = match (op, load.direction.as_deref()) {
                (Some(Op::Read), _) => Host::Near,
                (Some(Op::Write), _) => Host::Far,
                (None, Some(way)) if way == Direction::NearToFar.name() => Host::Far,
                (None, Some(way)) if way == Direction::FarToNear.name() => Host::Near,
                (None, _) => busier(sockets, load),
            };
            let source = if host == Host::Near { Source::NearReceived } else { Source::FarReceived };
            let counter = Counter::received(sockets, host);
            counter.span().map(|_| Arrivals { counter, source })
        });
        let from_io = || {
            let counter = Counter::completed(io?, op?);
            counter.span().map(|_| Arrivals { counter, source: Source::Acknowledged })
        };
        from_sockets.or_else(from_io)
    }

    /// Payload that the path delivered to the receiving host, for two foreign ends; `None` without packets.
    ///
    /// # Errors
    /// If the table cannot be read.
    pub fn handed_over(dir: &Path, load: &Load) -> Result<Option<Arrivals>, TableError> {
        let direction = match load.op.as_str() {
            "write" => Direction::NearToFar,
            _ => Direction::FarToNear,
        };
        let counter = Counter::handed_over(dir, direction)?;
        Ok(counter.span().map(|_| Arrivals { counter, source: Source::HandedOver }))
    }

    /// Throughput over a window; `None` if the samples do not cover it.
    pub fn over(&self, window: Span) -> Option<Throughput> {
        let samples = self.counter.span()?;
        let covered = Span {
            start_ns: window.start_ns.max(samples.start_ns),
            end_ns: window.end_ns.min(samples.end_ns),
        };
        let enough = window.length_s() > 0.0
            && covered.length_s() >= window.length_s() * (1.0 - 2.0 * UNCOVERED_SHARE);
        enough.then(|| Throughput { bits_per_s: self.counter.rate(covered), source: self.source })
    }

    /// The rate over time in steps of `step_s`, from the beginning of the load to the end of its samples
    /// or to `end_ns`, whichever is first. Each sample stands in the middle of its step.
    pub fn series(&self, start_ns: u64, end_ns: u64, step_s: f64) -> Vec<Sample> {
        let Some(samples) = self.counter.span() else { return Vec::new() };
        let step_ns = ((step_s * 1e9) as u64).max(1_000_000);
        let mut series = Vec::new();
        let mut span = Span { start_ns, end_ns: start_ns.saturating_add(step_ns) };
        while span.end_ns <= end_ns.min(samples.end_ns) {
            let middle_s = (span.start_ns - start_ns) as f64 / 1e9 + span.length_s() / 2.0;
            series.push((middle_s, self.counter.rate(span)));
            span = Span { start_ns: span.end_ns, end_ns: span.end_ns.saturating_add(step_ns) };
        }
        series
    }

    /// Place of counting.
    pub fn source(&self) -> Source {
        self.source
    }

    pub(crate) fn counter(&self) -> &Counter {
        &self.counter
    }
}

/// The host that received more while the load ran, for a stream without a direction.
fn busier(sockets: &Sockets, load: &Load) -> Host {
    let received = |host| {
        let counter = Counter::received(sockets, host);
        counter.at(load.t_end_ns) - counter.at(load.t_start_ns)
    };
    if received(Host::Far) > received(Host::Near) { Host::Far } else { Host::Near }
}

#[cfg(test)]
mod tests {
    use event::{Instant, Io};
    use tables::Row;

    use super::*;
    use crate::tcp::sockets::tests::sample;

    const S: u64 = 1_000_000_000;

    /// 100 MB/s at the near host and 50 MB/s at the far one, in samples 10 ms apart from 1 s on.
    fn table() -> Sockets {
        let mut table = Sockets::default();
        for i in 0..=400u64 {
            sample(S + i * 10_000_000, Host::Near, i * 1_000_000).push(&mut table);
            sample(S + i * 10_000_000, Host::Far, i * 500_000).push(&mut table);
        }
        table
    }

    fn load(op: &str) -> Load {
        Load { op: op.to_owned(), t_start_ns: S, t_end_ns: 5 * S, ..Load::default() }
    }

    #[test]
    fn bytes_count_where_they_arrive() {
        let table = table();
        let window = Span { start_ns: 2 * S + 3, end_ns: 4 * S + 7 };
        for (op, direction, rate, source) in [
            ("read", None, 800e6, Source::NearReceived),
            ("write", None, 400e6, Source::FarReceived),
            ("stream", None, 800e6, Source::NearReceived),
            ("stream", Some("near-to-far"), 400e6, Source::FarReceived),
        ] {
            let load = Load { direction: direction.map(str::to_owned), ..load(op) };
            let figure = Arrivals::of(&load, Some(&table), None).unwrap().over(window).unwrap();
            assert!((figure.bits_per_s / rate - 1.0).abs() < 1e-6, "{op}: {figure:?}");
            assert_eq!(figure.source, source, "{op}");
        }
    }

    #[test]
    fn without_the_receiver_acknowledged_requests_count() {
        let mut near = Sockets::default();
        (0..10).for_each(|i| sample(S + i * S / 10, Host::Near, 0).push(&mut near));
        let mut io = Ios::default();
        for i in 1..=400u64 {
            let completed = Instant::from_nanos(S + i * 10_000_000);
            Io {
                issued: completed,
                completed,
                op: Op::Write,
                offset_bytes: 0,
                len_bytes: 250_000,
                status: 0,
            }
            .push(&mut io);
        }
        let arrivals = Arrivals::of(&load("write"), Some(&near), Some(&io)).unwrap();
        let figure = arrivals.over(Span { start_ns: 2 * S, end_ns: 4 * S }).unwrap();
        assert_eq!((figure.bits_per_s.round(), figure.source), (200e6, Source::Acknowledged));
        assert!(Arrivals::of(&load("write"), Some(&near), None).is_none());
    }

    #[test]
    fn a_window_that_samples_do_not_cover_has_no_figure() {
        let arrivals = Arrivals::of(&load("read"), Some(&table()), None).unwrap();
        assert!(arrivals.over(Span { start_ns: 4 * S, end_ns: 6 * S }).is_none());
        let almost = arrivals.over(Span { start_ns: 4 * S, end_ns: 5 * S + S / 100 }).unwrap();
        assert_eq!(almost.bits_per_s.round(), 800e6, "the uncovered hundredth does not lower it");
    }

    #[test]
    fn the_series_starts_with_the_load() {
        let arrivals = Arrivals::of(&load("read"), Some(&table()), None).unwrap();
        let series = arrivals.series(S, 5 * S, 0.1);
        assert_eq!((series.len(), series[0].0), (40, 0.05));
        assert!(series.iter().all(|(_, rate)| (rate / 800e6 - 1.0).abs() < 1e-6));
    }
}
