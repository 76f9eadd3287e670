//! Placement of a packet among the connections between its endpoints: taps show a connection whole, or one direction
//! each as the two outputs of a mirror port do.

use wire::inet::Segment;

use crate::connection::TappedConnection;

/// Relation of a packet to the known connections between its endpoints. Numbers are indices of connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Placement {
    /// Belongs to this connection.
    Known(usize),
    /// Begins a direction that this connection has from no interface, or from now on has from another one.
    Joins(usize),
    /// Shows that its interface carries both directions: the direction that this connection has from that interface
    /// belongs to a connection of its own.
    Splits(usize),
    /// Begins another connection.
    New,
}

/// Places a packet from `interface`; `known` are the indices of the connections between its endpoints.
pub(crate) fn place(
    connections: &[TappedConnection],
    known: &[usize],
    segment: &Segment<'_>,
    interface: u32,
) -> Placement {
    let (mut both, mut first, mut free) = (None, None, None);
    for index in known {
        let connection = &connections[*index];
        let direction = connection.direction(segment);
        let [own, other] = [connection.taps[direction], connection.taps[1 - direction]];
        match (own, other == Some(interface)) {
            (Some(number), _) if number == interface => return Placement::Known(*index),
            (None, true) => both = both.or(Some(Placement::Joins(*index))),
            (Some(_), true) if connection.has(direction, segment) => {
                first = first.or(Some(Placement::Splits(*index)));
            }
            // The direction takes another route from now on.
            (Some(_), true) => first = first.or(Some(Placement::Joins(*index))),
            // A host shows a packet at one device after the other, from the upper one to the wire; its answer comes by
            // the wire first. So the answer at a further interface belongs to the tap that came last.
            (None, false) => free = Some(Placement::Joins(*index)),
            (Some(_), false) => {}
        }
    }
    both.or(first).or(free).unwrap_or(Placement::New)
}
