//! Connections that several taps show: each appears once, as seen nearest its initiator.

use std::cmp::Ordering;

use crate::summary::connection::ConnectionSummary;
use crate::summary::direction::DirectionSummary;
use crate::summary::dissection::Dissection;

/// Merges the summaries of each connection into the one of the tap nearest its initiator.
pub(crate) fn unique(connections: Vec<ConnectionSummary>) -> Vec<ConnectionSummary> {
    let mut merged: Vec<ConnectionSummary> = Vec::new();
    for connection in connections {
        let is_other_tap =
            |known: &&mut ConnectionSummary| !share_a_tap(known, &connection) && is_same(known, &connection);
        match merged.iter_mut().find(is_other_tap) {
            None => merged.push(connection),
            Some(known) => {
                let is_better = compare_taps(&connection, known) == Ordering::Less;
                let mut left_out = connection;
                if is_better {
                    std::mem::swap(known, &mut left_out);
                }
                known.also_at.append(&mut left_out.also_at);
                known.also_at.extend(left_out.directions.map(|direction| direction.interface));
                known.also_at.sort_unstable();
                known.also_at.dedup();
            }
        }
    }
    merged
}

/// Number of connections of `one` that are in `other` as well.
pub fn shared_connections(one: &Dissection, other: &Dissection) -> usize {
    let is_there = |connection: &&ConnectionSummary| other.connections.iter().any(|c| is_same(c, connection));
    one.connections.iter().filter(is_there).count()
}

fn share_a_tap(one: &ConnectionSummary, other: &ConnectionSummary) -> bool {
    let taps = other.directions.each_ref().map(|direction| direction.interface);
    one.directions.iter().any(|direction| taps.contains(&direction.interface))
}

fn is_same(one: &ConnectionSummary, other: &ConnectionSummary) -> bool {
    let same_ends = |a: &DirectionSummary, b: &DirectionSummary| a.from == b.from && a.to == b.to;
    let mut fits = None;
    for direction in &one.directions {
        let Some(others) = other.directions.iter().find(|others| same_ends(direction, others)) else {
            return false;
        };
        match direction.span.fits(&others.span) {
            Some(false) => return false,
            found => fits = fits.or(found),
        }
    }
    fits.unwrap_or(false)
}

/// Orders taps of a connection, the best one first: both directions seen, then near the initiator, then more packets.
fn compare_taps(one: &ConnectionSummary, other: &ConnectionSummary) -> Ordering {
    let lacks_direction = |c: &ConnectionSummary| c.directions.iter().any(|direction| direction.packets == 0);
    let distance_s = |c: &ConnectionSummary| c.directions[1].ack_rtt.map_or(f64::INFINITY, |rtt| rtt.min_s);
    let packets = |c: &ConnectionSummary| c.directions.iter().map(|direction| direction.packets).sum::<u64>();
    lacks_direction(one)
        .cmp(&lacks_direction(other))
        .then(distance_s(one).total_cmp(&distance_s(other)))
        .then(packets(other).cmp(&packets(one)))
}
