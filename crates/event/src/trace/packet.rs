//! One packet (or super-packet) that crossed the emulated path.

use crate::Instant;

/// Direction of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the near host to the far one.
    NearToFar,
    /// From the far host to the near one.
    FarToNear,
}

/// Fate of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Delivered to the other host.
    Delivered,
    /// The model dropped it: its waiting queue was full.
    QueueFull,
    /// The model lost it on the line.
    Lost,
    /// The model dropped it: it exceeded the contract of a policer.
    Policed,
    /// The model dropped it: the line was down.
    LineDown,
    /// Delivered to the other host once more.
    Duplicate,
    /// The emulator itself had no buffer for it: the run is not valid.
    NoBuffer,
    /// The other host's device refused it: the run is not valid.
    DeviceRefused,
    /// Captured at a tap; its further fate is unknown.
    Seen,
}

/// A row of the table `packets`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// Time at which the emulator read the packet from the sending host.
    pub ingress: Instant,
    /// Delivery time in the model.
    pub scheduled: Instant,
    /// Time of the delivery to the receiving host; equals `scheduled` for packets never delivered.
    pub egress: Instant,
    /// Direction.
    pub direction: Direction,
    /// Sequence number within the direction, from 1; 0 for a packet that the path did not count.
    pub number: u64,
    /// Fate.
    pub fate: Fate,
    /// Bytes of IP, headers included (a super-packet counts once here).
    pub ip_bytes: u32,
    /// MTU-sized packets it stands for.
    pub segments: u16,
    /// Number of the host that sent it.
    pub src_host: u32,
    /// Number of the receiving host.
    pub dst_host: u32,
    /// TCP header; `None` for other protocols, or if headers are not recorded.
    pub tcp: Option<Tcp>,
    /// Uncertainty of `ingress`: time since the emulator last polled the device. The packet may have arrived that much
    /// earlier.
    pub unseen_ns: u64,
}

/// The TCP header of a packet, as RFC 9293 section 3.1 has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tcp {
    /// Port of the sender.
    pub src_port: u16,
    /// Port of the receiver.
    pub dst_port: u16,
    /// Sequence number of the first byte of payload; of the SYN, if it is one.
    pub seq: u32,
    /// The byte that its sender expects next.
    pub ack: u32,
    /// Bytes behind the header.
    pub payload_bytes: u32,
    /// FIN, SYN, RST, PSH, ACK, URG, ECE and CWR, from the lowest bit on.
    pub flags: u8,
}

impl Direction {
    /// The name that tables and users see.
    pub const fn name(self) -> &'static str {
        match self {
            Direction::NearToFar => "near-to-far",
            Direction::FarToNear => "far-to-near",
        }
    }
}

impl Fate {
    /// The name that tables and users see.
    pub const fn name(self) -> &'static str {
        match self {
            Fate::Delivered => "delivered",
            Fate::QueueFull => "queue-full",
            Fate::Lost => "lost",
            Fate::Policed => "policed",
            Fate::LineDown => "line-down",
            Fate::Duplicate => "duplicate",
            Fate::NoBuffer => "no-buffer",
            Fate::DeviceRefused => "device-refused",
            Fate::Seen => "seen",
        }
    }
}
