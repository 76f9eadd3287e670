//! Names and units of all metrics: one line a metric.

/// The owner of figures that follow from the path alone.
pub const LINE: &str = "line";

/// One metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metric {
    /// Name, without the owner.
    pub name: &'static str,
    /// Unit: `bit/s`, `s`, `1/s`, `packets`, `bytes`, or empty for a ratio.
    pub unit: &'static str,
    /// Meaning, for the list of metrics.
    pub meaning: &'static str,
    /// True if it belongs to `line`; otherwise to loads.
    pub of_line: bool,
}

macro_rules! metrics {
    ([$($metric:expr,)*] of layers [$($layer:literal,)*]) => {
        /// All metrics.
        pub const METRICS: &[Metric] = &[
            $($metric,)*
            $(load(concat!("in_flight_max.", $layer), "", concat!("most requests of a session inside layer ", $layer)),)*
            $(load(concat!("gate.", $layer), "", concat!("1 if parallelism stops at layer ", $layer, ", else 0")),)*
        ];
        /// Names of the metrics of each layer, in the order of [`crate::layers::LAYERS`].
        pub(crate) const IN_FLIGHT_MAX: &[&str] = &[$(concat!("in_flight_max.", $layer),)*];
        /// Names of the metrics of the limiting layer, in the same order.
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
    load("latency_min", "s", "smallest latency, from issue to completion"),
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
    load("retransmitted_share", "", "retransmitted packets / packets sent by the sender, over the window"),
    load("congestion_changes", "", "changes of the sender's congestion control by its policy during the load"),
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

#[cfg(test)]
mod tests {
    use super::*;

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
