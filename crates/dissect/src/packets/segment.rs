//! The TCP segment of a packet and the endpoints of its connection.

use std::net::SocketAddr;

use wire::inet::{Segment, ip_of_frame};
use wire::pcap::Packet;

/// Largest plausible payload of a segment, in bytes; segmentation offload makes no larger ones.
const SEGMENT_MAX: usize = 1 << 20;

/// The TCP segment in a packet.
pub(crate) fn tcp_segment<'a>(packet: &Packet<'a>) -> Option<Segment<'a>> {
    let ip_at = ip_of_frame(packet.link, packet.bytes)?;
    let segment = Segment::parse(packet.bytes.get(ip_at..)?, packet.len - ip_at);
    segment.filter(|segment| segment.len <= SEGMENT_MAX)
}

/// Both endpoints in ascending order, the same for both directions.
pub(crate) fn endpoints(segment: &Segment<'_>) -> (SocketAddr, SocketAddr) {
    (segment.src.min(segment.dst), segment.src.max(segment.dst))
}
