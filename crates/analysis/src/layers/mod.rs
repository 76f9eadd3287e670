//! Requests in each layer: their number over time, their residence, and the layer that limits parallelism.
//!
//! [`Stack::collect`] reads the table `layers` a column at a time. Figures are of the load's window; only the lines of
//! drawings are of the whole load, and thinned.

mod layer;
mod occupancy;
mod question;
mod requests;
mod stamp;
mod table;

use std::path::PathBuf;

use event::{Host, Layers};
use serde::Serialize;
use tables::TableError;

use crate::path::clock::ClockOffset;

pub use layer::{LAYERS, Layer};
pub use occupancy::device::DeviceFlight;
pub(crate) use occupancy::device::of as devices;
pub use occupancy::flight::Flight;
pub use occupancy::rates::Rates;
pub use occupancy::residence::Residence;
pub use question::Question;
pub use requests::stages::{Request, Stage};
pub use requests::survey::Example;
pub use stamp::Stamp;
pub(crate) use table::crossings::clock;

use occupancy::residence::Spent;
use occupancy::{flight, gate, residence};
use requests::survey;
use table::parts::Parts;
use table::passage::Passage;
use table::rows::{Place, Rows};
use table::sampling::Sampling;

/// All layers of a cell.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Stack {
    /// Start of the load, CLOCK_MONOTONIC of the near host: origin of every series.
    pub origin_ns: u64,
    /// Sampling of the near end: one request in N is recorded.
    pub sample_near: u64,
    /// Sampling of the far end: one request in N is recorded.
    pub sample_far: u64,
    /// Rows that could not be kept when the run was recorded.
    pub lost_rows: u64,
    /// All sessions together.
    pub all: Vec<LayerFlight>,
    /// Each session alone, the one with most requests first; empty with one session.
    pub sessions: Vec<SessionFlight>,
    /// Each connection alone, of sessions that have several.
    pub connections: Vec<ConnectionFlight>,
    /// The layer at which parallelism stops, in the session with most requests.
    pub gate: Option<&'static str>,
    /// Offset of the hosts' clocks.
    pub clock: ClockOffset,
    /// Some requests, seen from both ends.
    #[serde(skip)]
    pub requests: Vec<Request>,
    /// Requests that stand for many.
    #[serde(skip)]
    pub examples: Vec<Example>,
}

/// Layers of one session.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SessionFlight {
    /// ISID and TSIH.
    pub session: u64,
    /// Its layers.
    pub layers: Vec<LayerFlight>,
}

/// Layers of one connection of a session.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ConnectionFlight {
    /// ISID and TSIH.
    pub session: u64,
    /// CID.
    pub connection: u32,
    /// Its layers.
    pub layers: Vec<LayerFlight>,
}

/// Requests inside one layer.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LayerFlight {
    /// Its name.
    pub name: &'static str,
    /// Number of requests inside.
    pub flight: Flight,
    /// Residence; `None` if no request completed in the window.
    pub residence: Option<Residence>,
    /// Sampling of these times, one request in N; numbers are scaled up accordingly.
    pub one_in: f64,
    /// True if every recorded request has them: the mean of a sample can be scaled up, a maximum cannot.
    pub is_whole: bool,
    /// Recorded requests that entered before the window's end and have no time of leaving: they count as gone at their
    /// last known time. Not counted if the end of the layer is a timestamp of the kernel.
    pub unended: u64,
    /// For a layer between the hosts: requests of the window with a row of only one host. They are left out.
    pub alone: u64,
}

impl Stack {
    /// Asks everything of the tables in these directories, one for each host that wrote any; `None` if none has a
    /// table `layers`.
    pub fn collect(dirs: &[PathBuf], question: Question) -> Result<Option<Stack>, TableError> {
        let sampling = Sampling::said(dirs)?;
        let Some(rows) = Rows::open(dirs, sampling)? else { return Ok(None) };
        let survey = survey::of(dirs, sampling, question)?;
        let mut stack = Stack {
            origin_ns: question.origin_ns,
            sample_near: sampling.of(Host::Near),
            sample_far: sampling.of(Host::Far),
            lost_rows: lost_rows(dirs)?,
            requests: survey.requests,
            examples: survey.examples,
            ..Stack::default()
        };
        let parts = Parts::of(&rows);
        let session = |session: &u64| SessionFlight { session: *session, layers: Vec::new() };
        stack.sessions = parts.sessions.iter().map(session).collect();
        let connection = |place: &Place| ConnectionFlight {
            session: rows.sessions()[place.session],
            connection: place.connection,
            layers: Vec::new(),
        };
        stack.connections = parts.connections.iter().map(connection).collect();
        // A page draws them with the room for one.
        let shares = parts.shares(question.points);
        let finely = |points: usize| Question { points, ..question };
        for layer in LAYERS {
            let Some(passage) = rows.passage(layer, &survey.clock, question.window)? else { continue };
            stack.all.extend(look(layer, &passage, |_| true, finely(shares.of_sum())));
            let place = |number: u16| rows.places().get(usize::from(number));
            for (number, session) in stack.sessions.iter_mut().enumerate() {
                let is_of = |of| place(of).is_some_and(|place| place.session == number);
                session.layers.extend(look(layer, &passage, is_of, finely(shares.of_session(number))));
            }
            for (number, connection) in stack.connections.iter_mut().enumerate() {
                let is_of = |of| place(of) == Some(&parts.connections[number]);
                connection.layers.extend(look(layer, &passage, is_of, finely(shares.of_connection(number))));
            }
        }
        stack.clock = survey.clock;
        let layers = stack.sessions.first().map_or(&stack.all, |session| &session.layers);
        stack.gate = gate::of(|name| {
            layers.iter().find(|layer| layer.name == name && layer.is_whole).map(|layer| &layer.flight)
        });
        Ok(Some(stack))
    }

    /// The most requests of one session that were inside a layer; `None` if only some requests have its times,
    /// because a mean can be scaled up and a maximum cannot.
    pub fn in_flight_max(&self, layer: &str) -> Option<f64> {
        let has_all = |found: &&LayerFlight| found.is_whole && found.one_in == 1.0;
        let most = |layers: &[LayerFlight]| {
            layers.iter().find(|found| found.name == layer).filter(has_all).map(|found| found.flight.max)
        };
        match self.sessions.as_slice() {
            [] => most(&self.all),
            sessions => sessions.iter().filter_map(|s| most(&s.layers)).max_by(f64::total_cmp),
        }
    }

    /// Number of a session, from 1: the one with most requests is the first. `None` beyond the limit on separate
    /// sessions.
    pub fn session_number(&self, session: u64) -> Option<usize> {
        match self.sessions.as_slice() {
            [] => Some(1),
            sessions => sessions.iter().position(|known| known.session == session).map(|n| n + 1),
        }
    }

    /// The layers whose recorded times contradict each other.
    pub fn doubtful(&self) -> impl Iterator<Item = &LayerFlight> {
        self.all.iter().filter(|layer| layer.residence.is_some_and(|residence| !residence.holds))
    }
}

fn look(
    layer: &Layer,
    passage: &Passage,
    is_wanted: impl Fn(u16) -> bool,
    question: Question,
) -> Option<LayerFlight> {
    let Question { origin_ns, window, rtt_ns, points, .. } = question;
    let (mut enters, mut leaves) = (Vec::new(), Vec::new());
    let (mut spent, mut unended) = (Spent::default(), 0);
    for pass in passage.passes.iter().filter(|pass| is_wanted(pass.place)) {
        enters.push(pass.enter_ns);
        leaves.push(pass.leave_ns);
        spent.add(pass, window);
        // The kernel may drop timestamps; the request is complete nevertheless.
        let is_missing = !pass.has_left && !layer.leave.is_sampled();
        unended += u64::from(is_missing && pass.enter_ns < window.end_ns);
    }
    if enters.is_empty() {
        return None;
    }
    let flight = flight::of(&mut enters, &mut leaves, flight::Scope { origin_ns, window, rtt_ns, points });
    let residence = residence::of(spent, &flight, window);
    Some(LayerFlight {
        name: layer.name,
        flight: flight.scaled(passage.one_in),
        residence: residence.map(|residence| residence.scaled(passage.one_in)),
        one_in: passage.one_in,
        is_whole: passage.is_whole,
        unended,
        alone: passage.alone,
    })
}

/// Lost rows, from the metadata of the files.
fn lost_rows(dirs: &[PathBuf]) -> Result<u64, TableError> {
    let mut lost = 0_u64;
    for dir in dirs {
        let said = tables::said::<Layers>(dir, "farlun.lost_rows")?;
        lost = said.into_iter().filter_map(|value| value?.parse().ok()).fold(lost, u64::saturating_add);
    }
    Ok(lost)
}
