//! Plans: what to run over which paths, and what to expect of it. Format: `docs/reference/plans.md`.
//!
//! TOML in, a typed [`Plan`] out, or every problem of the text with its line. Runs nothing.

mod background;
mod case;
mod dimension;
mod error;
mod expect;
mod expression;
mod found_rate;
mod json;
mod load;
mod lun;
mod matrix;
mod need;
mod path;
mod possible;
mod read;
mod read_expect;
mod read_load;
mod recording;
mod shell_line;
mod shipped;
mod target;
mod time;

use std::collections::BTreeSet;

use document::{Problem, Scalar};

pub use background::Background;
pub use case::{Bounds, Case};
pub use dimension::Dimension;
pub use error::PlanError;
pub use expect::{Expect, Interval, Shape, Unit};
pub use expression::{Expression, MetricName};
pub use found_rate::FoundRate;
pub use load::{Bench, Bursts, Command, DEFAULT_CONGESTION, Load, LoadKind, Pacing, Validity};
pub use lun::Lun;
pub use matrix::{Axis, Point, Region};
pub use need::{LoadNeeds, Need};
pub use path::{Back, Path, Queue};
pub use recording::{Drawing, Table};
pub use shell_line::ShellLine;
pub use shipped::{SHIPPED, Shipped, Source};
pub use target::Target;
pub use time::PathTime;

/// Size in which a plan is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variant {
    /// As the plan says.
    Full,
    /// With the overrides of its `[quick]`.
    Quick,
    /// Every load once and briefly: its commands are tried and nothing is measured.
    Smoke,
}

/// A plan in one of its variants.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Short name, used in paths.
    pub name: String,
    /// One line.
    pub title: String,
    /// What it shows, in sentences.
    pub description: String,
    /// The path, before the matrix is applied.
    pub path: Path,
    /// What varies; the last varies fastest.
    pub matrix: Vec<Axis>,
    /// What the far hosts serve.
    pub luns: Vec<Lun>,
    /// How they serve it, before the matrix is applied.
    pub target: Target,
    /// What the near hosts do, one load per cell.
    pub loads: Vec<Load>,
    /// Programs of others that must be there.
    pub needs: Vec<Need>,
    /// What competes with them, before the matrix is applied.
    pub backgrounds: Vec<Background>,
    /// Limiters for the doctor to find; with them, the one load is run as each case has it, and not as it is.
    pub cases: Vec<Case>,
    /// The tables that are written, besides those that figures come from.
    pub record: Vec<Table>,
    /// The figures of the report, in their order; the usual ones if the plan does not say.
    pub draw: Option<Vec<Drawing>>,
    /// How often every cell is run.
    pub repeats: u32,
    /// What must come of it.
    pub expects: Vec<Expect>,
    /// Its size.
    pub variant: Variant,
    /// The plan as written.
    pub text: String,
}

/// One load at one point of the matrix: what is run as one command.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    /// From 1, in the order of the plan.
    pub number: usize,
    /// The axes that concern this load, with their values.
    pub point: Point,
    /// The path there.
    pub path: Path,
    /// The load there.
    pub load: Load,
    /// The targets there.
    pub target: Target,
    /// What competes with it there.
    pub backgrounds: Vec<Background>,
}

impl Plan {
    /// Reads a plan; the error lists everything that is wrong with it, in either variant.
    pub fn parse(text: &str, variant: Variant) -> Result<Plan, Vec<Problem>> {
        read::plan(text, variant)
    }

    /// The cells: every load at every point of the axes that concern it, each once.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells: Vec<Cell> = Vec::new();
        let mut known = BTreeSet::new();
        for place in matrix::points(&self.matrix) {
            for load in &self.loads {
                let concerned = place.iter().filter(|(axis, _)| axis.concerns(load, &self.backgrounds));
                let point =
                    Point(concerned.clone().map(|(axis, v)| (axis.name.clone(), v.label())).collect());
                if !known.insert((&load.name, point.0.clone())) {
                    continue;
                }
                let mut cell = Cell { number: cells.len() + 1, point, ..self.cell(load) };
                for (axis, value) in concerned {
                    axis.apply(value, &mut cell).expect("values were checked when the plan was read");
                }
                cell.backgrounds.retain(|background| background.load.initiators > 0);
                cells.push(cell);
            }
        }
        self.alike(&mut cells);
        cells
    }

    /// The same plan without any rule of validity: its figures are not validated, and no check uses them.
    #[must_use]
    pub fn without_validity(mut self) -> Plan {
        self.loads.iter_mut().for_each(|load| load.validity = Validity::Waived);
        self
    }

    /// True if rules of validity were waived against the plan.
    pub fn is_waived(&self) -> bool {
        self.loads.iter().any(|load| load.validity == Validity::Waived)
    }

    /// The plan without the loads whose requirements are not met here, and a sentence for each of them. A plan of such
    /// loads alone stays as it is, and fails.
    #[must_use]
    pub fn without_missing(self) -> (Plan, Vec<String>) {
        let missing: Vec<Option<String>> = self.loads.iter().map(|load| load.needs.missing()).collect();
        self.without(&missing)
    }

    /// The plan without the loads for which there is a reason.
    fn without(mut self, reasons: &[Option<String>]) -> (Plan, Vec<String>) {
        if reasons.iter().all(Option::is_some) {
            return (self, Vec::new());
        }
        let mut said = Vec::new();
        let mut gone = Vec::new();
        for (load, reason) in self.loads.iter().zip(reasons) {
            if let Some(reason) = reason {
                said.push(format!("{} is left out: {reason}", load.name));
                gone.push(load.name.clone());
            }
        }
        self.loads.retain(|load| !gone.contains(&load.name));
        self.backgrounds
            .iter_mut()
            .for_each(|background| background.beside.retain(|load| !gone.contains(load)));
        self.expects
            .retain(|expect| !expect.value.metrics().iter().any(|metric| gone.contains(&metric.owner)));
        let concerns = |axis: &Axis| self.loads.iter().any(|load| axis.concerns(load, &self.backgrounds));
        self.matrix = self.matrix.iter().filter(|axis| axis.is_path() || concerns(axis)).cloned().collect();
        (self, said)
    }

    /// How many places of the matrix a load has, and so cells.
    fn places_of(&self, load: &Load) -> usize {
        let axes = self.matrix.iter().filter(|axis| axis.concerns(load, &self.backgrounds));
        axes.fold(1, |places, axis| places.saturating_mul(axis.values.len()))
    }

    /// Where super-packets are cut in one cell of a load they are cut in all: cells are compared, and what a packet is must
    /// not differ between them, unless the plan compares just that.
    fn alike(&self, cells: &mut [Cell]) {
        if self.matrix.iter().any(|axis| axis.name == "segment") {
            return;
        }
        for load in &self.loads {
            let mut of_load: Vec<_> = cells.iter_mut().filter(|cell| cell.load.name == load.name).collect();
            if of_load.iter().any(|cell| cell.path.is_segmented()) {
                let whole = of_load.iter_mut().filter(|cell| !cell.path.is_segmented());
                whole.for_each(|cell| cell.path.segment = true);
            }
        }
    }

    /// A load as it is without the matrix.
    fn cell(&self, load: &Load) -> Cell {
        Cell {
            number: 1,
            point: Point::default(),
            path: load.path_from(&self.path),
            load: load.clone(),
            target: self.target.clone(),
            backgrounds: self.backgrounds.iter().filter(|b| b.is_beside(load)).cloned().collect(),
        }
    }

    /// Every point of the matrix, whatever it concerns.
    pub fn points(&self) -> Vec<Point> {
        let label = |(axis, value): &(&Axis, &Scalar)| (axis.name.clone(), value.label());
        matrix::points(&self.matrix).iter().map(|place| Point(place.iter().map(label).collect())).collect()
    }
}

/// A directory's name has a number before it, and no more than 255 bytes.
const SLUG_MAX: usize = 100;

/// FNV-1a, which is the same wherever and whenever it is asked.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

impl Cell {
    /// Its name within the plan, fit for a path: `read-delay-8ms`.
    pub fn slug(&self) -> String {
        let words = format!("{} {}", self.load.name, self.point.words());
        let mut slug = String::new();
        for c in words.chars() {
            match c {
                c if c.is_ascii_alphanumeric() || c == '_' => slug.push(c.to_ascii_lowercase()),
                _ if slug.ends_with('-') => {}
                _ => slug.push('-'),
            }
        }
        let slug = slug.trim_end_matches('-');
        match slug.len() {
            0..=SLUG_MAX => slug.to_owned(),
            // All of it is ASCII.
            _ => format!("{}-{:08x}", &slug[..SLUG_MAX - 9], fnv1a(slug.as_bytes())),
        }
    }

    /// In words: `read at delay 8ms`.
    pub fn words(&self) -> String {
        match self.point.words() {
            place if place.is_empty() => self.load.name.clone(),
            place => format!("{} at {place}", self.load.name),
        }
    }

    /// The seed of what is left to chance in one of its repeats: another one for every cell and repeat, the same
    /// one whenever the plan is run with the same seed.
    pub fn seed(&self, seed: u64, repeat: u32) -> u64 {
        let mut random = fastrand::Rng::with_seed(seed);
        let stirred = random.u64(..) ^ ((self.number as u64) << 32) ^ u64::from(repeat);
        // Short, since people read and type it.
        u64::from(fastrand::Rng::with_seed(stirred).u32(1..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_whose_programs_are_missing_is_left_out_with_what_is_expected_of_it() {
        let plan = Source::find("tour").unwrap().plan(Variant::Full).unwrap();
        let there = plan.loads.len();
        let lacks = |name: &str| {
            let reason = |load: &Load| (load.name == name).then(|| "tgt is not installed".to_owned());
            plan.clone().without(&plan.loads.iter().map(reason).collect::<Vec<_>>())
        };
        let (left, said) = lacks("tgt_libiscsi");
        assert_eq!(said, ["tgt_libiscsi is left out: tgt is not installed"]);
        assert_eq!((left.loads.len(), left.matrix.len()), (there - 1, plan.matrix.len()));
        let (left, _) = lacks("lan_defaults");
        assert!(left.expects.len() < plan.expects.len());
        let all = vec![Some("x".to_owned()); there];
        assert_eq!(plan.clone().without(&all), (plan, Vec::new()));
    }
}
