//! `[[expect]]` → [`Expect`], against the loads and the matrix of its plan.

use analysis::interval::PAIRS_MIN;
use analysis::{LINE, METRICS, Metric};
use document::{Entry, Problems, Scalar, Section, instead};
use tables::manifest::Comparison;

use crate::plan::checks::{
    COMPARISONS, Dimension, Expect, Expression, INTERVALS, Interval, SHAPES, Shape, UNITS, Unit,
};
use crate::plan::definition::Plan;
use crate::plan::point::Region;

const KEYS: &[&str] =
    &["name", "value", "op", "bound", "unit", "where", "each", "shape", "along", "interval"];

pub(super) fn expect(section: &Section<'_>, plan: &Plan, problems: &mut Problems<'_>) -> Option<Expect> {
    for entry in section.entries().iter().filter(|entry| !KEYS.contains(&entry.key)) {
        section.unknown(entry, KEYS.iter().copied(), problems);
    }
    let name = section.required("name", "\"read reaches the line\"", problems);
    let value = section.required("value", "\"read.throughput / line.goodput\"", problems);
    let op = section.required("op", "\">=\"", problems);
    let bound = section.required("bound", "0.9", problems);
    let name = name.and_then(|entry| entry.read(problems, |v| v.text().map(str::to_owned)));
    let value = value.and_then(|entry| entry.read(problems, |v| expression(v, plan)));
    let op = op.and_then(|entry| entry.read(problems, |v| v.word(&COMPARISONS.map(|c| (c.symbol(), c)))));
    let bound = bound.and_then(|entry| entry.read(problems, bound_number));
    let unit = match section.entry("unit") {
        Some(entry) => entry.read(problems, unit),
        None => Unit::named(""),
    };
    let shape = shape(section, plan, problems);
    let of_ratio = value.as_ref().is_none_or(|(_, dimension)| *dimension == Dimension::NONE);
    let interval = interval(section, op, of_ratio, problems);
    // A shape is a ratio, whatever it is the shape of.
    let value = value.map(|(value, dimension)| match section.entry("shape") {
        Some(_) => (value, Dimension::NONE),
        None => (value, dimension),
    });
    if let (Some((value, dimension)), Some(unit)) = (&value, unit)
        && *dimension != unit.dimension
    {
        let fitting = UNITS.iter().filter(|unit| unit.dimension == *dimension).map(|unit| unit.name);
        let fitting: Vec<&str> = fitting.filter(|name| !name.is_empty()).collect();
        let found = match unit.name {
            "" => "no unit is given".to_owned(),
            name => format!("the unit is '{name}'"),
        };
        let hint = match fitting.is_empty() {
            true => String::new(),
            false => format!("; fitting: {}", fitting.join(", ")),
        };
        problems.at(&section.span, format!("{value} is {dimension}, and {found}{hint}"));
    }
    let each = section.entry("each").is_none_or(|entry| entry.read(problems, Scalar::bool).unwrap_or(true));
    let only = section.entry("where").map(|entry| only(&entry, plan, problems)).unwrap_or_default();
    let expect = Expect {
        name: name?,
        value: value?.0,
        op: op?,
        bound: bound?,
        unit: unit?,
        shape,
        interval,
        only,
        each,
    };
    if !expect.has_row(plan) {
        let text = "a shape needs two values or more along its axis, and the value must vary there";
        problems.at(&section.span, text.to_owned());
    }
    if !expect.has_pairs(plan) {
        let text =
            format!("an interval needs {PAIRS_MIN} repeats or more, and the plan has {}", plan.repeats);
        problems.at(&section.span, text);
    }
    Some(expect)
}

fn bound_number(value: &Scalar) -> Result<f64, String> {
    match value {
        Scalar::Integer(number) => Ok(*number as f64),
        Scalar::Float(number) if number.is_finite() => Ok(*number),
        other => Err(format!("expected a number without quotes, found '{}'", other.label())),
    }
}

/// Parses an expression over existing metrics, with its dimension.
fn expression(value: &Scalar, plan: &Plan) -> Result<(Expression, Dimension), String> {
    let expression = Expression::parse(value.text()?)?;
    for name in expression.metrics() {
        let loads = plan.loads.iter().map(|load| load.name.as_str());
        if name.owner != LINE && !loads.clone().any(|load| load == name.owner) {
            let hint = instead(&name.owner, loads.chain([LINE]));
            return Err(format!("no load is named '{}'{hint}", name.owner));
        }
        if Metric::named(&name.owner, &name.metric).is_none() {
            let known = METRICS.iter().filter(|metric| metric.of_line == (name.owner == LINE));
            let hint = instead(&name.metric, known.map(|metric| metric.name));
            return Err(format!("'{}' has no metric '{}'{hint}", name.owner, name.metric));
        }
        for (axis, value) in &name.at {
            place(plan, axis, value)?;
        }
    }
    let unit_of = |owner: &str, metric: &str| Metric::named(owner, metric).map_or("", |metric| metric.unit);
    let dimension = expression.dimension(|name| Dimension::of_unit(unit_of(&name.owner, &name.metric)))?;
    Ok((expression, dimension))
}

/// Checks that an axis has a value.
pub(super) fn place(plan: &Plan, axis: &str, value: &str) -> Result<(), String> {
    let Some(found) = plan.matrix.iter().find(|known| known.name == axis) else {
        let hint = instead(axis, plan.matrix.iter().map(|axis| axis.name.as_str()));
        return Err(format!("the matrix has no '{axis}'{hint}"));
    };
    match found.labels().any(|label| label == value) {
        true => Ok(()),
        false => {
            let labels: Vec<String> = found.labels().collect();
            let hint = instead(value, labels.iter().map(String::as_str));
            Err(format!("'{axis}' is never '{value}' in the matrix{hint}"))
        }
    }
}

fn unit(value: &Scalar) -> Result<Unit, String> {
    let name = match value {
        Scalar::Text(text) => text.trim(),
        other => return Err(format!("expected a text in quotes, found {}", other.label())),
    };
    Unit::named(name).ok_or_else(|| {
        format!(
            "unknown unit '{name}'{}",
            instead(name, UNITS.iter().map(|u| u.name).filter(|n| !n.is_empty()))
        )
    })
}

fn only(entry: &Entry<'_>, plan: &Plan, problems: &mut Problems<'_>) -> Region {
    let mut region = Region::default();
    let Some(section) = entry.section("where = { … }", problems) else { return region };
    for (name, entry) in section.flat_entries() {
        let mut wanted = Vec::new();
        let given = entry.one_or_more(problems);
        let is_empty = given.is_empty();
        for (value, span) in given {
            match place(plan, &name, &value.label()) {
                Ok(()) => wanted.push(value.label()),
                Err(text) if plan.matrix.iter().any(|axis| axis.name == name) => problems.at(&span, text),
                Err(text) => problems.at(&entry.key_span, text),
            }
        }
        if is_empty {
            let text = format!(
                "'{name}' has no value here, so that nothing would be checked; leave it out or name one"
            );
            problems.at(&entry.key_span, text);
        }
        region.0.push((name, wanted));
    }
    region
}

/// An interval is one of ratios, and its lower end can only be compared in one way.
fn interval(
    section: &Section<'_>,
    op: Option<Comparison>,
    of_ratio: bool,
    problems: &mut Problems<'_>,
) -> Option<Interval> {
    let entry = section.entry("interval")?;
    let found = entry.read(problems, |v| v.word(INTERVALS))?;
    if section.entry("shape").is_some() {
        problems.at(&entry.key_span, "an interval is of one place, and a shape of several: leave one out");
    } else if !of_ratio {
        problems
            .at(&entry.key_span, "an interval is one of ratios; divide by what the value is compared with");
    }
    if op.is_some_and(|op| !matches!(op, Comparison::AtLeast | Comparison::Above)) {
        problems.at(&entry.key_span, "a ratio has a lower bound here: expected >= or >");
    }
    Some(found)
}

/// `shape` and `along` belong together.
fn shape(section: &Section<'_>, plan: &Plan, problems: &mut Problems<'_>) -> Option<(Shape, String)> {
    if section.entry("shape").is_none() && section.entry("along").is_none() {
        return None;
    }
    let shape = section.required("shape", "\"flat\"", problems);
    let along = section.required("along", "\"depth\"", problems);
    let shape = shape.and_then(|entry| entry.read(problems, |v| v.word(SHAPES)));
    let axes: Vec<(&str, &str)> = plan.matrix.iter().map(|axis| (&*axis.name, &*axis.name)).collect();
    let along = along.and_then(|entry| entry.read(problems, |v| v.word(&axes)));
    Some((shape?, along?.to_owned()))
}
