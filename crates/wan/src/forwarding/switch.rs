//! The switch at an end with several hosts: forwarding by destination address.
//!
//! Packets between hosts of one end cross the switch alone: they are delivered at once, without rate or delay, and
//! have no row in the table. Packets for an unknown address go to the first host of the other end.

use crate::{HostName, Side};

/// The switch between the hosts of one end and the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Switch {
    /// Which end.
    pub(crate) side: Side,
    /// Number of hosts at this end, and at the other.
    pub(crate) here: usize,
    pub(crate) there: usize,
}

/// Output of the switch for a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Route {
    /// Over the line, to a host of the other end.
    Line(u8),
    /// To a host of the same end.
    Switch(u8),
}

impl Switch {
    /// Output for a packet that a host of this end sent.
    pub(crate) fn route(&self, ip: &[u8]) -> Route {
        if self.here == 1 && self.there == 1 {
            return Route::Line(0);
        }
        let Some(name) = HostName::of_destination(ip) else { return Route::Line(0) };
        let (same, index) = (name.side() == self.side, name.index());
        match (same, index < if same { self.here } else { self.there }) {
            (true, true) => Route::Switch(index as u8),
            (false, true) => Route::Line(index as u8),
            (_, false) => Route::Line(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_goes_to_whose_address_it_has() {
        let to = |name: &str| {
            let address = name.parse::<HostName>().expect(name).ipv4();
            let mut ip = vec![0x45; 20];
            ip[16..].copy_from_slice(&address.octets());
            ip
        };
        for (side, here, there, name, expected) in [
            (Side::Near, 3, 2, "far2", Route::Line(1)),
            (Side::Near, 3, 2, "far3", Route::Line(0)),
            (Side::Near, 3, 2, "near3", Route::Switch(2)),
            (Side::Near, 3, 2, "near", Route::Switch(0)),
            (Side::Far, 3, 2, "near2", Route::Line(1)),
            (Side::Far, 2, 3, "far2", Route::Switch(1)),
            (Side::Near, 1, 1, "near", Route::Line(0)),
        ] {
            let switch = Switch { side, here, there };
            assert_eq!(switch.route(&to(name)), expected, "{switch:?} {name}");
        }
    }
}
