//! The table `packets`: what the emulated path did with every packet. Written by `farlun wan`.

use event::{Direction, Fate, Packet};

use super::{Row, Visit};

/// The table `packets` as plain columns.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Packets {
    /// When the emulator read it from the sending host, CLOCK_MONOTONIC.
    pub ingress_t_ns: Vec<u64>,
    /// When the model wanted it at the receiving host.
    pub scheduled_t_ns: Vec<u64>,
    /// When it was handed over; `scheduled_t_ns` for packets never delivered.
    pub egress_t_ns: Vec<u64>,
    /// Which way it travelled.
    pub direction: Vec<Direction>,
    /// Which packet of its direction it is, from 1.
    pub number: Vec<u64>,
    /// What became of it.
    pub fate: Vec<Fate>,
    /// Bytes of IP, headers included.
    pub ip_bytes: Vec<u32>,
    /// MTU-sized packets it stands for.
    pub segments: Vec<u32>,
}

impl Row for Packet {
    const TABLE: &'static str = "packets";
    type Columns = Packets;

    fn push(&self, columns: &mut Packets) {
        columns.ingress_t_ns.push(self.ingress.as_nanos());
        columns.scheduled_t_ns.push(self.scheduled.as_nanos());
        columns.egress_t_ns.push(self.egress.as_nanos());
        columns.direction.push(self.direction);
        columns.number.push(self.number);
        columns.fate.push(self.fate);
        columns.ip_bytes.push(self.ip_bytes);
        columns.segments.push(u32::from(self.segments));
    }

    fn visit<V: Visit>(columns: &mut Packets, visitor: &mut V) -> Result<(), V::Error> {
        visitor.u64("ingress_t_ns", &mut columns.ingress_t_ns)?;
        visitor.u64("scheduled_t_ns", &mut columns.scheduled_t_ns)?;
        visitor.u64("egress_t_ns", &mut columns.egress_t_ns)?;
        visitor.word("direction", &mut columns.direction)?;
        visitor.u64("number", &mut columns.number)?;
        visitor.word("fate", &mut columns.fate)?;
        visitor.u32("ip_bytes", &mut columns.ip_bytes)?;
        visitor.u32("segments", &mut columns.segments)
    }
}
