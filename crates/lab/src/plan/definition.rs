//! The plan as it was read, and its cells.

use std::collections::BTreeSet;

use document::Scalar;

use super::cell::Cell;
use super::checks::{Expect, MetricName};
use super::keys::background::Background;
use super::keys::case::Case;
use super::keys::load::{Load, Validity};
use super::keys::lun::Lun;
use super::keys::need::Need;
use super::keys::path::Path;
use super::keys::recording::{Recording, Table};
use super::keys::target::Target;
use super::matrix::{self, Axis};
use super::point::Point;

/// Metrics that come from the table `kernel` alone.
const OF_KERNEL: &[&str] = &["cwr", "recoveries"];

/// Size in which a plan is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variant {
    /// The plan itself.
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
    /// Purpose, in sentences.
    pub description: String,
    /// The path, before the matrix is applied.
    pub path: Path,
    /// Axes that vary; the last varies fastest.
    pub matrix: Vec<Axis>,
    /// Far hosts, before the matrix is applied.
    pub far: FarHosts,
    /// Loads of the near hosts, one per cell.
    pub loads: Vec<Load>,
    /// Foreign programs that must be installed.
    pub needs: Vec<Need>,
    /// Competing traffic, before the matrix is applied.
    pub backgrounds: Vec<Background>,
    /// Limiters for the doctor to find; with them, the one load is run as each case has it, and not as it is.
    pub cases: Vec<Case>,
    /// Tables to record and figures to draw.
    pub recording: Recording,
    /// Repeats of every cell.
    pub repeats: u32,
    /// Expectations.
    pub expects: Vec<Expect>,
    /// Its size.
    pub variant: Variant,
    /// The plan as written.
    pub text: String,
}

/// LUNs of the far hosts, and the options of their targets.
#[derive(Clone, PartialEq, Debug)]
pub struct FarHosts {
    /// LUNs, numbered from 0.
    pub luns: Vec<Lun>,
    /// Options of every target.
    pub target: Target,
}

impl Plan {
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

    /// The plan without rules of validity: its figures are not validated, and no check uses them.
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

    /// The plan without the loads that have a reason.
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

    /// Number of points of the matrix that concern a load, and so of its cells.
    pub(super) fn places_of(&self, load: &Load) -> usize {
        let axes = self.matrix.iter().filter(|axis| axis.concerns(load, &self.backgrounds));
        axes.fold(1, |places, axis| places.saturating_mul(axis.values.len()))
    }

    /// Segments super-packets in all cells of a load if it does so in one: cells are compared, and their packets must
    /// be alike, unless the plan compares just that.
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

    /// Cell of a load without the matrix.
    pub(super) fn cell(&self, load: &Load) -> Cell {
        Cell {
            number: 1,
            point: Point::default(),
            path: load.path_from(&self.path),
            load: load.clone(),
            target: self.far.target.clone(),
            backgrounds: self.backgrounds.iter().filter(|b| b.is_beside(load)).cloned().collect(),
        }
    }

    /// Every point of the matrix, for any load.
    pub fn points(&self) -> Vec<Point> {
        let label = |(axis, value): &(&Axis, &Scalar)| (axis.name.clone(), value.label());
        matrix::points(&self.matrix).iter().map(|place| Point(place.iter().map(label).collect())).collect()
    }

    /// True if a load records the kernel's tracepoints, which needs root.
    pub fn traces_kernel(&self) -> bool {
        let loads = self.loads.iter().filter_map(|load| load.record.as_ref());
        loads.chain([&self.recording.tables]).any(|tables| tables.contains(&Table::Kernel))
    }

    /// The plan without the kernel's tracepoints, and without the expectations that need them.
    pub fn without_kernel(mut self) -> Plan {
        let recorded = self.loads.iter_mut().filter_map(|load| load.record.as_mut());
        recorded
            .chain([&mut self.recording.tables])
            .for_each(|tables| tables.retain(|table| *table != Table::Kernel));
        let needs_kernel = |metric: &MetricName| OF_KERNEL.contains(&metric.metric.as_str());
        self.expects.retain(|expect| !expect.value.metrics().into_iter().any(needs_kernel));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Source;

    const CLOSELY: &str = r#"
        name = "closely"
        title = "one load is looked at more closely than the others"
        record = ["io"]
        [[lun]]
        kind = "memory"
        size = "1MiB"
        [[load]]
        name = "usual"
        kind = "bench"
        op = "read"
        block = "4KiB"
        window = "1s"
        [[load]]
        name = "closely"
        kind = "bench"
        op = "read"
        block = "4KiB"
        window = "1s"
        record = ["pdus", "kernel"]
        [[expect]]
        name = "every cut is that of a full device"
        value = "closely.recoveries"
        op = "<="
        bound = 0
        [[expect]]
        name = "nothing is sent again"
        value = "closely.retransmitted"
        op = "<="
        bound = 0
        unit = "packets"
    "#;

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

    #[test]
    fn a_load_has_tables_of_its_own_and_the_kernel_is_for_root() {
        let plan = Plan::parse(CLOSELY, Variant::Full).unwrap();
        assert!(plan.traces_kernel() && plan.recording.tables.is_empty());
        let recorded = |plan: &Plan| plan.loads.iter().map(|load| load.record.clone()).collect::<Vec<_>>();
        assert_eq!(recorded(&plan), [None, Some(vec![Table::Pdus, Table::Kernel])]);
        let poorer = plan.without_kernel();
        assert!(!poorer.traces_kernel());
        assert_eq!(recorded(&poorer), [None, Some(vec![Table::Pdus])]);
        assert_eq!(poorer.expects.len(), 1, "what cannot be known is not expected");
        let wrong = CLOSELY.replace(r#"["pdus", "kernel"]"#, r#"["pdus", "colonel"]"#);
        let problems = Plan::parse(&wrong, Variant::Full).unwrap_err();
        assert!(problems[0].text.contains("colonel"), "{:?}", problems[0]);
    }
}
