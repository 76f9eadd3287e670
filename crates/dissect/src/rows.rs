//! Rows that a dissection emits while packets pass: segments, PDUs, commands. None of them is kept.

use std::net::SocketAddr;

use wire::iscsi::Opcode;

use crate::tcp::kind::SegmentKind;

/// Receives rows. Methods that are not implemented discard them.
pub trait RowSink {
    /// Takes a TCP segment.
    fn packet(&mut self, _: &PacketRow) {}
    /// Takes a complete PDU.
    fn pdu(&mut self, _: &PduRow) {}
    /// Takes a command with its status.
    fn command(&mut self, _: &CommandRow) {}
}

/// Passes rows to two sinks.
impl<A: RowSink + ?Sized, B: RowSink + ?Sized> RowSink for (&mut A, &mut B) {
    fn packet(&mut self, row: &PacketRow) {
        self.0.packet(row);
        self.1.packet(row);
    }

    fn pdu(&mut self, row: &PduRow) {
        self.0.pdu(row);
        self.1.pdu(row);
    }

    fn command(&mut self, row: &CommandRow) {
        self.0.command(row);
        self.1.command(row);
    }
}

/// Discards all rows.
impl RowSink for () {}

/// Direction of a connection at one interface.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DirectionKey {
    /// Interface of its packets.
    pub interface: u32,
    /// Sender.
    pub src: SocketAddr,
    /// Receiver.
    pub dst: SocketAddr,
}

/// A TCP segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketRow {
    /// Direction.
    pub direction: DirectionKey,
    /// Number of the packet in the file, from 1.
    pub packet: u64,
    /// Time at the tap, in ns.
    pub t_ns: u64,
    /// Sequence number in the header.
    pub seq: u32,
    /// Acknowledgement number in the header.
    pub ack: u32,
    /// Payload in bytes.
    pub len: usize,
    /// Offset of the payload in the direction's stream, in bytes from the first one in the capture.
    pub stream_offset: u64,
    /// Acknowledged length of the other direction's stream, in bytes from the first one in the capture.
    pub acked_offset: u64,
    /// Length of the IP packet in bytes.
    pub ip_bytes: usize,
    /// TCP flags in the header.
    pub flags: u8,
    /// Class of the segment.
    pub kind: SegmentKind,
    /// Round trip of the data that it acknowledges, in ns.
    pub ack_rtt_ns: Option<u64>,
    /// Bytes in flight of its direction, its own included.
    pub flight_bytes: u64,
}

/// An iSCSI PDU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PduRow {
    /// Direction.
    pub direction: DirectionKey,
    /// Opcode.
    pub opcode: Opcode,
    /// Initiator task tag.
    pub itt: u32,
    /// Offset of its first byte in the direction's stream, in bytes from the first one in the capture.
    pub start: u64,
    /// Offset after its last byte.
    pub end: u64,
    /// Length of its data segment in bytes.
    pub data_len: u32,
    /// CmdSN of a command, if its header has it.
    pub cmd_sn: Option<u32>,
    /// Buffer offset of its data in bytes, if known.
    pub buffer_offset: Option<u32>,
    /// True if it carries the status of its command.
    pub has_status: bool,
    /// Number of the packet with its first byte.
    pub first_packet: u64,
    /// Number of the packet that completes it.
    pub last_packet: u64,
    /// Time of that packet at the tap, in ns.
    pub t_ns: u64,
    /// True if its header is not in the capture.
    pub inferred: bool,
}

/// A SCSI command with its status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommandRow {
    /// Interface of its request.
    pub interface: u32,
    /// Initiator.
    pub initiator: SocketAddr,
    /// Target.
    pub target: SocketAddr,
    /// Initiator task tag.
    pub itt: u32,
    /// CmdSN, if known.
    pub cmd_sn: Option<u32>,
    /// Operation code of the CDB, if known.
    pub operation: Option<u8>,
    /// Expected data transfer length in bytes.
    pub bytes: u32,
    /// Number of the packet that completes the command PDU.
    pub request_packet: u64,
    /// Time of that packet at the tap, in ns.
    pub t_ns: u64,
    /// Number of the packet that completes the PDU with the status.
    pub response_packet: u64,
    /// Time between these packets, in ns, if both headers are in the capture.
    pub service_ns: Option<u64>,
    /// R2Ts for it.
    pub r2ts: u32,
    /// True if a header of it is inferred.
    pub inferred: bool,
}
