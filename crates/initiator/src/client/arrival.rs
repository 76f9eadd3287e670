//! Setup of connections that have just logged in, and their records.

use engine::Connection;
use event::{Host, Instant, Login};
use proto::initiator::Session;

use crate::options::Options;
use crate::session::connection::Line;
use crate::session::payload::{Payload, Place};
use crate::tables::Tables;

/// Wraps connections, of which the first has the CID `first`.
pub(super) fn lines(
    connections: Vec<Connection<Place, Payload>>,
    first: u16,
    tables: &Tables,
    now: Instant,
) -> Vec<Line> {
    let is_stamped = tables.tracer().is_some_and(|tracer| tracer.sampling().pdus > 0);
    let line = |(cid, mut connection): (u16, Connection<Place, Payload>)| {
        if is_stamped {
            // Without the kernel's timestamps the other data remain valid.
            let _ = connection.start_stamping();
        }
        Line::new(connection, cid, now)
    };
    (first..).zip(connections).map(line).collect()
}

/// Records the login parameters of a session's connections.
pub(super) fn note_logins(
    lines: &[Line],
    session: &Session,
    (number, options): (u64, &Options),
    tables: &Tables,
    now: Instant,
) {
    let Some(tracer) = tables.tracer() else { return };
    let count = |number: Option<usize>| number.map_or(0, |n| u32::try_from(n).unwrap_or(u32::MAX));
    let (caller_depth, queue_limit) = (count(options.depth), count(options.queue_limit));
    for line in lines {
        let cid = u32::from(line.port.cid);
        let agreed = Login {
            session: number,
            cid,
            caller_depth,
            queue_limit,
            ..session.params().recorded(Host::Near)
        };
        // A broken socket is detected soon enough without an error here.
        if let Ok(row) = line.connection.login(now, agreed) {
            tracer.login(&row);
        }
    }
}
