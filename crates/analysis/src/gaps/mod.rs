//! Gaps between packets: bands and lattices in them, named with their period and their likely cause.
//!
//! [`Gaps::of`] takes the packets of one connection, data and acknowledgements, with the times at which each passed the
//! taps. Every tap is looked at alone ([`spacing`], [`comb`], [`groups`]); what is there for the first time has a cause
//! between this tap and the one before ([`naming`]). Two taps must share a clock. Nothing is named that chance makes
//! too: `docs/gaps.md` gives the thresholds and where they come from.

pub mod capture;
mod comb;
mod compression;
mod groups;
mod histogram;
mod naming;
mod pairs;
mod shown;
mod spacing;
mod table;
mod train;
mod whole;

use serde::Serialize;

pub use compression::{Bursts, Compression};
pub use histogram::Histogram;
pub use naming::{Band, Cause, Pattern};
pub use shown::Shown;
pub use table::collect;

use naming::Seen;
use train::Train;

/// Packets of one kind that are looked at, at most: a stretch of the run.
pub const PASSAGES_MAX: usize = 250_000;
/// With fewer packets than this, nothing is said of their gaps.
const LEAST: usize = 256;

/// What a packet is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// It carries payload.
    Data,
    /// It carries nothing but an acknowledgement.
    Acks,
}

/// Where packets are seen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tap {
    /// Where the path took it from its sender; the only tap of a capture.
    Sent,
    /// Where the emulated path wanted it at its receiver.
    Due,
    /// Where it was handed to its receiver.
    Received,
}

/// A packet, or a super-packet that stands for several, on its way past the taps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passage {
    /// When the first tap saw it.
    pub sent_ns: u64,
    /// When the path wanted it at the second tap, and when it was there; `None` if there is one tap only.
    pub arrived_ns: Option<(u64, u64)>,
    /// Bytes of data on the line; of an acknowledgement the bytes of payload that it acknowledges for the first time.
    pub bytes: u32,
    /// MTU-sized packets it stands for.
    pub segments: u32,
    /// For how long nobody had looked at the first tap.
    pub unseen_ns: u64,
}

/// What is kept for drawing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Drawing {
    /// When its time begins.
    pub origin_ns: u64,
    /// Points of one picture; without any, nothing is drawn.
    pub points: usize,
}

/// What the gaps of one kind of packets are like at one tap.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TapGaps {
    /// Which packets.
    pub kind: Kind,
    /// Where.
    pub tap: Tap,
    /// Packets, each of a super-packet counted.
    pub packets: u64,
    /// Share of them that came with the one before: within a microsecond, or a tenth of the mean gap.
    pub zero_share: f64,
    /// The mean gap.
    pub mean_s: f64,
    /// The middle one.
    pub p50_s: f64,
    /// One in a hundred is longer.
    pub p99_s: f64,
    /// What is regular in them.
    pub bands: Vec<Band>,
    /// The same in stretches, for a comparison.
    #[serde(skip)]
    pub stretches: Vec<Stretch>,
    /// What is drawn of them.
    #[serde(skip)]
    pub shown: Shown,
}

/// A part of what a tap saw.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stretch {
    /// The mean gap.
    pub mean_s: f64,
    /// Share of packets that came with the one before.
    pub zero_share: f64,
}

/// Everything about the gaps of one connection.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Gaps {
    /// Both kinds at every tap, in the order of their way: data out, acknowledgements back.
    pub taps: Vec<TapGaps>,
    /// How acknowledgements were pressed together; with two taps.
    pub compression: Option<Compression>,
    /// How far data behind the path lie on the lattice of merged acknowledgements, if these have one: 0 is not at all
    /// (chance leaves a hundredth), 1 is each packet, and from 0.45 on it would be named as their own.
    pub data_lattice: Option<f64>,
}

impl Gaps {
    /// Of the packets of a connection in any order; `None` if they are too few.
    pub fn of(data: &[Passage], acks: &[Passage], drawing: Drawing) -> Option<Gaps> {
        let mut trains = Vec::new();
        for (kind, passages) in [(Kind::Data, data), (Kind::Acks, acks)] {
            let two = passages.iter().any(|passage| passage.arrived_ns.is_some());
            let taps: &[Tap] = if two { &[Tap::Sent, Tap::Due, Tap::Received] } else { &[Tap::Sent] };
            trains.extend(taps.iter().map(|tap| Train::of(passages, kind, *tap)));
        }
        trains.retain(|train| train.events.len() >= LEAST);
        if trains.is_empty() {
            return None;
        }
        let seen: Vec<Seen> = trains.iter().map(Seen::of).collect();
        let bands = naming::name(&trains, &seen, round_trip_ns(data, acks));
        let compression = compression::of(data, acks);
        let data_lattice = data_lattice(&trains, &bands);
        let taps = trains.iter().zip(bands).map(|(train, bands)| TapGaps::of(train, bands, drawing));
        Some(Gaps { taps: taps.collect(), compression, data_lattice })
    }

    /// The causes that were found, each with its period in seconds, in the order of their way; each once.
    pub fn causes(&self) -> Vec<(Cause, f64)> {
        let mut causes: Vec<(Cause, f64)> = Vec::new();
        for band in self.taps.iter().flat_map(|tap| &tap.bands).filter(|band| band.new) {
            let Some(cause) = band.cause else { continue };
            if causes.iter().all(|(known, _)| *known != cause) {
                causes.push((cause, band.period_s));
            }
        }
        causes
    }

    /// Those of one kind at one tap.
    pub fn at(&self, kind: Kind, tap: Tap) -> Option<&TapGaps> {
        self.taps.iter().find(|gaps| gaps.kind == kind && gaps.tap == tap)
    }
}

/// What of the lattice that a line gave to acknowledgements is in the data that they let go.
fn data_lattice(trains: &[Train], bands: &[Vec<Band>]) -> Option<f64> {
    let is_merged = |band: &&Band| band.new && band.cause == Some(Cause::AckMerging);
    let merged = bands.iter().flatten().find(is_merged)?;
    let data = trains.iter().find(|train| (train.kind, train.tap) == (Kind::Data, Tap::Due))?;
    Some(comb::trace(data, merged.period_s * 1e9))
}

/// So many parts with as many events each.
fn stretches(train: &Train) -> Vec<Stretch> {
    let gaps: Vec<u64> = train.gaps().collect();
    let each = gaps.len().div_ceil(crate::compare::STRETCHES).max(1);
    let part = |(n, gaps): (usize, &[u64])| {
        let events = &train.events[n * each + 1..][..gaps.len()];
        let packets: u64 = events.iter().map(|event| u64::from(event.segments)).sum();
        let zero = gaps.iter().filter(|gap_ns| **gap_ns <= train.together_ns).count();
        Stretch {
            mean_s: gaps.iter().sum::<u64>() as f64 / packets.max(1) as f64 / 1e9,
            zero_share: zero as f64 / gaps.len() as f64,
        }
    };
    gaps.chunks(each).enumerate().map(part).collect()
}

/// What a packet and its acknowledgement take together, if there are two taps.
fn round_trip_ns(data: &[Passage], acks: &[Passage]) -> Option<u64> {
    let middle = |passages: &[Passage]| {
        let taken = |passage: &Passage| Some(passage.arrived_ns?.0.saturating_sub(passage.sent_ns));
        let mut delays: Vec<u64> = passages.iter().filter_map(taken).collect();
        delays.sort_unstable();
        delays.get(delays.len() / 2).copied()
    };
    Some(middle(data)? + middle(acks)?)
}

impl TapGaps {
    fn of(train: &Train, bands: Vec<Band>, drawing: Drawing) -> TapGaps {
        let mut gaps = train.gaps_per_packet();
        gaps.sort_unstable_by_key(|(gap_ns, _)| *gap_ns);
        let packets: u64 = gaps.iter().map(|(_, segments)| u64::from(*segments)).sum();
        let total_ns: u128 = gaps.iter().map(|(gap_ns, n)| u128::from(*gap_ns) * u128::from(*n)).sum();
        let quantile = |share: f64| {
            let rank = (packets as f64 * share) as u64;
            let mut below = 0;
            let found = gaps.iter().find(|(_, segments)| {
                below += u64::from(*segments);
                below > rank
            });
            found.map_or(0.0, |(gap_ns, _)| *gap_ns as f64 / 1e9)
        };
        TapGaps {
            kind: train.kind,
            tap: train.tap,
            packets,
            zero_share: train.zero_share(),
            mean_s: total_ns as f64 / packets.max(1) as f64 / 1e9,
            p50_s: quantile(0.5),
            p99_s: quantile(0.99),
            bands,
            stretches: stretches(train),
            shown: Shown::of(train, &gaps, drawing),
        }
    }
}

impl Kind {
    /// As users see it.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Data => "data",
            Kind::Acks => "acknowledgements",
        }
    }
}

impl Tap {
    /// As users see it.
    pub const fn name(self) -> &'static str {
        match self {
            Tap::Sent => "sent",
            Tap::Due => "due",
            Tap::Received => "received",
        }
    }
}
