//! Diagnosis of dissected captures: the limiter of each connection, as far as one tap can tell.
//!
//! `dissect` finds connections, PDUs and commands in anybody's packets. Here each connection gets a verdict
//! ([`DiagnosedCapture`]), and one of them a packet transfer diagram ([`DiagramSink`]). `docs/analyze.md` defines every
//! figure.

mod diagram;
mod remedies;
mod verdict;

use diagnosis::Diagnosis;
use dissect::{CaptureTotals, ConnectionSummary, Dissection};
use serde::{Serialize, Serializer};

pub use diagram::DiagramSink;

/// A dissected capture with the diagnoses of its connections. Serialized as the dissection, with a field `diagnosis` in
/// each connection.
#[derive(Clone, PartialEq, Debug)]
pub struct DiagnosedCapture {
    dissection: Dissection,
    /// One for each connection of the dissection.
    diagnoses: Vec<Option<Diagnosis>>,
}

/// A connection and its diagnosis.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct DiagnosedConnection<'a> {
    /// The connection.
    #[serde(flatten)]
    pub summary: &'a ConnectionSummary,
    /// Limiters of the connection; `None` without completed commands.
    pub diagnosis: Option<&'a Diagnosis>,
}

impl DiagnosedCapture {
    /// Diagnoses every connection of a capture.
    pub fn new(dissection: Dissection) -> Self {
        let diagnoses = dissection.connections.iter().map(verdict::of).collect();
        Self { dissection, diagnoses }
    }

    /// The capture without diagnoses.
    pub fn dissection(&self) -> &Dissection {
        &self.dissection
    }

    /// Every connection with its diagnosis, in the order of the dissection.
    pub fn connections(&self) -> impl Iterator<Item = DiagnosedConnection<'_>> {
        let diagnosed = self.dissection.connections.iter().zip(&self.diagnoses);
        diagnosed.map(|(summary, diagnosis)| DiagnosedConnection { summary, diagnosis: diagnosis.as_ref() })
    }
}

impl Serialize for DiagnosedCapture {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Document<'a> {
            #[serde(flatten)]
            totals: &'a CaptureTotals,
            connections: Vec<DiagnosedConnection<'a>>,
        }
        let connections = self.connections().collect();
        Document { totals: &self.dissection.totals, connections }.serialize(serializer)
    }
}
