//! The layers of the path: the two hand-overs between which a request is inside each of them.
//!
//! A layer begins where a request is handed down to it and ends where it is handed back, so an inner layer never holds
//! more than its outer one. A layer with a `part_of` is a part of that one. Layers between the hosts begin at one and
//! end at the other.

use super::stamp::Stamp;

/// One layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layer {
    /// Its name, as in metrics and plans (`in_flight_max.granted`).
    pub name: &'static str,
    /// Title in drawings.
    pub title: &'static str,
    /// The layer that is opened into this one and others.
    pub part_of: Option<&'static str>,
    /// A request is inside from here on.
    pub enter: Stamp,
    /// Hand-over that ends it.
    pub leave: Stamp,
}

const fn layer(name: &'static str, title: &'static str, enter: Stamp, leave: Stamp) -> Layer {
    Layer { name, title, part_of: None, enter, leave }
}

const fn part(
    name: &'static str,
    of: &'static str,
    title: &'static str,
    enter: Stamp,
    leave: Stamp,
) -> Layer {
    Layer { name, title, part_of: Some(of), enter, leave }
}

/// Every layer, in the order in which a request meets them.
pub const LAYERS: &[Layer] = &[
    layer("call", "call", Stamp::Called, Stamp::Completed),
    layer("scsi", "SCSI", Stamp::Scsi, Stamp::Completed),
    layer("queued", "iSCSI: queued", Stamp::Queued, Stamp::Status),
    part("granted", "queued", "iSCSI: window granted", Stamp::Granted, Stamp::Status),
    part("started", "queued", "iSCSI: send started", Stamp::Started, Stamp::Status),
    part("socket", "queued", "iSCSI: in the socket", Stamp::Socketed, Stamp::Status),
    layer("tcp", "TCP: queued to the device", Stamp::NearTcpQueued, Stamp::Status),
    part("wire", "tcp", "TCP: on the wire, not acknowledged", Stamp::NearTcpWire, Stamp::NearTcpAcked),
    layer("outward", "on the way to the target", Stamp::Socketed, Stamp::Received),
    layer("received", "target: received", Stamp::Received, Stamp::Answered),
    part("parsed", "received", "target: parsed, in order", Stamp::Parsed, Stamp::Answered),
    part("executed", "received", "target: SCSI", Stamp::Executed, Stamp::Answered),
    part("store", "received", "target: store", Stamp::StoreBegin, Stamp::StoreEnd),
    layer("answering", "target: answer queued", Stamp::Answered, Stamp::Sent),
    layer("homeward", "on the way back", Stamp::Sent, Stamp::Status),
];

/// The layers that can limit parallelism, in order. Distance spreads requests out between the hosts, so the target
/// begins a chain of its own. The layers of one chain end together: a smaller number inside an inner one is the number
/// that waits in front of it.
pub(super) const GATES: [&[&str]; 2] = [
    &["call", "scsi", "queued", "granted", "started", "socket", "tcp"],
    &["received", "parsed", "executed", "store"],
];

impl Layer {
    /// The layer of a name.
    pub fn named(name: &str) -> Option<&'static Layer> {
        LAYERS.iter().find(|layer| layer.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_parts_and_gates_are_layers() {
        for (n, layer) in LAYERS.iter().enumerate() {
            assert_eq!(LAYERS.iter().position(|l| l.name == layer.name), Some(n));
            assert!(layer.part_of.is_none_or(|name| Layer::named(name).is_some()));
            assert!(layer.enter < layer.leave, "{}", layer.name);
        }
        assert!(GATES.iter().flat_map(|chain| chain.iter()).all(|name| Layer::named(name).is_some()));
    }
}
