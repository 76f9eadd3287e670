//! TOML text → [`Plan`]: sections, their keys, and the conditions between them.
//!
//! Parsing continues after a problem, so that one pass finds them all. `[quick]` uses the setters of the plan itself,
//! on a copy.

mod expect;
mod feasible;
mod load;
mod section;

use document::{Document, Entry, Problem, Problems, Scalar, Section, instead};

use self::load::{name, set_load};
use self::section::sections;
use super::checks::Expect;
use super::definition::{FarHosts, Plan, Variant};
use super::keys::case::Case;
use super::keys::load::{Load, LoadKind, all_load_keys};
use super::keys::lun::Lun;
use super::keys::need::Need;
use super::keys::path::{Back, PATH_KEYS, Path, congestion};
use super::keys::recording::{Drawing, Recording, Table};
use super::keys::target::{TARGET_KEYS, Target};
use super::matrix::Axis;
use super::point::Point;

/// Most cells of a plan, repeats included; more are a mistake of the matrix.
const MAX_CELLS: usize = 10_000;
/// Most pairs of a load and a point of the matrix, each of which is examined.
const MAX_LOOKS: usize = 100_000;

const TOP_KEYS: &[&str] = &[
    "name",
    "title",
    "description",
    "repeats",
    "congestion",
    "record",
    "draw",
    "path",
    "matrix",
    "lun",
    "target",
    "load",
    "needs",
    "background",
    "case",
    "expect",
    "quick",
];
const QUICK_KEYS: &[&str] = &["repeats", "congestion", "path", "matrix", "target", "load"];

impl Plan {
    /// Reads a plan; the error lists everything that is wrong with it, in either variant.
    pub fn parse(text: &str, variant: Variant) -> Result<Plan, Vec<Problem>> {
        plan(text, variant)
    }
}

fn plan(text: &str, variant: Variant) -> Result<Plan, Vec<Problem>> {
    let mut problems = Problems::of(text);
    let document = Document::parse(text)?;
    let top = document.top("a plan");
    let mut plan = whole(&top, text, &mut problems);
    if let Some(entry) = top.entry("quick")
        && let Some(section) = entry.section("[quick]", &mut problems)
    {
        let quick = quick(&section, &plan, &mut problems);
        feasible::check(&top, &quick, &mut problems);
        if variant != Variant::Full {
            plan = quick;
        }
    }
    if variant != Variant::Full {
        plan.cases = plan.cases.into_iter().filter_map(Case::quick).collect();
    }
    if variant == Variant::Smoke {
        reduce(&mut plan);
    }
    plan.variant = variant;
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
        far: FarHosts { luns: Vec::new(), target: Target::default() },
        loads: Vec::new(),
        needs: Vec::new(),
        backgrounds: Vec::new(),
        cases: Vec::new(),
        recording: Recording { tables: Table::usual(), figures: None },
        repeats: 1,
        expects: Vec::new(),
        variant: Variant::Full,
        text: text.to_owned(),
    };
    for entry in top.entries().into_iter().filter(|entry| !TOP_KEYS.contains(&entry.key)) {
        top.unknown(&entry, TOP_KEYS.iter().copied(), problems);
    }
    plan.name = top
        .required("name", "\"tour\"", problems)
        .and_then(|e| e.read(problems, plan_name))
        .unwrap_or_default();
    if let Some(title) = top.required("title", "\"what it shows\"", problems) {
        plan.title = title.read(problems, |v| v.text().map(str::to_owned)).unwrap_or_default();
    }
    if let Some(description) = top.entry("description") {
        plan.description = description.read(problems, |v| v.text().map(str::to_owned)).unwrap_or_default();
    }
    let luns = sections(top, "lun", "[[lun]]", problems);
    let read: Vec<Option<Lun>> = luns.iter().map(|section| Lun::read(section, problems)).collect();
    let loads = sections(top, "load", "[[load]]", problems);
    if loads.is_empty() {
        problems.at(&top.span, "a plan needs at least one [[load]]");
    }
    for section in &loads {
        let others: Vec<&str> = plan.loads.iter().map(|load| load.name.as_str()).collect();
        let load = load::load(section, &others, problems);
        plan.loads.extend(load);
    }
    if let Some(needs) = top.entry("needs").and_then(|entry| entry.section("[needs]", problems)) {
        plan.needs = Need::read(&needs, problems);
    }
    let backgrounds = sections(top, "background", "[[background]]", problems);
    for section in &backgrounds {
        let others = plan.loads.iter().chain(plan.backgrounds.iter().map(|background| &background.load));
        let others: Vec<&str> = others.map(|load| load.name.as_str()).collect();
        let background = load::background(section, &plan.loads, &others, problems);
        plan.backgrounds.extend(background);
    }
    // Further problems with loads or LUNs that could not be read would only be noise.
    if plan.loads.len() < loads.len()
        || plan.backgrounds.len() < backgrounds.len()
        || read.iter().any(Option::is_none)
    {
        return plan;
    }
    plan.far.luns = read.into_iter().flatten().collect();
    overrides(top, &mut plan, problems);
    for load in plan.loads.iter_mut().chain(plan.backgrounds.iter_mut().map(|b| &mut b.load)) {
        // The default of most hosts that serve storage.
        if load.congestion.is_empty() {
            load.congestion = "cubic".to_owned();
        }
    }
    recording(top, &mut plan, problems);
    feasible::check(top, &plan, problems);
    if let Some(entry) = top.entry("expect") {
        let sections = entry.sections("[[expect]]", problems);
        plan.expects = sections.iter().filter_map(|s| expect::expect(s, &plan, problems)).collect();
    }
    let cases = sections(top, "case", "[[case]]", problems);
    for entry in ["expect", "repeats"].iter().filter_map(|key| top.entry(key)).filter(|_| !cases.is_empty()) {
        let text = format!("a plan with cases is judged by what it finds of them: leave '{}' out", entry.key);
        problems.at(&entry.key_span, text);
    }
    for section in cases {
        plan.cases.extend(Case::read(&section, problems));
        let is_alone = matches!(&plan.loads[..], [load] if matches!(load.kind, LoadKind::Bench(_)));
        let is_plain = matches!(&plan.far.luns[..], [lun] if lun.made_bytes().is_none());
        if !is_alone || !plan.matrix.is_empty() || !is_plain || plan.path.back != Back::default() {
            problems.at(
                &section.span,
                "a plan with cases has one [[load]], a bench, one [[lun]] that is there already, the same line both ways \
                 and no [matrix]",
            );
        }
    }
    plan
}

/// The plan with the overrides of `[quick]`, without expectations about points that it leaves out.
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
    keep_answerable(&mut plan);
    plan
}

/// Reduces the quick variant to the smoke variant: one short cell a load, and one case of a plan with cases.
fn reduce(plan: &mut Plan) {
    plan.repeats = 1;
    plan.matrix.iter_mut().for_each(|axis| axis.values.truncate(1));
    plan.far.luns = plan.far.luns.drain(..).map(Lun::without_prealloc).collect();
    plan.cases.truncate(1);
    plan.cases.iter_mut().for_each(|case| case.rtts.truncate(1));
    plan.loads.iter_mut().for_each(Load::shorten);
    keep_answerable(plan);
}

/// Drops expectations about points, rows or pairs that a smaller variant does not have.
fn keep_answerable(plan: &mut Plan) {
    let points = plan.points();
    let is_asked = |expect: &&Expect| expect.has_row(plan) && expect.has_pairs(plan);
    let kept = plan.expects.iter().filter(is_asked).cloned().collect();
    plan.expects = kept;
    plan.expects.retain(|expect| {
        let pinned = expect.value.metrics().into_iter().map(|metric| Point(metric.at.clone()));
        let mut places = pinned.map(|place| points.iter().any(|point| point.agrees(&place)));
        places.all(|is_there| is_there) && points.iter().any(|point| expect.only.has(point))
    });
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

/// Parses the name of a plan. It is no part of expressions and may have hyphens.
fn plan_name(value: &Scalar) -> Result<String, String> {
    let text = value.text()?;
    name(&Scalar::Text(text.replace('-', "_"))).map(|_| text.to_owned())
}

/// Reads the keys that both the plan and its `[quick]` may have, once the loads are known.
fn overrides(section: &Section<'_>, plan: &mut Plan, problems: &mut Problems<'_>) {
    if let Some(entry) = section.entry("repeats") {
        plan.repeats = entry.read(problems, |v| v.number(1, 100)).unwrap_or(1);
    }
    if let Some(entry) = section.entry("congestion")
        && let Some(name) = entry.read(problems, congestion)
    {
        let quick = section.name == "[quick]";
        let loads = plan.loads.iter_mut().chain(plan.backgrounds.iter_mut().map(|b| &mut b.load));
        for load in loads.filter(|load| quick || load.congestion.is_empty()) {
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
    if let Some(entry) = section.entry("target")
        && let Some(target) = entry.section("[target]", problems)
    {
        for entry in target.entries() {
            match TARGET_KEYS.contains(&entry.key) {
                true => entry.read(problems, |v| plan.far.target.set(entry.key, v)).unwrap_or_default(),
                false => target.unknown(&entry, TARGET_KEYS.iter().copied(), problems),
            }
        }
    }
    let Some(entry) = section.entry("matrix") else { return };
    if let Some(matrix) = entry.section("[matrix]", problems) {
        for (name, entry) in matrix.flat_entries() {
            axis(&name, &entry, plan, problems);
        }
        let points = plan.matrix.iter().fold(1usize, |n, axis| n.saturating_mul(axis.values.len()));
        let cells = plan.loads.iter().fold(0, |sum: usize, load| sum.saturating_add(plan.places_of(load)));
        let runs = cells.saturating_mul(plan.repeats as usize);
        let looks = points.saturating_mul(plan.loads.len());
        let text = if looks > MAX_LOOKS {
            let counts = format!("{points} points × {} loads", plan.loads.len());
            format!("the matrix has {looks} places ({counts}); at most {MAX_LOOKS} can be looked at")
        } else if runs > MAX_CELLS {
            let counts = format!("{cells} × {} repeats", plan.repeats);
            format!("the matrix has {runs} cells ({counts}); at most {MAX_CELLS} can be run")
        } else {
            return;
        };
        problems.at(&entry.key_span, text);
        // Nothing after this must expand it.
        plan.matrix.clear();
    }
}

fn axis(name: &str, entry: &Entry<'_>, plan: &mut Plan, problems: &mut Problems<'_>) {
    let listed = entry.list(problems);
    let mut axis = Axis { name: name.to_owned(), values: Vec::new() };
    if !axis.is_path() && !plan.loads.iter().any(|load| axis.concerns(load, &plan.backgrounds)) {
        let of_loads = plan.loads.iter().flat_map(|l| l.keys().map(|key| format!("{}.{key}", l.name)));
        let of_backgrounds =
            plan.backgrounds.iter().flat_map(|b| b.keys().map(|key| format!("{}.{key}", b.load.name)));
        let of_target = TARGET_KEYS.iter().map(|key| format!("target.{key}"));
        let mut known: Vec<String> = PATH_KEYS.iter().map(ToString::to_string).collect();
        match name.contains('.') {
            true => known = of_loads.chain(of_backgrounds).chain(of_target).collect(),
            false => known.extend(all_load_keys().map(str::to_owned)),
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
    plan.loads.iter().try_for_each(|load| axis.apply(value, &mut plan.cell(load)))
}

/// Reads the tables and figures of a plan.
fn recording(top: &Section<'_>, plan: &mut Plan, problems: &mut Problems<'_>) {
    if let Some(entry) = top.entry("record") {
        plan.recording.tables = Table::list(&entry, problems);
    }
    if let Some(drawn) = top.entry("draw").map(|entry| entry.list(problems)) {
        let axes: Vec<&str> = plan.matrix.iter().map(|axis| axis.name.as_str()).collect();
        let mut drawings = Vec::new();
        for (value, span) in drawn {
            match Drawing::read(&value, &axes) {
                Ok(drawing) => drawings.push(drawing),
                Err(text) => problems.at(&span, format!("draw: {text}")),
            }
        }
        plan.recording.figures = Some(drawings);
    }
}
