//! Tables and figures of a plan, by name.

use analysis::METRICS;
use document::{Entry, Problems, Scalar, instead};

/// Tables and figures of a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recording {
    /// Tables to record, besides those that figures come from.
    pub tables: Vec<Table>,
    /// Figures of the report, in order; `None` for the default ones.
    pub figures: Option<Vec<Drawing>>,
}

/// An optional table of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// Every packet of the path.
    Packets,
    /// Every PDU of one request in 256.
    Pdus,
    /// The kernel's tracepoints of every connection, with the packets.
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

/// A figure of the report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Drawing {
    /// A figure over time.
    OverTime(&'static str),
    /// A metric of the loads against an axis of the matrix.
    By {
        /// Name of the metric.
        metric: &'static str,
        /// Name of the axis.
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
    pub(in crate::plan) fn list(entry: &Entry<'_>, problems: &mut Problems<'_>) -> Vec<Table> {
        let mut tables = Vec::new();
        for (value, span) in entry.list(problems) {
            match Table::read(&value) {
                Ok(table) => tables.extend(table),
                Err(text) => problems.at(&span, format!("record: {text}")),
            }
        }
        tables
    }

    /// Default tables of a plan.
    pub(in crate::plan) fn usual() -> Vec<Table> {
        vec![Table::Packets, Table::Pdus]
    }
}

impl Drawing {
    /// Reads `rate`, or `METRIC by AXIS` with one of these axes.
    pub(in crate::plan) fn read(value: &Scalar, axes: &[&str]) -> Result<Drawing, String> {
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
