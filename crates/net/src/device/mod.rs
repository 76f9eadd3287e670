//! Network devices: addresses, offloads and queues of any device, TUN devices, and veth pairs in their place.

pub mod interface;
pub mod offload;
pub(crate) mod packet_ring;
pub mod qdisc;
pub(crate) mod rtnetlink;
pub mod tun;
pub mod veth;
