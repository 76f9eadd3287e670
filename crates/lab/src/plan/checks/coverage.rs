//! The points of a plan's matrix that an expectation covers.

use analysis::LINE;
use analysis::interval::PAIRS_MIN;

use super::expect::Expect;
use super::expression::MetricName;
use crate::plan::definition::Plan;
use crate::plan::matrix::Axis;
use crate::plan::point::Point;

impl Expect {
    /// Whether the plan is run often enough for its interval, if it asks for one.
    pub(in crate::plan) fn has_pairs(&self, plan: &Plan) -> bool {
        self.interval.is_none() || plan.repeats as usize >= PAIRS_MIN
    }

    /// Whether its shape, if it asks for one, is that of two values at least: one alone has every shape.
    pub(in crate::plan) fn has_row(&self, plan: &Plan) -> bool {
        let Some((_, along)) = &self.shape else { return true };
        let Some(axis) = plan.matrix.iter().find(|axis| axis.name == *along) else { return false };
        let there = |label: &String| self.only.has(&Point(vec![(along.clone(), label.clone())]));
        self.varies_along(axis, plan) && axis.labels().filter(there).count() > 1
    }

    /// Whether its figure may differ along an axis. A metric that has its own place on it is the same wherever the others
    /// are. The line is that of the first load that is named.
    pub fn varies_along(&self, axis: &Axis, plan: &Plan) -> bool {
        let names = self.value.metrics();
        let load_of = |name: &MetricName| plan.loads.iter().find(|load| load.name == name.owner);
        let first = names.iter().find_map(|name| load_of(name));
        let varies = |name: &&MetricName| match load_of(name).or(first) {
            _ if name.at.iter().any(|(pinned, _)| *pinned == axis.name) => false,
            Some(load) if name.owner == LINE => axis.is_path() && axis.concerns(load, &plan.backgrounds),
            Some(load) => axis.concerns(load, &plan.backgrounds),
            None => axis.is_path(),
        };
        names.iter().any(varies)
    }
}
