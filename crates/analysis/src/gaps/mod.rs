//! Gaps between packets: bands and lattices in them, named with their period and their likely cause.
//!
//! [`Gaps::of`] takes the packets of one connection, data and acknowledgements, with their times at the taps. Every tap
//! is analysed alone (`spacing`, `lattice`, `groups`); a pattern that is new at a tap has its cause between this tap
//! and the one before (`naming`). Two taps must share a clock. Patterns that chance also makes are not named:
//! `docs/notebook/gaps.md` gives the thresholds and their sources.

pub mod capture;
mod compression;
mod groups;
mod histogram;
mod lattice;
mod naming;
mod packet;
mod pairs;
mod shown;
mod spacing;
mod table;
mod train;
mod whole;

use serde::Serialize;

use crate::compare::STRETCHES;

pub use compression::{Bursts, Compression};
pub use histogram::Histogram;
pub use naming::{Band, Cause, Pattern};
pub use packet::{Drawing, Kind, PASSAGES_MAX, Passage, Tap};
pub use shown::Shown;
pub use table::collect;

use naming::Seen;
use packet::LEAST;
use train::Train;

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
    Some(lattice::trace(data, merged.period_s * 1e9))
}

/// Statistics of [`STRETCHES`] stretches with an equal number of events.
fn stretches(train: &Train) -> Vec<Stretch> {
    let gaps: Vec<u64> = train.gaps().collect();
    let each = gaps.len().div_ceil(STRETCHES).max(1);
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
