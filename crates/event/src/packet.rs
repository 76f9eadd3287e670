//! One packet (or super-packet) that crossed the emulated path.

use crate::Instant;

/// Which way a packet travels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the near host to the far one.
    NearToFar,
    /// From the far host to the near one.
    FarToNear,
}

/// What became of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It was handed to the other host.
    Delivered,
    /// The model dropped it: its waiting queue was full.
    QueueFull,
    /// The model lost it on the line.
    Lost,
    /// The model dropped it: the line was down.
    LineDown,
    /// It was handed to the other host once more.
    Duplicate,
    /// The emulator itself had no buffer for it: the run is not valid.
    NoBuffer,
    /// The other host's device refused it: the run is not valid.
    DeviceRefused,
}

/// A row of the table `packets`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// When the emulator read it from the sending host.
    pub ingress: Instant,
    /// When the model wanted it at the receiving host.
    pub scheduled: Instant,
    /// When it was handed over; equals `scheduled` for packets never delivered.
    pub egress: Instant,
    /// Which way.
    pub direction: Direction,
    /// Which packet of its direction it is, from 1; 0 if the path never counted it.
    pub number: u64,
    /// What became of it.
    pub fate: Fate,
    /// Bytes of IP, headers included (a super-packet counts once here).
    pub ip_bytes: u32,
    /// MTU-sized packets it stands for.
    pub segments: u16,
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
            Fate::LineDown => "line-down",
            Fate::Duplicate => "duplicate",
            Fate::NoBuffer => "no-buffer",
            Fate::DeviceRefused => "device-refused",
        }
    }
}
