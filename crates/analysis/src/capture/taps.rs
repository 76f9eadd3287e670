//! Where a connection was seen: at one interface, one direction at each of two as a mirror shows it, or whole at several.
//!
//! While packets come, those of an interface are held to go with another's as long as each shows one direction. When
//! everything was read, a connection that several taps saw is told once, as seen nearest its initiator.

use std::cmp::Ordering;

use wire::inet::Segment;

use super::flow::Flow;
use super::result::{Capture, Connection, Direction};

/// What a packet is to the flows that are known of its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tap {
    /// It belongs to this one.
    Of(usize),
    /// It is the first of a direction that this one has not from anywhere, or now has from another interface.
    Joins(usize),
    /// Its interface shows both directions: what this one had from there belongs to a flow of its own.
    Splits(usize),
    /// It begins another one.
    New,
}

/// What a packet from `interface` is to the flows at `places`.
pub(super) fn tap(flows: &[Flow], places: &[usize], segment: &Segment<'_>, interface: u32) -> Tap {
    let (mut both, mut first, mut free) = (None, None, None);
    for place in places {
        let flow = &flows[*place];
        let direction = flow.direction(segment);
        let [own, other] = [flow.taps[direction], flow.taps[1 - direction]];
        match (own, other == Some(interface)) {
            (Some(number), _) if number == interface => return Tap::Of(*place),
            (None, true) => both = both.or(Some(Tap::Joins(*place))),
            (Some(_), true) if flow.has(direction, segment) => first = first.or(Some(Tap::Splits(*place))),
            // The same connection goes another way from now on.
            (Some(_), true) => first = first.or(Some(Tap::Joins(*place))),
            (None, false) => free = free.or(Some(Tap::Joins(*place))),
            (Some(_), false) => {}
        }
    }
    both.or(first).or(free).unwrap_or(Tap::New)
}

/// Which bytes of a direction were seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Span {
    /// Sequence number of the first; `None` if there was no packet.
    pub(super) first_seq: Option<u32>,
    /// How many numbers follow.
    pub(super) len: u64,
    /// Whether the connection's beginning was among them.
    pub(super) syn: bool,
}

impl Span {
    /// Whether both may be of one connection; `None` if there is nothing to compare.
    fn fits(&self, other: &Span) -> Option<bool> {
        let (own, others) = (self.first_seq?, other.first_seq?);
        if self.syn && other.syn {
            return Some(own == others);
        }
        let behind = |from: u32, to: u32| u64::from(to.wrapping_sub(from));
        Some(behind(own, others) <= self.len || behind(others, own) <= other.len)
    }
}

/// Each connection once: of those that several taps saw, the one that was seen nearest its initiator.
pub(super) fn told_once(connections: Vec<Connection>) -> Vec<Connection> {
    let mut told: Vec<Connection> = Vec::new();
    for connection in connections {
        let other = |known: &&mut Connection| !share_a_tap(known, &connection) && is_same(known, &connection);
        match told.iter_mut().find(other) {
            None => told.push(connection),
            Some(known) => {
                let is_better = nearness(&connection, known) == Ordering::Less;
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
    told
}

/// How many connections of one capture are in another one as well.
pub fn shared(one: &Capture, other: &Capture) -> usize {
    let is_there = |connection: &&Connection| other.connections.iter().any(|c| is_same(c, connection));
    one.connections.iter().filter(is_there).count()
}

fn share_a_tap(one: &Connection, other: &Connection) -> bool {
    let taps = other.directions.each_ref().map(|direction| direction.interface);
    one.directions.iter().any(|direction| taps.contains(&direction.interface))
}

fn is_same(one: &Connection, other: &Connection) -> bool {
    let same_way = |a: &Direction, b: &Direction| a.from == b.from && a.to == b.to;
    let mut fits = None;
    for direction in &one.directions {
        let Some(others) = other.directions.iter().find(|others| same_way(direction, others)) else {
            return false;
        };
        match direction.span.fits(&others.span) {
            Some(false) => return false,
            found => fits = fits.or(found),
        }
    }
    fits.unwrap_or(false)
}

/// Less comes first: who saw both directions, then from nearer to who is named first, then more.
fn nearness(one: &Connection, other: &Connection) -> Ordering {
    let is_half = |c: &Connection| c.directions.iter().any(|direction| direction.packets == 0);
    let distance_s = |c: &Connection| c.directions[1].ack_rtt.map_or(f64::INFINITY, |rtt| rtt.min_s);
    let packets = |c: &Connection| c.directions.iter().map(|direction| direction.packets).sum::<u64>();
    let by_distance = is_half(one).cmp(&is_half(other)).then(distance_s(one).total_cmp(&distance_s(other)));
    by_distance.then(packets(other).cmp(&packets(one)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(first_seq: u32, len: u64, syn: bool) -> Span {
        Span { first_seq: Some(first_seq), len, syn }
    }

    #[test]
    fn spans_overlap_also_over_the_wrap() {
        let check = |one: Span, other: Span, expected| {
            assert_eq!([one.fits(&other), other.fits(&one)], [expected; 2], "{one:?} {other:?}");
        };
        check(span(10, 100, true), span(10, 5, true), Some(true));
        check(span(10, 100, true), span(11, 5, true), Some(false));
        check(span(10, 100, true), span(50, 500, false), Some(true));
        check(span(10, 100, true), span(111, 500, false), Some(false));
        check(span(u32::MAX - 5, 100, false), span(20, 10, false), Some(true));
        check(span(0, 1 << 40, false), span(1 << 31, 0, false), Some(true));
        check(span(0, 10, false), Span::default(), None);
    }
}
