//! Names of patterns in the gaps: their cause, and the taps between which they arise.
//!
//! A pattern of an earlier tap is carried along; only a new one has its cause at this tap. Data lead to
//! acknowledgements, and these to data again.

use serde::Serialize;

use super::groups::{self, Groups};
use super::lattice::{self, Lattice};
use super::packet::{Kind, Tap};
use super::spacing::{self, Spacing};
use super::train::{Event, Group, Train};

/// Share of packets that come together for a lattice to be one of groups.
const GROUPED_MIN: f64 = 0.3;
/// Groups of interrupt coalescing begin with a packet of constant delay; on a line with a clock the first packet's
/// delay varies with its arrival. Variation, as a part of the period, below which the delay is constant.
const SAME_DELAY: f64 = 0.02;

/// Difference from the round trip up to which a period is the round trip's own: hosts add time.
const ROUND_TRIP: f64 = 0.05;

/// Pattern of the gaps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Constant time per byte: a band.
    Spacing,
    /// Beginnings on the multiples of a period: a lattice.
    Lattice,
    /// Groups with a least time between them, without a clock.
    Groups,
}

/// Causes of patterns in the gaps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Serialisation time of one packet.
    Serialisation,
    /// A host that acts when its clock ticks.
    TimerTick,
    /// A card that holds its interrupt back.
    Coalescing,
    /// A line that packs small frames together.
    AckMerging,
    /// The emulator was late: no property of the path.
    Emulator,
}

/// One pattern with its period and cause.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Band {
    /// Pattern.
    pub pattern: Pattern,
    /// Period: the gap, the lattice's period, or the least time between groups.
    pub period_s: f64,
    /// Share of the gaps, of the lattice's points, of the packets that have it.
    pub share: f64,
    /// Strength of a lattice, from 0 to 1; 1 for other patterns.
    pub strength: f64,
    /// Likely cause; `None` if unknown.
    pub cause: Option<Cause>,
    /// True if no earlier tap shows it.
    pub new: bool,
}

/// Patterns found at one tap, before they are named.
pub(super) struct Seen {
    spacing: Option<Spacing>,
    lattices: Vec<Lattice>,
    groups: Option<Groups>,
    /// Groups, including those that a full line leaves between its pauses.
    beginnings: Vec<Group>,
    together: f64,
}

impl Seen {
    /// Analyses one tap.
    pub(super) fn of(train: &Train) -> Seen {
        let spacing = spacing::find(train);
        let full_line = |event: &Event| {
            spacing.map_or(0, |spacing| (spacing.ns_per_byte * 1.3 * f64::from(event.bytes)) as u64)
        };
        let beginnings = train.groups(full_line);
        let mut lattices = lattice::find(&beginnings);
        // A full line is a lattice of its own packets.
        let of_the_line =
            |lattice: &Lattice| spacing.is_some_and(|spacing| is_multiple(lattice.period_ns, spacing.gap_ns));
        lattices.retain(|lattice| !of_the_line(lattice));
        let groups = groups::find(train);
        // Groups of packets that came regularly lie on parts of their time, too. Only small frames are put on a lattice by
        // a line.
        if groups.is_some() && (train.kind, train.tap) != (Kind::Acks, Tap::Due) {
            lattices.retain(|lattice| lattice::is_tick(lattice.period_ns));
        }
        let clocked = |found: &Groups| {
            lattices.iter().any(|lattice| (found.period_ns / lattice.period_ns - 1.0).abs() < 0.3)
        };
        let groups = groups.filter(|found| !clocked(found));
        let together = groups::together(&train.groups(|_| 0));
        Seen { spacing, lattices, groups, beginnings, together }
    }
}

/// Bands of every train, in path order: a pattern of one tap may reach the next one.
pub(super) fn name(trains: &[Train], seen: &[Seen], round_trip_ns: Option<u64>) -> Vec<Vec<Band>> {
    let mut named: Vec<Vec<Band>> = Vec::new();
    for (at, train) in trains.iter().enumerate() {
        let here = Here { train, seen: &seen[at], round_trip_ns };
        let before = at.checked_sub(1).map(|before| (&trains[before], &seen[before]));
        let mut bands = here.bands();
        for band in &mut bands {
            if named.iter().flatten().any(|line| is_lattice_of(band, line)) {
                // A line that is never idle keeps a clock, which blurred stamps show though its spacing is gone.
                band.pattern = Pattern::Spacing;
                band.cause = named.iter().rev().find_map(|earlier| known(earlier, band));
                continue;
            }
            let was = before.is_some_and(|(train, seen)| shows(train, seen, band, here.train));
            band.new = !was || band.pattern == Pattern::Spacing && here.waited(band);
            band.cause = match band.new {
                true => here.cause(band),
                false => named.iter().rev().find_map(|earlier| known(earlier, band)),
            };
        }
        named.push(bands);
    }
    // Arriving acknowledgements clock out data: a new pattern of the data is an old one of these.
    let first_ack = trains.iter().position(|train| train.kind == Kind::Acks).unwrap_or(trains.len());
    let (data, acks) = named.split_at_mut(first_ack);
    for band in data.first_mut().into_iter().flatten().filter(|band| band.cause.is_none()) {
        let new =
            |bands: &Vec<Band>| known(&bands.iter().copied().filter(|b| b.new).collect::<Vec<_>>(), band);
        if let Some(cause) = acks.iter().find_map(new) {
            (band.cause, band.new) = (Some(cause), false);
        }
    }
    named
}

/// True if a lattice is that of packets which follow each other at a constant spacing.
fn is_lattice_of(band: &Band, line: &Band) -> bool {
    (band.pattern, line.pattern) == (Pattern::Lattice, Pattern::Spacing)
        && is_multiple(band.period_s, line.period_s)
}

/// True if a period is a small multiple of another, to three thousandths.
fn is_multiple(period: f64, of: f64) -> bool {
    let times = period / of;
    (0.9..8.5).contains(&times) && (times - times.round()).abs() < 0.003 * times
}

/// Cause of the same band at another tap.
fn known(bands: &[Band], band: &Band) -> Option<Cause> {
    let of_a_line = |band: &Band| band.pattern == Pattern::Spacing;
    // An acknowledgement is for several packets.
    let within = if of_a_line(band) { 2.0 } else { 0.3 };
    let same = |other: &&Band| {
        of_a_line(other) == of_a_line(band) && (other.period_s / band.period_s - 1.0).abs() <= within
    };
    bands.iter().filter(same).find_map(|other| other.cause)
}

/// True if a tap shows a band of a later one, even faintly.
fn shows(train: &Train, seen: &Seen, band: &Band, later: &Train) -> bool {
    let period_ns = band.period_s * 1e9;
    let near = |found_ns: f64, within: f64| (found_ns / period_ns - 1.0).abs() <= within;
    let on_lattice = seen.lattices.iter().any(|lattice| near(lattice.period_ns, 0.03));
    let grouped = seen.groups.is_some_and(|groups| near(groups.period_ns, 0.3));
    match band.pattern {
        Pattern::Spacing if train.kind != later.kind => seen.spacing.is_some(),
        Pattern::Spacing => {
            let middle = later.events.get(later.events.len() / 2);
            let bytes = middle.map_or(1.0, |event| f64::from(event.bytes.max(1)) / f64::from(event.segments));
            let ns_per_byte = period_ns / bytes;
            spacing::share_at(train, ns_per_byte) >= band.share / 2.0
        }
        Pattern::Lattice => {
            let floor = seen.groups.is_some_and(|groups| near(groups.period_ns, 0.1));
            on_lattice || floor || lattice::lie_on(&seen.beginnings, period_ns, band.strength)
        }
        Pattern::Groups => grouped || seen.lattices.iter().any(|lattice| near(lattice.period_ns, 0.3)),
    }
}

/// One tap during the naming of its bands.
struct Here<'a> {
    train: &'a Train,
    seen: &'a Seen,
    round_trip_ns: Option<u64>,
}

impl Here<'_> {
    fn bands(&self) -> Vec<Band> {
        let band = |pattern, period_ns: f64, share, strength| Band {
            pattern,
            period_s: period_ns / 1e9,
            share,
            strength,
            cause: None,
            new: false,
        };
        let Seen { spacing, lattices, groups, .. } = self.seen;
        let spacing = spacing.iter().map(|found| band(Pattern::Spacing, found.gap_ns, found.share, 1.0));
        let lattices = lattices.iter().map(|c| band(Pattern::Lattice, c.period_ns, c.occupied, c.strength));
        let groups = groups.iter().map(|found| band(Pattern::Groups, found.period_ns, found.share, 1.0));
        spacing.chain(lattices).chain(groups).collect()
    }

    /// Cause of a band that no earlier tap shows.
    fn cause(&self, band: &Band) -> Option<Cause> {
        let (kind, tap) = (self.train.kind, self.train.tap);
        let grouped = self.seen.together >= GROUPED_MIN;
        if tap == Tap::Received || self.train.unseen_ns as f64 > band.period_s * 1e9 / 4.0 {
            return Some(Cause::Emulator);
        }
        let one_tap = tap == Tap::Sent && self.train.events.iter().all(|event| event.delay_ns.is_none());
        match (band.pattern, kind, tap) {
            // A pattern of the sender itself may be pacing.
            (Pattern::Spacing, Kind::Data, Tap::Due) => Some(Cause::Serialisation),
            (Pattern::Spacing, Kind::Data, _) if one_tap => Some(Cause::Serialisation),
            (Pattern::Spacing, ..) => None,
            // A window that comes round has the period of the round trip.
            (Pattern::Lattice, ..) if self.is_round_trip(band.period_s * 1e9) => None,
            (Pattern::Lattice, ..) if lattice::is_tick(band.period_s * 1e9) => Some(Cause::TimerTick),
            (Pattern::Lattice, Kind::Acks, Tap::Due) => match self.same_delay(band.period_s * 1e9) {
                true => Some(Cause::Coalescing),
                false => Some(Cause::AckMerging),
            },
            (Pattern::Groups, Kind::Data, Tap::Sent) if !one_tap => None,
            (Pattern::Lattice, Kind::Data, Tap::Sent) if !one_tap => None,
            (Pattern::Lattice | Pattern::Groups, ..) => grouped.then_some(Cause::Coalescing),
        }
    }

    fn is_round_trip(&self, period_ns: f64) -> bool {
        self.round_trip_ns.is_some_and(|rtt_ns| (period_ns / rtt_ns as f64 - 1.0).abs() <= ROUND_TRIP)
    }

    /// True if packets queued for the line: then the line makes their spacing, even if they arrived with the same one,
    /// as ACK-clocked packets do.
    fn waited(&self, band: &Band) -> bool {
        let mut delays: Vec<u64> = self.train.events.iter().filter_map(|event| event.delay_ns).collect();
        if self.train.tap != Tap::Due || self.train.kind != Kind::Data || delays.is_empty() {
            return false;
        }
        let middle = delays.len() / 2;
        let (_, median, _) = delays.select_nth_unstable(middle);
        let median = *median;
        let least = delays.iter().min().copied().unwrap_or(median);
        // A large super-packet takes its own time, which is no waiting.
        let largest = self.train.events.iter().map(|event| event.segments).max().unwrap_or(1);
        (median - least) as f64 > 2.0 * f64::from(largest) * band.period_s * 1e9
    }

    /// True if the first packets of all groups had the same delay.
    fn same_delay(&self, period_ns: f64) -> bool {
        let groups = self.seen.beginnings.iter().filter(|group| group.events > 1);
        let mut delays: Vec<u64> = groups.filter_map(|group| group.delay_ns).collect();
        if delays.is_empty() {
            return false;
        }
        delays.sort_unstable();
        let at = |share: usize| delays[delays.len() * share / 10] as f64;
        at(9) - at(1) <= SAME_DELAY * period_ns
    }
}
