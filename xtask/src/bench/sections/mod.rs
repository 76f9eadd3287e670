//! Every comparison, in the order in which they run.

mod analysis;
mod analyze;
pub(super) mod capture;
mod example;
mod flood;
mod gaps;
mod memory;
mod page;
mod stream;
mod tgt;
mod trace;
mod untraced;

use super::section::Section;

pub(super) const SECTIONS: &[Section] = &[
    Section::new("stream", &["iperf3"], stream::run).against(&[], stream::against),
    Section::new("tgt", &["iscsi-perf", "tgtd", "tgtadm"], tgt::run).against(&["iscsi-perf"], tgt::against),
    Section::new("memory", &[], memory::run).against(&[], memory::against),
    Section::new("analysis", &[], analysis::run),
    Section::new("analyze", &[], analyze::run).against(&[], analyze::against),
    Section::new("flood", &[], flood::run).against(&[], flood::against),
    Section::new("requests", &[], flood::run_requests).against(&[], flood::against_requests),
    Section::new("trace", &[], trace::run).against(&[], trace::against),
    Section::new("untraced", &[], untraced::run),
    Section::new("capture", &["iperf3", "tcpdump"], capture::run),
    Section::new("gaps", &[], gaps::run),
    Section::new("page", &[], page::run),
];
