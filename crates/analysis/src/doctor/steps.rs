//! A load in steps: the note of a cell about its step, and the diagnosis of all steps of one measurement.

use std::collections::BTreeMap;
use std::path::Path;

use diagnosis::Diagnosis;
use diagnosis::steps::{StepEnd, StepLoad, StepObservation, StepRole, diagnose};
use serde_json::{Value, json};
use tables::manifest::Cell;
use tables::{CellDir, TableError};

use super::{Question, survey};

/// Key of a cell's load document that has the note.
const KEY: &str = "step";

/// One step of a measurement, from the document of its cell; no table has it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StepNote {
    /// Number of the measurement, from 1: several steps make one.
    pub measurement: u64,
    /// The load.
    pub load: StepLoad,
    /// Outcome of the step.
    pub end: StepEnd,
    /// Receive window that the initiator advertises, summed over its connections; 0 if its kernel does not report it.
    pub window_bytes: u64,
    /// Packets received out of order.
    pub behind_gap_packets: u64,
}

impl StepNote {
    /// Adds it to the document of a load.
    pub fn write(&self, near: &mut Value) {
        near[KEY] = json!({
            "measurement": self.measurement,
            "role": self.load.role.name(),
            "sessions": self.load.sessions,
            "depth": self.load.depth,
            "request_bytes": self.load.request_bytes,
            "end": self.end.name(),
            "window_bytes": self.window_bytes,
            "behind_gap_packets": self.behind_gap_packets,
        });
    }

    /// Reads it from a cell; `None` if that is no step.
    pub fn read(cell: &Cell) -> Option<StepNote> {
        let note = &cell.near.as_ref()?[KEY];
        let number = |name: &str| note[name].as_u64();
        let small = |name: &str| number(name).and_then(|number| u32::try_from(number).ok());
        Some(StepNote {
            measurement: number("measurement")?,
            load: StepLoad {
                role: StepRole::named(note["role"].as_str()?)?,
                sessions: small("sessions")?,
                depth: small("depth"),
                request_bytes: number("request_bytes")?,
            },
            end: StepEnd::named(note["end"].as_str()?)?,
            window_bytes: number("window_bytes")?,
            behind_gap_packets: number("behind_gap_packets")?,
        })
    }
}

/// Observation of a step, from the tables in `dir` and its note; `None` if no request was recorded.
pub fn observation(dir: &Path, cell: &Cell, note: StepNote) -> Result<Option<StepObservation>, TableError> {
    let question = Question::of(cell);
    let Some(mut facts) = survey(dir, question)? else { return Ok(None) };
    let told = |number: u64| Some(number as f64).filter(|number| *number > 0.0);
    facts.receiver.behind_gap_packets = Some(note.behind_gap_packets as f64);
    if !facts.is_write {
        facts.receiver.window_bytes = facts.receiver.window_bytes.or(told(note.window_bytes));
    }
    // A target of our own kind counts its CPU time; over the load, which its process serves alone.
    if let Ok(Some(load)) = cell.load() {
        let length_ns = load.t_end_ns.saturating_sub(load.t_start_ns) as f64;
        let far_ns = load.cpu.and_then(|cpu| cpu.far_ns);
        facts.loops.cpu.far = facts.loops.cpu.far.or(far_ns.map(|ns| ns / length_ns.max(1.0)));
    }
    let counted_s = question.window.map_or(f64::INFINITY, crate::Span::length_s);
    Ok(Some(StepObservation { load: note.load, facts, end: note.end, counted_s }))
}

/// Diagnosis by the directory of its cell, for every cell of a run that is a step: the diagnosis of a measurement
/// stands at the requested load, other steps have none.
pub fn of_cells<'a>(
    cells: impl IntoIterator<Item = (&'a str, &'a CellDir)>,
) -> Result<BTreeMap<String, Option<Diagnosis>>, TableError> {
    let mut measurements: BTreeMap<u64, (Option<String>, Vec<StepObservation>)> = BTreeMap::new();
    let mut found = BTreeMap::new();
    for (dir, cell) in cells {
        let Some(note) = StepNote::read(&cell.cell) else { continue };
        found.insert(dir.to_owned(), None);
        let (asked, steps) = measurements.entry(note.measurement).or_default();
        if note.load.role == StepRole::Nominal {
            *asked = Some(dir.to_owned());
        }
        steps.extend(observation(&cell.path, &cell.cell, note)?);
    }
    for (asked, steps) in measurements.into_values() {
        if let Some(place) = asked.and_then(|dir| found.get_mut(&dir)) {
            *place = diagnose(&steps);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let note = StepNote {
            measurement: 2,
            load: StepLoad { role: StepRole::Spread, sessions: 4, depth: Some(16), request_bytes: 65_536 },
            end: StepEnd::Refused,
            window_bytes: 1 << 20,
            behind_gap_packets: 7,
        };
        let mut near = json!({"kind": "bench"});
        note.write(&mut near);
        assert_eq!(StepNote::read(&Cell { near: Some(near), ..Cell::default() }), Some(note));
        assert_eq!(StepNote::read(&Cell { near: Some(json!({"kind": "bench"})), ..Cell::default() }), None);
        assert_eq!(StepNote::read(&Cell::default()), None);
    }
}
