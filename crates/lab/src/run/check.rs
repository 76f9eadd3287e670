//! A plan's expectations against the figures of a run.

use analysis::Metrics;
use store::manifest::{Check, Comparison};

use crate::plan::{Axis, Expect, Plan, Point};

/// One check per expectation and point of the matrix that is left, in the order of the plan.
pub(super) fn checks(plan: &Plan, metrics: Metrics<'_>) -> Vec<Check> {
    let value = |point: &Point, name: &str| metrics.value(&point.0, name);
    plan.expects.iter().flat_map(|expect| evaluated(plan, expect, &value)).collect()
}

fn evaluated(plan: &Plan, expect: &Expect, value: &dyn Fn(&Point, &str) -> Option<f64>) -> Vec<Check> {
    let points = points(plan, expect);
    let check = |point: &Point, name: String| {
        let found = expect.value.value(|metric| value(point, &metric.to_string()));
        let found = found.map(|v| v / expect.unit.size);
        Check::evaluate(name, found, expect.op, expect.bound, expect.unit.name)
    };
    if expect.each {
        let name = |point: &Point| match point.words() {
            words if words.is_empty() => expect.name.clone(),
            words => format!("{} ({words})", expect.name),
        };
        return points.iter().map(|point| check(point, name(point))).collect();
    }
    let all = points.iter().map(|point| check(point, expect.name.clone()));
    all.min_by(|a, b| margin(a).total_cmp(&margin(b))).into_iter().collect()
}

/// The points at which an expectation is asked: only of the axes that concern what it names.
fn points(plan: &Plan, expect: &Expect) -> Vec<Point> {
    let names = expect.value.metrics();
    let loads = || plan.loads.iter().filter(|load| names.iter().any(|name| name.owner == load.name));
    let concerned = |axis: &Axis| {
        !names.is_empty() && (axis.is_path() || loads().any(|load| axis.concerns(load, &plan.backgrounds)))
    };
    let axes: Vec<&str> =
        plan.matrix.iter().filter(|axis| concerned(axis)).map(|axis| axis.name.as_str()).collect();
    let mut points: Vec<Point> = Vec::new();
    for point in plan.points().iter().filter(|point| point.agrees(&expect.only)) {
        let point = point.only(|axis| axes.contains(&axis));
        if !points.contains(&point) {
            points.push(point);
        }
    }
    points
}

/// How far a check is on the right side; a missing value is the worst of all.
fn margin(check: &Check) -> f64 {
    let Some(value) = check.value else { return f64::NEG_INFINITY };
    match check.op {
        Comparison::AtLeast | Comparison::Above => value - check.bound,
        Comparison::AtMost | Comparison::Below => check.bound - value,
        Comparison::Equal => -(check.bound - value).abs(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Variant;

    const PLAN: &str = r#"
        name = "p"
        title = "t"
        [matrix]
        delay = ["0", "8ms"]
        read.depth = [1, 8]
        [[lun]]
        kind = "memory"
        size = "1MiB"
        [[load]]
        name = "read"
        kind = "bench"
        op = "read"
        block = "4KiB"
        window = "1s"
        [[load]]
        name = "raw"
        kind = "stream"
        window = "1s"
        [[expect]]
        name = "x"
    "#;

    /// Checks as (name, value) when reads make 100 Mbit/s × depth, raw 800, and raw is missing at 8 ms.
    fn check(expect: &str, expected: &[(&str, Option<f64>)]) {
        let plan = Plan::parse(&format!("{PLAN}\n{expect}"), Variant::Full).unwrap();
        let value = |point: &Point, name: &str| match (name, point.value("delay"), point.value("read.depth"))
        {
            ("read.throughput", Some(_), Some(depth)) => depth.parse::<f64>().ok().map(|depth| depth * 1e8),
            ("raw.throughput", Some("0"), _) => Some(8e8),
            ("line.rtt", Some("8ms"), _) => Some(0.016),
            ("line.rtt", Some("0"), _) => Some(0.0),
            _ => None,
        };
        let found = evaluated(&plan, &plan.expects[0], &value);
        let found: Vec<_> = found.iter().map(|check| (check.name.as_str(), check.value)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn one_check_per_point_that_concerns_what_is_named() {
        check(
            "value = 'read.throughput / raw.throughput'\nop = '>='\nbound = 0.5",
            &[
                ("x (delay 0, read.depth 1)", Some(0.125)),
                ("x (delay 0, read.depth 8)", Some(1.0)),
                ("x (delay 8ms, read.depth 1)", None),
                ("x (delay 8ms, read.depth 8)", None),
            ],
        );
        check(
            "value = 'raw.throughput'\nop = '>='\nbound = 700\nunit = 'Mbit/s'",
            &[("x (delay 0)", Some(800.0)), ("x (delay 8ms)", None)],
        );
        check(
            "value = 'read.throughput'\nop = '>='\nbound = 700\nunit = 'Mbit/s'\nwhere = { delay = '8ms' }",
            &[("x (delay 8ms, read.depth 1)", Some(100.0)), ("x (delay 8ms, read.depth 8)", Some(800.0))],
        );
    }

    #[test]
    fn the_worst_point_alone() {
        check(
            "value = 'read.throughput'\nop = '>='\nbound = 700\nunit = 'Mbit/s'\neach = false",
            &[("x", Some(100.0))],
        );
        check("value = 'line.rtt'\nop = '<='\nbound = 20\nunit = 'ms'\neach = false", &[("x", Some(16.0))]);
        check("value = 'raw.throughput / line.goodput'\nop = '>='\nbound = 0\neach = false", &[("x", None)]);
    }
}
