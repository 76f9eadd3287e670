//! The table `packets`: times and fate of each packet on the emulated path. Written by `farlun wan`.

use event::{Direction, Fate, Packet, Tcp};

use crate::column::table;

/// Column values of a packet that is not TCP: no connection has port 0, and no segment is without a flag.
const NO_TCP: Tcp = Tcp { src_port: 0, dst_port: 0, seq: 0, ack: 0, payload_bytes: 0, flags: 0 };

table! {
    /// The table `packets` as plain columns.
    Packets, table "packets" of packet: Packet, let tcp = packet.tcp.unwrap_or(NO_TCP);
    /// Arrival time at the emulator, CLOCK_MONOTONIC.
    ingress_t_ns: Vec<u64> = packet.ingress,
    /// Delivery time of the path model.
    scheduled_t_ns: Vec<u64> = packet.scheduled,
    /// Actual delivery time; `scheduled_t_ns` for packets never delivered.
    egress_t_ns: Vec<u64> = packet.egress,
    /// Direction of travel.
    direction: Vec<Direction> = packet.direction,
    /// Number of the packet within its direction, from 1.
    number: Vec<u64> = packet.number,
    /// Delivery or reason of loss.
    fate: Vec<Fate> = packet.fate,
    /// Length of the IP packet, headers included.
    ip_bytes: Vec<u32> = packet.ip_bytes,
    /// MTU-sized packets in the super-packet.
    segments: Vec<u32> = u32::from(packet.segments),
    /// Number of the sending host.
    src_host: Vec<u32> = packet.src_host,
    /// Number of the destination host.
    dst_host: Vec<u32> = packet.dst_host,
    /// Source port; this and the next five columns are 0 without a TCP header.
    src_port: Vec<u32> = u32::from(tcp.src_port),
    /// Destination port.
    dst_port: Vec<u32> = u32::from(tcp.dst_port),
    /// Sequence number of the first payload byte.
    seq: Vec<u32> = tcp.seq,
    /// Acknowledgement number.
    ack: Vec<u32> = tcp.ack,
    /// TCP payload length.
    payload_bytes: Vec<u32> = tcp.payload_bytes,
    /// TCP flags.
    tcp_flags: Vec<u32> = u32::from(tcp.flags),
    /// Time since the previous poll for packets, the uncertainty of `ingress_t_ns`.
    unseen_ns: Vec<u64> = packet.unseen_ns,
}
