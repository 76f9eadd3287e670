//! A run whose cells say where requests were: `layers`, `io`, `packets` and `pdus` of a closed loop of reads
//! over 16 ms each way, through a command window of 100.

use std::collections::BTreeMap;
use std::path::Path;

use event::{
    Direction, FarTimes, Fate, Host, Instant, Io, LayerTimes, Layers, NearTimes, Op, Packet, PduKind,
    PduSeen, RequestId, Tcp, TcpTimes, Way,
};
use serde_json::json;
use tables::RunDir;
use tables::Writer;
use tables::manifest::{Cell, CellEntry, Run};

const MS: u64 = 1_000_000;
const START_NS: u64 = 7_000 * MS;
const ONE_WAY_NS: u64 = 16 * MS;
const WINDOW: u64 = 100;
/// Requests of a cell.
pub(crate) const REQUESTS: u64 = 6_000;

/// Writes the run; each depth is a cell.
pub(crate) fn write(path: &Path, depths: &[u64], requests: u64) -> RunDir {
    let dir = RunDir::create(path).unwrap();
    let mut run = Run {
        farlun: "0.1.0".to_owned(),
        command_line: "farlun lab layers --out runs/layers".to_owned(),
        plan_name: "layers".to_owned(),
        plan: json!({"name": "layers"}),
        seed: 1,
        kernel: "6.18.0".to_owned(),
        cpus: 2,
        started_unix_s: 1_795_294_500.0,
        elapsed_s: 40.0,
        valid: true,
        ..Run::default()
    };
    for (n, depth) in depths.iter().enumerate() {
        let slug = format!("calls-depth-{depth}");
        let entry = CellEntry {
            dir: dir.make_cell(n + 1, &slug, 1).unwrap(),
            slug,
            load: "calls".to_owned(),
            parameters: BTreeMap::from([
                ("depth".to_owned(), json!(depth)),
                ("block".to_owned(), json!("8KiB")),
            ]),
            repeat: 1,
        };
        write_cell(&dir, &entry, *depth, requests);
        run.cells.push(entry);
    }
    dir.save(&run).unwrap();
    dir
}

fn write_cell(dir: &RunDir, entry: &CellEntry, depth: u64, requests: u64) {
    let path = dir.path().join(&entry.dir);
    let mut tables = Tables {
        io: Writer::create(path.join("io-near.parquet")).unwrap(),
        near: Writer::create(path.join("layers-near.parquet")).unwrap(),
        far: Writer::create(path.join("layers-far.parquet")).unwrap(),
        pdus: Writer::create(path.join("pdus-near.parquet")).unwrap(),
        packets: Writer::create(path.join("packets.parquet")).unwrap(),
    };
    tables.packet(START_NS - MS, Host::Near, 0, 0, 2);
    tables.packet(START_NS - MS, Host::Far, 0, 0, 18);
    let mut completed: Vec<u64> = Vec::new();
    let at = |list: &Vec<u64>, i: u64, back: u64| i.checked_sub(back).map(|i| list[i as usize]);
    for i in 0..requests {
        let called = at(&completed, i, depth).unwrap_or(START_NS + i * 9_000);
        let open = at(&completed, i, WINDOW).unwrap_or(0);
        let start = called.max(open) + 2_000;
        let jitter = (i * 7_919 % 97) * 2_300;
        let end =
            (start + 2 * ONE_WAY_NS + 180_000 + jitter).max(completed.last().copied().unwrap_or(0) + 4_000);
        completed.push(end);
        tables.request(i, called, start, end);
    }
    let end_ns = completed.last().copied().unwrap_or(START_NS);
    let Tables { io, near, far, pdus, packets } = tables;
    io.finish().unwrap();
    near.finish().unwrap();
    far.finish().unwrap();
    pdus.finish().unwrap();
    packets.finish().unwrap();
    let near = json!({"kind": "bench", "op": "read", "block_bytes": 8192, "depth": depth, "t_start_ns": START_NS,
        "t_end_ns": end_ns, "warmup_ns": 200 * MS, "base_rtt_ns": 2 * ONE_WAY_NS, "peer": "farlun/0.1.0"});
    let cell = Cell {
        slug: entry.slug.clone(),
        load: entry.load.clone(),
        repeat: 1,
        parameters: entry.parameters.clone(),
        command: format!("farlun wan --delay 16ms -- farlun bench --depth {depth}"),
        wan: Some(
            json!({"path": {"delay_ns": ONE_WAY_NS, "rate_bits_per_s": 1_000_000_000, "queue_bytes": 4_000_000,
            "mtu": 1500}, "validity": {"ok": true, "packets": 9_999}}),
        ),
        near: Some(near),
        valid: true,
        ..Cell::default()
    };
    dir.save_cell(&entry.dir, &cell).unwrap();
}

struct Tables {
    io: Writer<Io>,
    near: Writer<Layers>,
    far: Writer<Layers>,
    pdus: Writer<PduSeen>,
    packets: Writer<Packet>,
}

impl Tables {
    /// A read of 8 KiB: one packet there, six back, the status in the last Data-In, three ACKs.
    fn request(&mut self, i: u64, called: u64, start: u64, end: u64) {
        let t = Instant::from_nanos;
        self.io
            .push(&Io {
                issued: t(called),
                completed: t(end),
                op: Op::Read,
                offset_bytes: i * 8192,
                len_bytes: 8192,
                status: 0,
            })
            .unwrap();
        let (received, sent) = (start + ONE_WAY_NS + 9_000, end - ONE_WAY_NS - 80_000);
        let id = RequestId {
            session: 0x8001_0000_0001,
            connection: 0,
            itt: (i % 4096) as u32,
            cmd_sn: i as u32 + 1,
        };
        let row = |times| Layers {
            id,
            op: Op::Read,
            status: 0,
            lun: 0,
            len_bytes: 8192,
            offset_bytes: i * 8192,
            command_stream_end: (i + 1) * 48,
            status_stream_end: (i + 1) * 8240,
            tcp: TcpTimes::default(),
            times,
        };
        let near = NearTimes {
            called: t(called),
            scsi: t(called),
            queued: t(called + 600),
            granted: t(start),
            started: t(start + 400),
            socketed: t(start + 5_000),
            data_first: t(end - 70_000),
            data_last: t(end),
            status: t(end),
            completed: t(end),
        };
        let far = FarTimes {
            received: t(received),
            parsed: t(received + 1_000),
            executed: t(received + 1_500),
            store_begin: t(received + 2_000),
            store_end: t(received + 21_000),
            answered: t(received + 22_000),
            sent: t(sent),
            ..FarTimes::default()
        };
        self.near.push(&row(LayerTimes::Near(near))).unwrap();
        self.far.push(&row(LayerTimes::Far(far))).unwrap();
        self.pdu(id, Host::Near, PduKind::Command, start + 5_000, i * 48, 0);
        self.pdu(id, Host::Far, PduKind::DataIn, sent, i * 8240, 8192);
        self.packet(start + 6_000, Host::Near, i * 48, 48, 24);
        for (n, first) in (0..8240).step_by(1448).enumerate() {
            let payload = (8240 - first).min(1448);
            self.packet(sent + n as u64 * 12_300, Host::Far, i * 8240 + first, payload as u32, 16);
        }
        for n in 0..3 {
            self.packet(end - 60_000 + n * 24_000, Host::Near, (i + 1) * 48, 0, 16);
        }
    }

    fn pdu(&mut self, id: RequestId, from: Host, kind: PduKind, at: u64, begin: u64, len_bytes: u32) {
        let t = Instant::from_nanos(at);
        self.pdus
            .push(&PduSeen {
                t,
                host: from,
                id,
                way: Way::Out,
                kind,
                has_status: kind == PduKind::DataIn,
                stat_sn: 0,
                data_sn: 0,
                offset_bytes: 0,
                len_bytes,
                stream_begin: begin,
                stream_end: begin + 48 + u64::from(len_bytes),
                socketed: t,
                tcp: TcpTimes::default(),
            })
            .unwrap();
    }

    fn packet(&mut self, at: u64, from: Host, first: u64, payload_bytes: u32, flags: u8) {
        let (direction, src_port, dst_port) = match from {
            Host::Near => (Direction::NearToFar, 40_000, 3260),
            Host::Far => (Direction::FarToNear, 3260, 40_000),
        };
        // A SYN takes a number of its own before the first byte.
        let seq = if flags & 2 != 0 { 1_000 } else { 1_001_u32.wrapping_add(first as u32) };
        let (src_host, dst_host) = if from == Host::Near { (0, 100) } else { (100, 0) };
        self.packets
            .push(&Packet {
                ingress: Instant::from_nanos(at),
                scheduled: Instant::from_nanos(at + ONE_WAY_NS),
                egress: Instant::from_nanos(at + ONE_WAY_NS + 3_000),
                direction,
                number: 1,
                fate: Fate::Delivered,
                ip_bytes: 52 + payload_bytes,
                segments: 1,
                src_host,
                dst_host,
                tcp: Some(Tcp { src_port, dst_port, seq, ack: 1_001, payload_bytes, flags }),
                unseen_ns: 0,
            })
            .unwrap();
    }
}
