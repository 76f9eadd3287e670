//! A plan's expectations against the figures of a run.

use analysis::interval::{PAIRS_MIN, lower_95};
use analysis::{LINE, Metrics};
use tables::manifest::{Check, Comparison};

use crate::plan::{Expect, Interval, MetricName, Plan, Point, Shape};

/// A metric of an expression at a point.
struct Figure<'a> {
    point: Point,
    name: &'a MetricName,
    /// The load whose line it is, if it is one of the line.
    load: Option<&'a str>,
    /// Repeat; `None` for the median of all.
    repeat: Option<u32>,
}

type Lookup<'a> = dyn Fn(&Figure<'_>) -> Option<f64> + 'a;

/// Value of an expectation at a point.
struct Found {
    point: Point,
    value: Option<f64>,
    /// Sample that it is from, for the name of the check.
    of: Option<String>,
}

/// One check per expectation and point of the matrix that is left, in the order of the plan.
pub(super) fn checks(plan: &Plan, metrics: Metrics<'_>) -> Vec<Check> {
    // Without a verdict on its path, no figure is known to be of the planned path.
    let is_waived = plan.is_waived();
    let value = |figure: &Figure<'_>| {
        if is_waived {
            return None;
        }
        let (point, metric) = (&figure.point.0, &figure.name.metric);
        let name = || format!("{}.{metric}", figure.name.owner);
        match (figure.load, figure.repeat) {
            // The line is the same in all repeats.
            (Some(load), _) if figure.name.owner == LINE => metrics.line_of(point, load, metric),
            (_, Some(repeat)) if figure.name.owner != LINE => metrics.in_repeat(point, &name(), repeat),
            _ => metrics.value(point, &name()),
        }
    };
    plan.expects.iter().flat_map(|expect| evaluated(plan, expect, &value)).collect()
}

fn evaluated(plan: &Plan, expect: &Expect, value: &Lookup<'_>) -> Vec<Check> {
    let named = expect.value.metrics();
    let load = named.iter().map(|name| name.owner.as_str()).find(|owner| *owner != LINE);
    let in_repeat = |point: &Point, repeat| {
        let figure = |name: &MetricName| value(&Figure { point: point.moved(&name.at), name, load, repeat });
        expect.value.value(figure).map(|v| v / expect.unit.size)
    };
    let at = |point: &Point| in_repeat(point, None);
    let points = points(plan, expect);
    let found: Vec<Found> = match (&expect.shape, expect.interval) {
        (None, None) => {
            points.into_iter().map(|point| Found { value: at(&point), point, of: None }).collect()
        }
        (Some((shape, along)), _) => rows(&points, along)
            .into_iter()
            .map(|(point, row)| {
                let row = row.iter().map(at).collect::<Option<Vec<f64>>>();
                Found { point, value: row.and_then(|row| measure(*shape, &row)), of: None }
            })
            .collect(),
        (None, Some(Interval::Lower95)) => points
            .into_iter()
            .map(|point| {
                let of_repeats = (1..=plan.repeats).filter_map(|repeat| in_repeat(&point, Some(repeat)));
                let ratios: Vec<f64> = of_repeats.collect();
                Found { point, value: lower_95(&ratios), of: Some(of_pairs(ratios.len())) }
            })
            .collect(),
    };
    let check = |found: &Found, name: String| {
        let name = match &found.of {
            Some(of) => format!("{name}, {of}"),
            None => name,
        };
        Check::evaluate(name, found.value, expect.op, expect.bound, expect.unit.name)
    };
    if expect.each {
        let name = |point: &Point| match point.words() {
            words if words.is_empty() => expect.name.clone(),
            words => format!("{} ({words})", expect.name),
        };
        return found.iter().map(|found| check(found, name(&found.point))).collect();
    }
    let all = found.iter().map(|found| check(found, expect.name.clone()));
    all.min_by(|a, b| margin(a).total_cmp(&margin(b))).into_iter().collect()
}

/// Sample of an interval, with the reason if there is none.
fn of_pairs(pairs: usize) -> String {
    match pairs {
        0..PAIRS_MIN => format!("lower 95 % bound: {pairs} valid pairs, {PAIRS_MIN} are needed"),
        _ => format!("lower 95 % bound of {pairs} pairs"),
    }
}

/// Points of an expectation, on the axes that concern its metrics alone.
fn points(plan: &Plan, expect: &Expect) -> Vec<Point> {
    let axes: Vec<&str> = plan
        .matrix
        .iter()
        .filter(|axis| expect.varies_along(axis, plan))
        .map(|axis| axis.name.as_str())
        .collect();
    let mut points: Vec<Point> = Vec::new();
    for point in plan.points().iter().filter(|point| expect.only.has(point)) {
        let point = point.only(|axis| axes.contains(&axis));
        if !points.contains(&point) {
            points.push(point);
        }
    }
    points
}

/// Groups points that differ on one axis alone, in its order, with their common part.
fn rows(points: &[Point], along: &str) -> Vec<(Point, Vec<Point>)> {
    let mut rows: Vec<(Point, Vec<Point>)> = Vec::new();
    for point in points {
        let rest = point.only(|axis| axis != along);
        match rows.iter_mut().find(|(known, _)| *known == rest) {
            Some((_, row)) => row.push(point.clone()),
            None => rows.push((rest, vec![point.clone()])),
        }
    }
    rows
}

/// Shape of a row of figures as a ratio; `None` for a division by zero, for negative figures, and for a single one,
/// which has every shape.
fn measure(shape: Shape, row: &[f64]) -> Option<f64> {
    if row.len() < 2 || row.iter().any(|figure| *figure < 0.0) {
        return None;
    }
    let steps = || row.windows(2).map(|pair| pair[1] / pair[0]);
    if !steps().all(f64::is_finite) {
        return None;
    }
    match shape {
        Shape::Flat => {
            let (least, most) =
                (row.iter().copied().reduce(f64::min)?, row.iter().copied().reduce(f64::max)?);
            Some(most / least)
        }
        Shape::Rising => steps().reduce(f64::min),
        Shape::Falling => steps().reduce(f64::max),
    }
    .filter(|ratio| ratio.is_finite())
}

/// Distance of a check from its bound, positive on the right side; a missing value is the worst of all.
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
        let value = |figure: &Figure<'_>| match (
            format!("{}.{}", figure.name.owner, figure.name.metric).as_str(),
            figure.point.value("delay"),
            figure.point.value("read.depth"),
        ) {
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
    fn places_are_compared() {
        check(
            "value = 'read.throughput / read.throughput[read.depth=1]'\nop = '>='\nbound = 1",
            &[
                ("x (delay 0, read.depth 1)", Some(1.0)),
                ("x (delay 0, read.depth 8)", Some(8.0)),
                ("x (delay 8ms, read.depth 1)", Some(1.0)),
                ("x (delay 8ms, read.depth 8)", Some(8.0)),
            ],
        );
        let both = "read.throughput[delay=8ms, read.depth=8] / read.throughput[delay=0, read.depth=1]";
        check(&format!("value = '{both}'\nop = '>='\nbound = 1"), &[("x", Some(8.0))]);
    }

    #[test]
    fn shapes_along_an_axis() {
        let shape = |shape: &str, bound: f64, expected: &[(&str, Option<f64>)]| {
            let op = if shape == "rising" { ">=" } else { "<=" };
            let keys = format!("shape = '{shape}'\nalong = 'read.depth'\nop = '{op}'\nbound = {bound}");
            check(&format!("value = 'read.throughput'\n{keys}"), expected);
        };
        let at = |value| [("x (delay 0)", Some(value)), ("x (delay 8ms)", Some(value))];
        shape("flat", 1.05, &at(8.0));
        shape("rising", 1.0, &at(8.0));
        shape("falling", 1.0, &at(8.0));
        check(
            "value = 'read.throughput'\nshape = 'flat'\nalong = 'read.depth'\nop = '<='\nbound = 1\n\
             where = { delay = ['0'] }",
            &[("x (delay 0)", Some(8.0))],
        );
        check(
            "value = 'raw.throughput'\nshape = 'falling'\nalong = 'delay'\nop = '<='\nbound = 1",
            &[("x", None)],
        );
    }

    #[test]
    fn a_row_of_nothing_has_no_shape() {
        for shape in [Shape::Flat, Shape::Rising, Shape::Falling] {
            for row in [&[0.0, 0.0][..], &[0.0, 5.0], &[5.0, 0.0, 5.0], &[1.0, f64::NAN]] {
                assert_eq!(measure(shape, row), None, "{shape:?} {row:?}");
            }
        }
        assert_eq!(measure(Shape::Falling, &[5.0, 0.0]), Some(0.0));
        assert_eq!(measure(Shape::Flat, &[5.0, 0.0]), None);
        assert_eq!(measure(Shape::Rising, &[2.0, 4.0, 5.0]), Some(1.25));
    }

    /// The check of an interval when `read` has these throughputs in its repeats, at depth 1 and 8.
    fn bound(one: &[f64], eight: &[f64]) -> (String, Option<f64>) {
        let keys = "value = 'read.throughput / read.throughput[read.depth=1]'\nop = '>='\nbound = 0.97\n\
                    interval = 'lower95'\nwhere = { delay = '0', read.depth = 8 }";
        let plan = Plan::parse(&format!("repeats = 20\n{PLAN}\n{keys}"), Variant::Full).unwrap();
        let value = |figure: &Figure<'_>| {
            let of_depth = if figure.point.value("read.depth") == Some("1") { one } else { eight };
            of_depth.get(figure.repeat.expect("a repeat is given") as usize - 1).copied()
        };
        let found = evaluated(&plan, &plan.expects[0], &value);
        assert_eq!(found.len(), 1);
        (found[0].name.clone(), found[0].value)
    }

    #[test]
    fn an_interval_is_of_the_pairs_of_each_repeat() {
        // Drift affects both runs of a pair, whose ratio is e^0.1, 1 or e^-0.1: analysis::interval computes it by
        // hand.
        let one: Vec<f64> = (1..=15).map(|n| f64::from(n) * 1e6).collect();
        let ratio = |n: usize| (((n % 15) as f64 - 7.0).clamp(-1.0, 1.0) / 10.0).exp();
        let eight: Vec<f64> = one.iter().enumerate().map(|(n, rate)| rate * ratio(n)).collect();
        let (name, value) = bound(&one, &eight);
        assert_eq!(name, "x (delay 0, read.depth 8), lower 95 % bound of 15 pairs");
        assert!((value.unwrap() - 0.946_122).abs() < 2e-6, "{value:?}");
        // A repeat in which one of a pair has no figure is no pair; one that carried nothing is no reason to leave it out.
        let (name, value) = bound(&one, &eight[..14]);
        assert_eq!(
            (name.as_str(), value),
            ("x (delay 0, read.depth 8), lower 95 % bound: 14 valid pairs, 15 are needed", None)
        );
        let (more, mut idle) = ([&one[..], &one[..3]].concat(), [&eight[..], &eight[..3]].concat());
        assert!(bound(&more, &idle).1.is_some());
        idle[3] = 0.0;
        assert_eq!(bound(&more, &idle).1, None);
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
