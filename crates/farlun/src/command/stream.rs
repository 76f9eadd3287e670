//! `farlun stream`: the raw TCP baseline.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::{Args, Subcommand};
use engine::{CongestionControl, Pacing};
use event::{Bytes, format_delay, parse_delay};
use net::{EndSignals, congestion, scheduling, tcp};
use proto::keys::SOFTWARE;
use serde_json::json;
use stream::{
    Calls, SOURCE_BYTES, STREAMS_MAX, ServeOptions, StreamOptions, StreamProgress, StreamSpec, Trial,
};

use crate::command::target::addresses;
use crate::exit::{DONE, Exit};
use crate::session::{SendingArgs, time_bar, timeout, trace_dir};

/// The usual port of a far end; iperf3's, which does the same.
const PORT: u16 = 5201;

/// Measure raw TCP under the same policy: the baseline for everything else
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  farlun stream serve --listen 10.0.0.7:5201     at the far end
  farlun stream 10.0.0.7:5201 --time 20s         near to far
  farlun stream 10.0.0.7:5201 --reverse          far to near
  farlun stream 10.0.0.7:5201 --streams 4        four at once, each with its figures
  farlun stream 10.0.0.7:5201 --tune             with the best sizes of reads and writes"
)]
pub(crate) struct StreamArgs {
    #[command(subcommand)]
    serve: Option<Serve>,
    #[command(flatten)]
    near: Near,
}

#[derive(Subcommand, Debug)]
enum Serve {
    /// Be the far end, for one run after the other
    #[command(after_help = "Example: farlun stream serve --listen 10.0.0.7:5201")]
    Serve(ServeArgs),
}

#[derive(Args, Debug)]
struct ServeArgs {
    /// Where to listen; port 0 picks one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:5201")]
    listen: String,
    #[command(flatten)]
    sending: SendingArgs,
    /// Have each stream run on one CPU: the first stream on the first of these, and so on [default: anywhere]
    #[arg(long, value_name = "CPU", value_delimiter = ',')]
    pin: Vec<usize>,
    /// Write the table sockets-far.parquet to this directory
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,
    /// Print the ready line as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct Near {
    /// ADDR:PORT of a far end that serves
    far: Option<String>,
    /// How long
    #[arg(long, default_value = "10s", value_parser = parse_delay)]
    time: Duration,
    /// How much of that is not counted, from its start
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = parse_delay)]
    warmup: Duration,
    /// The far end sends
    #[arg(long)]
    reverse: bool,
    /// Streams at once, 1 to 64
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=i64::from(STREAMS_MAX)))]
    streams: u16,
    /// Find the best sizes of writes and reads by short trials, and use them
    #[arg(long)]
    tune: bool,
    /// Have each stream run on one CPU of this host: the first stream on the first of these, and so on [default:
    /// anywhere]; the far end has its own --pin
    #[arg(long, value_name = "CPU", value_delimiter = ',')]
    pin: Vec<usize>,
    /// Send from a buffer of this size, from its start to its end and again [default: 1MiB]
    #[arg(long, value_name = "SIZE", conflicts_with = "reverse")]
    buffer: Option<Bytes>,
    /// How long the far end may take to answer; at least 1ms
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = timeout)]
    timeout: Duration,
    #[command(flatten)]
    sending: SendingArgs,
    /// Write the table sockets-near.parquet to this directory
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: StreamArgs) -> anyhow::Result<u8> {
    match (args.serve, args.near) {
        (Some(Serve::Serve(args)), _) => serve(&args),
        (None, near) => measure(near),
    }
}

fn serve(args: &ServeArgs) -> anyhow::Result<u8> {
    let signals = EndSignals::take_over()?;
    let address = addresses(&args.listen, PORT).map_err(Exit::usage)?[0];
    let congestion = &args.sending.congestion;
    check_congestion(congestion)?;
    check_pins(&args.pin)?;
    let listener = tcp::listen(address, congestion.name())
        .map_err(|error| anyhow::anyhow!("cannot listen on {address}: {error}"))?;
    let address = listener.local_addr()?;
    let trace = trace_dir(args.trace.clone())?;
    match args.json {
        true => say!("{}", json!({"ready": true, "addresses": [address.to_string()]})),
        false => say!("ready: {address}"),
    }
    let options = ServeOptions {
        congestion,
        pacing: args.sending.pacing(),
        pins: &args.pin,
        trace: trace.as_deref(),
        notice: |text| note!("farlun stream: {text}"),
    };
    stream::serve(&listener, &signals, &options)?;
    Ok(DONE)
}

fn measure(near: Near) -> anyhow::Result<u8> {
    let Near { far, time, warmup, reverse, streams, tune, pin, buffer, timeout, sending, trace, json } = near;
    let far = far.ok_or_else(|| Exit::usage("expected the far end's ADDR:PORT, or serve; see --help"))?;
    if warmup >= time {
        let (warmup, time) = (format_delay(warmup), format_delay(time));
        return Err(Exit::usage(format!("--warmup {warmup} leaves nothing of --time {time} to be counted")));
    }
    if reverse && sending.pacing() != Pacing::Follow {
        return Err(Exit::usage(
            "with --reverse the far end sends: give --pace or --no-pacing to its farlun stream serve",
        ));
    }
    let address = addresses(&far, PORT).map_err(Exit::usage)?[0];
    let options = StreamOptions {
        timeout,
        pacing: sending.pacing(),
        congestion: sending.congestion,
        trace: trace_dir(trace)?,
        software: SOFTWARE,
        notice: |text| note!("farlun: {text}"),
    };
    check_congestion(&options.congestion)?;
    check_pins(&pin)?;
    // Not zero: pages of zeros are all the same one.
    let source = if reverse { Vec::new() } else { vec![0x5a; buffer_bytes(buffer)?] };
    let calls = Calls::default();
    let mut spec = StreamSpec { reverse, time, warmup, streams, calls, pins: &pin, source: &source };
    let tuning = match tune {
        true => {
            let on_trial = |trial: &Trial| {
                if !json {
                    say!("{}", trial.sentence());
                }
            };
            Some(stream::tune(address, &spec, &options, &on_trial)?)
        }
        false => None,
    };
    if let Some(tuning) = &tuning {
        spec.calls = tuning.calls();
        if !json {
            say!("{}", tuning.sentence());
        }
    }
    let (bar, total_bytes) = (time_bar(time), AtomicU64::new(0));
    let progress = |now: StreamProgress| {
        let bytes = total_bytes.fetch_add(now.fresh_bytes, Ordering::Relaxed) + now.fresh_bytes;
        bar.set_position(now.elapsed.as_millis() as u64);
        bar.set_message(format!("{:.1} MB/s", bytes as f64 / now.elapsed.as_secs_f64().max(1e-9) / 1e6));
    };
    let mut report = stream::run(address, &spec, &options, &progress)?;
    report.tune = tuning;
    bar.finish_and_clear();
    if json {
        say!("{}", serde_json::to_string(&report)?);
    } else {
        for line in report.lines() {
            say!("{line}");
        }
    }
    Ok(DONE)
}

/// Returns a usage error for a congestion control that the kernel lacks, before anything is begun.
fn check_congestion(setting: &CongestionControl) -> anyhow::Result<()> {
    setting
        .name()
        .map_or(Ok(()), congestion::check_congestion)
        .map_err(|error| Exit::usage(format!("--cc: {error}")))
}

fn check_pins(pins: &[usize]) -> anyhow::Result<()> {
    let allowed = scheduling::allowed_cpus()?;
    match pins.iter().find(|cpu| !allowed.contains(cpu)) {
        None => Ok(()),
        Some(cpu) => {
            let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
            Err(Exit::usage(format!(
                "--pin {cpu}: this process has no such CPU; expected some of {}",
                allowed.join(",")
            )))
        }
    }
}

/// The size of the buffer to send from: no more than this host can have in memory at once.
fn buffer_bytes(asked: Option<Bytes>) -> anyhow::Result<usize> {
    const MOST: u64 = 16 << 30;
    match asked {
        None => Ok(SOURCE_BYTES),
        Some(Bytes(0)) => Err(Exit::usage("--buffer 0: expected a size such as 1GiB")),
        Some(Bytes(bytes)) if bytes > MOST => {
            Err(Exit::usage(format!("--buffer {}: expected at most {}", Bytes(bytes), Bytes(MOST))))
        }
        Some(Bytes(bytes)) => Ok(bytes as usize),
    }
}
