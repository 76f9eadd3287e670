//! Report of a run: the figures of each stream and of all together, as a document and as lines.

use std::time::Duration;

use diagnosis::Limiter;
use event::Bytes;
use serde::Serialize;
use tables::manifest::{Cpu, Load};

use crate::flow::counters::{EndCounters, EndReport};
use crate::flow::history::{History, Interval};
use crate::flow::source::ZeroCopy;
use crate::flow::transfer::Outcome;
use crate::limits::ceiling::Ceiling;
use crate::limits::host::HostLimits;
use crate::limits::limiter::Measured;
use crate::spec::StreamSpec;
use crate::tune::trial::Tuning;

/// A finished stream.
pub(crate) struct FinishedStream {
    /// Result at the near end.
    pub(crate) outcome: Outcome,
    /// Counters of the far end.
    pub(crate) far_counters: EndCounters,
    /// Limits of the far host.
    pub(crate) far_limits: HostLimits,
}

/// A run: the figures of every load, and those of streams alone.
#[derive(Debug, Serialize)]
pub struct StreamReport {
    /// Figures of every load.
    #[serde(flatten)]
    pub load: Load,
    #[serde(flatten)]
    all: Figures,
    /// Rates within the hosts' limits, the lowest first.
    ceilings: Vec<Ceiling>,
    /// Search for the sizes of reads and writes; null without one.
    pub tune: Option<Tuning>,
    streams: Vec<Stream>,
    #[serde(skip)]
    moved_bytes: u64,
    #[serde(skip)]
    reverse: bool,
}

/// One of the streams.
#[derive(Debug, Serialize)]
struct Stream {
    bytes: u64,
    bytes_per_s: f64,
    #[serde(flatten)]
    figures: Figures,
}

/// Figures of one stream, or of all.
#[derive(Clone, Debug, Serialize)]
struct Figures {
    /// Rate and window over time.
    intervals: Vec<Interval>,
    /// Median rate of the second half, bits per second; null for a short stream.
    steady_bits_per_s: Option<f64>,
    /// End of the first interval within 5 % of it.
    full_s: Option<f64>,
    /// Time until the sender's window was within 5 % of its size in the second half.
    full_window_s: Option<f64>,
    /// Counters and limits of the near end.
    near: EndReport,
    /// Counters and limits of the far end.
    far: EndReport,
    /// The limiter.
    limit: Limiter,
    /// The limiter as a sentence, with its remedy.
    why: String,
}

impl StreamReport {
    /// Report of a run of `spec`; `software` is the far end's, `near` the limits of the near host.
    pub(crate) fn new(
        spec: &StreamSpec<'_>,
        software: &str,
        finished: &[FinishedStream],
        near: HostLimits,
        ceilings: Vec<Ceiling>,
    ) -> StreamReport {
        let ends = |end: &dyn Fn(&FinishedStream) -> EndReport| finished.iter().map(end).collect::<Vec<_>>();
        let nears = ends(&|one| EndReport::new(one.outcome.counters, near));
        let fars = ends(&|one| EndReport::new(one.far_counters, one.far_limits));
        let (near, far) = (EndReport::together(&nears), EndReport::together(&fars));
        let rate = |one: &FinishedStream| {
            one.outcome.counted_bytes as f64 / one.outcome.counted_time.as_secs_f64().max(1e-9)
        };
        let stream = |((one, near_end), far_end): ((&FinishedStream, &EndReport), &EndReport)| Stream {
            bytes: one.outcome.counted_bytes,
            bytes_per_s: rate(one),
            figures: {
                let (limit, why) = measured(spec, rate(one), [*near_end, *far_end], [near, far]).limiter();
                Figures::new(&one.outcome.history, [*near_end, *far_end], spec, limit, why)
            },
        };
        let streams: Vec<Stream> = finished.iter().zip(&nears).zip(&fars).map(stream).collect();
        let histories: Vec<&History> = finished.iter().map(|one| &one.outcome.history).collect();
        let (limit, why) = limiter_of_most(&streams);
        let all = Figures::new(&History::together(&histories), [near, far], spec, limit, why);
        StreamReport {
            load: load(spec, software, finished, &streams, [near, far]),
            all,
            ceilings,
            tune: None,
            moved_bytes: finished.iter().map(|one| one.outcome.moved_bytes).sum(),
            reverse: spec.reverse,
            streams,
        }
    }

    /// Smallest round trip at a sender.
    pub(crate) fn min_rtt(&self) -> Duration {
        let [sender, _] = self.ends();
        Duration::from_nanos(sender.counters.min_rtt_ns)
    }

    /// CPU time of sender and receiver per byte, in ns.
    pub(crate) fn cpu_ns_per_byte(&self) -> (f64, f64) {
        let [sender, receiver] =
            self.ends().map(|end| end.counters.cpu_ns as f64 / self.moved_bytes.max(1) as f64);
        (sender, receiver)
    }

    /// State of sending without a copy.
    pub(crate) fn zero_copy(&self) -> ZeroCopy {
        let [sender, _] = self.ends();
        ZeroCopy::from_word(sender.counters.zero_copy)
    }

    /// The report as lines for people.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.streams.len() > 1 {
            for (n, stream) in self.streams.iter().enumerate() {
                let (rate, why) = (stream.bytes_per_s * 8.0 / 1e6, &stream.figures.why);
                lines.push(format!("stream {n}: {rate:.1} Mbit/s, limited by {why}"));
            }
        }
        let rate = self.load.bytes_per_s;
        lines.push(format!("{:.1} MB/s ({:.1} Mbit/s of payload)", rate / 1e6, rate * 8.0 / 1e6));
        if let (Some(steady), Some(full_s)) = (self.all.steady_bits_per_s, self.all.full_s) {
            lines.push(format!("steady at {:.1} Mbit/s, full after {full_s:.0} s", steady / 1e6));
        }
        let [sender, receiver] = self.ends().map(|end| end.counters);
        let (window, peer) = (Bytes(sender.window_max_bytes), Bytes(sender.peer_window_max_bytes));
        let full = self.all.full_window_s.map(|full_s| format!(", full after {full_s:.0} s"));
        let full = full.unwrap_or_default();
        lines.push(format!("window up to {window} at the sender{full}; up to {peer} at the receiver"));
        let elapsed_ns = self.load.t_end_ns.saturating_sub(self.load.t_start_ns).max(1) as f64;
        let [sender, receiver] = [sender, receiver].map(|end| end.cpu_ns as f64 / elapsed_ns * 100.0);
        lines.push(format!(
            "CPU time of the sender {sender:.0} %, of the receiver {receiver:.0} % of one CPU"
        ));
        lines.push(format!("limited by {}", self.all.why));
        lines
    }

    fn ends(&self) -> [&EndReport; 2] {
        match self.reverse {
            true => [&self.all.far, &self.all.near],
            false => [&self.all.near, &self.all.far],
        }
    }
}

impl Figures {
    fn new(
        history: &History,
        [near, far]: [EndReport; 2],
        spec: &StreamSpec<'_>,
        limit: Limiter,
        why: String,
    ) -> Figures {
        let [sender, _] = spec.sender_first(near, far);
        let full_ns = sender.counters.full_window_ns;
        Figures {
            intervals: history.intervals().to_vec(),
            steady_bits_per_s: history.steady(),
            full_s: history.full_s(),
            full_window_s: (full_ns > 0).then_some(full_ns as f64 / 1e9),
            near,
            far,
            limit,
            why,
        }
    }
}

/// Measurements of one stream, with the CPU time of all streams at each end.
fn measured(
    spec: &StreamSpec<'_>,
    bytes_per_s: f64,
    [near, far]: [EndReport; 2],
    all: [EndReport; 2],
) -> Measured {
    let [sender, receiver] = spec.sender_first(near, far);
    let [all_sender, all_receiver] = spec.sender_first(all[0], all[1]);
    let [sender_host, receiver_host] = spec.sender_first("near", "far");
    Measured {
        elapsed_ns: spec.time.as_nanos() as u64,
        bytes_per_s,
        rtt_ns: sender.counters.min_rtt_ns,
        sender,
        receiver,
        sender_host,
        receiver_host,
        sender_cpu_ns: all_sender.counters.cpu_ns,
        receiver_cpu_ns: all_receiver.counters.cpu_ns,
    }
}

/// The limiter of most streams, with the sentence of the slowest of these.
fn limiter_of_most(streams: &[Stream]) -> (Limiter, String) {
    let count = |limit: Limiter| streams.iter().filter(|stream| stream.figures.limit == limit).count();
    let Some(most) = streams.iter().map(|stream| stream.figures.limit).max_by_key(|limit| count(*limit))
    else {
        return (Limiter::Path, String::new());
    };
    let limited = streams.iter().filter(|stream| stream.figures.limit == most);
    let slowest = limited.min_by(|a, b| a.bytes_per_s.total_cmp(&b.bytes_per_s));
    let why = slowest.map(|stream| stream.figures.why.clone()).unwrap_or_default();
    match streams.len() {
        1 => (most, why),
        all => (most, format!("{why} (the slowest of {} of {all} streams that this limits)", count(most))),
    }
}

fn load(
    spec: &StreamSpec<'_>,
    software: &str,
    finished: &[FinishedStream],
    streams: &[Stream],
    [near, far]: [EndReport; 2],
) -> Load {
    let started = finished.iter().map(|one| one.outcome.started.as_nanos()).min().unwrap_or(0);
    let rtt_ns = near.counters.min_rtt_ns;
    Load {
        kind: "stream".to_owned(),
        op: "stream".to_owned(),
        direction: Some(if spec.reverse { "far-to-near" } else { "near-to-far" }.to_owned()),
        t_start_ns: started,
        t_end_ns: started + spec.time.as_nanos() as u64,
        warmup_ns: spec.warmup.as_nanos() as u64,
        bytes: streams.iter().map(|stream| stream.bytes).sum(),
        bytes_per_s: streams.iter().map(|stream| stream.bytes_per_s).sum(),
        base_rtt_ns: (rtt_ns > 0).then_some(rtt_ns as f64),
        cpu: Some(Cpu {
            near_ns: Some(near.counters.cpu_ns as f64),
            far_ns: Some(far.counters.cpu_ns as f64),
            ..Cpu::default()
        }),
        peer: Some(software.to_owned()),
        ..Load::default()
    }
}
