//! What a plan has recorded and drawn: tables and figures by their names.

use analysis::METRICS;
use document::{Entry, Problems, Scalar, instead};

use super::Plan;

/// A table that a run may have or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// Every packet of the path.
    Packets,
    /// Every PDU of one request in 256.
    Pdus,
    /// What the kernel's tracepoints say of every connection; it brings the packets with it.
    Kernel,
    /// Every PDU of every request.
    AllPdus,
}

/// Tables by name. The first three are always written: figures come from them.
const TABLES: &[(&str, Option<Table>)] = &[
    ("sockets", None),
    ("io", None),
    ("layers", None),
    ("pdus", Some(Table::Pdus)),
    ("all-pdus", Some(Table::AllPdus)),
    ("packets", Some(Table::Packets)),
    ("kernel", Some(Table::Kernel)),
];

/// Metrics that come from the table `kernel` alone.
const OF_KERNEL: &[&str] = &["cwr", "recoveries"];

/// A figure of the report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Drawing {
    /// One of those that are drawn over time.
    OverTime(&'static str),
    /// A metric of the loads against an axis of the matrix.
    By {
        /// Which metric.
        metric: &'static str,
        /// Which axis.
        axis: String,
    },
}

const OVER_TIME: &[(&str, &str)] = &[
    ("rate", "rate"),
    ("window", "window"),
    ("block", "block"),
    ("in-flight", "in-flight"),
    ("request", "request"),
    ("packets", "packets"),
    ("gaps", "gaps"),
    ("ends", "ends"),
];

impl Table {
    fn read(value: &Scalar) -> Result<Option<Table>, String> {
        value.word(TABLES)
    }

    /// As plans write it.
    pub const fn name(self) -> &'static str {
        match self {
            Table::Packets => "packets",
            Table::Pdus => "pdus",
            Table::Kernel => "kernel",
            Table::AllPdus => "all-pdus",
        }
    }

    /// Reads a list of them.
    pub(super) fn list(entry: &Entry<'_>, problems: &mut Problems<'_>) -> Vec<Table> {
        let mut tables = Vec::new();
        for (value, span) in entry.list(problems) {
            match Table::read(&value) {
                Ok(table) => tables.extend(table),
                Err(text) => problems.at(&span, format!("record: {text}")),
            }
        }
        tables
    }

    /// Those of a plan that does not say.
    pub(super) fn usual() -> Vec<Table> {
        vec![Table::Packets, Table::Pdus]
    }
}

impl Drawing {
    /// Reads `rate`, or `METRIC by AXIS` with one of these axes.
    pub(super) fn read(value: &Scalar, axes: &[&str]) -> Result<Drawing, String> {
        let text = value.text()?;
        let Some((metric, axis)) = text.split_once(" by ") else {
            let known = OVER_TIME.iter().map(|(name, _)| *name).chain(["throughput by delay"]);
            let hint = instead(text, known);
            let found = OVER_TIME.iter().find(|(name, _)| *name == text);
            return found.map(|(_, name)| Drawing::OverTime(name)).ok_or_else(|| {
                format!("there is no figure '{text}'; write rate, window, block, in-flight, request, packets, gaps, ends or METRIC by AXIS{hint}")
            });
        };
        let (metric, axis) = (metric.trim(), axis.trim());
        let metrics = || METRICS.iter().filter(|metric| !metric.of_line).map(|metric| metric.name);
        let Some(metric) = metrics().find(|known| *known == metric) else {
            return Err(format!("loads have no metric '{metric}'{}", instead(metric, metrics())));
        };
        match axes.contains(&axis) {
            true => Ok(Drawing::By { metric, axis: axis.to_owned() }),
            false => Err(format!("the matrix has no '{axis}'{}", instead(axis, axes.iter().copied()))),
        }
    }

    /// As plans write it.
    pub fn words(&self) -> String {
        match self {
            Drawing::OverTime(name) => (*name).to_owned(),
            Drawing::By { metric, axis } => format!("{metric} by {axis}"),
        }
    }
}

impl Plan {
    /// Whether a load of it has the kernel's tracepoints recorded, which only root may.
    pub fn traces_kernel(&self) -> bool {
        let loads = self.loads.iter().filter_map(|load| load.record.as_ref());
        loads.chain([&self.record]).any(|tables| tables.contains(&Table::Kernel))
    }

    /// The same without the kernel's tracepoints, and without the expectations that need them.
    pub fn without_kernel(mut self) -> Plan {
        let recorded = self.loads.iter_mut().filter_map(|load| load.record.as_mut());
        recorded.chain([&mut self.record]).for_each(|tables| tables.retain(|table| *table != Table::Kernel));
        let needs_kernel = |metric: &super::MetricName| OF_KERNEL.contains(&metric.metric.as_str());
        self.expects.retain(|expect| !expect.value.metrics().into_iter().any(needs_kernel));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Variant;

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
    fn a_load_has_tables_of_its_own_and_the_kernel_is_for_root() {
        let plan = Plan::parse(CLOSELY, Variant::Full).unwrap();
        assert!(plan.traces_kernel() && plan.record.is_empty());
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
