//! The figures of a cell by name, so that a plan's expectations can refer to them.
//!
//! A metric is addressed as `load.metric`: `read.throughput`, `write1m.excess_over_rtt_in_serialisations`.
//! The owner is the load's name in the plan, or `line` for what follows from the path alone. [`METRICS`]
//! lists every metric with its unit: seconds, bits per second, and plain counts and ratios.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::CellResult;

/// The owner of figures that follow from the path alone.
pub const LINE: &str = "line";

/// One kind of figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metric {
    /// Its name, without the owner.
    pub name: &'static str,
    /// Its unit: `bit/s`, `s`, `1/s`, `packets`, `bytes`, or empty for a ratio.
    pub unit: &'static str,
    /// What it is.
    pub meaning: &'static str,
    /// Whether it belongs to `line`; otherwise to loads.
    pub of_line: bool,
}

macro_rules! metrics {
    ([$($metric:expr,)*] of layers [$($layer:literal,)*]) => {
        /// Every metric there is.
        pub const METRICS: &[Metric] = &[
            $($metric,)*
            $(load(concat!("in_flight_max.", $layer), "", concat!("most requests of a session inside layer ", $layer)),)*
            $(load(concat!("gate.", $layer), "", concat!("1 if parallelism stops at layer ", $layer, ", else 0")),)*
        ];
        /// Names of the metrics of each layer, in the order of [`crate::layers::LAYERS`].
        pub(crate) const IN_FLIGHT_MAX: &[&str] = &[$(concat!("in_flight_max.", $layer),)*];
        /// Likewise.
        pub(crate) const GATE: &[&str] = &[$(concat!("gate.", $layer),)*];
    };
}

metrics!([
    line("goodput", "bit/s", "TCP payload the line can carry, computed"),
    line("rate", "bit/s", "rate of the line, Ethernet overhead included"),
    line("rtt", "s", "both ways of propagation"),
    line("bdp", "bytes", "bandwidth-delay product, rate × rtt"),
    load("throughput", "bit/s", "application bytes at the receiver, over the window"),
    load("share_of_line", "", "throughput / line.goodput"),
    load("throughput_min", "bit/s", "of the initiator that got least; with several"),
    load("throughput_max", "bit/s", "of the one that got most"),
    load("fairness", "", "Jain's index of what the initiators got: 1 if all got the same"),
    load("variation", "", "how much the seconds of the window differ: standard deviation / mean of their rates"),
    load("ramp", "s", "from the beginning until the line is 95 % full; absent if it never is"),
    load("calls_per_s", "1/s", "requests of all initiators that ended well in the window, per second"),
    load("packets_per_read", "packets", "packets on the path, both ways, per request that ended in the window"),
    load("iops", "1/s", "requests issued in the window that ended well, per second"),
    load("latency_min", "s", "smallest latency, from issue until the caller is told"),
    load("latency_mean", "s", "mean latency"),
    load("latency_p50", "s", "median latency"),
    load("latency_p90", "s", "90th percentile of latency"),
    load("latency_p99", "s", "99th percentile of latency"),
    load("latency_p999", "s", "99.9th percentile of latency"),
    load("latency_max", "s", "largest latency"),
    load("base_rtt", "s", "smallest round trip TCP saw"),
    load("turnaround", "", "median latency in round trips of base_rtt"),
    load("excess_over_rtt", "s", "median latency less one base_rtt"),
    load("serialisation", "s", "time the line needs for one block"),
    load("excess_over_rtt_in_serialisations", "", "excess_over_rtt / serialisation"),
    load("cpu_near_per_io", "s", "CPU time of the initiator per request"),
    load("cpu_far_per_io", "s", "CPU time of our target per request"),
    load("cpu_sender", "", "CPU time of the end that sends / time of the load: 1 is one processor"),
    load("cpu_receiver", "", "the same of the end that receives; of a target only if it is ours"),
    load("cpu_path", "", "the same of the emulated path, without what it spent waiting"),
    load("window_sender", "bytes", "middle congestion window of the connection that sent most"),
    load("window_receiver", "bytes", "middle window that its receiver offered"),
    load("connections", "", "TCP connections of each session when the load ended; beside others as many shares"),
    load("retransmitted", "packets", "retransmitted by either end during the load"),
    load("local_cuts", "", "times that either end's own device, being full, cut a congestion window"),
    load("other_cuts", "", "times that losses, marks or timeouts cut a congestion window of either end"),
    load("cwr", "", "times that the kernel says it came into the state CWR, in which it cuts for a full device"),
    load("recoveries", "", "times that it says it came into the states Recovery and Loss, in which it cuts for losses"),
    load("cause.serialisation", "", "1 if the gaps between packets show one packet's time on the line, else 0"),
    load("cause.tick", "", "1 if they show a host's timer tick"),
    load("cause.coalescing", "", "1 if they show a card that holds its interrupts back"),
    load("cause.merging", "", "1 if those of acknowledgements show a line that packs small frames together"),
    load("cause.emulator", "", "1 if they show that the emulator was late"),
    load("merging_period", "s", "period of the line that packs acknowledgements together"),
    load("acks_together", "", "share of acknowledgements that the path hands over together with the one before"),
    load("ack_compression", "", "spacing of acknowledgements where sent / where they come, of one pair in ten"),
    load("data_gap_p50", "s", "middle gap between packets of data, behind the path"),
    load("data_gap_p99", "s", "gap that one in a hundred of them exceeds"),
    load("data_lattice", "", "how far data behind the path lie on the lattice of merged acknowledgements: 0 to 1"),
    load("ack_gap_p50", "s", "middle gap between acknowledgements, behind the path"),
    load("unaccounted", "packets", "packets whose way past both taps of the path is not known"),
    load("dropped_queue_full", "packets", "dropped by the path's full queue"),
    load("lateness_p50", "s", "median lateness of the emulated path"),
    load("lateness_p99", "s", "99th percentile of its lateness"),
    load("lateness_max", "s", "its largest lateness"),
] of layers [
    "call", "scsi", "queued", "granted", "started", "socket", "tcp", "wire", "outward", "received", "parsed",
    "executed", "store", "answering", "homeward",
]);

/// Median and range over the valid repeats of a cell.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Spread {
    /// Median; the mean of the two middle ones for an even number.
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// How many repeats it is of.
    pub repeats: usize,
}

/// The figures of all cells of a run.
#[derive(Clone, Copy, Debug)]
pub struct Metrics<'a> {
    pub(crate) cells: &'a [CellResult],
}

const fn line(name: &'static str, unit: &'static str, meaning: &'static str) -> Metric {
    Metric { name, unit, meaning, of_line: true }
}

const fn load(name: &'static str, unit: &'static str, meaning: &'static str) -> Metric {
    Metric { name, unit, meaning, of_line: false }
}

impl Metric {
    /// Finds a metric by `owner.name`; the owner may be any load's name.
    pub fn named(owner: &str, name: &str) -> Option<&'static Metric> {
        METRICS.iter().find(|metric| metric.name == name && metric.of_line == (owner == LINE))
    }
}

impl Metrics<'_> {
    /// The median of `owner.metric` at a point of the matrix; see [`Metrics::spread`].
    pub fn value(&self, point: &[(String, String)], name: &str) -> Option<f64> {
        self.spread(point, name).map(|spread| spread.median)
    }

    /// Median and range of `owner.metric` (such as `read.throughput`) at a point of the matrix, given as
    /// axes and their values as written in the plan (`("delay", "8ms")`). Axes that a cell does not have
    /// do not matter to it. `None` if the name is unknown, no valid repeat has the figure, or the point
    /// leaves open which of several cells (for `line`: paths) is meant.
    pub fn spread(&self, point: &[(String, String)], name: &str) -> Option<Spread> {
        let (owner, metric) = name.split_once('.')?;
        let load = (owner != LINE).then_some(owner);
        self.figure(point, load, owner == LINE, metric)
    }

    /// The median of a figure of the path that `load` had at a point of the matrix.
    pub fn line_of(&self, point: &[(String, String)], load: &str, metric: &str) -> Option<f64> {
        self.figure(point, Some(load), true, metric).map(|spread| spread.median)
    }

    /// `owner.metric` of a load in one valid repeat at a point of the matrix; otherwise as [`Metrics::value`].
    pub fn in_repeat(&self, point: &[(String, String)], name: &str, repeat: u32) -> Option<f64> {
        let (owner, metric) = name.split_once('.')?;
        let mut cells = self.cells.iter().filter(|cell| cell.load == owner && is_at(cell, point));
        let (Some(cell), None) = (cells.next(), cells.next()) else { return None };
        let valid = cell.repeats.iter().find(|known| known.valid && known.repeat == repeat)?;
        valid.values.get(metric).copied()
    }

    fn figure(
        &self,
        point: &[(String, String)],
        load: Option<&str>,
        of_line: bool,
        metric: &str,
    ) -> Option<Spread> {
        let agrees = |cell: &&CellResult| load.is_none_or(|load| cell.load == load) && is_at(cell, point);
        // A load with a path of its own lacks the point's axes that others have: the line at the point is theirs.
        let axes = |cell: &CellResult| point.iter().filter(|(axis, _)| cell.point.contains_key(axis)).count();
        let most = self.cells.iter().filter(agrees).map(axes).max()?;
        let theirs = |cell: &&CellResult| !of_line || load.is_some() || axes(cell) == most;
        let mut cells = self.cells.iter().filter(agrees).filter(theirs);
        let first = cells.next()?;
        let values = |cell: &CellResult| {
            let values = if of_line { &cell.line } else { &cell.values };
            values.get(metric).copied()
        };
        let same = |other: &CellResult| of_line && values(other) == values(first);
        if cells.all(same) { values(first) } else { None }
    }
}

/// Whether a cell agrees with a point on every axis that it has.
fn is_at(cell: &CellResult, point: &[(String, String)]) -> bool {
    point.iter().all(|(axis, value)| cell.point.get(axis).is_none_or(|known| known == value))
}

impl Spread {
    /// Of at least one value.
    pub(crate) fn of(values: &[f64]) -> Option<Spread> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Spread { median: f64::midpoint(low, high), min, max, repeats: sorted.len() })
    }
}

/// Spreads of every metric that some repeat has.
pub(crate) fn spreads<'a>(
    repeats: impl Iterator<Item = &'a BTreeMap<&'static str, f64>>,
) -> BTreeMap<&'static str, Spread> {
    let mut lists: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    for values in repeats {
        values.iter().for_each(|(name, value)| lists.entry(name).or_default().push(*value));
    }
    lists.into_iter().filter_map(|(name, values)| Some((name, Spread::of(&values)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Repeat;

    fn cell(load: &str, point: &[(&str, &str)], throughput: f64, goodput: f64) -> CellResult {
        let one = |name, value| BTreeMap::from([(name, Spread::of(&[value]).unwrap())]);
        CellResult {
            load: load.to_owned(),
            point: point.iter().map(|(a, v)| ((*a).to_owned(), (*v).to_owned())).collect(),
            values: one("throughput", throughput),
            line: one("goodput", goodput),
            ..CellResult::default()
        }
    }

    fn point(axes: &[(&str, &str)]) -> Vec<(String, String)> {
        axes.iter().map(|(a, v)| ((*a).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn figures_are_found_by_load_and_place() {
        let cells = [
            cell("read", &[("delay", "8ms")], 1.0, 9.0),
            cell("read", &[("delay", "50ms")], 2.0, 9.0),
            cell("write", &[("delay", "8ms")], 3.0, 9.0),
        ];
        let metrics = Metrics { cells: &cells };
        let far = point(&[("delay", "50ms")]);
        assert_eq!(metrics.value(&far, "read.throughput"), Some(2.0));
        assert_eq!(metrics.value(&point(&[("delay", "50ms"), ("depth", "1")]), "read.throughput"), Some(2.0));
        assert_eq!(metrics.value(&[], "read.throughput"), None, "which delay?");
        assert_eq!(metrics.value(&[], "write.throughput"), Some(3.0));
        assert_eq!(metrics.value(&[], "line.goodput"), Some(9.0), "the same on all paths");
        assert_eq!(metrics.line_of(&far, "read", "goodput"), Some(9.0));
        assert_eq!(metrics.line_of(&far, "write", "goodput"), None, "it never ran there");
        for name in ["write.throughput", "read.colour", "line.throughput", "read"] {
            assert_eq!(metrics.value(&far, name), None, "{name}");
        }
    }

    #[test]
    fn a_figure_of_one_repeat_is_that_of_a_valid_one() {
        let repeat = |repeat, valid, throughput| Repeat {
            repeat,
            valid,
            values: BTreeMap::from([("throughput", throughput)]),
            ..Repeat::default()
        };
        let with = |delay| CellResult {
            repeats: vec![repeat(1, true, 5.0), repeat(2, false, 6.0), repeat(4, true, 7.0)],
            ..cell("read", &[("delay", delay)], 5.0, 9.0)
        };
        let cells = [with("8ms"), with("50ms")];
        let metrics = Metrics { cells: &cells };
        let far = point(&[("delay", "50ms"), ("depth", "1")]);
        let found = [1, 2, 3, 4].map(|repeat| metrics.in_repeat(&far, "read.throughput", repeat));
        assert_eq!(found, [Some(5.0), None, None, Some(7.0)]);
        assert_eq!(metrics.in_repeat(&[], "read.throughput", 1), None, "which delay?");
        assert_eq!(metrics.in_repeat(&far, "read.colour", 1), None);
    }

    #[test]
    fn the_line_at_a_point_is_that_of_the_loads_which_vary_there() {
        let cells = [
            cell("read", &[("delay", "8ms")], 1.0, 9.0),
            cell("read", &[("delay", "50ms")], 2.0, 8.0),
            cell("tunnel", &[], 3.0, 7.0),
        ];
        let metrics = Metrics { cells: &cells };
        let far = point(&[("delay", "50ms")]);
        assert_eq!(metrics.value(&far, "line.goodput"), Some(8.0));
        assert_eq!(metrics.line_of(&far, "tunnel", "goodput"), Some(7.0), "its own");
        assert_eq!(metrics.value(&[], "line.goodput"), None, "whose?");
    }

    #[test]
    fn medians() {
        assert_eq!(
            Spread::of(&[3.0, 1.0, 2.0]),
            Some(Spread { median: 2.0, min: 1.0, max: 3.0, repeats: 3 })
        );
        assert_eq!(Spread::of(&[4.0, 1.0]).unwrap().median, 2.5);
        assert_eq!(Spread::of(&[f64::NAN]), None);
    }

    #[test]
    fn names_are_unique_and_found() {
        for metric in METRICS {
            let owner = if metric.of_line { LINE } else { "read" };
            assert_eq!(Metric::named(owner, metric.name), Some(metric));
        }
        assert_eq!(Metric::named("line", "throughput"), None);
        for (n, layer) in crate::layers::LAYERS.iter().enumerate() {
            assert_eq!(IN_FLIGHT_MAX[n].strip_prefix("in_flight_max."), Some(layer.name));
            assert_eq!(GATE[n].strip_prefix("gate."), Some(layer.name));
        }
        assert_eq!((IN_FLIGHT_MAX.len(), GATE.len()), (crate::layers::LAYERS.len(), IN_FLIGHT_MAX.len()));
    }
}
