//! Where requests are, layer by layer: how many are inside each, for how long, and where parallelism stops.
//!
//! [`Stack::collect`] reads the table `layers` a column at a time and asks everything of it. What it finds
//! is of the load's window; only the lines to draw are of the whole load, and thinned.

mod flight;
mod gate;
mod layer;
mod little;
mod outline;
mod request;
mod rows;
mod stamp;
mod survey;

use std::path::PathBuf;

use event::Layers;
use serde::Serialize;
use store::tables::{self, TableError};

use crate::Span;
use crate::clock::ClockOffset;

pub use flight::Flight;
pub use layer::{LAYERS, Layer};
pub use little::Residence;
pub use request::{Request, Stage};
pub use stamp::Stamp;
pub use survey::Example;

use rows::{Passage, Rows};

/// Sessions that are looked at one by one; the rest are counted in the sum alone.
const MOST_SESSIONS: usize = 16;

/// What to ask of a cell, and how finely to draw it.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// When the load began: the zero of every series.
    pub origin_ns: u64,
    /// What the figures are of.
    pub window: Span,
    /// Points of a line, about.
    pub points: usize,
    /// Requests to keep for looking at one by one, about.
    pub requests: usize,
    /// The CmdSN of one that is wanted in any case.
    pub request: Option<u32>,
}

/// All layers of a cell.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Stack {
    /// When the load began, CLOCK_MONOTONIC of the near host: the zero of every series.
    pub origin_ns: u64,
    /// One request in so many is recorded.
    pub sample: u32,
    /// Rows that could not be kept when the run was recorded.
    pub lost_rows: u64,
    /// All sessions together.
    pub all: Vec<LayerFlight>,
    /// Each session alone, the one with most requests first; empty if there is one.
    pub sessions: Vec<SessionFlight>,
    /// The layer at which parallelism stops, in the session with most requests.
    pub gate: Option<&'static str>,
    /// How far the hosts' clocks are apart.
    pub clock: ClockOffset,
    /// Some requests, seen from both ends.
    #[serde(skip)]
    pub requests: Vec<Request>,
    /// Those that stand for many.
    #[serde(skip)]
    pub examples: Vec<Example>,
}

/// One session.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SessionFlight {
    /// ISID and TSIH.
    pub session: u64,
    /// Its layers.
    pub layers: Vec<LayerFlight>,
}

/// One layer.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LayerFlight {
    /// Its name.
    pub name: &'static str,
    /// How many are inside.
    pub flight: Flight,
    /// For how long, if one host sees both ends of it.
    pub residence: Option<Residence>,
    /// One request in so many has these times; numbers are scaled up accordingly.
    pub one_in: f64,
}

impl Stack {
    /// Asks everything of the tables in these directories, one for each host that wrote any; `None` if none has a
    /// table `layers`.
    pub fn collect(dirs: &[PathBuf], mut question: Question) -> Result<Option<Stack>, TableError> {
        let Some(rows) = Rows::open(dirs)? else { return Ok(None) };
        let survey = survey::of(dirs, question.window, question.requests, question.request)?;
        let sample = said(dirs, "farlun.sample")?.into_iter().max().unwrap_or(1).max(1);
        let count = rows.sessions().len();
        let mut stack = Stack {
            origin_ns: question.origin_ns,
            sample: u32::try_from(sample).unwrap_or(u32::MAX),
            lost_rows: said(dirs, "farlun.lost_rows")?.into_iter().sum(),
            requests: survey.requests,
            examples: survey.examples,
            ..Stack::default()
        };
        if count > 1 {
            let one = |session: &u64| SessionFlight { session: *session, layers: Vec::new() };
            stack.sessions = rows.sessions().iter().take(MOST_SESSIONS).map(one).collect();
            // A page draws one of them beside the sum, with the room for one line.
            question.points /= 2;
        }
        for layer in LAYERS {
            let Some(mut passage) = rows.passage(layer, &survey.clock)? else { continue };
            passage.one_in *= sample as f64;
            stack.all.extend(look(layer, &passage, None, question));
            for (number, session) in (0..).zip(&mut stack.sessions) {
                session.layers.extend(look(layer, &passage, Some(number), question));
            }
        }
        stack.clock = survey.clock;
        let layers = stack.sessions.first().map_or(&stack.all, |session| &session.layers);
        stack.gate = gate::of(|name| {
            layers.iter().find(|l| l.name == name && l.one_in == f64::from(stack.sample)).map(|l| &l.flight)
        });
        Ok(Some(stack))
    }

    /// The most requests of one session that were inside a layer; `None` if only some of the recorded requests
    /// have its times, because a mean can be scaled up and a maximum cannot.
    pub fn in_flight_max(&self, layer: &str) -> Option<f64> {
        let most = |layers: &[LayerFlight]| {
            let known = |l: &&LayerFlight| l.name == layer && l.one_in == f64::from(self.sample);
            layers.iter().find(known).map(|l| l.flight.max)
        };
        match self.sessions.as_slice() {
            [] => most(&self.all),
            sessions => sessions.iter().filter_map(|s| most(&s.layers)).max_by(f64::total_cmp),
        }
    }

    /// The layers whose recorded times contradict each other.
    pub fn doubtful(&self) -> impl Iterator<Item = &LayerFlight> {
        self.all.iter().filter(|layer| layer.residence.is_some_and(|residence| !residence.holds))
    }
}

fn look(layer: &Layer, passage: &Passage, session: Option<u32>, question: Question) -> Option<LayerFlight> {
    let Question { origin_ns, window, points, .. } = question;
    let times = |list: &[(u64, u32)]| -> Vec<u64> {
        list.iter().filter(|(_, s)| session.is_none_or(|session| *s == session)).map(|(t, _)| *t).collect()
    };
    let (mut enters, mut leaves) = (times(&passage.enters), times(&passage.leaves));
    if enters.is_empty() {
        return None;
    }
    let spent = passage.paired.then(|| little::spent(&enters, &leaves, window));
    leaves.retain(|t| *t > 0);
    let flight = flight::of(&mut enters, &mut leaves, flight::Scope { origin_ns, window, points });
    let residence = spent.and_then(|spent| little::of(spent, &flight, window));
    Some(LayerFlight {
        name: layer.name,
        flight: flight.scaled(passage.one_in),
        residence: residence.map(|residence| residence.scaled(passage.one_in)),
        one_in: passage.one_in,
    })
}

/// The numbers that the files of `layers` have under a key of their metadata.
fn said(dirs: &[PathBuf], key: &str) -> Result<Vec<u64>, TableError> {
    let mut numbers = Vec::new();
    for dir in dirs {
        let values = tables::said::<Layers>(dir, key)?;
        numbers.extend(values.into_iter().filter_map(|value| value?.parse::<u64>().ok()));
    }
    Ok(numbers)
}
