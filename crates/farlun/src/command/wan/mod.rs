//! `farlun wan`: a long path between two namespaces of this machine, and a command at each end.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use capture::{Destination, Keep, tapped};
use clap::{Args, Subcommand, ValueEnum};
use net::EndSignals;
use net::namespace::{pid, user};
use wan::validity::Class;
use wan::{HOSTS_MAX, HostName, KernelTraced, Outcome, Settings, Spec, Taps, WanError};

use self::path::PathArgs;
use super::capture as captured;
use crate::exit::{self, Exit};

mod path;
mod selftest;

/// Put a long path between commands, each in a namespace of its own
///
/// Makes two network namespaces, near (198.18.0.1, 2001:2::1) and far (198.18.0.2, 2001:2::2), with a path of
/// the given delay, rate, queue and faults between them. The command of --far runs in far; when something there listens
/// on TCP, COMMAND runs in near. When COMMAND ends, everything in both is ended. Both find the addresses in FARLUN_NEAR,
/// FARLUN_FAR, FARLUN_NEAR6 and FARLUN_FAR6. Needs no root where users may make namespaces; as root it keeps its time
/// better (SCHED_FIFO).
///
/// Every further --far adds a host far2 (198.18.0.102), far3 (.103) …, every --near a host near2 (198.18.0.12), near3
/// (.13) …, up to 16 of each; all share one line. Further near commands start with COMMAND; five seconds after its end
/// those that still run are asked to end.
///
/// The exit code is that of COMMAND; 1 if COMMAND went well but another near command failed by itself. A run whose
/// emulator was late or dropped a packet it should not have is a warning, and exit code 4 with --validity latency or
/// throughput.
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
        farlun wan --delay 50ms --loss burst:0.01%/4 --jitter 1ms --seed 7 --far 'iperf3 -s -1' -- \\\n    \
            iperf3 -R -c 198.18.0.2\n  \
        farlun wan --delay near:2ms,far:40ms --rate near:20mbit,far:200mbit --queue 256 -- ping 198.18.0.2\n  \
        farlun wan --delay 8ms --ring 256 --far 'iperf3 -s -1' -- iperf3 -R -c 198.18.0.2 -C cubic\n  \
        farlun wan --delay 8ms --far 'iperf3 -s' --far 'iperf3 -s' \\\n    \
            --near 'iperf3 -c $FARLUN_ADDRESS_FAR2 -t 10' -- sh -c 'iperf3 -c $FARLUN_FAR -t 10'\n  \
        farlun wan --delay 8ms --host -- psql -h 198.18.0.2        (the server of this machine; as root)\n  \
        farlun wan --delay 8ms -- bash        (and in other terminals: farlun wan enter far)"
)]
pub(crate) struct WanArgs {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    path: PathArgs,
    /// Run CMD with sh in far, and wait until something there listens on TCP; given again, in far2, far3 …
    #[arg(long, value_name = "CMD")]
    far: Vec<String>,
    /// Run CMD with sh in near2 at the same time as COMMAND; given again, in near3, near4 …
    #[arg(long, value_name = "CMD")]
    near: Vec<String>,
    /// Let this machine itself be the far end, 198.18.0.2, for programs that run here already; needs root. One device,
    /// farlun-far, is there until COMMAND ends; nothing else is touched
    #[arg(long, conflicts_with = "far")]
    host: bool,
    /// Write the table packets.parquet, every packet's times, into DIR
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,
    /// Write the table kernel.parquet there too: what the kernel's tracepoints say of every connection of the path and
    /// of the block devices of this machine; needs root
    #[arg(long, requires = "trace")]
    trace_kernel: bool,
    /// Print one JSON document when all is over; what the commands print goes to stderr, except a last line
    /// of JSON, which becomes part of it
    #[arg(long)]
    json: bool,
    /// The figures the run is for: exit code 4 if it is not valid for them; off: no warning either [default: a warning
    /// if it is not valid for throughput]
    #[arg(long, value_enum)]
    validity: Option<For>,
    /// The command to run in near
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Subcommand, Debug)]
enum Part {
    /// Run a command on a host of the path that was started last
    #[command(after_help = "Example: farlun wan enter far -- ss -tin")]
    Enter {
        /// near, near2, … or far, far2, …
        host: HostName,
        /// The command [default: $SHELL]
        #[arg(last = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    Selftest(selftest::SelftestArgs),
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

/// What `farlun capture --at-wan` wants of a path.
pub(super) struct Capturing {
    pub(super) destination: Destination,
    pub(super) keep: Keep,
    pub(super) json: bool,
}

/// Runs a path and captures at both of its ends.
pub(super) fn run_captured(args: WanArgs, capturing: &Capturing) -> anyhow::Result<u8> {
    match args.part {
        None => emulate(args, Some(capturing)),
        Some(_) => Err(Exit::usage("only a path with a command in near can be captured")),
    }
}

/// Runs the subcommand.
pub(crate) fn run(args: WanArgs) -> anyhow::Result<u8> {
    match args.part {
        Some(Part::Enter { host, command }) => Err(enter(host, command)),
        Some(Part::Selftest(args)) => selftest::run(&args),
        Some(Part::Guard) => wan::guard::stand().map(|()| exit::DONE).context("cannot read standard input"),
        None => emulate(args, None),
    }
}

fn emulate(args: WanArgs, capturing: Option<&Capturing>) -> anyhow::Result<u8> {
    if let Some(dir) = &args.trace {
        std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    let hosts = |which: &str, count: usize| {
        let of = format!("{count} {which} hosts, expected at most {HOSTS_MAX}");
        u8::try_from(count).ok().filter(|count| *count <= HOSTS_MAX).ok_or_else(|| Exit::usage(of))
    };
    let spec = Spec {
        near_hosts: hosts("near", args.near.len() + 1)?,
        far_hosts: hosts("far", args.far.len().max(1))?,
        far_is_here: args.host,
        ..args.path.spec()?
    };
    // Taps are about single packets.
    let spec = Spec { segment: spec.segment || capturing.is_some(), ..spec };
    spec.check().map_err(Exit::usage)?;
    if args.host && !user::is_privileged() {
        return Err(Exit::usage("--host gives this machine a device and an address, which needs root"));
    }
    own_namespaces()?;
    let is_json = args.json || capturing.is_some_and(|capturing| capturing.json);
    let settings = Settings {
        spec,
        near: args.command,
        others: args.near,
        far: args.far,
        trace: args.trace,
        trace_kernel: args.trace_kernel,
        keep_output: is_json,
        class: args.validity.map_or(Class::Throughput, For::class),
        program: Some(std::env::current_exe().context("cannot find this program")?),
    };
    let (taps, tapping) = match capturing {
        None => (None, None),
        Some(Capturing { destination, keep, .. }) => {
            // The capture has a thread, which must not be the one that a signal ends everything in.
            EndSignals::take_over()?;
            let started = tapped::start(destination, *keep, captured::notices());
            let (taps, tapping) = started.map_err(captured::unusable)?;
            (Some(Taps::new(taps)), Some(tapping))
        }
    };
    tell_of_private_disks();
    // The capture is kept however the run has ended.
    let outcome = wan::run(&settings, taps);
    let tapped = tapping.map(tapped::Tapping::finish).transpose();
    let outcome = outcome.map_err(|error| match error {
        // The capabilities of this kernel and user decide on the flag, so these are usage errors.
        WanError::Ring(_)
        | WanError::RingHere
        | WanError::AddressTaken { .. }
        | WanError::RouteTaken { .. } => Exit::usage(exit::sentence(&error.into())),
        error => error.into(),
    })?;
    // Output and outcome of COMMAND are reported even if its capture failed.
    let (tapped, untapped) = match tapped {
        Ok(tapped) => (tapped, None),
        Err(error) => (None, Some(error)),
    };
    if is_json {
        let mut document = serde_json::to_value(&outcome)?;
        if let Some(tapped) = &tapped {
            document["capture"] = captured::document(tapped)?;
        }
        say!("{document}");
    } else if let Some(tapped) = &tapped {
        captured::tell(tapped);
    }
    tapped.iter().for_each(captured::warn);
    if let Some(KernelTraced { lost_events: lost @ 1.., .. }) = outcome.kernel {
        note!(
            "farlun: {lost} kernel trace events are missing in kernel.parquet: CPU too busy; stop other programs"
        );
    }
    if let Some(error) = untapped {
        return Err(error.into());
    }
    tapped.as_ref().map_or(Ok(()), captured::whole)?;
    let verdict = &outcome.validity.asked;
    if !verdict.ok {
        let reasons = verdict.sentence();
        if args.validity.is_some() {
            note!("farlun: the run is not valid: {reasons}");
            return Ok(exit::INVALID);
        }
        // COMMAND may measure nothing: only a class that was named makes it an error.
        note!(
            "farlun: warning: the run is not valid: {reasons}; --validity throughput makes that exit code 4"
        );
    }
    Ok(code(&outcome))
}

/// The exit code of COMMAND, or that another near command failed.
fn code(outcome: &Outcome) -> u8 {
    let mut code = outcome.near.exit_code;
    for role in outcome.others.iter().filter(|role| role.is_near() && role.failed_by_itself()) {
        note!("farlun: the command in {} ended with exit code {}", role.host, role.exit_code);
        code = if code == exit::DONE { exit::FAILED } else { code };
    }
    code
}

/// Says which disks stay in use while the path runs: commands have mount namespaces of their own.
fn tell_of_private_disks() {
    let disks = pid::private_disks().unwrap_or_default();
    if let Some(first) = disks.first() {
        note!(
            "farlun: disks are mounted where mounts are private ({}, the first on {first}): they stay in use until the path \
             ends, also if they are unmounted meanwhile; 'mount --make-shared /' before lets an unmount reach the path's \
             commands",
            disks.len()
        );
    }
}

/// Enters a user namespace if the user may not create namespaces otherwise. Must be called while there is a single
/// thread.
fn own_namespaces() -> Result<(), WanError> {
    match user::is_privileged() {
        true => Ok(()),
        false => user::become_root().map_err(WanError::Namespace),
    }
}

/// Becomes the command; returns only if it cannot.
fn enter(host: HostName, mut words: Vec<OsString>) -> anyhow::Error {
    if words.is_empty() {
        words.push(std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into()));
    }
    match wan::registry::newest(host) {
        Ok(end) => {
            if let Err(source) = end.namespace.enter() {
                return anyhow::anyhow!(
                    "cannot enter {host}: {source}; run it as the user who runs the path"
                );
            }
            let source = Command::new(&words[0]).args(&words[1..]).envs(end.environment).exec();
            let command = words[0].to_string_lossy().into_owned();
            WanError::Start { host, command, source }.into()
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
