//! The `[needs]` of a plan and the `needs` of a load: programs that its commands call and that are not ours. Without one of
//! the plan's there is no run; without one of a load's that load is left out.
//!
//! Whether a program is there is asked when the plan is run, not when it is read.

use document::{Problems, Section};
use net::user;

use super::Plan;

/// A program and where it is found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Need {
    /// As the shell finds it: `tgtd`.
    pub program: String,
    /// The package that has it.
    pub package: String,
}

impl Need {
    pub(super) fn read(section: &Section<'_>, problems: &mut Problems<'_>) -> Vec<Need> {
        let need = |entry: &document::Entry<'_>, problems: &mut Problems<'_>| {
            let package = entry.read(problems, |value| value.text().map(str::to_owned))?;
            Some(Need { program: entry.key.to_owned(), package })
        };
        section.entries().iter().filter_map(|entry| need(entry, problems)).collect()
    }

    /// Whether a shell would find it.
    pub fn is_met(&self) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(&self.program).is_file())
    }
}

/// Requirements of one load.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LoadNeeds {
    /// Programs.
    pub programs: Vec<Need>,
    /// A program of it works for root alone.
    pub root: bool,
}

impl LoadNeeds {
    /// The first requirement that is not met, in words.
    pub fn missing(&self) -> Option<String> {
        let absent = self.programs.iter().find(|need| !need.is_met());
        let absent = absent.map(|need| format!("{} is not installed", need.package));
        absent.or_else(|| (self.root && !user::is_privileged()).then(|| "it needs root".to_owned()))
    }
}

impl Plan {
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
        let concerns =
            |axis: &super::Axis| self.loads.iter().any(|load| axis.concerns(load, &self.backgrounds));
        self.matrix = self.matrix.iter().filter(|axis| axis.is_path() || concerns(axis)).cloned().collect();
        (self, said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Source, Variant};

    #[test]
    fn a_load_whose_programs_are_missing_is_left_out_with_what_is_expected_of_it() {
        let plan = Source::find("tour").unwrap().plan(Variant::Full).unwrap();
        let there = plan.loads.len();
        let lacks = |name: &str| {
            let reason =
                |load: &crate::plan::Load| (load.name == name).then(|| "tgt is not installed".to_owned());
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

    #[test]
    fn a_missing_program_is_named_by_its_package() {
        let need = |program: &str| Need { program: program.to_owned(), package: "a-package".to_owned() };
        let needs = |program: &str| LoadNeeds { programs: vec![need("sh"), need(program)], root: false };
        assert_eq!(needs("sh").missing(), None);
        let missing = needs("no-such-program-anywhere").missing();
        assert_eq!(missing.as_deref(), Some("a-package is not installed"));
    }
}
