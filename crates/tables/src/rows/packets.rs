//! The table `packets`: what the emulated path did with every packet. Written by `farlun wan`.

use event::{Direction, Fate, Packet, Tcp};

use crate::{Row, Visit};

/// The columns of a packet that is no TCP: no connection has port 0, and no segment is without a flag.
const NO_TCP: Tcp = Tcp { src_port: 0, dst_port: 0, seq: 0, ack: 0, payload_bytes: 0, flags: 0 };

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
    /// Number of the host that sent it.
    pub src_host: Vec<u32>,
    /// Number of the host it is for.
    pub dst_host: Vec<u32>,
    /// Port of the sender; 0 if it is no TCP, as in the columns after this.
    pub src_port: Vec<u32>,
    /// Port of the receiver.
    pub dst_port: Vec<u32>,
    /// Sequence number of its first byte of payload.
    pub seq: Vec<u32>,
    /// The byte that its sender expects next.
    pub ack: Vec<u32>,
    /// Bytes of TCP payload.
    pub payload_bytes: Vec<u32>,
    /// TCP's flags.
    pub tcp_flags: Vec<u32>,
    /// For how long before `ingress_t_ns` nobody looked.
    pub unseen_ns: Vec<u64>,
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
        columns.src_host.push(self.src_host);
        columns.dst_host.push(self.dst_host);
        let tcp = self.tcp.unwrap_or(NO_TCP);
        columns.src_port.push(u32::from(tcp.src_port));
        columns.dst_port.push(u32::from(tcp.dst_port));
        columns.seq.push(tcp.seq);
        columns.ack.push(tcp.ack);
        columns.payload_bytes.push(tcp.payload_bytes);
        columns.tcp_flags.push(u32::from(tcp.flags));
        columns.unseen_ns.push(self.unseen_ns);
    }

    fn visit<V: Visit>(columns: &mut Packets, visitor: &mut V) -> Result<(), V::Error> {
        visitor.u64("ingress_t_ns", &mut columns.ingress_t_ns)?;
        visitor.u64("scheduled_t_ns", &mut columns.scheduled_t_ns)?;
        visitor.u64("egress_t_ns", &mut columns.egress_t_ns)?;
        visitor.word("direction", &mut columns.direction)?;
        visitor.u64("number", &mut columns.number)?;
        visitor.word("fate", &mut columns.fate)?;
        visitor.u32("ip_bytes", &mut columns.ip_bytes)?;
        visitor.u32("segments", &mut columns.segments)?;
        visitor.u32("src_host", &mut columns.src_host)?;
        visitor.u32("dst_host", &mut columns.dst_host)?;
        visitor.u32("src_port", &mut columns.src_port)?;
        visitor.u32("dst_port", &mut columns.dst_port)?;
        visitor.u32("seq", &mut columns.seq)?;
        visitor.u32("ack", &mut columns.ack)?;
        visitor.u32("payload_bytes", &mut columns.payload_bytes)?;
        visitor.u32("tcp_flags", &mut columns.tcp_flags)?;
        visitor.u64("unseen_ns", &mut columns.unseen_ns)
    }
}
