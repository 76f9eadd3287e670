//! Commands that the target had no room for: BUSY and TASK SET FULL (SAM-5 section 5.3.1).
//!
//! A target that answers TASK SET FULL has no room until one of its commands ends, and BUSY is to be tried again later. So the
//! time from such a status to the next one of another kind is that of its queue (`TimeUse::refused_s`).

use diagnosis::Evidence;
use dissect::{ConnectionEvent, ConnectionSummary as Connection, EventSummary, IscsiSummary as Iscsi};

/// Numbers that show the refusals.
pub(super) fn evidence(connection: &Connection, iscsi: &Iscsi) -> Vec<Evidence> {
    let refused = refusals(connection).map(|event| event.count).sum::<u64>() as f64;
    let seen = "connections.events";
    let mut shown = vec![Evidence::new("commands refused, BUSY or TASK SET FULL", refused, "", seen)];
    if let Some(sent) = iscsi.commands.sent.estimate().filter(|sent| *sent > 0) {
        let both = "connections.events, iscsi.commands.sent";
        shown.push(Evidence::new("share of those in all commands", refused / sent as f64, "", both));
    }
    let outstanding = || refusals(connection).filter_map(|event| Some((event.count, event.outstanding?)));
    let least = outstanding().map(|(_, at)| at.least).min();
    let sum = outstanding().map(|(count, at)| count as f64 * at.mean).sum::<f64>();
    let seen = "connections.events.outstanding";
    shown.extend(least.into_iter().flat_map(|least| {
        [
            Evidence::new("commands outstanding when one was refused, fewest", least as f64, "", seen),
            Evidence::new(
                "commands outstanding when one was refused, mean",
                sum / refused.max(1.0),
                "",
                seen,
            ),
        ]
    }));
    let refused_s = iscsi.time.map_or(0.0, |time| time.refused_s);
    shown.push(Evidence::new("time from refusals to another status", refused_s, "s", "iscsi.time.refused_s"));
    shown
}

/// Fewest commands outstanding at which the target refused one. TASK SET FULL goes before BUSY, which has other reasons as
/// well, and with one outstanding other sessions have filled the target.
pub(super) fn refused_at(connection: &Connection) -> Option<f64> {
    let least = |wanted: ConnectionEvent| {
        let events = refusals(connection).filter(move |event| event.event == wanted);
        events.filter_map(|event| event.outstanding).map(|at| at.least as f64).reduce(f64::min)
    };
    least(ConnectionEvent::TaskSetFull).or_else(|| least(ConnectionEvent::Busy)).filter(|least| *least > 1.0)
}

fn refusals(connection: &Connection) -> impl Iterator<Item = &EventSummary> {
    connection.events.iter().filter(|event| event.event.is_refusal())
}
