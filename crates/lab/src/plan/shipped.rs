//! The plans that ship, compiled in, and the lookup of PLAN on the command line by name or path.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use document::instead;

use super::definition::{Plan, Variant};
use super::error::PlanError;

/// A plan that is part of the program.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// Its name on the command line.
    pub name: &'static str,
    /// The TOML.
    pub text: &'static str,
}

/// Every plan in `experiments/`, in the order of `farlun lab list`; the first is the default.
pub const SHIPPED: &[Shipped] = &[
    Shipped { name: "tour", text: include_str!("../../../../experiments/tour.toml") },
    Shipped { name: "ramp", text: include_str!("../../../../experiments/ramp.toml") },
    Shipped { name: "turnaround", text: include_str!("../../../../experiments/turnaround.toml") },
    Shipped { name: "layers", text: include_str!("../../../../experiments/layers.toml") },
    Shipped { name: "layers-foreign", text: include_str!("../../../../experiments/layers-foreign.toml") },
    Shipped { name: "control", text: include_str!("../../../../experiments/control.toml") },
    Shipped { name: "study", text: include_str!("../../../../experiments/study.toml") },
    Shipped { name: "short", text: include_str!("../../../../experiments/short.toml") },
    Shipped { name: "initiators", text: include_str!("../../../../experiments/initiators.toml") },
    Shipped { name: "starvation", text: include_str!("../../../../experiments/starvation.toml") },
    Shipped { name: "questions", text: include_str!("../../../../experiments/questions.toml") },
    Shipped { name: "newcomer", text: include_str!("../../../../experiments/newcomer.toml") },
    Shipped { name: "sites", text: include_str!("../../../../experiments/sites.toml") },
    Shipped { name: "neighbour", text: include_str!("../../../../experiments/neighbour.toml") },
    Shipped { name: "doctor-matrix", text: include_str!("../../../../experiments/doctor-matrix.toml") },
    Shipped { name: "gaps", text: include_str!("../../../../experiments/gaps.toml") },
    Shipped { name: "loss", text: include_str!("../../../../experiments/loss.toml") },
    Shipped { name: "longfat", text: include_str!("../../../../experiments/longfat.toml") },
];

/// Longest plan.
const MAX_BYTES: u64 = 1 << 20;

/// The text of a plan and where it is from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    /// Name or path, as given.
    pub origin: String,
    /// The TOML.
    pub text: String,
}

impl Source {
    /// Finds a plan by the name of a shipped one, or by a path. A text that looks like a path (`./tour`,
    /// `plans/mine.toml`) is never taken for a name.
    pub fn find(plan: &str) -> Result<Source, PlanError> {
        if let Some(shipped) = SHIPPED.iter().find(|shipped| shipped.name == plan) {
            return Ok(Source { origin: plan.to_owned(), text: shipped.text.to_owned() });
        }
        let looks_like_path = plan.contains('/') || plan.ends_with(".toml");
        if !looks_like_path && !Path::new(plan).exists() {
            let hint = instead(plan, SHIPPED.iter().map(|shipped| shipped.name));
            let text = format!("no plan ships as '{plan}' and there is no such file{hint}");
            return Err(PlanError::Unknown(text));
        }
        match read(plan) {
            Ok(text) => Ok(Source { origin: plan.to_owned(), text }),
            Err(source) => Err(PlanError::Unreadable { path: plan.to_owned(), source }),
        }
    }

    /// Reads it as a plan.
    pub fn plan(&self, variant: Variant) -> Result<Plan, PlanError> {
        Plan::parse(&self.text, variant)
            .map_err(|problems| PlanError::Wrong { origin: self.origin.clone(), problems })
    }
}

/// Reads a plan. It may come through a pipe, so its length is known only at the end.
fn read(path: &str) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MAX_BYTES {
        true => Err(io::Error::other(format!("longer than {} KiB, which no plan is", MAX_BYTES >> 10))),
        false => Ok(text),
    }
}
