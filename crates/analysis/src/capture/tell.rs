//! What is told while a capture is read, row by row: nothing of it is kept.

use std::net::SocketAddr;

use wire::iscsi::Opcode;

use super::budget::Budget;
use super::kind::Kind;

/// Hears every row; each method does nothing unless it is written.
pub trait Listener {
    /// A TCP segment.
    fn packet(&mut self, _: &PacketRow) {}
    /// A PDU that is complete.
    fn pdu(&mut self, _: &PduRow) {}
    /// A command that has its status.
    fn command(&mut self, _: &CommandRow) {}
}

/// Two listen.
impl<A: Listener + ?Sized, B: Listener + ?Sized> Listener for (&mut A, &mut B) {
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

/// Nobody listens.
impl Listener for () {}

/// Who hears what is found, and how much may be kept to find it.
pub(super) struct Out<'a> {
    pub(super) listener: &'a mut dyn Listener,
    pub(super) budget: &'a Budget,
    /// That show each direction of the connection.
    pub(super) interfaces: [u32; 2],
    /// The fastest round trip from the tap to the initiator; 0 if there was none.
    pub(super) initiator_rtt_ns: u64,
}

/// One segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketRow {
    /// Number of the packet in the file, from 1.
    pub packet: u64,
    /// When it passed the tap.
    pub t_ns: u64,
    /// The interface that it came from.
    pub interface: u32,
    /// Who sent it.
    pub src: SocketAddr,
    /// Who gets it.
    pub dst: SocketAddr,
    /// Sequence number as it stood in the header.
    pub seq: u32,
    /// Acknowledgement as it stood there.
    pub ack: u32,
    /// Bytes of payload.
    pub len: usize,
    /// Where the payload begins in the direction's stream, in bytes since the first that was seen of it.
    pub place: u64,
    /// Up to where the stream of the other direction is acknowledged.
    pub acked: u64,
    /// Bytes of IP.
    pub ip_bytes: usize,
    /// As in the header.
    pub flags: u8,
    /// What it is to its connection.
    pub kind: Kind,
    /// Round trip of what it acknowledges.
    pub ack_rtt_ns: Option<u64>,
    /// Bytes of its direction in flight, itself included.
    pub flight_bytes: u64,
}

/// One PDU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PduRow {
    /// The interface that its packets came from.
    pub interface: u32,
    /// Who sent it.
    pub src: SocketAddr,
    /// Who gets it.
    pub dst: SocketAddr,
    /// What it is.
    pub opcode: Opcode,
    /// Initiator task tag.
    pub itt: u32,
    /// Where it begins in the direction's stream, in bytes since the first that was seen of it.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    /// Bytes of its data segment.
    pub data_len: u32,
    /// Number of the command, of a command whose header says it.
    pub cmd_sn: Option<u32>,
    /// Where its data belongs, if that is known.
    pub buffer_offset: Option<u32>,
    /// It says how its command ended.
    pub has_status: bool,
    /// The packet of its first byte.
    pub first_packet: u64,
    /// The packet that completed it.
    pub last_packet: u64,
    /// When that passed the tap.
    pub t_ns: u64,
    /// The header was not in the capture.
    pub inferred: bool,
}

/// One command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommandRow {
    /// The interface that its request came from.
    pub interface: u32,
    /// Who asked.
    pub initiator: SocketAddr,
    /// Who answered.
    pub target: SocketAddr,
    /// Initiator task tag.
    pub itt: u32,
    /// CmdSN, if it is known.
    pub cmd_sn: Option<u32>,
    /// First byte of the CDB, if it is known.
    pub operation: Option<u8>,
    /// Bytes it moves.
    pub bytes: u32,
    /// The packet that completed the command PDU.
    pub request_packet: u64,
    /// When that passed the tap.
    pub t_ns: u64,
    /// The packet that completed the PDU with the status.
    pub response_packet: u64,
    /// Time between the two.
    pub service_ns: u64,
    /// R2Ts it took.
    pub r2ts: u32,
    /// Something of it was hidden and follows from what was there.
    pub inferred: bool,
}
