//! Packets of a capture file: its decoder loop, its interfaces, its first packets, the TCP segment of a packet.

pub(crate) mod file;
pub(crate) mod first;
pub(crate) mod interfaces;
pub(crate) mod packet_ref;
pub(crate) mod segment;
