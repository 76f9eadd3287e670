//! Resuming a run: whether it may continue, and which cells are kept.
//!
//! Cells with valid figures are kept and all others run again. A run is resumed only under the conditions of its
//! start: the same plan, seed, program and kernel, as many processors, the same device and priority of the emulator,
//! since figures of different setups have no median.

use std::fmt;
use std::fs;
use std::path::Path;

use serde_json::Value;
use tables::RunDir;
use tables::manifest::Run;

use super::lock::Lock;
use crate::plan::Cell;
use crate::run::attempt::missing;
use crate::run::error::LabError;
use crate::run::lab::Order;

/// Files and directories of a lab that was killed before it wrote anything else.
const BEGINNING: [&str; 2] = ["cells", "run.json.partial"];
/// Longest quotation of a difference, in characters.
const SAID_CHARS: usize = 60;

/// Directory of a run, locked.
pub(in crate::run) struct Place {
    pub(in crate::run) dir: RunDir,
    /// Earlier part of the run.
    pub(in crate::run) before: Option<Run>,
    pub(in crate::run) lock: Lock,
}

/// Makes the run directory where nothing is yet, or opens the one of a run that is to go on.
pub(in crate::run) fn place(order: &Order) -> Result<Place, LabError> {
    let out = &order.out;
    let inside = match fs::read_dir(out) {
        Ok(entries) => entries.flatten().map(|entry| entry.file_name()).collect(),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            return Err(LabError::NotADirectory(out.clone()));
        }
        // A missing directory is made; an unreadable one fails there, with the reason.
        Err(_) => Vec::new(),
    };
    let begun = inside.iter().any(|name| name == tables::RUN_FILE);
    let just_begun = inside.iter().all(|name| BEGINNING.iter().any(|known| name == known));
    if !inside.is_empty() && !(order.resume && (begun || just_begun)) {
        return Err(match begun {
            true => LabError::Begun(out.clone()),
            false => LabError::NotEmpty(out.clone()),
        });
    }
    let dir = if begun { RunDir::open(out)? } else { RunDir::create(out)? };
    let lock = Lock::take(out)?;
    let before = if begun { Some(dir.manifest()?) } else { None };
    Ok(Place { dir, before, lock })
}

/// Checks that a run may continue as `now`.
pub(in crate::run) fn check(out: &Path, before: &Run, now: &Run, cells: &[Cell]) -> Result<(), LabError> {
    let different = |text: String| Err(LabError::Different { path: out.to_owned(), text });
    if before.plan_name != now.plan_name {
        return different(format!("the plan '{}', and this is '{}'", before.plan_name, now.plan_name));
    }
    if before.seed != now.seed {
        return different(format!("seed {}, and this is seed {}", before.seed, now.seed));
    }
    // Through text, as the one that was stored: numbers may lose their last digit there.
    let plan = serde_json::from_str(&now.plan.to_string()).unwrap_or_default();
    if let Some(text) = difference("", &before.plan, &plan) {
        return different(format!("another plan: {text}"));
    }
    let strange = |dir: &str| !cells.iter().any(|cell| dir.starts_with(&format!("{}/", dir_of(cell))));
    if let Some(entry) = before.cells.iter().find(|entry| strange(&entry.dir)) {
        return different(format!("another plan: its matrix had a cell {}", entry.dir));
    }
    let program = |run: &Run| match &run.commit {
        Some(commit) => format!("farlun {} ({commit})", run.farlun),
        None => format!("farlun {}", run.farlun),
    };
    if program(before) != program(now) {
        return different(format!("{}, and this is {}", program(before), program(now)));
    }
    if before.program_sha256 != now.program_sha256 {
        let [before, now] = [before, now]
            .map(|run| run.program_sha256.as_deref().map_or("unknown", |sum| &sum[..sum.len().min(12)]));
        return different(format!("another build of farlun: its SHA-256 was {before} and is {now}"));
    }
    if before.cpus != now.cpus {
        return different(format!("{} processors, and now there are {}", before.cpus, now.cpus));
    }
    if before.kernel != now.kernel {
        return different(format!("kernel {}, and this is {}", before.kernel, now.kernel));
    }
    Ok(())
}

/// Removes the cells that are to run again; returns the conditions of the rest, if there are any.
pub(in crate::run) fn keep_valid(dir: &RunDir, run: &mut Run) -> Option<Conditions> {
    let mut conditions: Option<Conditions> = None;
    run.cells.retain(|entry| {
        // A manifest that does not read is one that has to be written again.
        let kept = dir.cell(&entry.dir).ok().filter(|cell| cell.cell.valid);
        // Nor are figures had from a table that a disk has lost.
        let kept = kept.filter(|kept| missing(&kept.path).is_empty());
        let found = kept.as_ref().and_then(|kept| {
            let cell = &kept.cell;
            Some(Conditions::of(cell.wan.as_ref()?, &cell.command))
        });
        if let Some(found) = found {
            conditions = Some(conditions.take().map_or(found.clone(), |known| known.or(found)));
        }
        kept.is_some()
    });
    run.checks.clear();
    run.valid = false;
    conditions
}

/// Conditions of a cell that its command line does not fix: they depend on the user and the machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::run) struct Conditions {
    device: Option<String>,
    realtime: Option<bool>,
}

impl Conditions {
    /// Conditions in the result of `farlun wan`, for the command that printed it.
    pub(in crate::run) fn of(wan: &Value, command: &str) -> Conditions {
        let is_chosen = command.contains(" --device ");
        Conditions {
            device: wan["path"]["device"].as_str().filter(|_| !is_chosen).map(str::to_owned),
            realtime: wan["emulator"]["realtime"].as_bool(),
        }
    }

    /// The device of another cell, if this one's was chosen by the plan.
    fn or(self, other: Conditions) -> Conditions {
        Conditions { device: self.device.or(other.device), ..self }
    }

    /// Checks that a run may continue under these conditions.
    pub(in crate::run) fn check(&self, out: &Path, now: &Conditions) -> Result<(), LabError> {
        let same_device = self.device.is_none() || now.device.is_none() || self.device == now.device;
        match same_device && self.realtime == now.realtime {
            true => Ok(()),
            false => {
                Err(LabError::Different { path: out.to_owned(), text: format!("{self}, and this has {now}") })
            }
        }
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = self.device.as_deref().unwrap_or("the plan's");
        let priority = match self.realtime {
            Some(true) => "with real-time priority",
            Some(false) => "without real-time priority",
            None => "of unknown priority",
        };
        write!(f, "{device} devices and an emulator {priority}")
    }
}

/// Directory of a cell's repeats.
fn dir_of(cell: &Cell) -> String {
    RunDir::cell_dir(cell.number, &cell.slug())
}

/// The first place where two documents differ, in words.
fn difference(place: &str, before: &Value, now: &Value) -> Option<String> {
    let at = |key: &str| if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") };
    match (before, now) {
        (Value::Object(before), Value::Object(now)) => {
            let keys = before.keys().chain(now.keys().filter(|key| !before.contains_key(*key)));
            keys.into_iter().find_map(|key| {
                difference(
                    &at(key),
                    before.get(key).unwrap_or(&Value::Null),
                    now.get(key).unwrap_or(&Value::Null),
                )
            })
        }
        (Value::Array(before), Value::Array(now)) if before.len() == now.len() => {
            let pairs = before.iter().zip(now).enumerate();
            pairs
                .into_iter()
                .find_map(|(n, (before, now))| difference(&at(&(n + 1).to_string()), before, now))
        }
        (Value::Array(before), Value::Array(now)) => {
            Some(format!("{place} had {} entries and has {}", before.len(), now.len()))
        }
        _ if before == now => None,
        _ => Some(format!("{place} was {} and is {}", shortened(before), shortened(now))),
    }
}

/// A value, or the beginning of a long one.
fn shortened(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SAID_CHARS) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_difference_is_named() {
        let before = json!({"path": {"mtu": 1500}, "load": [{"name": "a"}, {"depth": 8}], "title": "x"});
        assert_eq!(difference("", &before, &before), None);
        for (now, text) in [
            (
                json!({"path": {"mtu": 1500}, "load": [{"name": "a"}, {"depth": 9}], "title": "x"}),
                "load.2.depth was 8 and is 9",
            ),
            (
                json!({"path": {}, "load": [{"name": "a"}, {"depth": 8}], "title": "x"}),
                "path.mtu was 1500 and is null",
            ),
            (json!({"path": {"mtu": 1500}, "load": [], "title": "x"}), "load had 2 entries and has 0"),
        ] {
            assert_eq!(difference("", &before, &now).as_deref(), Some(text));
        }
        let described = |end: &str| json!({"description": format!("{}{end}", "é".repeat(80))});
        let said = difference("", &described("a"), &described("b")).expect("they differ");
        assert!(said.chars().count() < 160 && said.contains("é …"), "{said}");
    }

    #[test]
    fn a_device_that_the_plan_chose_is_no_condition() {
        let of = |device: &str, command| {
            Conditions::of(&json!({"path": {"device": device}, "emulator": {"realtime": true}}), command)
        };
        let (usual, chosen) = (of("tun", "farlun wan --json"), of("veth", "farlun wan --device veth --json"));
        let out = Path::new("run");
        assert!(usual.check(out, &chosen).is_ok() && chosen.check(out, &usual).is_ok());
        let known = chosen.or(usual.clone());
        assert_eq!(known, usual);
        let error = known.check(out, &of("veth", "farlun wan --json")).expect_err("another device");
        assert!(error.to_string().contains("tun devices") && error.to_string().contains("veth"), "{error}");
    }
}
