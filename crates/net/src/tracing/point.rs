//! Decoding of the supported trace events. Fields that a kernel lacks are zero.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::tracefs::{Field, Format};

/// Supported events, and their meaning.
pub(super) const KNOWN: &[(&str, Happened)] = &[
    ("tcp/tcp_probe", Happened::Received),
    ("tcp/tcp_cong_state_set", Happened::State),
    ("tcp/tcp_retransmit_skb", Happened::Retransmitted),
    ("block/block_rq_issue", Happened::BlockIssued),
    ("block/block_rq_complete", Happened::BlockCompleted),
];

/// AF_INET6.
const INET6: u16 = 10;
const SECTOR_BYTES: u64 = 512;

/// Kind of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Happened {
    /// An established connection received a segment.
    Received,
    /// The congestion state of a connection changed.
    State,
    /// A connection retransmitted a segment.
    Retransmitted,
    /// A request was issued to a block device.
    BlockIssued,
    /// A block device completed a request.
    BlockCompleted,
}

/// A decoded event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    /// Event of TCP.
    Tcp(TcpPoint),
    /// Event of a block device.
    Block(BlockPoint),
}

/// State of a connection at an event. Only [`Happened::Received`] has windows and sequence numbers, only
/// [`Happened::State`] has a congestion state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpPoint {
    /// Kind of the event.
    pub happened: Happened,
    /// Local address.
    pub local: SocketAddr,
    /// Remote address.
    pub remote: SocketAddr,
    /// Congestion window.
    pub cwnd_packets: u32,
    /// Slow-start threshold.
    pub ssthresh_packets: u32,
    /// Smoothed round-trip time.
    pub srtt_us: u32,
    /// Send window, as advertised by the peer.
    pub snd_wnd_bytes: u32,
    /// Receive window, as advertised to the peer.
    pub rcv_wnd_bytes: u32,
    /// Next sequence number to send.
    pub snd_nxt: u32,
    /// Oldest unacknowledged sequence number.
    pub snd_una: u32,
    /// Payload of the received segment.
    pub data_bytes: u32,
    /// Congestion state, as Linux numbers it.
    pub state: u8,
}

/// Operation of a block device's request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockKind {
    /// A read.
    Read,
    /// A write.
    Write,
    /// An operation without data, such as a flush or a discard.
    Other,
}

/// State of a block device's request at an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockPoint {
    /// Kind of the event.
    pub happened: Happened,
    /// Device number: major number times 2^20 plus minor number.
    pub device: u32,
    /// Operation of the request.
    pub kind: BlockKind,
    /// Offset of the first byte.
    pub offset_bytes: u64,
    /// Length in bytes.
    pub len_bytes: u32,
}

/// Decoder of the records of one event.
#[derive(Debug)]
pub(super) struct Reader {
    happened: Happened,
    id: u16,
    common_type: Option<Field>,
    fields: Fields,
}

#[derive(Debug)]
enum Fields {
    Tcp(Box<TcpFields>),
    Block { device: Option<Field>, kind: Option<Field>, sector: Option<Field>, sectors: Option<Field> },
}

#[derive(Debug)]
struct TcpFields {
    local: Address,
    remote: Address,
    cwnd: Option<Field>,
    ssthresh: Option<Field>,
    srtt: Option<Field>,
    snd_wnd: Option<Field>,
    rcv_wnd: Option<Field>,
    snd_nxt: Option<Field>,
    snd_una: Option<Field>,
    data: Option<Field>,
    state: Option<Field>,
}

/// Layout of an address: fields of four and of sixteen bytes, or one longer field with a sockaddr.
#[derive(Debug)]
struct Address {
    short: Option<Field>,
    long: Option<Field>,
    port: Option<Field>,
}

impl Reader {
    pub(super) fn new(format: &Format, happened: Happened) -> Reader {
        let field = |name| format.field(name);
        let address =
            |short, long, port| Address { short: field(short), long: field(long), port: field(port) };
        let fields = match happened {
            Happened::BlockIssued | Happened::BlockCompleted => {
                let [device, kind] = ["dev", "rwbs"].map(field);
                Fields::Block { device, kind, sector: field("sector"), sectors: field("nr_sector") }
            }
            _ => Fields::Tcp(Box::new(TcpFields {
                local: address("saddr", "saddr_v6", "sport"),
                remote: address("daddr", "daddr_v6", "dport"),
                cwnd: field("snd_cwnd"),
                ssthresh: field("ssthresh"),
                srtt: field("srtt"),
                snd_wnd: field("snd_wnd"),
                rcv_wnd: field("rcv_wnd"),
                snd_nxt: field("snd_nxt"),
                snd_una: field("snd_una"),
                data: field("data_len"),
                state: field("cong_state"),
            })),
        };
        Reader { happened, id: format.id, common_type: field("common_type"), fields }
    }

    /// Event number at the start of the records.
    pub(super) fn id(&self) -> u16 {
        self.id
    }

    pub(super) fn is_tcp(&self) -> bool {
        matches!(self.fields, Fields::Tcp(_))
    }

    /// Decodes a record, if it belongs to this event.
    pub(super) fn read(&self, record: &[u8]) -> Option<Point> {
        let number = |field: Option<Field>| field.and_then(|field| field.number(record));
        if number(self.common_type) != Some(u64::from(self.id)) {
            return None;
        }
        let small = |field| number(field).unwrap_or_default() as u32;
        let happened = self.happened;
        Some(match &self.fields {
            Fields::Block { device, kind, sector, sectors } => Point::Block(BlockPoint {
                happened,
                device: small(*device),
                kind: kind.and_then(|kind| kind.bytes(record)).map_or(BlockKind::Other, BlockKind::of),
                offset_bytes: number(*sector).unwrap_or_default().wrapping_mul(SECTOR_BYTES),
                len_bytes: small(*sectors).wrapping_mul(SECTOR_BYTES as u32),
            }),
            Fields::Tcp(tcp) => Point::Tcp(TcpPoint {
                happened,
                local: tcp.local.read(record)?,
                remote: tcp.remote.read(record)?,
                cwnd_packets: small(tcp.cwnd),
                ssthresh_packets: small(tcp.ssthresh),
                srtt_us: small(tcp.srtt),
                snd_wnd_bytes: small(tcp.snd_wnd),
                rcv_wnd_bytes: small(tcp.rcv_wnd),
                snd_nxt: small(tcp.snd_nxt),
                snd_una: small(tcp.snd_una),
                data_bytes: small(tcp.data),
                state: small(tcp.state) as u8,
            }),
        })
    }
}

impl BlockKind {
    /// Decodes the letters of an event: R occurs for reads only, W for writes.
    fn of(letters: &[u8]) -> BlockKind {
        match letters.iter().find(|letter| matches!(letter, b'R' | b'W')) {
            Some(b'R') => BlockKind::Read,
            Some(_) => BlockKind::Write,
            None => BlockKind::Other,
        }
    }
}

impl Address {
    fn read(&self, record: &[u8]) -> Option<SocketAddr> {
        let port = self.port?.number(record)? as u16;
        let short = self.short?.bytes(record)?;
        let four = |at: usize| Some(Ipv4Addr::from(<[u8; 4]>::try_from(short.get(at..at + 4)?).ok()?).into());
        let six = |bytes: &[u8]| Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into());
        let ip: IpAddr = match (short.len(), self.long) {
            // The sixteen-byte field of an IPv4 connection holds the IPv4-mapped address.
            (4, Some(long)) => six(long.bytes(record)?)?,
            (4, None) => four(0)?,
            // In a sockaddr_in the address follows family and port, in a sockaddr_in6 also the flow label.
            _ if short.get(..2)? == INET6.to_ne_bytes() => six(short.get(8..24)?)?,
            _ => four(4)?,
        };
        Some(SocketAddr::new(ip.to_canonical(), port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lays out fields in sequence and writes a record.
    fn record(fields: &[(&str, &[u8])]) -> (Format, Vec<u8>) {
        let (mut text, mut record) = ("ID: 77\n".to_owned(), Vec::new());
        for (name, bytes) in [("common_type", &77_u16.to_ne_bytes()[..])].iter().chain(fields) {
            text +=
                &format!("\tfield:u8 {name};\toffset:{};\tsize:{};\tsigned:0;\n", record.len(), bytes.len());
            record.extend_from_slice(bytes);
        }
        (Format::parse(&text).expect("a format"), record)
    }

    #[track_caller]
    fn check(fields: &[(&str, &[u8])], happened: Happened, local: &str, state: u8) {
        let (format, mut record) = record(fields);
        let reader = Reader::new(&format, happened);
        let Some(Point::Tcp(point)) = reader.read(&record) else { panic!("a record of TCP") };
        assert_eq!((point.local, point.state), (local.parse().expect("an address"), state));
        for end in 0..record.len() {
            // A truncated record yields nothing, or lacks fields.
            let _ = reader.read(&record[..end]);
        }
        record[0] ^= 1;
        assert_eq!(reader.read(&record), None, "another event");
    }

    #[test]
    fn block_requests_say_what_they_do() {
        let numbers = (254_u32 << 20, 9_u64, 16_u32);
        for (letters, kind) in [
            (*b"RA\0\0", BlockKind::Read),
            (*b"FWFS", BlockKind::Write),
            (*b"FF\0\0", BlockKind::Other),
            (*b"DS\0\0", BlockKind::Other),
        ] {
            let (device, sector, sectors) =
                (numbers.0.to_ne_bytes(), numbers.1.to_ne_bytes(), numbers.2.to_ne_bytes());
            let fields: [(&str, &[u8]); 4] =
                [("dev", &device), ("sector", &sector), ("nr_sector", &sectors), ("rwbs", &letters)];
            let (format, record) = record(&fields);
            let found = Reader::new(&format, Happened::BlockIssued).read(&record);
            let expected = BlockPoint {
                happened: Happened::BlockIssued,
                device: 254 << 20,
                kind,
                offset_bytes: 9 * 512,
                len_bytes: 16 * 512,
            };
            assert_eq!(found, Some(Point::Block(expected)));
        }
    }

    #[test]
    fn addresses_of_both_kinds_of_records_are_read() {
        let port = 3260_u16.to_ne_bytes();
        let mut mapped = [0; 16];
        mapped[10..].copy_from_slice(&[0xff, 0xff, 198, 18, 0, 2]);
        let six = [0x20, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
        let four = [198, 18, 0, 2];
        let state = |short: &'static [u8], long: [u8; 16], local| {
            let fields: [(&str, &[u8]); 7] = [
                ("saddr", short),
                ("daddr", short),
                ("saddr_v6", &long),
                ("daddr_v6", &long),
                ("sport", &port),
                ("dport", &port),
                ("cong_state", &[2]),
            ];
            check(&fields, Happened::State, local, 2);
        };
        state(&[198, 18, 0, 2], mapped, "198.18.0.2:3260");
        state(&[0; 4], six, "[2001:2::2]:3260");
        let mut addresses = [[0; 28]; 2];
        addresses[0][..2].copy_from_slice(&2_u16.to_ne_bytes());
        addresses[0][4..8].copy_from_slice(&four);
        addresses[1][..2].copy_from_slice(&INET6.to_ne_bytes());
        addresses[1][8..24].copy_from_slice(&six);
        for (address, local) in addresses.iter().zip(["198.18.0.2:3260", "[2001:2::2]:3260"]) {
            let fields: [(&str, &[u8]); 4] =
                [("saddr", address), ("daddr", address), ("sport", &port), ("dport", &port)];
            check(&fields, Happened::Received, local, 0);
        }
    }
}
