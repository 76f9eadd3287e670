//! The TCP segment of a packet and the endpoints of its connection.

use std::net::SocketAddr;

use wire::inet::Segment;
use wire::inet::encapsulation::{Content, decapsulate};
use wire::pcap::Packet;

/// Largest plausible payload of a segment, in bytes; segmentation offload makes no larger ones.
pub(crate) const SEGMENT_MAX: usize = 1 << 20;

/// The TCP segment in a packet of a file.
pub(crate) fn tcp_segment<'a>(packet: &Packet<'a>) -> Option<Segment<'a>> {
    let Content::Tcp(inner) = decapsulate(packet.link, packet.bytes) else { return None };
    let segment = Segment::parse(packet.bytes.get(inner.ip_at..)?, packet.len.saturating_sub(inner.ip_at));
    segment.filter(|segment| segment.len <= SEGMENT_MAX)
}

/// Both endpoints in ascending order, the same for both directions.
pub(crate) fn endpoints(segment: &Segment<'_>) -> (SocketAddr, SocketAddr) {
    (segment.src.min(segment.dst), segment.src.max(segment.dst))
}
