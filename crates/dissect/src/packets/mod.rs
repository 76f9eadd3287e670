//! Packets of a capture file: its decoder loop, its interfaces, its first packets, the TCP segment of a packet, their
//! order, copies of them, fragments, and all that is not TCP.

pub(crate) mod census;
pub(crate) mod copies;
pub(crate) mod file;
pub(crate) mod file_edge;
pub(crate) mod first;
pub(crate) mod fragments;
pub(crate) mod interfaces;
pub(crate) mod order;
pub(crate) mod packet_ref;
pub(crate) mod segment;
mod store;
pub(crate) mod time_span;
pub(crate) mod window;
