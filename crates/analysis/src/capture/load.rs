//! Load of a connection: direction, depth, and service time of its commands.

use diagnosis::Performance;
use dissect::{
    ConnectionSummary as Connection, DirectionSummary as Direction, Durations, IscsiSummary as Iscsi, TimeUse,
};

/// Largest share of the commands that overlap another one at an initiator with one command at a time.
const SERIAL: f64 = 0.05;

/// Load of a connection: number and size of its requests, those outstanding, and their time at the target.
#[derive(Clone, Copy)]
pub(super) struct Load<'a> {
    /// The direction that carries the data.
    pub(super) data: &'a Direction,
    pub(super) is_write: bool,
    /// Requests with data.
    pub(super) requests: u64,
    pub(super) request_bytes: f64,
    /// Completed commands, with data or without, and the mean of their bytes: those of Little's law.
    pub(super) commands: f64,
    pub(super) command_bytes: f64,
    /// Requests outstanding at the initiator, mean.
    pub(super) outstanding: f64,
    /// From a request, or the last data of a write, to the answer, the way from the tap to the target included.
    pub(super) turn: Option<Durations>,
    /// From the initiator to the target and back in seconds; `None` if one of the two ways is not known.
    pub(super) rtt_s: Option<f64>,
}

impl<'a> Load<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        iscsi: &Iscsi,
        time: TimeUse,
        current: Performance,
    ) -> Self {
        let told = &iscsi.commands;
        let data = data_direction(connection);
        let is_write = data.from == connection.directions[0].from;
        let moved = [told.read_service, told.write_service].into_iter().flatten();
        let timed = moved.map(|service| service.count).sum::<u64>();
        // Commands without data, and those with a hidden header, are not among the timed ones.
        let others = told.other_service.map_or(0, |service| service.count);
        let counted = told.completed.estimate().map_or(timed, |completed| completed.saturating_sub(others));
        let requests = if told.inferred > 0 { counted.max(timed) } else { timed };
        let bytes = (told.read_bytes + told.written_bytes) as f64;
        let request_bytes = bytes / requests.max(1) as f64;
        let commands = told.completed.estimate().unwrap_or(0).max(1) as f64;
        let command_bytes = bytes / commands;
        // Little's law, where statuses may have been missed.
        let by_little = current.bytes_per_s * current.latency_s / request_bytes.max(1.0);
        let outstanding = outstanding(iscsi, time).unwrap_or(by_little);
        let turn = if is_write { told.status_turn } else { told.first_answer };
        let ways = iscsi.network_to_target_s.zip(iscsi.network_to_initiator_s);
        let rtt_s = ways.map(|(to_target_s, to_initiator_s)| to_target_s + to_initiator_s);
        Self { data, is_write, requests, request_bytes, commands, command_bytes, outstanding, turn, rtt_s }
    }
}

/// Commands that the initiator has outstanding on average: those in flight at the tap, and those whose answer, or the
/// command itself, is between the tap and the initiator (Little's law).
pub(super) fn outstanding(iscsi: &Iscsi, time: TimeUse) -> Option<f64> {
    let told = &iscsi.commands;
    let per_s = told.completed.estimate()? as f64 / time.length_s.max(f64::MIN_POSITIVE);
    Some(told.in_flight?.mean + per_s * iscsi.network_to_initiator_s.unwrap_or(0.0))
}

/// The direction that carries the data.
pub(super) fn data_direction(connection: &Connection) -> &Direction {
    let [initiator, target] = &connection.directions;
    if initiator.payload_bytes > target.payload_bytes { initiator } else { target }
}

/// True if the initiator waits for each answer before it sends the next command; `None` if too few headers are visible.
pub(super) fn is_serial(iscsi: &Iscsi) -> Option<bool> {
    let sent = iscsi.commands.sent.estimate().unwrap_or(0) as f64;
    iscsi.commands.overlapping.map(|overlapping| overlapping as f64 <= SERIAL * sent)
}

/// Mean service time in seconds of the commands of which both headers are visible.
pub(super) fn service_s(iscsi: &Iscsi) -> Option<f64> {
    let commands = &iscsi.commands;
    let services = [commands.read_service, commands.write_service, commands.other_service];
    let (count, sum_s) = services.iter().flatten().fold((0.0, 0.0), |(count, sum_s), service| {
        (count + service.count as f64, sum_s + service.count as f64 * service.mean_s)
    });
    (count > 0.0).then(|| sum_s / count)
}
