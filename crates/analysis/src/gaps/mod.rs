//! Gaps between packets: bands and lattices in them, named with their period and their likely cause.
//!
//! [`Gaps::of`] takes the packets of one connection, data and acknowledgements, with the times at which each passed the
//! taps. Every tap is looked at alone (`spacing`, `comb`, `groups`); what is there for the first time has a cause
//! between this tap and the one before (`naming`). Two taps must share a clock. Nothing is named that chance makes
//! too: `docs/reference/gaps.md` gives the thresholds and where they come from.

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

/// Limit on analysed packets of one kind: one stretch of the run.
pub const PASSAGES_MAX: usize = 250_000;
/// Fewest packets for an analysis.
const LEAST: usize = 256;

/// Class of a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// It carries payload.
    Data,
    /// Pure acknowledgement, without payload.
    Acks,
}

/// Observation point on the path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tap {
    /// Ingress: the path takes the packet from its sender. The only tap of a capture.
    Sent,
    /// Scheduled egress: delivery time in the model of the emulated path.
    Due,
    /// Egress: delivery to the receiver.
    Received,
}

/// Times of one packet, or of one super-packet (GSO), at the taps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passage {
    /// Time at the first tap.
    pub sent_ns: u64,
    /// Scheduled and actual time at the second tap; `None` with a single tap.
    pub arrived_ns: Option<(u64, u64)>,
    /// Data: bytes on the line. Acknowledgement: newly acknowledged payload bytes.
    pub bytes: u32,
    /// MTU-sized packets it stands for.
    pub segments: u32,
    /// Uncertainty of `sent_ns`: time since the first tap was last polled; the packet may be that much older.
    pub unseen_ns: u64,
}

/// Limits of the data that figures keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Drawing {
    /// Origin of the time axis.
    pub origin_ns: u64,
    /// Points per figure; 0 disables figures.
    pub points: usize,
}

/// Statistics of the gaps between packets of one kind at one tap.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TapGaps {
    /// Class of the packets.
    pub kind: Kind,
    /// Observation point.
    pub tap: Tap,
    /// Packets; a super-packet counts as its segments.
    pub packets: u64,
    /// Share of back-to-back packets: gap of at most a tenth of the mean gap, bounded to 1 µs to 20 µs.
    pub zero_share: f64,
    /// The mean gap.
    pub mean_s: f64,
    /// Median gap.
    pub p50_s: f64,
    /// 99th percentile of the gaps.
    pub p99_s: f64,
    /// Periodic patterns of the gaps.
    pub bands: Vec<Band>,
    /// Statistics of consecutive stretches, for comparisons.
    #[serde(skip)]
    pub stretches: Vec<Stretch>,
    /// Data for figures.
    #[serde(skip)]
    pub shown: Shown,
}

/// Statistics of one stretch of packets at a tap.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stretch {
    /// The mean gap.
    pub mean_s: f64,
    /// Share of back-to-back packets.
    pub zero_share: f64,
}

/// Gap analysis of one connection.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Gaps {
    /// Both kinds at every tap in path order: data forward, acknowledgements back.
    pub taps: Vec<TapGaps>,
    /// ACK compression; `None` with a single tap or few acknowledgements.
    pub compression: Option<Compression>,
    /// Strength of the merged acknowledgements' lattice in the data behind the path, from 0 to 1; `None` without such a
    /// lattice. Chance yields about 0.01; from 0.45 on the data count as having a lattice of their own.
    pub data_lattice: Option<f64>,
}

impl Gaps {
    /// Analyses the packets of a connection, given in any order; `None` if there are too few.
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

    /// Causes found, each once, with the period in seconds, in path order.
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

    /// Returns the statistics of one kind at one tap.
    pub fn at(&self, kind: Kind, tap: Tap) -> Option<&TapGaps> {
        self.taps.iter().find(|gaps| gaps.kind == kind && gaps.tap == tap)
    }
}

/// Strength of the acknowledgements' lattice in the data that they clock out.
fn data_lattice(trains: &[Train], bands: &[Vec<Band>]) -> Option<f64> {
    let is_merged = |band: &&Band| band.new && band.cause == Some(Cause::AckMerging);
    let merged = bands.iter().flatten().find(is_merged)?;
    let data = trains.iter().find(|train| (train.kind, train.tap) == (Kind::Data, Tap::Due))?;
    Some(comb::trace(data, merged.period_s * 1e9))
}

/// Statistics of `compare::STRETCHES` stretches with an equal number of events.
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

/// Median round-trip time: delay of data plus delay of acknowledgements; `None` with a single tap.
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
    /// Returns the name for output.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Data => "data",
            Kind::Acks => "acknowledgements",
        }
    }
}

impl Tap {
    /// Returns the name for output.
    pub const fn name(self) -> &'static str {
        match self {
            Tap::Sent => "sent",
            Tap::Due => "due",
            Tap::Received => "received",
        }
    }
}
