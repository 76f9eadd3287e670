//! `farlun wan`: a long path between two namespaces of this machine, and a command at each end.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use event::{BitRate, Bytes};
use wan::validity::Class;
use wan::{Settings, Side, Spec, WanError};

use crate::exit::{self, Exit};

/// Smallest MTU that IPv6 allows (RFC 8200, section 5) and largest that a packet's length field does.
const MTU: std::ops::RangeInclusive<i64> = 1280..=65_535;

/// Put a long path between two commands, each in a namespace of its own
///
/// Makes two network namespaces, near (198.18.0.1, 2001:2::1) and far (198.18.0.2, 2001:2::2), with a path of
/// the given delay, rate and queue between them. CMD runs in far; when something there listens on TCP, COMMAND
/// runs in near. When COMMAND ends, everything in both is ended. Both find the addresses in FARLUN_NEAR,
/// FARLUN_FAR, FARLUN_NEAR6 and FARLUN_FAR6. Needs root.
///
/// The exit code is that of COMMAND; 4 if the emulator was late or dropped a packet it should not have.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  \
        farlun wan --delay 8ms --rate 1gbit -- ping -c 3 198.18.0.2\n  \
        farlun wan --delay 50ms --rate 1gbit --far 'iperf3 -s -1' -- iperf3 -c 198.18.0.2 -C cubic\n  \
        farlun wan --delay 8ms --far 'tgtd -f' -- sh -c '\n    \
            tgtadm --lld iscsi --op new --mode target --tid 1 -T iqn.2026-11.io.farlun:tgt &&\n    \
            tgtadm --lld iscsi --op bind --mode target --tid 1 -I ALL &&\n    \
            iscsi-ls -s iscsi://198.18.0.2'\n  \
        farlun wan --delay 8ms -- bash        (and in other terminals: farlun wan enter far)"
)]
pub(crate) struct WanArgs {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    path: PathArgs,
    /// Run CMD with sh in far, and wait until something there listens on TCP
    #[arg(long, value_name = "CMD")]
    far: Option<String>,
    /// Write the table packets.parquet, every packet's times, into DIR
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,
    /// Print one JSON document when all is over; what the commands print goes to stderr, except a last line
    /// of JSON, which becomes part of it
    #[arg(long)]
    json: bool,
    /// The figures the run is for: exit code 4 if it is not valid for them
    #[arg(long, value_enum, default_value_t = For::Throughput)]
    validity: For,
    /// The command to run in near
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What the path is like.
#[derive(Args, Debug)]
struct PathArgs {
    /// Propagation one way, such as 8ms; half of the round trip
    #[arg(long, default_value = "0", value_parser = event::parse_delay)]
    delay: Duration,
    /// Rate of the wire, such as 100mbit or 1gbit, with 38 bytes of Ethernet for each packet
    #[arg(long, default_value = "1gbit")]
    rate: BitRate,
    /// Bytes that may wait for the wire [default: rate x round trip, at least 1 MB]
    #[arg(long)]
    queue: Option<Bytes>,
    /// Largest packet, in bytes of IP
    #[arg(long, default_value = "1500", value_parser = clap::value_parser!(u32).range(MTU))]
    mtu: u32,
}

#[derive(Subcommand, Debug)]
enum Part {
    /// Run a command at one end of the path that was started last
    #[command(after_help = "Example: farlun wan enter far -- ss -tin")]
    Enter {
        /// near or far
        side: Side,
        /// The command [default: $SHELL]
        #[arg(last = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    /// Clean up after the process at the other end of standard input
    #[command(hide = true)]
    Guard,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum For {
    Latency,
    Throughput,
    Off,
}

/// Runs the subcommand.
pub(crate) fn run(args: WanArgs) -> anyhow::Result<u8> {
    match args.part {
        Some(Part::Enter { side, command }) => Err(enter(side, command)),
        Some(Part::Guard) => wan::guard::stand().map(|()| exit::DONE).context("read standard input"),
        None => emulate(args),
    }
}

fn emulate(args: WanArgs) -> anyhow::Result<u8> {
    let PathArgs { delay, rate, queue, mtu } = args.path;
    if let Some(Bytes(bytes)) = queue
        && bytes < u64::from(mtu) + u64::from(link::FRAMING_BYTES)
    {
        return Err(Exit::usage(format!(
            "a queue of {bytes} bytes holds no packet of {mtu} bytes; give at least {} bytes",
            mtu + link::FRAMING_BYTES
        )));
    }
    if let Some(dir) = &args.trace {
        std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    let settings = Settings {
        spec: Spec::new(delay, rate, queue.map(|queue| queue.0), mtu),
        near: args.command,
        far: args.far,
        trace: args.trace,
        keep_output: args.json,
        class: args.validity.class(),
        program: Some(std::env::current_exe().context("find this program")?),
    };
    let outcome = wan::run(&settings)?;
    if args.json {
        println!("{}", serde_json::to_string(&outcome)?);
    }
    let verdict = &outcome.validity.asked;
    if !verdict.ok {
        eprintln!("farlun: the run is not valid: {}", verdict.sentence());
        return Ok(exit::INVALID);
    }
    Ok(outcome.near.exit_code)
}

/// Becomes the command; returns only if it cannot.
fn enter(side: Side, mut words: Vec<OsString>) -> anyhow::Error {
    if words.is_empty() {
        words.push(std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into()));
    }
    match wan::registry::newest(side) {
        Ok(namespace) => {
            if let Err(source) = namespace.enter() {
                return anyhow::anyhow!("cannot enter {}: {source}; run it as root", side.name());
            }
            let source = Command::new(&words[0]).args(&words[1..]).envs(Side::environment()).exec();
            let command = words[0].to_string_lossy().into_owned();
            WanError::Start { side: side.name(), command, source }.into()
        }
        Err(error) => error.into(),
    }
}

impl For {
    const fn class(self) -> Class {
        match self {
            For::Latency => Class::Latency,
            For::Throughput => Class::Throughput,
            For::Off => Class::Off,
        }
    }
}
