//! Tables survive the way to a file and back, through our reader and through one we did not write.

use std::path::Path;
use std::process::Command;

use event::{
    CongestionState, Decided, Direction, FarTimes, Fate, Granted, Host, Instant, Io, KernelEvent,
    KernelPoint, LayerTimes, Layers, Login, NearTimes, Op, Packet, PduKind, PduSeen, RequestId, Sink,
    SocketSample, Steered, Tcp, TcpTimes, Way, WindowKind, WindowNotice,
};
use tables::{ROWS_PER_GROUP, Recorder, Row, Spool, Writer};

fn packet(i: u64) -> Packet {
    let t = Instant::from_nanos(1_000_000_000 + i * 12_304);
    Packet {
        ingress: t,
        scheduled: Instant::from_nanos(t.as_nanos() + 8_000_000),
        egress: Instant::from_nanos(t.as_nanos() + 8_000_000 + i % 977),
        direction: if i.is_multiple_of(3) { Direction::NearToFar } else { Direction::FarToNear },
        number: 1,
        fate: if i % 1000 == 999 { Fate::QueueFull } else { Fate::Delivered },
        ip_bytes: 1500,
        segments: 1,
        src_host: 0,
        dst_host: 100,
        tcp: (!i.is_multiple_of(5)).then_some(Tcp {
            src_port: 3260,
            dst_port: 40_000,
            seq: (i as u32).wrapping_mul(1448).wrapping_sub(5_000),
            ack: u32::MAX,
            payload_bytes: 1448,
            flags: 0xff,
        }),
        unseen_ns: i % 13,
    }
}

fn sample(i: u64) -> SocketSample {
    let host = if i.is_multiple_of(2) { Host::Near } else { Host::Far };
    SocketSample {
        app_rx_bytes: u64::MAX - i,
        app_tx_bytes: i,
        cwnd_packets: 10,
        mss_bytes: 1448,
        state: CongestionState::Cwr,
        rtt_ns: 16_000_000,
        rtt_var_ns: 1_000,
        min_rtt_ns: 15_900_000,
        unacked_packets: 3,
        in_flight_packets: 2,
        lost_packets: 1,
        timeouts: 7,
        delivered_packets: u32::MAX - i as u32,
        marked_packets: 9,
        duplicate_packets: u32::MAX,
        reorderings: 21,
        acked_bytes: i * 2,
        snd_wnd_bytes: 1 << 20,
        delivery_rate_bytes_per_s: 117_000_000,
        is_app_limited: i.is_multiple_of(3),
        busy_ns: i * 4_000_000,
        rwnd_limited_ns: i * 3,
        sndbuf_limited_ns: i * 5,
        unsent_bytes: i * 11,
        request_bytes: 1 << 20,
        command_window: 128,
        loop_idle_ns: i * 13,
        loop_cpu_ns: i * 17,
        steered: (!i.is_multiple_of(5)).then(|| steered(i)),
        ..SocketSample::new(Instant::from_nanos(i * 10_000_000), host, 1)
    }
}

fn steered(i: u64) -> Steered {
    let notice = WindowNotice { kind: WindowKind::Limit, cwnd_packets: i as u32, mss_bytes: 1448 };
    Steered {
        burst_bytes: i * 19,
        was_spaced: i.is_multiple_of(2),
        handed_bytes_per_s: i * 23,
        has_company: i.is_multiple_of(3),
        paces_itself: i.is_multiple_of(5),
        paced_one_by_one: i.is_multiple_of(7),
        forgets_freely: i.is_multiple_of(11),
        granted: [Granted::Unsaid, Granted::All, Granted::Part(i + 1)][i as usize % 3],
        told: i.is_multiple_of(4).then_some(notice),
        decided: Decided {
            block_bytes: i * 29,
            outstanding_bytes: i + 1,
            commands: 31,
            pacing_bytes_per_s: u64::MAX - 1,
            burst_bytes_per_s: u64::MAX,
            burst_depth_bytes: i * 41,
            held_bytes: i * 43,
            thresholds_forgotten: i as u32,
            look_ns: i * 37,
        },
    }
}

fn io(i: u64) -> Io {
    Io {
        issued: Instant::from_nanos(i),
        completed: Instant::from_nanos(i + 16_000_000),
        op: if i.is_multiple_of(2) { Op::Read } else { Op::Write },
        offset_bytes: i * 4096,
        len_bytes: 4096,
        status: u8::from(i == 1) * 2,
    }
}

fn id(i: u64) -> RequestId {
    RequestId { session: u64::MAX - 1, connection: 3, itt: (i % 7) as u32, cmd_sn: i as u32 }
}

fn at(ns: u64) -> Instant {
    Instant::from_nanos(ns)
}

fn tcp(i: u64) -> TcpTimes {
    TcpTimes { queued: at(i + 20), wire: at(i + 21), acked: at(i + 22) }
}

/// Every time differs from every other one of its row.
fn layers(i: u64) -> Layers {
    let near = NearTimes {
        called: at(i + 1),
        scsi: at(i + 2),
        queued: at(i + 3),
        granted: at(i + 4),
        started: at(i + 5),
        socketed: at(i + 6),
        data_first: at(i + 7),
        data_last: at(i + 8),
        status: at(i + 9),
        completed: at(i + 10),
    };
    let far = FarTimes {
        received: at(i + 11),
        parsed: at(i + 12),
        executed: at(i + 13),
        r2t_first: at(i + 14),
        data_out_last: at(i + 15),
        store_begin: at(i + 16),
        store_end: at(i + 17),
        answered: at(i + 18),
        sent: at(i + 19),
    };
    Layers {
        id: id(i),
        op: if i.is_multiple_of(3) { Op::Write } else { Op::Read },
        status: i as u8,
        lun: 300,
        len_bytes: 4096,
        offset_bytes: i << 33,
        command_stream_end: i + 23,
        status_stream_end: i + 24,
        tcp: tcp(i),
        times: if i.is_multiple_of(2) { LayerTimes::Near(near) } else { LayerTimes::Far(far) },
    }
}

fn pdu(i: u64) -> PduSeen {
    let kinds = <PduKind as tables::Word>::ALL;
    PduSeen {
        t: at(i),
        host: if i.is_multiple_of(2) { Host::Near } else { Host::Far },
        id: id(i),
        way: if i.is_multiple_of(3) { Way::Out } else { Way::In },
        kind: kinds[i as usize % kinds.len()],
        has_status: i.is_multiple_of(5),
        stat_sn: 6,
        data_sn: 7,
        offset_bytes: 8,
        len_bytes: 9,
        stream_begin: i << 34,
        stream_end: (i << 34) + 48,
        socketed: at(i + 10),
        tcp: tcp(i),
    }
}

fn kernel_point(i: u64) -> KernelPoint {
    let small = i as u32;
    let events = [KernelEvent::Received, KernelEvent::State, KernelEvent::BlockCompleted];
    KernelPoint {
        t: Instant::from_nanos(i),
        event: events[i as usize % 3],
        host: [Some(Host::Near), Some(Host::Far), None][i as usize % 3],
        host_number: small % 200,
        peer_number: small % 199,
        local_port: i as u16,
        remote_port: 3260,
        cwnd_packets: small,
        ssthresh_packets: u32::MAX,
        srtt_ns: i * 1000,
        snd_wnd_bytes: small,
        rcv_wnd_bytes: small + 1,
        snd_nxt: small.wrapping_mul(7919),
        snd_una: small,
        data_bytes: small % 65_536,
        state: [None, Some(CongestionState::Cwr)][i as usize % 2],
        device: 8 << 20,
        op: [None, Some(Op::Read), Some(Op::Write)][i as usize % 3],
        offset_bytes: i << 40,
        len_bytes: small * 512,
    }
}

fn write<R: Row>(path: &Path, rows: impl Iterator<Item = R>) -> R::Columns {
    let mut expected = R::Columns::default();
    let mut writer = Writer::<R>::create(path).unwrap();
    for row in rows {
        row.push(&mut expected);
        writer.push(&row).unwrap();
        assert!(!path.exists(), "the final name appears only at the end");
    }
    writer.finish().unwrap();
    assert!(path.exists() && !path.with_extension("parquet.partial").exists());
    expected
}

#[test]
fn every_table_comes_back_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    // More than two row groups, the last of them not full.
    let packets = write(&dir.path().join("packets.parquet"), (0..2 * ROWS_PER_GROUP as u64 + 5).map(packet));
    assert_eq!(tables::read::<Packet>(dir.path()).unwrap(), packets);
    let ios = write(&dir.path().join("io-near.parquet"), (0..10).map(io));
    assert_eq!(tables::read::<Io>(dir.path()).unwrap(), ios);
    let both = write(&dir.path().join("layers-near.parquet"), (0..100).map(layers));
    assert_eq!(tables::read::<Layers>(dir.path()).unwrap(), both);
    let pdus = write(&dir.path().join("pdus-far.parquet"), (0..100).map(pdu));
    assert_eq!(tables::read::<PduSeen>(dir.path()).unwrap(), pdus);

    let points = write(&dir.path().join("kernel.parquet"), (0..10).map(kernel_point));
    assert_eq!(tables::read::<KernelPoint>(dir.path()).unwrap(), points);

    let mut sockets = write(&dir.path().join("sockets-far.parquet"), (0..7).map(sample));
    write(&dir.path().join("sockets-near.parquet"), (7..9).map(sample));
    (7..9).map(sample).for_each(|s| s.push(&mut sockets));
    assert_eq!(
        tables::read::<SocketSample>(dir.path()).unwrap(),
        sockets,
        "all files, in the order of their names"
    );
    (0..9).for_each(|row| assert_eq!(sockets.sample(row), sample(row as u64)));
}

#[test]
fn a_spool_gives_back_what_was_put_in() {
    let dir = tempfile::tempdir().unwrap();
    let ios = spool(&dir.path().join("io-near.parquet"), io);
    assert_eq!(tables::read::<Io>(dir.path()).unwrap(), ios);
    let both = spool(&dir.path().join("layers.parquet"), layers);
    assert_eq!(tables::read::<Layers>(dir.path()).unwrap(), both);
    let pdus = spool(&dir.path().join("pdus.parquet"), pdu);
    assert_eq!(tables::read::<PduSeen>(dir.path()).unwrap(), pdus);
}

#[test]
fn an_empty_table_is_a_table() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("io.parquet"), std::iter::empty::<Io>());
    assert_eq!(tables::read::<Io>(dir.path()).unwrap(), tables::Ios::default());
    assert!(tables::read_optional::<Packet>(dir.path()).unwrap().is_none());
}

#[test]
fn a_recorder_keeps_the_order_of_its_rows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("packets.parquet");
    let mut recorder = Recorder::<Packet>::create(&path).unwrap();
    let mut expected = tables::Packets::default();
    for row in (0..100_001).map(packet) {
        row.push(&mut expected);
        recorder.record(&row);
    }
    let written = recorder.finish().unwrap();
    assert_eq!((written.rows, written.lost_rows), (100_001, 0));
    assert_eq!(tables::read::<Packet>(dir.path()).unwrap(), expected);
}

#[test]
fn a_file_cut_short_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("packets.parquet");
    write(&path, (0..1000).map(packet));
    let whole = std::fs::read(&path).unwrap();
    for keep in (0..whole.len()).step_by(97) {
        std::fs::write(&path, &whole[..keep]).unwrap();
        assert!(tables::read::<Packet>(dir.path()).is_err(), "{keep} bytes of {}", whole.len());
    }
}

#[test]
fn a_table_of_another_shape_names_the_column() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("io.parquet"), (0..10).map(io));
    std::fs::rename(dir.path().join("io.parquet"), dir.path().join("packets.parquet")).unwrap();
    let error = tables::read::<Packet>(dir.path()).unwrap_err().to_string();
    assert!(error.contains("column ingress_t_ns: found none, expected uint64"), "{error}");
}

/// Sums and words as seen by pyarrow or DuckDB must be ours.
#[test]
fn an_independent_reader_sees_the_same() {
    let test = "an_independent_reader_sees_the_same";
    let script = r#"
import sys
path = sys.argv[1]
try:
    import pyarrow.parquet as pq
    table = pq.read_table(path)
    column = lambda name: table.column(name).to_pylist()
    meta = pq.read_metadata(path).metadata
    assert meta[b"farlun.version"] and meta[b"farlun.command_line"] and meta[b"farlun.schema_version"] == b"1", meta
    types = [(f.name, str(f.type)) for f in table.schema]
except ImportError:
    try:
        import duckdb
    except ImportError:
        print("absent")
        sys.exit(0)
    con = duckdb.connect()
    column = lambda name: [r[0] for r in con.execute(f'select {name} from read_parquet(\'{path}\')').fetchall()]
    types = []
for name, kind in types:
    assert kind in ("uint64", "uint32", "string"), (name, kind)
print(eval(sys.argv[2]))
"#;
    let dir = tempfile::tempdir().unwrap();
    let [sockets, layers_file, pdus_file] =
        ["sockets", "layers", "pdus"].map(|name| dir.path().join(format!("{name}.parquet")));
    let expected = write(&sockets, (0..1000).map(sample));
    let [io_file, kernel_file] = ["io", "kernel"].map(|name| dir.path().join(format!("{name}.parquet")));
    let expected_io = write(&io_file, (0..1000).map(io));
    write(&kernel_file, (0..1000).map(kernel_point));
    let expected_layers = spool(&layers_file, layers);
    let expected_pdus = spool(&pdus_file, pdu);
    let ask = |path: &Path, what: &str| {
        let output = Command::new("python3").arg("-c").arg(script).arg(path).arg(what).output();
        let output = match output {
            Ok(output) => output,
            Err(error) => {
                println!("skipped: {test}: python3: {error}");
                return None;
            }
        };
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if text == "absent" {
            println!("skipped: {test}: neither pyarrow nor duckdb is there for python3");
            return None;
        }
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(text)
    };
    let what = r#"" ".join(map(str, [sum(column("app_rx_bytes")), sum(column("pacing_rate_bytes_per_s")),
        column("host")[1], column("state")[0], sum(column("ssthresh_packets")), len(column("t_ns"))]))"#;
    let Some(text) = ask(&sockets, what) else { return };
    let sum = |column: &[u64]| column.iter().map(|v| u128::from(*v)).sum::<u128>();
    let ours = format!(
        "{} {} far cwr {} 1000",
        sum(&expected.app_rx_bytes),
        sum(&expected.pacing_rate_bytes_per_s),
        expected.ssthresh_packets.iter().map(|v| u64::from(*v)).sum::<u64>(),
    );
    assert_eq!(text, ours);
    let what = r#"" ".join(map(str, [sum(column("completed_t_ns")), sum(column("sent_t_ns")),
        sum(column("session")), column("host")[1], column("op")[0], sum(column("status"))]))"#;
    let ours = format!(
        "{} {} {} far write {}",
        sum(&expected_layers.completed_t_ns),
        sum(&expected_layers.sent_t_ns),
        sum(&expected_layers.session),
        expected_layers.status.iter().map(|v| u64::from(*v)).sum::<u64>(),
    );
    assert_eq!(ask(&layers_file, what), Some(ours));
    let what =
        r#"" ".join([str(sum(column("stream_end"))), *column("kind")[:12], *column("direction")[:2]])"#;
    let kinds = expected_pdus.kind[..12].iter().map(|kind| kind.name()).collect::<Vec<_>>().join(" ");
    let ours = format!("{} {kinds} out in", sum(&expected_pdus.stream_end));
    assert_eq!(ask(&pdus_file, what), Some(ours));
    let what =
        r#"" ".join([str(sum(column("completed_t_ns"))), str(sum(column("status"))), *column("op")[:2]])"#;
    let ours = format!("{} 2 read write", sum(&expected_io.completed_t_ns));
    assert_eq!(ask(&io_file, what), Some(ours));
    let what =
        r#"" ".join([*column("event")[:3], *column("state")[:2], *column("op")[:3], *column("host")[:3]])"#;
    let ours = "received state block-completed none cwr none read write near far none";
    assert_eq!(ask(&kernel_file, what), Some(ours.to_owned()));
}

/// Writes a thousand rows by way of a spool, as much as fits into its batches: none is lost however slow the disk is.
fn spool<R: tables::Packed>(path: &Path, row: impl Fn(u64) -> R) -> R::Columns {
    let mut expected = R::Columns::default();
    let mut spool = Spool::<R>::create(path, 1).unwrap();
    for i in 0..1000 {
        spool.record(&row(i));
        row(i).push(&mut expected);
    }
    assert_eq!(spool.finish().unwrap(), tables::Written { rows: 1000, lost_rows: 0 });
    expected
}

/// docs/tables.md is a public interface: it lists exactly our columns, in file order, with their types and words.
#[test]
fn the_documentation_lists_every_column() {
    fn check<R: Row>(text: &str) {
        /// A column, its type, and its words.
        struct List(Vec<(&'static str, &'static str, Vec<&'static str>)>);
        impl tables::Visit for List {
            type Error = std::convert::Infallible;
            fn u64(&mut self, name: &'static str, _: &mut Vec<u64>) -> Result<(), Self::Error> {
                self.0.push((name, "uint64", Vec::new()));
                Ok(())
            }
            fn u32(&mut self, name: &'static str, _: &mut Vec<u32>) -> Result<(), Self::Error> {
                self.0.push((name, "uint32", Vec::new()));
                Ok(())
            }
            fn word<W: tables::Word>(
                &mut self,
                name: &'static str,
                _: &mut Vec<W>,
            ) -> Result<(), Self::Error> {
                self.0.push((name, "string", W::ALL.iter().map(|word| word.word()).collect()));
                Ok(())
            }
        }
        let mut list = List(Vec::new());
        let Ok(()) = R::visit(&mut R::Columns::default(), &mut list);
        let (_, section) = text.split_once(&format!("\n## {}\n", R::TABLE)).expect(R::TABLE);
        let section = section.split("\n## ").next().unwrap_or_default();
        let lines = section.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| column |"));
        let lines: Vec<&str> = lines.collect();
        for (line, (name, kind, words)) in lines.iter().zip(&list.0) {
            assert!(line.starts_with(&format!("| {name} | {kind} | ")), "{}: {name}: {line}", R::TABLE);
            for word in words {
                assert!(line.contains(&format!("`{word}`")), "{}: {name}: {word}: {line}", R::TABLE);
            }
        }
        assert_eq!(lines.len(), list.0.len(), "{}: lines and columns", R::TABLE);
    }
    let text = include_str!("../../../docs/tables.md");
    check::<Packet>(text);
    check::<SocketSample>(text);
    check::<Io>(text);
    check::<Layers>(text);
    check::<PduSeen>(text);
    check::<KernelPoint>(text);
    check::<Login>(text);
}

#[test]
fn a_table_that_is_being_written_is_not_written_over() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("io-near.parquet");
    let first = Writer::<Io>::create(&path).unwrap();
    let error = Writer::<Io>::create(&path).err().unwrap().to_string();
    assert!(error.contains("another process is writing this table"), "{error}");
    drop(first);
    // Somebody else's link where the next one begins.
    let precious = temp.path().join("precious");
    std::fs::write(&precious, "precious").unwrap();
    let partial = temp.path().join("io-near.parquet.partial");
    std::fs::remove_file(&partial).unwrap();
    std::os::unix::fs::symlink(&precious, &partial).unwrap();
    Writer::<Io>::create(&path).unwrap().finish().unwrap();
    assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
}
