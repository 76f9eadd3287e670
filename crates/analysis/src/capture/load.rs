//! Load of a connection: direction, depth, and service time of its commands.

use dissect::{ConnectionSummary as Connection, DirectionSummary as Direction, IscsiSummary as Iscsi};

/// Largest share of the commands that overlap another one at an initiator with one command at a time.
const SERIAL: f64 = 0.05;

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
