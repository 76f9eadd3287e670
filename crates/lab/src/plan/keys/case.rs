//! A `[[case]]` of a plan: one or two limiters that are injected into its load, for the doctor to find.
//!
//! Their strength is drawn by the seed of the run, within the bounds of the case. The code that runs cases translates
//! a limiter into settings of path, target and load.

use std::time::Duration;

use diagnosis::{Instrument, LIMITERS, Limiter};
use document::{Entry, Problems, Scalar, Section};
use event::{Op, parse_delay};
use serde_json::{Value, json};

use super::time::PathTime;

/// One limiter alone, or two together, on paths of some lengths.
#[derive(Clone, PartialEq, Debug)]
pub struct Case {
    /// Limiters; the first of two is the tighter one.
    pub limiters: Vec<Limiter>,
    /// Operation of the load.
    pub op: Op,
    /// Round trips of the paths.
    pub rtts: Vec<Duration>,
    /// Round trips in the quick variant.
    pub quick: Vec<Duration>,
    /// Share of the path's performance that each limiter leaves.
    pub leaves: Vec<Bounds>,
    /// Window of its load, if it differs from the plan's.
    pub window: Option<PathTime>,
}

/// Two shares, from 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bounds {
    /// The smaller one.
    pub least: f64,
    /// The larger one.
    pub most: f64,
}

/// Limiters of the doctor that no setting of a plan produces: see docs/internals/doctor-checks.md.
const NOT_PUT_IN: &[Limiter] = &[
    Limiter::Connections,
    Limiter::SeparateStatus,
    Limiter::SenderCpu,
    Limiter::ReceiverCpu,
    Limiter::TargetQueue,
    Limiter::Path,
];

const KEYS: &[&str] = &["limiters", "op", "rtt", "quick", "leaves", "then", "window"];
const OPS: &[(&str, Op)] = &[(Op::Read.name(), Op::Read), (Op::Write.name(), Op::Write)];

impl Case {
    pub(in crate::plan) fn read(section: &Section<'_>, problems: &mut Problems<'_>) -> Option<Case> {
        for entry in section.entries().iter().filter(|entry| !KEYS.contains(&entry.key)) {
            section.unknown(entry, KEYS.iter().copied(), problems);
        }
        let listed = section.required("limiters", "[\"receive-window\"]", problems);
        let rtt = section.required("rtt", "[\"1ms\", \"16ms\", \"100ms\"]", problems);
        let leaves = section.required("leaves", "[\"10%\", \"35%\"]", problems);
        let limiters = list(&listed?, problems, limiter);
        if limiters.is_empty() || limiters.len() > 2 {
            problems.at(&section.span, "a case has one limiter, or two");
        }
        let mut bounds: Vec<Bounds> = bounds(&leaves?, problems).into_iter().collect();
        if let Some(then) = section.entry("then") {
            bounds.extend(self::bounds(&then, problems));
        }
        if bounds.len() != limiters.len() {
            problems.at(
                &section.span,
                "a case says what its limiter leaves, and what two leave with 'leaves' and 'then'",
            );
        }
        let times = |entry: Entry<'_>, problems: &mut Problems<'_>| list(&entry, problems, rtt_of);
        Some(Case {
            limiters,
            op: section
                .entry("op")
                .and_then(|entry| entry.read(problems, |v| v.word(OPS)))
                .unwrap_or(Op::Read),
            rtts: times(rtt?, problems),
            quick: section.entry("quick").map(|entry| times(entry, problems)).unwrap_or_default(),
            leaves: bounds,
            window: section.entry("window").and_then(|entry| entry.read(problems, PathTime::read)),
        })
    }

    /// The case in the quick variant, if it has one.
    pub(in crate::plan) fn quick(self) -> Option<Case> {
        (!self.quick.is_empty()).then(|| Case { rtts: self.quick.clone(), ..self })
    }

    /// For `run.json`.
    pub(in crate::plan) fn to_json(&self) -> Value {
        let times = |times: &[Duration]| times.iter().map(|t| crate::exact::time(*t)).collect::<Vec<_>>();
        json!({
            "limiters": self.limiters,
            "op": self.op.name(),
            "rtt": times(&self.rtts),
            "leaves": self.leaves.iter().map(|bounds| [bounds.least, bounds.most]).collect::<Vec<_>>(),
            "window": self.window.map(|window| window.to_string()),
        })
    }
}

fn list<T>(
    entry: &Entry<'_>,
    problems: &mut Problems<'_>,
    read: impl Fn(&Scalar) -> Result<T, String>,
) -> Vec<T> {
    let mut values = Vec::new();
    for (value, span) in entry.list(problems) {
        match read(&value) {
            Ok(value) => values.push(value),
            Err(text) => problems.at(&span, format!("{}: {text}", entry.key)),
        }
    }
    values
}

fn limiter(value: &Scalar) -> Result<Limiter, String> {
    let name = value.text()?;
    let of_doctor = |limiter: &Limiter| limiter.seen_by().contains(&Instrument::Doctor);
    let limiter = Limiter::named(name).filter(of_doctor).ok_or_else(|| {
        let known = LIMITERS.iter().filter(|limiter| of_doctor(limiter)).map(|limiter| limiter.name());
        let hint = document::instead(name, known);
        format!("the doctor has no limiter '{name}'{hint}; docs/reference/limiters.md lists them")
    })?;
    match NOT_PUT_IN.contains(&limiter) {
        true => Err(format!("'{name}' cannot be put into a load (docs/internals/doctor-checks.md)")),
        false => Ok(limiter),
    }
}

fn rtt_of(value: &Scalar) -> Result<Duration, String> {
    let rtt = parse_delay(&value.label()).map_err(|error| error.to_string())?;
    match rtt <= Duration::from_secs(2) && !rtt.is_zero() {
        true => Ok(rtt),
        false => Err(format!("a round trip of '{}', expected more than 0 and at most 2s", value.label())),
    }
}

fn bounds(entry: &Entry<'_>, problems: &mut Problems<'_>) -> Option<Bounds> {
    match list(entry, problems, share)[..] {
        [least, most] if least <= most => Some(Bounds { least, most }),
        _ => {
            problems
                .at(&entry.span, format!("{}: expected two shares such as [\"10%\", \"35%\"]", entry.key));
            None
        }
    }
}

fn share(value: &Scalar) -> Result<f64, String> {
    let text = value.text()?;
    let share = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    share
        .map(|percent| percent / 100.0)
        .filter(|share| *share > 0.0 && *share <= 1.0)
        .ok_or_else(|| format!("'{text}' is no share such as 10%"))
}
