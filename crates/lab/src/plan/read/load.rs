//! `[[load]]` and `[[background]]` → [`Load`] and [`Background`].
//!
//! Conditions between a load, the LUNs and the matrix are checked in `feasible.rs`, once all are known.

use document::{Entry, Problems, Scalar, Section};

use crate::plan::keys::background::Background;
use crate::plan::keys::load::{self, Load, LoadKind};
use crate::plan::keys::need::Need;
use crate::plan::keys::path::{PATH_KEYS, Path};
use crate::plan::keys::recording::Table;

/// Keys of a load that the matrix cannot vary.
const BESIDE_THE_MATRIX: [&str; 5] = ["path", "record", "needs", "as_root", "purpose"];
/// Purposes by name: the second is that of a load whose depth follows the path, and of a stream.
const PURPOSES: &[(&str, bool)] = &[("requests", false), ("throughput", true)];

/// Reserved names in expressions and in the matrix.
const TAKEN: &[&str] = &[analysis::LINE, "target"];

pub(super) fn load(section: &Section<'_>, others: &[&str], problems: &mut Problems<'_>) -> Option<Load> {
    let mut load = empty(section, others, problems)?;
    set_load(section, &mut load, &["name", "kind"], problems);
    section.required("window", "\"4s\"", problems);
    required(section, &load, problems);
    Some(load)
}

pub(super) fn background(
    section: &Section<'_>,
    loads: &[Load],
    others: &[&str],
    problems: &mut Problems<'_>,
) -> Option<Background> {
    let mut background = Background { load: empty(section, others, problems)?, beside: Vec::new() };
    for entry in section.entries().iter().filter(|entry| !["name", "kind"].contains(&entry.key)) {
        if entry.key == "beside" {
            for (value, span) in entry.one_or_more(problems) {
                let named = loads.iter().find(|load| value.label() == load.name);
                match named {
                    Some(load) => background.beside.push(load.name.clone()),
                    None => {
                        let names = loads.iter().map(|load| load.name.as_str());
                        let hint = document::instead(&value.label(), names);
                        problems.at(&span, format!("no load is named '{}'{hint}", value.label()));
                    }
                }
            }
        } else if background.keys().any(|key| key == entry.key) {
            entry.read(problems, |value| background.set(entry.key, value));
        } else if background.load.takes(entry.key) {
            let text = format!("a background is not measured and has no '{}'", entry.key);
            problems.at(&entry.key_span, text);
        } else {
            let own: Vec<&'static str> = background.keys().collect();
            section.unknown(entry, own.into_iter().chain(["name", "kind", "beside"]), problems);
        }
    }
    required(section, &background.load, problems);
    Some(background)
}

/// A load with its name and kind and nothing else.
fn empty(section: &Section<'_>, others: &[&str], problems: &mut Problems<'_>) -> Option<Load> {
    let named = section.required("name", "\"read\"", problems);
    let kind = section.required("kind", "\"bench\"", problems);
    let named = named?;
    let name = named.read(problems, name)?;
    // Directories are named after loads, in small letters.
    if TAKEN.iter().chain(others).any(|other| other.eq_ignore_ascii_case(&name)) {
        problems.at(&named.span, format!("the name '{name}' is taken; every load needs its own"));
        return None;
    }
    let kind = kind?.read(problems, |v| v.word(load::KINDS))?;
    Some(Load::new(&name, kind))
}

fn required(section: &Section<'_>, load: &Load, problems: &mut Problems<'_>) {
    let needed: &[(&str, &str)] = match load.kind {
        LoadKind::Stream { .. } => &[],
        LoadKind::Bench(_) => &[("op", "\"read\""), ("block", "\"1MiB\"")],
        LoadKind::Command(_) => {
            &[("op", "\"read\""), ("command", "\"iscsi-perf iscsi://{host}/{iqn}/{lun}\"")]
        }
    };
    for (key, example) in needed {
        section.required(key, example, problems);
    }
}

pub(super) fn set_load(
    section: &Section<'_>,
    load: &mut Load,
    besides: &[&str],
    problems: &mut Problems<'_>,
) {
    for entry in section.entries().iter().filter(|entry| !besides.contains(&entry.key)) {
        if entry.key == "path" {
            load.path = own_path(entry, problems);
        } else if entry.key == "record" {
            load.record = Some(Table::list(entry, problems));
        } else if entry.key == "needs" {
            let needs = entry.section("needs = { … }", problems);
            load.needs.programs = needs.map(|needs| Need::read(&needs, problems)).unwrap_or_default();
        } else if entry.key == "as_root" {
            load.needs.root = entry.read(problems, Scalar::bool).unwrap_or_default();
        } else if entry.key == "purpose" {
            load.for_throughput = entry.read(problems, |value| value.word(PURPOSES)).unwrap_or_default();
        } else if load.takes(entry.key) {
            entry.read(problems, |value| load.set(entry.key, value));
        } else if load::all_load_keys().any(|key| key == entry.key) {
            let text = format!("a load of kind '{}' has no '{}'", load.kind.name(), entry.key);
            problems.at(&entry.key_span, text);
        } else {
            let own: Vec<&'static str> = load.keys().collect();
            section.unknown(
                entry,
                own.into_iter().chain(BESIDE_THE_MATRIX).chain(besides.iter().copied()),
                problems,
            );
        }
    }
}

/// Overrides of the path: they use the setter of `[path]`.
fn own_path(entry: &Entry<'_>, problems: &mut Problems<'_>) -> Vec<(String, Scalar)> {
    let mut own = Vec::new();
    let Some(section) = entry.section("path = { … }", problems) else { return own };
    for entry in section.entries() {
        if !PATH_KEYS.contains(&entry.key) {
            section.unknown(&entry, PATH_KEYS.iter().copied(), problems);
        } else if entry.read(problems, |value| Path::default().set(entry.key, value)).is_some()
            && let Some(value) = entry.scalar(problems)
        {
            own.push((entry.key.to_owned(), value));
        }
    }
    own
}

/// Parses a name, which becomes part of paths, command lines and expressions.
pub(super) fn name(value: &Scalar) -> Result<String, String> {
    let name = value.text()?;
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match plain && name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.len() <= 40 {
        true => Ok(name.to_owned()),
        false => Err(format!("'{name}' is not a name: letters, digits and _, beginning with a letter")),
    }
}
