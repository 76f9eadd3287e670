//! The points of a plan's matrix that an expectation covers.

use analysis::LINE;
use analysis::interval::PAIRS_MIN;

use super::expect::Expect;
use super::expression::MetricName;
use crate::plan::definition::Plan;
use crate::plan::matrix::Axis;
use crate::plan::point::Point;

impl Expect {
    /// True if the plan has enough repeats for the interval, if there is one.
    pub(in crate::plan) fn has_pairs(&self, plan: &Plan) -> bool {
        self.interval.is_none() || plan.repeats as usize >= PAIRS_MIN
    }

    /// True if the shape, if there is one, covers at least two points: one point has every shape.
    pub(in crate::plan) fn has_row(&self, plan: &Plan) -> bool {
        let Some((_, along)) = &self.shape else { return true };
        let Some(axis) = plan.matrix.iter().find(|axis| axis.name == *along) else { return false };
        let there = |label: &String| self.only.has(&Point(vec![(along.clone(), label.clone())]));
        self.varies_along(axis, plan) && axis.labels().filter(there).count() > 1
    }

    /// True if the value may differ along an axis. A metric that is pinned on the axis does not vary there. The line
    /// is that of the first load in the expression.
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
