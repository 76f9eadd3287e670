//! Diagnosis of dissected captures: the limiter of each connection, as far as one tap can tell.
//!
//! `dissect` finds connections, PDUs and commands in anybody's packets. Here each connection gets a verdict
//! ([`DiagnosedCapture`]), and one of them a packet transfer diagram ([`DiagramSink`]). `docs/reference/analyze.md` defines every
//! figure.

mod black_hole;
mod diagram;
mod events;
mod gain;
mod line;
mod load;
mod part;
mod refusals;
mod remedies;
mod shortage;
mod tcp_parts;
mod verdict;

use diagnosis::Diagnosis;
use dissect::{CaptureTotals, ConnectionSummary, Dissection};
use serde::{Serialize, Serializer};

pub use diagram::DiagramSink;
pub use events::{CaptureEvent, EventExample};
pub use shortage::Shortage;

/// A dissected capture with the diagnoses of its connections. Serialized as the dissection, with a field `diagnosis` in
/// each connection, and the `events` of all.
#[derive(Clone, PartialEq, Debug)]
pub struct DiagnosedCapture {
    dissection: Dissection,
    /// One for each connection of the dissection; `None` without a diagnosis.
    diagnoses: Vec<Option<Diagnosis>>,
    /// Lack of evidence for each; `None` if there is a diagnosis.
    shortages: Vec<Option<Shortage>>,
    events: Vec<CaptureEvent>,
}

/// A connection and its diagnosis.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct DiagnosedConnection<'a> {
    /// The connection.
    #[serde(flatten)]
    pub summary: &'a ConnectionSummary,
    /// Limiters of the connection; `None` without completed commands, and without enough evidence.
    pub diagnosis: Option<&'a Diagnosis>,
    /// Lack of evidence for a diagnosis.
    pub shortage: Option<&'a Shortage>,
}

impl DiagnosedCapture {
    /// Diagnoses every connection of a capture.
    pub fn new(dissection: Dissection) -> Self {
        let judge = |connection| {
            let diagnosis = verdict::of(connection);
            match shortage::shortage(connection, diagnosis.as_ref(), &dissection.totals) {
                Some(shortage) => (None, Some(shortage)),
                None => (diagnosis, None),
            }
        };
        let (diagnoses, shortages) = dissection.connections.iter().map(judge).unzip();
        let events = events::all(&dissection);
        Self { dissection, diagnoses, shortages, events }
    }

    /// The capture without diagnoses.
    pub fn dissection(&self) -> &Dissection {
        &self.dissection
    }

    /// Events of all connections in the order of their first ones.
    pub fn events(&self) -> &[CaptureEvent] {
        &self.events
    }

    /// Every connection with its diagnosis, in the order of the dissection.
    pub fn connections(&self) -> impl Iterator<Item = DiagnosedConnection<'_>> {
        let judged = self.diagnoses.iter().zip(&self.shortages);
        let all = self.dissection.connections.iter().zip(judged);
        all.map(|(summary, (diagnosis, shortage))| DiagnosedConnection {
            summary,
            diagnosis: diagnosis.as_ref(),
            shortage: shortage.as_ref(),
        })
    }
}

impl Serialize for DiagnosedCapture {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Document<'a> {
            #[serde(flatten)]
            totals: &'a CaptureTotals,
            events: &'a [CaptureEvent],
            connections: Vec<DiagnosedConnection<'a>>,
        }
        let connections = self.connections().collect();
        Document { totals: &self.dissection.totals, events: &self.events, connections }.serialize(serializer)
    }
}
