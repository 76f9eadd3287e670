//! Summary of a run: share of the line that its loads reach where the path is longest, and failures.

use serde::Serialize;
use tables::manifest::Run;

use super::cell::CellResult;

/// The gist of a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct RunSummary {
    /// The plan's title; its name if it has none.
    pub title: String,
    /// The longest round trip of the run's paths.
    pub rtt_s: Option<f64>,
    /// Every bulk load there, and its share of the line: the least over all of its cells, except those without pacing
    /// or under another policy than ours, which serve for comparison.
    pub shares: Vec<Share>,
    /// Every other load with requests there: the slowest of its cells.
    pub requests: Vec<Requests>,
    /// True if the run is valid.
    pub valid: bool,
    /// Repeats that are not valid, of how many.
    pub invalid_repeats: usize,
    /// Repeats in all.
    pub repeats: usize,
    /// Repeats with figures that no rule of validity was applied to.
    pub unvalidated_repeats: usize,
    /// Checks whose figure was measured and does not hold.
    pub failed_checks: usize,
    /// Checks whose figure was not measured.
    pub unmeasured_checks: usize,
    /// Checks in all.
    pub checks: usize,
}

/// Share of the line of one load.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Share {
    /// The load's name.
    pub load: String,
    /// `read`, `write` or `stream`.
    pub op: String,
    /// Throughput ÷ goodput of the line.
    pub of_line: f64,
    /// No rule of validity was applied to its path.
    pub unvalidated: bool,
    /// True for a load that is compared with the bulk loads.
    pub compared: bool,
}

/// Single requests of one load.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Requests {
    /// The load's name.
    pub load: String,
    /// Median latency in seconds.
    pub latency_s: f64,
    /// Median latency in round trips.
    pub round_trips: Option<f64>,
    /// No rule of validity was applied to its path.
    pub unvalidated: bool,
}

impl RunSummary {
    pub(crate) fn of(run: &Run, cells: &[CellResult]) -> RunSummary {
        let rtt = |cell: &&CellResult| cell.line.get("rtt").map(|s| s.median);
        let is_paced = |cell: &CellResult| {
            cell.point.iter().all(|(axis, value)| match axis.rsplit('.').next() {
                Some("pacing") => value == "true",
                Some("policy") => value == "auto",
                _ => true,
            })
        };
        let bulk = || cells.iter().filter(|cell| cell.bulk && is_paced(cell));
        let rtt_s = bulk().filter_map(|c| rtt(&c)).max_by(f64::total_cmp);
        let mut shares: Vec<Share> = Vec::new();
        for cell in bulk().filter(|cell| rtt(cell) == rtt_s) {
            let Some(of_line) = cell.values.get("share_of_line").map(|s| s.median) else { continue };
            match shares.iter_mut().find(|share| share.load == cell.load) {
                Some(share) => share.of_line = share.of_line.min(of_line),
                None => shares.push(Share {
                    load: cell.load.clone(),
                    op: cell.op.clone(),
                    of_line,
                    unvalidated: cell.is_unvalidated(),
                    compared: cell.compared,
                }),
            }
        }
        let singles = || cells.iter().filter(|cell| !cell.bulk && is_paced(cell));
        // Where nothing is about throughput, the longest round trip of the others.
        let rtt_s = rtt_s.or_else(|| singles().filter_map(|c| rtt(&c)).max_by(f64::total_cmp));
        let repeats = || cells.iter().flat_map(|cell| &cell.repeats);
        let title = run.plan["title"].as_str().unwrap_or(&run.plan_name);
        RunSummary {
            title: title.to_owned(),
            rtt_s,
            shares,
            requests: requests(singles().filter(|cell| rtt(cell) == rtt_s)),
            valid: run.valid,
            invalid_repeats: repeats().filter(|repeat| !repeat.valid).count(),
            repeats: repeats().count(),
            unvalidated_repeats: repeats().filter(|repeat| repeat.valid && repeat.unvalidated).count(),
            failed_checks: run.checks.iter().filter(|check| !check.ok && check.value.is_some()).count(),
            unmeasured_checks: run.checks.iter().filter(|check| check.value.is_none()).count(),
            checks: run.checks.len(),
        }
    }
}

/// The slowest cell of each load.
fn requests<'a>(cells: impl Iterator<Item = &'a CellResult>) -> Vec<Requests> {
    let mut found: Vec<Requests> = Vec::new();
    for cell in cells {
        let median = |name: &str| cell.values.get(name).map(|spread| spread.median);
        let Some(latency_s) = median("latency_p50") else { continue };
        let slow = Requests {
            load: cell.load.clone(),
            latency_s,
            round_trips: median("turnaround"),
            unvalidated: cell.is_unvalidated(),
        };
        match found.iter_mut().find(|known| known.load == cell.load) {
            Some(known) if known.latency_s >= latency_s => {}
            Some(known) => *known = slow,
            None => found.push(slow),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spread;

    #[test]
    fn what_goes_without_pacing_is_there_for_comparison() {
        let cell = |pacing: &str, share: f64| {
            let spread = |value| Spread { median: value, min: value, max: value, repeats: 1 };
            CellResult {
                load: "read".to_owned(),
                bulk: true,
                point: [("read.pacing".to_owned(), pacing.to_owned())].into(),
                line: [("rtt", spread(0.5))].into(),
                values: [("share_of_line", spread(share))].into(),
                ..CellResult::default()
            }
        };
        let gist = RunSummary::of(&Run::default(), &[cell("true", 0.9), cell("false", 0.1)]);
        assert!((gist.shares[0].of_line - 0.9).abs() < 1e-9, "{gist:?}");
    }
}
