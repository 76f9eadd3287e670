//! How a run went: the figures of each stream and of all together, as a document and as lines.

use std::time::Duration;

use event::Bytes;
use serde::Serialize;
use tables::manifest::{Cpu, Load};

use super::Order;
use super::account::End;
use super::ceiling::Ceiling;
use super::history::{History, Interval};
use super::limits::Limits;
use super::near::Ridden;
use super::outlet::ZeroCopy;
use super::tune::Tuning;
use super::why::{Limit, Seen};

/// A run: the figures that every load has, and what only streams say.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    pub(crate) load: Load,
    #[serde(flatten)]
    all: Figures,
    /// What was known of the hosts' limits before, the lowest first.
    ceilings: Vec<Ceiling>,
    /// How the sizes of reads and writes were found; null if nobody asked.
    pub(crate) tune: Option<Tuning>,
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

/// What is said of one stream, and of all.
#[derive(Clone, Debug, Serialize)]
struct Figures {
    /// Rate and window over time.
    intervals: Vec<Interval>,
    /// The middle rate of the second half, bits per second; null if it was too short.
    steady_bits_per_s: Option<f64>,
    /// When the first interval ended that was within 5 % of it.
    full_s: Option<f64>,
    /// When the sender's window was within 5 % of what it was in the second half.
    full_window_s: Option<f64>,
    /// What both ends know of themselves.
    near: End,
    far: End,
    /// What kept it from being faster.
    limit: Limit,
    /// The same as a sentence.
    why: String,
}

impl Report {
    /// What came of `order`; the near host allows `near`.
    pub(super) fn new(order: &Order<'_>, ridden: &[Ridden], near: Limits, ceilings: Vec<Ceiling>) -> Report {
        let nears: Vec<End> = ridden.iter().map(|one| End::new(one.outcome.account, near)).collect();
        let fars: Vec<End> = ridden.iter().map(|one| End::new(one.trailer.account, one.far)).collect();
        let (near, far) = (End::together(&nears), End::together(&fars));
        let rate = |one: &Ridden| {
            one.outcome.counted_bytes as f64 / one.outcome.counted_time.as_secs_f64().max(1e-9)
        };
        let stream = |((one, near_end), far_end): ((&Ridden, &End), &End)| Stream {
            bytes: one.outcome.counted_bytes,
            bytes_per_s: rate(one),
            figures: {
                let (limit, why) = seen(order, rate(one), [*near_end, *far_end], [near, far]).limit();
                Figures::new(&one.outcome.history, [*near_end, *far_end], order, limit, why)
            },
        };
        let streams: Vec<Stream> = ridden.iter().zip(&nears).zip(&fars).map(stream).collect();
        let histories: Vec<&History> = ridden.iter().map(|one| &one.outcome.history).collect();
        let (limit, why) = limit_of_most(&streams);
        let all = Figures::new(&History::together(&histories), [near, far], order, limit, why);
        Report {
            load: load(order, ridden, &streams, [near, far]),
            all,
            ceilings,
            tune: None,
            moved_bytes: ridden.iter().map(|one| one.outcome.moved_bytes).sum(),
            reverse: order.reverse,
            streams,
        }
    }

    /// The smallest round trip that a sender saw.
    pub(super) fn min_rtt(&self) -> Duration {
        let [sender, _] = self.ends();
        Duration::from_nanos(sender.account.min_rtt_ns)
    }

    /// CPU time of the sender and of the receiver for each byte.
    pub(super) fn cpu_ns_per_byte(&self) -> (f64, f64) {
        let [sender, receiver] =
            self.ends().map(|end| end.account.cpu_ns as f64 / self.moved_bytes.max(1) as f64);
        (sender, receiver)
    }

    /// What came of sending without a copy.
    pub(super) fn zero_copy(&self) -> ZeroCopy {
        let [sender, _] = self.ends();
        ZeroCopy::from_word(sender.account.zero_copy)
    }

    /// What people read.
    pub(crate) fn lines(&self) -> Vec<String> {
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
        let [sender, receiver] = self.ends().map(|end| end.account);
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

    fn ends(&self) -> [&End; 2] {
        match self.reverse {
            true => [&self.all.far, &self.all.near],
            false => [&self.all.near, &self.all.far],
        }
    }
}

impl Figures {
    fn new(
        history: &History,
        [near, far]: [End; 2],
        order: &Order<'_>,
        limit: Limit,
        why: String,
    ) -> Figures {
        let [sender, _] = order.sender_first(near, far);
        let full_ns = sender.account.full_window_ns;
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

/// One stream as `why` takes it: its ends, and what all streams had at these.
fn seen(order: &Order<'_>, bytes_per_s: f64, [near, far]: [End; 2], all: [End; 2]) -> Seen {
    let [sender, receiver] = order.sender_first(near, far);
    let [all_sender, all_receiver] = order.sender_first(all[0], all[1]);
    let [sender_host, receiver_host] = order.sender_first("near", "far");
    Seen {
        elapsed_ns: order.time.as_nanos() as u64,
        bytes_per_s,
        rtt_ns: sender.account.min_rtt_ns,
        sender,
        receiver,
        sender_host,
        receiver_host,
        sender_cpu_ns: all_sender.account.cpu_ns,
        receiver_cpu_ns: all_receiver.account.cpu_ns,
    }
}

/// What limits most of the streams, in the words of the slowest of these.
fn limit_of_most(streams: &[Stream]) -> (Limit, String) {
    let count = |limit: Limit| streams.iter().filter(|stream| stream.figures.limit == limit).count();
    let Some(most) = streams.iter().map(|stream| stream.figures.limit).max_by_key(|limit| count(*limit))
    else {
        return (Limit::Network, String::new());
    };
    let limited = streams.iter().filter(|stream| stream.figures.limit == most);
    let slowest = limited.min_by(|a, b| a.bytes_per_s.total_cmp(&b.bytes_per_s));
    let why = slowest.map(|stream| stream.figures.why.clone()).unwrap_or_default();
    match streams.len() {
        1 => (most, why),
        all => (most, format!("{why} (the slowest of {} of {all} streams that this limits)", count(most))),
    }
}

fn load(order: &Order<'_>, ridden: &[Ridden], streams: &[Stream], [near, far]: [End; 2]) -> Load {
    let started = ridden.iter().map(|one| one.outcome.started.as_nanos()).min().unwrap_or(0);
    let rtt_ns = near.account.min_rtt_ns;
    Load {
        kind: "stream".to_owned(),
        op: "stream".to_owned(),
        direction: Some(if order.reverse { "far-to-near" } else { "near-to-far" }.to_owned()),
        t_start_ns: started,
        t_end_ns: started + order.time.as_nanos() as u64,
        warmup_ns: order.warmup.as_nanos() as u64,
        bytes: streams.iter().map(|stream| stream.bytes).sum(),
        bytes_per_s: streams.iter().map(|stream| stream.bytes_per_s).sum(),
        base_rtt_ns: (rtt_ns > 0).then_some(rtt_ns as f64),
        cpu: Some(Cpu {
            near_ns: Some(near.account.cpu_ns as f64),
            far_ns: Some(far.account.cpu_ns as f64),
            ..Cpu::default()
        }),
        peer: Some(proto::keys::SOFTWARE.to_owned()),
        ..Load::default()
    }
}
