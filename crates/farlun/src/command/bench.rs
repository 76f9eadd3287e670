//! `farlun bench`: load on a LUN, and how it fared.

use std::cell::RefCell;
use std::time::Duration;

use clap::Args;
use event::{Bytes, Op, format_delay, parse_delay};
use initiator::{Cut, Disk, Load, Options, Outcome, Progress, Shape};
use net::clock;
use tables::manifest::{Cpu, Latency, Load as LoadDocument, Trace};

use crate::exit::{DONE, Exit};
use crate::session::{BulkArgs, close, connections_words, failed, open_many, time_bar};

/// Load a LUN and show throughput, latency and what it cost
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  farlun bench iscsi://10.0.0.7/iqn.2026-11.io.farlun:store/0
  farlun bench iscsi://10.0.0.7/iqn.2026-11.io.farlun:store/0 --block 4KiB --depth 32 --random --json
  farlun bench iscsi://10.0.0.7/iqn.2026-11.io.farlun:scratch/0 --op read,write --overwrite

Without --depth, as much is outstanding as the path's bandwidth-delay product needs; with --random at least 32 requests and
twice the product, since latency counts there.
Nothing is written to the LUN without --overwrite.")]
pub(crate) struct BenchArgs {
    /// iscsi://HOST[:PORT]/IQN/LUN
    url: String,
    /// read, write, or read,write for one after the other; to write needs --overwrite
    #[arg(long, value_delimiter = ',', default_value = "read", value_parser = parse_op)]
    op: Vec<Op>,
    /// Write over what is on the LUN; without it nothing is ever written
    #[arg(long)]
    overwrite: bool,
    /// Length of a request, in whole blocks of the LUN [default: 1MiB, with --random 4KiB]
    #[arg(long, value_name = "SIZE")]
    block: Option<Bytes>,
    /// Requests outstanding, 1 to 65535 [default: follows the path]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    depth: Option<u16>,
    /// Requests that a session gives to iSCSI at a time, 1 to 65535; those beyond wait above it [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    queue_limit: Option<u16>,
    /// Sessions that load the LUN at the same time, 1 to 1024, each with requests of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    sessions: u16,
    /// At random places of the LUN instead of one after the other
    #[arg(long)]
    random: bool,
    /// How long; at least one request has to complete in what is counted of it
    #[arg(long, default_value = "10s", value_parser = parse_delay)]
    time: Duration,
    /// How much of that is not counted, from its start
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = parse_delay)]
    warmup: Duration,
    /// Before the load, move 1 MiB blocks for so long, so that the connection's window is open
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = parse_delay)]
    warm_bulk: Duration,
    /// Where random places come from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    session: BulkArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

const BULK_BLOCK_BYTES: u32 = 1 << 20;
const RANDOM_BLOCK_BYTES: u32 = 4 << 10;

pub(crate) fn run(args: BenchArgs) -> anyhow::Result<u8> {
    check_overwrite(&args.op, args.overwrite)?;
    if args.warmup >= args.time {
        return Err(Exit::usage(format!(
            "--warmup {} leaves nothing of --time {} to be counted",
            format_delay(args.warmup),
            format_delay(args.time)
        )));
    }
    let (depth, queue_limit) = (args.depth.map(usize::from), args.queue_limit.map(usize::from));
    let options = Options { depth, queue_limit, ..args.session.options()? };
    let mut disks = open_many(&args.url, &options, args.sessions.into())?;
    let disk = &disks[0];
    let (len_bytes, transfer_max_bytes) = (disk.len_bytes(), disk.transfer_max_bytes());
    let default = if args.random { RANDOM_BLOCK_BYTES } else { BULK_BLOCK_BYTES };
    let block_bytes = check_block(args.block.map_or(default.into(), |block| block.0), disk)?;
    let mut documents = Vec::new();
    for &op in &args.op {
        let shape = Shape {
            op,
            block_bytes,
            depth: args.depth.map(usize::from),
            is_random: args.random,
            span_bytes: len_bytes,
            time: args.time,
            warmup: args.warmup,
            seed: args.seed,
            start_bytes: 0,
            patience: None,
        };
        if args.warm_bulk > Duration::ZERO {
            let bulk = Shape {
                block_bytes: BULK_BLOCK_BYTES.min(transfer_max_bytes),
                depth: None,
                is_random: false,
                time: args.warm_bulk,
                warmup: Duration::ZERO,
                ..shape
            };
            load(&mut disks, bulk, &mut |_| {})?;
        }
        documents.push(measured(&mut disks, shape)?);
    }
    let mut trace = None;
    for disk in disks {
        trace = close(disk)?;
    }
    documents.iter_mut().for_each(|document| document.trace = trace);
    if args.json {
        match documents.as_slice() {
            [one] => say!("{}", serde_json::to_string(one)?),
            both => say!("{}", serde_json::to_string(both)?),
        }
    } else {
        documents.iter().for_each(print);
    }
    Ok(DONE)
}

/// Loads each session, with a progress bar; how it fared.
pub(crate) fn measured(disks: &mut [Disk], shape: Shape) -> anyhow::Result<LoadDocument> {
    cut_short(disks, shape).map(|(document, _)| document)
}

/// The same for a load that may end before its time; why it did.
pub(crate) fn cut_short(disks: &mut [Disk], shape: Shape) -> anyhow::Result<(LoadDocument, Option<Cut>)> {
    let bar = time_bar(shape.time);
    let mut progress = |now: Progress| {
        bar.set_position(now.elapsed.as_millis() as u64);
        let rate = now.bytes as f64 / now.elapsed.as_secs_f64().max(1e-9);
        bar.set_message(format!("{} {:.1} MB/s", shape.op.name(), rate / 1e6));
    };
    let near_ns = clock::process_cpu_ns();
    let reconnects = reconnects_of(disks);
    let far_ns = disks[0].target_cpu_ns().map_err(failed)?;
    let outcome = load(disks, shape, &mut progress)?;
    let near_ns = clock::process_cpu_ns() - near_ns;
    let far_after_ns = disks[0].target_cpu_ns().map_err(failed)?;
    let far_ns = far_after_ns.zip(far_ns).map(|(after, before)| after.saturating_sub(before));
    bar.finish_and_clear();
    if outcome.ios == 0 {
        return Err(too_short(&shape, disks[0].session().min_rtt()));
    }
    let mut document = document(&disks[0], &shape, &outcome, near_ns, far_ns);
    document.sessions = Some(disks.len() as u64);
    let most = disks.iter().map(|disk| disk.session().connections()).max();
    document.connections = most.map(u64::from);
    document.reconnects = Some(reconnects_of(disks) - reconnects);
    Ok((document, outcome.cut))
}

/// Runs the same load on each session. Returns the combined outcome.
fn load(disks: &mut [Disk], shape: Shape, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Outcome> {
    let count = disks.len();
    let all = RefCell::new((vec![Progress::default(); count], progress));
    let tell_of = |number: usize| {
        let all = &all;
        move |now: Progress| {
            let (each, progress) = &mut *all.borrow_mut();
            each[number] = now;
            let (bytes, ios) = each.iter().fold((0, 0), |(b, n), each| (b + each.bytes, n + each.ios));
            progress(Progress { elapsed: now.elapsed, bytes, ios });
        }
    };
    let mut tells: Vec<_> = (0..count).map(tell_of).collect();
    let loads = disks.iter().zip(&mut tells).enumerate().map(|(number, (disk, tell))| {
        // Each goes its own way over the LUN.
        let number = number as u64;
        let start_bytes = shape.span_bytes / count as u64 * number;
        let shape = Shape { start_bytes, seed: shape.seed + number, ..shape };
        Load::new(shape, disk.geometry(), disk.session().buffers(), tell)
    });
    let mut loads: Vec<Load> = loads.collect();
    match (&mut *disks, &mut loads[..]) {
        ([disk], [load]) => disk.client().run(load),
        (disks, loads) => initiator::together(disks.iter_mut().map(Disk::client).zip(loads).collect()),
    }
    .map_err(failed)?;
    let mut outcomes = loads.into_iter().map(Load::outcome);
    let mut sum = outcomes.next().expect("there is at least one session");
    outcomes.for_each(|outcome| sum.add(&outcome));
    Ok(sum)
}

/// Nothing was measured: there is no figure to show.
fn too_short(shape: &Shape, rtt: Option<Duration>) -> anyhow::Error {
    let counted = shape.time.saturating_sub(shape.warmup);
    let rtt = rtt.map_or_else(String::new, |rtt| format!(" of {}", format_delay(rtt)));
    Exit::usage(format!(
        "--time {} is too short: no request completed in the {} that are counted, expected several round trips{rtt}",
        format_delay(shape.time),
        format_delay(counted)
    ))
}

fn reconnects_of(disks: &[Disk]) -> u64 {
    disks.iter().map(|disk| disk.session().reconnects()).sum()
}

/// Refuses a load that would write over a LUN without having been allowed to.
pub(crate) fn check_overwrite(ops: &[Op], is_allowed: bool) -> anyhow::Result<()> {
    match ops.contains(&Op::Write) && !is_allowed {
        true => Err(Exit::usage(
            "--op write writes over what is on the LUN, expected --overwrite beside it; \
             add --overwrite if that data may go, or measure with --op read",
        )),
        false => Ok(()),
    }
}

pub(crate) fn check_block(block: u64, disk: &Disk) -> anyhow::Result<u32> {
    let (unit, most) = (u64::from(disk.block_len_bytes()), u64::from(disk.transfer_max_bytes()));
    let wrong = |why: String| Exit::usage(format!("--block {}: {why}", Bytes(block)));
    if block == 0 || !block.is_multiple_of(unit) {
        return Err(wrong(format!("expected a multiple of the LUN's block of {unit} bytes")));
    }
    if block > most {
        return Err(wrong(format!("the target moves at most {} in one command", Bytes(most))));
    }
    if block > disk.len_bytes() {
        return Err(wrong(format!("the LUN has only {}", Bytes(disk.len_bytes()))));
    }
    Ok(block as u32)
}

fn document(
    disk: &Disk,
    shape: &Shape,
    outcome: &Outcome,
    near_ns: u64,
    far_ns: Option<u64>,
) -> LoadDocument {
    let counted = outcome.ended.since(outcome.counted).as_secs_f64();
    let base_rtt_ns = disk.session().min_rtt().map(|rtt| rtt.as_nanos() as f64);
    let histogram = &outcome.latency_ns;
    let at = |quantile| histogram.value_at_quantile(quantile) as f64;
    let latency = (!histogram.is_empty()).then(|| Latency {
        min: histogram.min() as f64,
        mean: histogram.mean(),
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: histogram.max() as f64,
    });
    let per_io = |ns: u64| ns as f64 / outcome.all_ios.max(1) as f64;
    LoadDocument {
        kind: "bench".to_owned(),
        op: shape.op.name().to_owned(),
        block_bytes: Some(shape.block_bytes.into()),
        depth: shape.depth.map(|depth| depth as u64),
        most_outstanding: shape.depth.is_none().then_some(outcome.most_outstanding as u64),
        direction: None,
        random: shape.is_random,
        t_start_ns: outcome.started.as_nanos(),
        t_end_ns: outcome.ended.as_nanos(),
        warmup_ns: outcome.counted.since(outcome.started).as_nanos() as u64,
        bytes: outcome.bytes,
        ios: outcome.ios,
        iops: outcome.ios as f64 / counted,
        bytes_per_s: outcome.bytes as f64 / counted,
        turnaround_rtt: latency.zip(base_rtt_ns).map(|(latency, rtt)| latency.p50 / rtt),
        latency_ns: latency,
        base_rtt_ns,
        cpu: Some(Cpu {
            near_ns_per_io: Some(per_io(near_ns)),
            far_ns_per_io: far_ns.map(per_io),
            near_ns: Some(near_ns as f64),
            far_ns: far_ns.map(|ns| ns as f64),
        }),
        limit: None,
        peer: disk.session().peer_software().map(str::to_owned),
        sessions: None,
        connections: None,
        chose_connections: Some(disk.session().chooses_connections()),
        reconnects: None,
        trace: None,
    }
}

fn print(load: &LoadDocument) {
    let time = |ns: f64| format_delay(Duration::from_nanos(ns as u64));
    let row = |name: &str, value: String| say!("{name:<18} {value}");
    let follows = || {
        let most = load.most_outstanding.map_or(String::new(), |most| format!(", {most} at most"));
        format!("follows the path{most}")
    };
    let depth = load.depth.map_or_else(follows, |depth| depth.to_string());
    let order = if load.random { "random" } else { "sequential" };
    let block = Bytes(load.block_bytes.unwrap_or(0));
    row("load", format!("{} {block} {order}, outstanding: {depth}", load.op));
    row("throughput", format!("{:.1} MB/s", load.bytes_per_s / 1e6));
    row("IOPS", format!("{:.0} per second", load.iops));
    let Some(latency) = load.latency_ns else {
        return row("latency", "no request completed in the time that is counted".to_owned());
    };
    let Latency { p50, p90, p99, p999, max, .. } = latency;
    let [p50, p90, p99, p999, max] = [p50, p90, p99, p999, max].map(time);
    row("latency", format!("p50 {p50}  p90 {p90}  p99 {p99}  p99.9 {p999}  max {max}"));
    if let Some((trips, rtt)) = load.turnaround_rtt.zip(load.base_rtt_ns) {
        row("turnaround", format!("{trips:.2} round trips of {}", time(rtt)));
    }
    if let Some(sessions @ 2..) = load.sessions {
        row("sessions", sessions.to_string());
    }
    let is_chosen = load.chose_connections == Some(true);
    if let Some(words) = connections_words(load.connections.unwrap_or(0), is_chosen) {
        row("connections", words);
    }
    if let Some(reconnects @ 1..) = load.reconnects {
        row("reconnects", format!("{reconnects}: the session was lost and made again"));
    }
    if let Some(trace) = load.trace {
        let Trace { layers, pdus, .. } = trace;
        let lost = trace.lost_rows();
        row("trace", format!("{} requests, {} PDUs, {lost} rows lost", layers.rows, pdus.rows));
    }
    let Some(cpu) = load.cpu else { return };
    let us =
        |ns: Option<f64>| ns.map_or("unknown (not farlun)".to_owned(), |ns| format!("{:.2} us", ns / 1e3));
    let (near, far) = (us(cpu.near_ns_per_io), us(cpu.far_ns_per_io));
    row("CPU per request", format!("initiator {near}, target {far}"));
}

pub(crate) fn parse_op(text: &str) -> Result<Op, String> {
    match text {
        "read" => Ok(Op::Read),
        "write" => Ok(Op::Write),
        _ => Err("expected read, write or read,write".to_owned()),
    }
}
