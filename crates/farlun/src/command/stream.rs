//! `farlun stream`: the raw TCP baseline.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use event::{Bytes, format_delay, parse_delay};
use net::{EndSignals, tcp};
use serde_json::json;

use crate::command::target::addresses;
use crate::exit::{DONE, Exit};
use crate::session::{SessionArgs, time_bar};
use crate::stream::{self, CHUNK_BYTES, Order, Progress};

/// Measure raw TCP under the same policy: the baseline for everything else
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  farlun stream serve --listen 10.0.0.7:5201     at the far end
  farlun stream 10.0.0.7:5201 --time 20s         near to far
  farlun stream 10.0.0.7:5201 --reverse          far to near"
)]
pub(crate) struct StreamArgs {
    #[command(subcommand)]
    serve: Option<Serve>,
    #[command(flatten)]
    near: Near,
}

#[derive(Subcommand, Debug)]
enum Serve {
    /// Be the far end, for one stream after the other
    Serve {
        /// Where to listen; port 0 picks one
        #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:5201")]
        listen: String,
        /// Congestion control of what is sent, such as cubic [default: the system's]
        #[arg(long = "cc", value_name = "NAME")]
        congestion: Option<String>,
        /// Leave it to TCP how fast its window is sent, without pacing: for comparison
        #[arg(long)]
        no_pacing: bool,
        /// Write the table sockets-far.parquet to this directory
        #[arg(long, value_name = "DIR")]
        trace: Option<PathBuf>,
        /// Print the ready line as JSON
        #[arg(long)]
        json: bool,
    },
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
    /// Send from a buffer of this size, from its start to its end and again [default: 1MiB]
    #[arg(long, value_name = "SIZE", conflicts_with = "reverse")]
    buffer: Option<Bytes>,
    #[command(flatten)]
    session: SessionArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: StreamArgs) -> anyhow::Result<u8> {
    match (args.serve, args.near) {
        (Some(Serve::Serve { listen, congestion, no_pacing, trace, json }), _) => {
            serve(&listen, congestion.as_deref(), !no_pacing, trace.as_deref(), json)
        }
        (None, near) => measure(near),
    }
}

fn serve(
    listen: &str,
    congestion: Option<&str>,
    pacing: bool,
    trace: Option<&Path>,
    json: bool,
) -> anyhow::Result<u8> {
    let signals = EndSignals::take_over()?;
    let address = addresses(listen).map_err(Exit::usage)?[0];
    let listener = tcp::listen(address, congestion)
        .map_err(|error| anyhow::anyhow!("cannot listen on {address}: {error}"))?;
    let address = listener.local_addr()?;
    if let Some(dir) = trace {
        std::fs::create_dir_all(dir).map_err(|error| anyhow::anyhow!("{}: {error}", dir.display()))?;
    }
    match json {
        true => say!("{}", json!({"ready": true, "addresses": [address.to_string()]})),
        false => say!("ready: {address}"),
    }
    stream::serve(&listener, &signals, congestion, pacing, trace)?;
    Ok(DONE)
}

fn measure(near: Near) -> anyhow::Result<u8> {
    let Near { far, time, warmup, reverse, buffer, session, json } = near;
    let far = far.ok_or_else(|| Exit::usage("expected the far end's ADDR:PORT, or serve; see --help"))?;
    if warmup >= time {
        let (warmup, time) = (format_delay(warmup), format_delay(time));
        return Err(Exit::usage(format!("--warmup {warmup} leaves nothing of --time {time} to be counted")));
    }
    let options = session.options()?;
    let bar = time_bar(time);
    let mut progress = |now: Progress| {
        bar.set_position(now.elapsed.as_millis() as u64);
        bar.set_message(format!("{:.1} MB/s", now.bytes as f64 / now.elapsed.as_secs_f64().max(1e-9) / 1e6));
    };
    let order = Order { reverse, time, warmup, buffer_bytes: buffer_bytes(buffer)? };
    let report = stream::run(addresses(&far).map_err(Exit::usage)?[0], &order, &options, &mut progress)?;
    bar.finish_and_clear();
    if json {
        say!("{}", serde_json::to_string(&report)?);
    } else {
        let rate = report.load.bytes_per_s;
        say!("{:.1} MB/s ({:.1} Mbit/s of payload)", rate / 1e6, rate * 8.0 / 1e6);
        if let (Some(steady), Some(full_s)) = (report.steady_bits_per_s, report.full_s) {
            say!("steady at {:.1} Mbit/s, full after {full_s:.0} s", steady / 1e6);
        }
        say!("limited by {}", report.why);
    }
    Ok(DONE)
}

/// The size of the buffer to send from: no more than this host can have in memory at once.
fn buffer_bytes(asked: Option<Bytes>) -> anyhow::Result<usize> {
    const MOST: u64 = 16 << 30;
    match asked {
        None => Ok(CHUNK_BYTES),
        Some(Bytes(0)) => Err(Exit::usage("--buffer 0: expected a size such as 1GiB")),
        Some(Bytes(bytes)) if bytes > MOST => {
            Err(Exit::usage(format!("--buffer {}: expected at most {}", Bytes(bytes), Bytes(MOST))))
        }
        Some(Bytes(bytes)) => Ok(bytes as usize),
    }
}
