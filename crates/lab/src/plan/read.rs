//! TOML text → [`Plan`]: sections, their keys, and what must hold between them.
//!
//! Reads on after a problem, so that one pass finds them all. `[quick]` goes through the same setters as
//! the plan itself, on a copy.

use std::ops::Range;

use document::{Document, Entry, Problem, Problems, Scalar, Section, instead};

use super::load::{self, Load, LoadKind};
use super::lun::{self, Lun};
use super::matrix::Axis;
use super::path::{PATH_KEYS, Path};
use super::{Plan, Variant, read_expect};

/// More cells than this, repeats included, are a mistake of the matrix.
const MAX_CELLS: usize = 10_000;

const TOP_KEYS: &[&str] = &[
    "name",
    "title",
    "description",
    "repeats",
    "congestion",
    "path",
    "matrix",
    "lun",
    "load",
    "expect",
    "quick",
];
const QUICK_KEYS: &[&str] = &["repeats", "congestion", "path", "matrix", "load"];

pub(super) fn plan(text: &str, variant: Variant) -> Result<Plan, Vec<Problem>> {
    let mut problems = Problems::of(text);
    let document = Document::parse(text)?;
    let top = document.top("a plan");
    let mut plan = whole(&top, text, &mut problems);
    if let Some(entry) = top.entry("quick")
        && let Some(section) = entry.section("[quick]", &mut problems)
    {
        let quick = quick(&section, &plan, &mut problems);
        if variant == Variant::Quick {
            plan = quick;
        }
    }
    match problems.is_empty() {
        true => Ok(plan),
        false => Err(problems.into_sorted()),
    }
}

/// Everything but `[quick]`.
fn whole(top: &Section<'_>, text: &str, problems: &mut Problems<'_>) -> Plan {
    let mut plan = Plan {
        name: String::new(),
        title: String::new(),
        description: String::new(),
        path: Path::default(),
        matrix: Vec::new(),
        luns: Vec::new(),
        loads: Vec::new(),
        repeats: 1,
        expects: Vec::new(),
        text: text.to_owned(),
    };
    for entry in top.entries().into_iter().filter(|entry| !TOP_KEYS.contains(&entry.key)) {
        top.unknown(&entry, TOP_KEYS.iter().copied(), problems);
    }
    plan.name =
        top.required("name", "\"tour\"", problems).and_then(|e| e.read(problems, name)).unwrap_or_default();
    if let Some(title) = top.required("title", "\"what it shows\"", problems) {
        plan.title = title.read(problems, |v| v.text().map(str::to_owned)).unwrap_or_default();
    }
    if let Some(description) = top.entry("description") {
        plan.description = description.read(problems, |v| v.text().map(str::to_owned)).unwrap_or_default();
    }
    let luns = top.entry("lun").map(|entry| entry.sections("[[lun]]", problems)).unwrap_or_default();
    let luns: Vec<Option<Lun>> = luns.iter().map(|section| lun(section, problems)).collect();
    let loads = top.entry("load").map(|entry| entry.sections("[[load]]", problems)).unwrap_or_default();
    if loads.is_empty() {
        problems.at(&top.span, "a plan needs at least one [[load]]");
    }
    for section in &loads {
        plan.loads.extend(load(section, &luns, &plan.loads, problems));
    }
    plan.luns = luns.into_iter().flatten().collect();
    // What refers to a load that could not be read would only be noise.
    if plan.loads.len() < loads.len() {
        return plan;
    }
    overrides(top, &mut plan, problems);
    for load in &mut plan.loads {
        // "cubic" is what most hosts that serve storage have.
        if load.congestion.is_empty() {
            load.congestion = "cubic".to_owned();
        }
    }
    if let Some(entry) = top.entry("expect") {
        let sections = entry.sections("[[expect]]", problems);
        plan.expects = sections.iter().filter_map(|s| read_expect::expect(s, &plan, problems)).collect();
    }
    plan
}

/// The plan with the overrides of `[quick]`; expectations about places that it leaves out go too.
fn quick(section: &Section<'_>, full: &Plan, problems: &mut Problems<'_>) -> Plan {
    let mut plan = full.clone();
    for entry in section.entries() {
        match entry.key {
            "load" => {
                let Some(loads) = entry.section("[quick.load.NAME]", problems) else { continue };
                for entry in loads.entries() {
                    quick_load(&entry, &mut plan, problems);
                }
            }
            key if QUICK_KEYS.contains(&key) => {}
            _ => section.unknown(&entry, QUICK_KEYS.iter().copied(), problems),
        }
    }
    overrides(section, &mut plan, problems);
    let points = plan.points();
    plan.expects.retain(|expect| points.iter().any(|point| point.agrees(&expect.only)));
    plan
}

fn quick_load(entry: &Entry<'_>, plan: &mut Plan, problems: &mut Problems<'_>) {
    let names: Vec<String> = plan.loads.iter().map(|load| load.name.clone()).collect();
    let Some(load) = plan.loads.iter_mut().find(|load| load.name == entry.key) else {
        let hint = instead(entry.key, names.iter().map(String::as_str));
        problems.at(&entry.key_span, format!("no load is named '{}'{hint}", entry.key));
        return;
    };
    if let Some(section) = entry.section("[quick.load.NAME]", problems) {
        set_load(&section, load, &[], problems);
    }
}

/// What both the plan and its `[quick]` may say, once the loads are known.
fn overrides(section: &Section<'_>, plan: &mut Plan, problems: &mut Problems<'_>) {
    if let Some(entry) = section.entry("repeats") {
        plan.repeats = entry.read(problems, |v| v.number(1, 100)).unwrap_or(1);
    }
    if let Some(entry) = section.entry("congestion")
        && let Some(name) = entry.read(problems, load::congestion)
    {
        let quick = section.name == "[quick]";
        for load in plan.loads.iter_mut().filter(|load| quick || load.congestion.is_empty()) {
            load.congestion.clone_from(&name);
        }
    }
    if let Some(entry) = section.entry("path")
        && let Some(path) = entry.section("[path]", problems)
    {
        for entry in path.entries() {
            match PATH_KEYS.contains(&entry.key) {
                true => entry.read(problems, |v| plan.path.set(entry.key, v)).unwrap_or_default(),
                false => path.unknown(&entry, PATH_KEYS.iter().copied(), problems),
            }
        }
    }
    let Some(entry) = section.entry("matrix") else { return };
    if let Some(matrix) = entry.section("[matrix]", problems) {
        for (name, entry) in matrix.flat_entries() {
            axis(&name, &entry, plan, problems);
        }
        let points = plan.matrix.iter().fold(1usize, |n, axis| n.saturating_mul(axis.values.len()));
        let runs = points.saturating_mul(plan.loads.len()).saturating_mul(plan.repeats as usize);
        if runs > MAX_CELLS {
            let counts = format!("{points} points × {} loads × {} repeats", plan.loads.len(), plan.repeats);
            let text = format!("the matrix has {runs} cells ({counts}); at most {MAX_CELLS} can be run");
            problems.at(&entry.key_span, text);
            // Nothing after this must expand it.
            plan.matrix.clear();
        }
    }
}

fn axis(name: &str, entry: &Entry<'_>, plan: &mut Plan, problems: &mut Problems<'_>) {
    let listed = entry.list(problems);
    let mut axis = Axis { name: name.to_owned(), values: Vec::new() };
    if !axis.is_path() && !plan.loads.iter().any(|load| axis.concerns(load)) {
        let of_loads = plan.loads.iter().flat_map(|l| l.keys().map(|key| format!("{}.{key}", l.name)));
        let mut known: Vec<String> = PATH_KEYS.iter().map(ToString::to_string).collect();
        match name.contains('.') {
            true => known = of_loads.collect(),
            false => known.extend(load::all_load_keys().map(str::to_owned)),
        }
        let hint = instead(name, known.iter().map(String::as_str));
        problems.at(&entry.key_span, format!("nothing in this plan has a '{name}' to vary{hint}"));
        return;
    }
    if listed.is_empty() && problems.is_empty() {
        problems.at(&entry.span, format!("'{name}' has no values; the matrix would be empty"));
    }
    for (value, span) in listed {
        if axis.values.iter().any(|known| known.label() == value.label()) {
            problems.at(&span, format!("'{name}' has the value '{}' twice", value.label()));
        } else if let Err(text) = try_axis(&axis, &value, plan) {
            problems.at(&span, format!("{name}: {text}"));
        } else {
            axis.values.push(value);
        }
    }
    plan.matrix.retain(|known| known.name != name);
    if !axis.values.is_empty() {
        plan.matrix.push(axis);
    }
}

fn try_axis(axis: &Axis, value: &Scalar, plan: &Plan) -> Result<(), String> {
    plan.loads.iter().try_for_each(|load| axis.apply(value, &mut plan.path.clone(), &mut load.clone()))
}

fn lun(section: &Section<'_>, problems: &mut Problems<'_>) -> Option<Lun> {
    let kinds: Vec<(&str, &(&str, &str))> = lun::KINDS.iter().map(|kind| (kind.0, kind)).collect();
    let kind = section.required("kind", "\"memory\"", problems)?.read(problems, |v| v.word(&kinds))?;
    let (kind, key) = *kind;
    for entry in section.entries().iter().filter(|entry| entry.key != "kind" && entry.key != key) {
        section.unknown(entry, ["kind", key], problems);
    }
    let example = if key == "size" { "\"1GiB\"" } else { "\"/srv/lun.img\"" };
    section.required(key, example, problems)?.read(problems, |v| Lun::new(kind, v))
}

fn load(
    section: &Section<'_>,
    luns: &[Option<Lun>],
    others: &[Load],
    problems: &mut Problems<'_>,
) -> Option<Load> {
    let named = section.required("name", "\"read\"", problems);
    let kind = section.required("kind", "\"bench\"", problems);
    let named = named?;
    let name = named.read(problems, name)?;
    if name == analysis::LINE || others.iter().any(|load| load.name == name) {
        problems.at(&named.span, format!("the name '{name}' is taken; every load needs its own"));
        return None;
    }
    let kind = kind?.read(problems, |v| v.word(load::KINDS))?;
    let mut load = Load::new(&name, kind);
    set_load(section, &mut load, &["name", "kind"], problems);
    section.required("window", "\"4s\"", problems);
    if let LoadKind::Bench(bench) = &load.kind {
        section.required("op", "\"read\"", problems);
        section.required("block", "\"1MiB\"", problems);
        match luns.get(bench.lun as usize) {
            None => {
                let span = section.entry("lun").map_or(section.span.clone(), |entry| entry.span);
                let count = luns.len();
                let text = format!("load '{name}' needs lun {}, and the plan has {count} [[lun]]", bench.lun);
                problems.at(&span, text);
            }
            Some(Some(Lun::Memory { bytes })) if bench.block_bytes > *bytes => {
                let text =
                    format!("a block of {} does not fit lun {} of {bytes}", bench.block_bytes, bench.lun);
                problems.at(&block_span(section), text);
            }
            Some(_) => {}
        }
    }
    Some(load)
}

fn block_span(section: &Section<'_>) -> Range<usize> {
    section.entry("block").map_or(section.span.clone(), |entry| entry.span)
}

fn set_load(section: &Section<'_>, load: &mut Load, besides: &[&str], problems: &mut Problems<'_>) {
    for entry in section.entries().iter().filter(|entry| !besides.contains(&entry.key)) {
        if load.takes(entry.key) {
            entry.read(problems, |value| load.set(entry.key, value));
        } else if load::all_load_keys().any(|key| key == entry.key) {
            let kind = match load.kind {
                LoadKind::Stream { .. } => "stream",
                LoadKind::Bench(_) => "bench",
            };
            problems.at(&entry.key_span, format!("a load of kind '{kind}' has no '{}'", entry.key));
        } else {
            let own: Vec<&'static str> = load.keys().collect();
            section.unknown(entry, own.into_iter().chain(besides.iter().copied()), problems);
        }
    }
}

/// Names become parts of paths, of command lines and of expressions.
fn name(value: &Scalar) -> Result<String, String> {
    let name = value.text()?;
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match plain && name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.len() <= 40 {
        true => Ok(name.to_owned()),
        false => Err(format!("'{name}' is not a name: letters, digits and _, beginning with a letter")),
    }
}
