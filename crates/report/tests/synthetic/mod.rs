//! A run directory that no machine ran: known rates and latencies, written with the real writers.

use std::collections::BTreeMap;
use std::path::Path;

use event::{Host, Instant, Io, Op, SocketSample};
use serde_json::{Value, json};
use tables::RunDir;
use tables::Writer;
use tables::manifest::{Cell, CellEntry, Check, Comparison, Run, Window};

const MS: u64 = 1_000_000;
const GOODPUT_BYTES_PER_S: f64 = 1e9 / 8.0 * 1448.0 / 1538.0;
const START_NS: u64 = 5_000 * MS;

/// Share of the line that the loads of the synthetic run reach in the end.
pub(crate) const SHARES: [(&str, f64); 3] = [("stream", 0.981), ("read", 0.974), ("write", 0.9675)];

/// Writes the run; `failing` makes a check fail and a repeat invalid.
pub(crate) fn write(path: &Path, failing: bool) -> RunDir {
    let dir = RunDir::create(path).unwrap();
    let mut run = Run {
        farlun: "0.1.0".to_owned(),
        command_line: "farlun lab --out runs/tour".to_owned(),
        plan_name: "tour".to_owned(),
        plan: json!({"name": "tour"}),
        plan_text:
            "name = \"tour\"\n\n[path]\nrate = \"1gbit\"\n\n[matrix]\ndelay = [\"0\", \"8ms\", \"50ms\"]\n"
                .to_owned(),
        seed: 1,
        commit: Some("09a4b34".to_owned()),
        kernel: "6.18.0".to_owned(),
        cpus: 2,
        sysctls: [("net.ipv4.tcp_no_metrics_save", "1"), ("net.ipv4.tcp_rmem", "4096 131072 536870912")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into(),
        started_unix_s: 1_795_294_500.0,
        elapsed_s: 312.0,
        valid: true,
        ..Run::default()
    };
    let loads = ["stream", "read", "write", "rand4k", "write1m"];
    for (n, (label, delay_ms)) in [("0", 0), ("8ms", 8), ("50ms", 50)].into_iter().enumerate() {
        for (m, load) in loads.into_iter().enumerate() {
            for repeat in 1..=3 {
                let slug = format!("{load}-delay-{label}");
                let entry = CellEntry {
                    dir: dir.make_cell(n * loads.len() + m + 1, &slug, repeat).unwrap(),
                    slug,
                    load: load.to_owned(),
                    parameters: BTreeMap::from([("delay".to_owned(), json!(label))]),
                    repeat,
                };
                let invalid = failing && load == "rand4k" && delay_ms == 8 && repeat == 2;
                write_cell(&dir, &entry, delay_ms, invalid);
                run.cells.push(entry);
            }
        }
    }
    run.checks = checks(failing);
    dir.save(&run).unwrap();
    dir
}

fn checks(failing: bool) -> Vec<Check> {
    let mut checks: Vec<Check> = ["0", "8ms", "50ms"]
        .iter()
        .flat_map(|delay| {
            SHARES.map(|(load, share)| {
                let name = format!("{load} fills the line at delay {delay}");
                Check::evaluate(name, Some(share), Comparison::AtLeast, 0.9, "")
            })
        })
        .collect();
    let name = "a warm 1 MiB write costs one round trip and its own bytes, at delay 50ms";
    let found = if failing { None } else { Some(1.1) };
    checks.push(Check::evaluate(name, found, Comparison::AtMost, 1.25, "× own bytes"));
    checks
}

fn write_cell(dir: &RunDir, entry: &CellEntry, delay_ms: u64, invalid: bool) {
    let path = dir.path().join(&entry.dir);
    let rtt_ns = 2 * delay_ms * MS + 60_000;
    let load = entry.load.as_str();
    let bulk = SHARES.iter().find(|(name, _)| *name == load);
    let (op, length_s) = match (load, bulk) {
        ("rand4k", _) => ("read", 3.0),
        ("write1m", _) => ("write", 3.0),
        (name, _) => (name, 6.0 + 0.16 * delay_ms as f64),
    };
    if let Some((_, share)) = bulk {
        bulk_tables(&path, op, *share, entry.repeat, rtt_ns, length_s);
    } else {
        request_table(&path, op, rtt_ns, length_s);
    }
    let validity = json!({"ok": !invalid, "reasons": [], "packets": 812_345, "segments": 812_345,
        "lateness_ns": {"p50": 3_100 + entry.repeat, "p99": 41_000, "max": if invalid { 9_700_000 } else { 230_000 }},
        "dropped_queue_full": if op == "stream" { 12 } else { 0 }, "dropped_unasked": 0});
    let near = json!({"kind": if load == "stream" { "stream" } else { "bench" }, "op": op,
        "block_bytes": match load { "rand4k" => json!(4096), "write1m" => json!(1 << 20), "stream" => Value::Null, _ => json!(1 << 20) },
        "depth": match load { "rand4k" => json!(8), "write1m" => json!(1), _ => Value::Null },
        "direction": if load == "stream" { json!("far-to-near") } else { Value::Null },
        "t_start_ns": START_NS, "t_end_ns": START_NS + (length_s * 1e9) as u64, "base_rtt_ns": rtt_ns,
        "cpu": {"near_ns_per_io": 5_400.0, "far_ns_per_io": 6_100.0}, "peer": "farlun/0.1.0"});
    let cell = Cell {
        slug: entry.slug.clone(),
        initiators: 1,
        targets: 1,
        load: load.to_owned(),
        repeat: entry.repeat,
        parameters: entry.parameters.clone(),
        command: format!(
            "farlun wan --json --trace DIR --delay {delay_ms}ms --rate 1gbit --queue 12.5MB --far 'farlun target --json \
             --lun memory:1GiB --listen 198.18.0.2:3260 --insecure --cc cubic --trace DIR' -- farlun bench \
             iscsi://198.18.0.2/iqn.2026-11.io.farlun:lab/0 --json --op {op} --trace DIR"
        ),
        window: Some(Window { start_s: length_s - 2.0, length_s: 2.0 }),
        wan: Some(
            json!({"path": {"delay_ns": delay_ms * MS, "rate_bits_per_s": 1_000_000_000, "queue_bytes": 12_500_000,
            "mtu": 1500}, "validity": validity}),
        ),
        near: Some(near),
        clock: None,
        valid: !invalid,
        reasons: if invalid { vec!["lateness p99 2.4 ms, allowed 0.8 ms".to_owned()] } else { Vec::new() },
        unvalidated: false,
        for_throughput: false,
    };
    dir.save_cell(&entry.dir, &cell).unwrap();
}

/// Samples of both ends every 10 ms, a ramp of exponential shape, and a little unevenness.
fn bulk_tables(path: &Path, op: &str, share: f64, repeat: u32, rtt_ns: u64, length_s: f64) {
    let mut near = Writer::<SocketSample>::create(path.join("sockets-near.parquet")).unwrap();
    let mut far = Writer::<SocketSample>::create(path.join("sockets-far.parquet")).unwrap();
    let (mut bytes, step_s) = (0.0, 0.01);
    for i in 0..=(length_s / step_s) as u64 {
        let t_s = i as f64 * step_s;
        let full = 1.0 - (-t_s / (6.0 * rtt_ns as f64 / 1e9 + 0.02)).exp();
        let ripple = 0.004 * ((i * (7 + u64::from(repeat))) % 11) as f64 / 10.0 - 0.002;
        let rate = GOODPUT_BYTES_PER_S * (share * full + ripple * full);
        bytes += rate * step_s;
        let t = Instant::from_nanos(START_NS + (t_s * 1e9) as u64);
        let sample = |host, receives: bool| SocketSample {
            app_rx_bytes: if receives { bytes as u64 } else { 0 },
            app_tx_bytes: if receives { 0 } else { bytes as u64 },
            cwnd_packets: 10 + (rate * rtt_ns as f64 / 1e9 / 1448.0 * 1.15) as u32,
            mss_bytes: 1448,
            rtt_ns: rtt_ns + 40_000,
            min_rtt_ns: rtt_ns,
            delivery_rate_bytes_per_s: rate as u64,
            pacing_rate_bytes_per_s: rate as u64,
            ..SocketSample::new(t, host, 1)
        };
        near.push(&sample(Host::Near, op != "write")).unwrap();
        far.push(&sample(Host::Far, op == "write")).unwrap();
    }
    near.finish().unwrap();
    far.finish().unwrap();
}

fn request_table(path: &Path, op: &str, rtt_ns: u64, length_s: f64) {
    let mut table = Writer::<Io>::create(path.join("io-near.parquet")).unwrap();
    let (op, len_bytes, depth) = if op == "read" { (Op::Read, 4096, 8) } else { (Op::Write, 1 << 20, 1) };
    let own_ns = (f64::from(len_bytes) / GOODPUT_BYTES_PER_S * 1e9) as u64;
    let mut t = START_NS;
    for i in 0..400_000u64 {
        let latency = rtt_ns + own_ns + own_ns / 10 + (i * 37 % 101) * 400;
        if t + latency > START_NS + (length_s * 1e9) as u64 {
            break;
        }
        table
            .push(&Io {
                issued: Instant::from_nanos(t),
                completed: Instant::from_nanos(t + latency),
                op,
                offset_bytes: (i % 1024) * 4096,
                len_bytes,
                status: 0,
            })
            .unwrap();
        t += latency / depth;
    }
    table.finish().unwrap();
}
