//! Gain of a policy: throughput of the same load under each policy against `none`, at every point of the matrix, and
//! the gain that the congestion-window control study published for that point.

use serde::Serialize;

use super::cell::{CellResult, Point, Repeat};
use crate::metrics::Spread;

/// The policy that the others are compared with.
const BASE: &str = "none";
/// The policy with published figures.
const STUDY: &str = "study";
/// Change of throughput by the study's control, by one-way delay: Gigabit, 1 MiB reads, ring of its network card.
const PUBLISHED: [(&str, f64); 5] =
    [("0", -0.091), ("2ms", -0.079), ("4ms", 0.070), ("8ms", 0.197), ("16ms", 0.283)];

/// One load under one policy at one point.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Gain {
    /// The load.
    pub load: String,
    /// No rule of validity was applied to its path.
    pub unvalidated: bool,
    /// The place, without the policy.
    pub point: Point,
    /// The policy.
    pub policy: String,
    /// Throughput over the window, bits per second.
    pub bits_per_s: f64,
    /// Bytes in the window of a repeat: the sample size of its throughput.
    pub counted_bytes: Option<f64>,
    /// Throughput from the beginning of the load, the search for the right window included.
    pub from_start_bits_per_s: Option<f64>,
    /// Cuts of the sender's window by its own device.
    pub local_cuts: Option<f64>,
    /// Gain over `none`, as a share of it; over the window, and from the beginning.
    pub gain: Option<f64>,
    /// Gain over `none` from the beginning of the load, as a share of it.
    pub gain_from_start: Option<f64>,
    /// Gain in the study.
    pub published: Option<f64>,
}

/// Every cell of a run whose matrix has policies, in its order.
pub fn gains(cells: &[CellResult]) -> Vec<Gain> {
    cells.iter().filter_map(|cell| gain(cell, cells)).collect()
}

fn gain(cell: &CellResult, cells: &[CellResult]) -> Option<Gain> {
    let (axis, policy) = cell.point.iter().find(|(axis, _)| is_policy(axis))?;
    let is_base = |other: &&CellResult| {
        other.load == cell.load
            && other.point.len() == cell.point.len()
            && other.point.iter().all(|(name, value)| match name == axis {
                true => value == BASE,
                false => cell.point.get(name) == Some(value),
            })
    };
    let base = cells.iter().find(is_base);
    let value = |cell: &CellResult, name| cell.values.get(name).map(|spread: &Spread| spread.median);
    let over = |own: Option<f64>, base: Option<f64>| {
        own.zip(base.filter(|base| *base > 0.0)).map(|(own, base)| own / base - 1.0)
    };
    let bits_per_s = value(cell, "throughput")?;
    let from_start = from_start(cell);
    let window_s = cell.repeats.iter().find(|repeat| repeat.valid).and_then(|repeat| repeat.window_s);
    let point: Point = cell.point.iter().filter(|(name, _)| *name != axis).map(clone).collect();
    let delay = point.get("delay").filter(|_| policy == STUDY && cell.op == "read");
    Some(Gain {
        load: cell.load.clone(),
        unvalidated: cell.is_unvalidated(),
        policy: policy.clone(),
        bits_per_s,
        counted_bytes: window_s.map(|(_, length_s)| bits_per_s / 8.0 * length_s),
        from_start_bits_per_s: from_start,
        local_cuts: value(cell, "local_cuts"),
        gain: over(Some(bits_per_s), base.and_then(|base| value(base, "throughput"))),
        gain_from_start: over(from_start, base.and_then(self::from_start)),
        published: delay
            .and_then(|delay| PUBLISHED.iter().find(|(at, _)| at == delay).map(|(_, gain)| *gain)),
        point,
    })
}

/// True if an axis of the matrix is that of policies.
pub fn is_policy(axis: &str) -> bool {
    axis.rsplit('.').next() == Some("policy")
}

fn clone((name, value): (&String, &String)) -> (String, String) {
    (name.clone(), value.clone())
}

/// Mean of the rate over time, from the load's beginning; the median of the repeats.
fn from_start(cell: &CellResult) -> Option<f64> {
    let repeats = cell.repeats.iter().filter(|repeat: &&Repeat| repeat.valid && !repeat.rate.is_empty());
    let mean =
        |repeat: &Repeat| repeat.rate.iter().map(|(_, rate)| rate).sum::<f64>() / repeat.rate.len() as f64;
    Spread::of(&repeats.map(mean).collect::<Vec<f64>>()).map(|spread| spread.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(load: &str, point: &[(&str, &str)], throughput: f64) -> CellResult {
        let rate = vec![(0.5, throughput / 2.0), (1.5, throughput)];
        CellResult {
            load: load.to_owned(),
            op: "read".to_owned(),
            point: point.iter().map(|(a, v)| ((*a).to_owned(), (*v).to_owned())).collect(),
            values: [("throughput", Spread { median: throughput, min: 0.0, max: 0.0, repeats: 1 })].into(),
            repeats: vec![Repeat { valid: true, rate, window_s: Some((1.0, 16.0)), ..Repeat::default() }],
            ..CellResult::default()
        }
    }

    #[test]
    fn each_policy_is_compared_with_none_at_its_place() {
        let cells = [
            cell("stream", &[("delay", "8ms")], 9.0),
            cell("read", &[("delay", "8ms"), ("read.policy", "none")], 1.0),
            cell("read", &[("delay", "8ms"), ("read.policy", "study")], 1.5),
            cell("read", &[("delay", "0"), ("read.policy", "none")], 4.0),
            cell("read", &[("delay", "0"), ("read.policy", "auto")], 3.0),
            cell("read", &[("delay", "50ms"), ("read.policy", "study")], 3.0),
        ];
        let found = gains(&cells);
        let short: Vec<_> =
            found.iter().map(|gain| (gain.policy.as_str(), gain.gain, gain.published)).collect();
        assert_eq!(
            short,
            [
                ("none", Some(0.0), None),
                ("study", Some(0.5), Some(0.197)),
                ("none", Some(0.0), None),
                ("auto", Some(-0.25), None),
                ("study", None, None),
            ]
        );
        assert_eq!((found[1].from_start_bits_per_s, found[1].gain_from_start), (Some(1.125), Some(0.5)));
        assert_eq!(found[1].counted_bytes, Some(3.0), "1.5 bit/s for 16 s");
        assert_eq!(found[1].point, [("delay".to_owned(), "8ms".to_owned())].into());
    }
}
