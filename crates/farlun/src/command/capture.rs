//! `farlun capture`: packet headers on network devices, or on the emulated path. The capture itself is in the crate
//! `capture`.

use std::ffi::OsString;
use std::io::{IsTerminal, stderr};
use std::path::PathBuf;
use std::time::Duration;

use capture::run::{Captured, Outcome, Progress, Settings};
use capture::{CaptureError, Destination, FILE_BYTES_MIN, Filter, Keep, Notices, Rotation};
use clap::{Args, Parser, ValueEnum};
use event::{Bytes, parse_delay};
use indicatif::ProgressBar;
use net::EndSignals;
use serde_json::{Value, json};

use super::{Cli, Command, wan};
use crate::exit::{DONE, Exit};

/// With --iscsi: two basic headers of iSCSI, which most packets begin with that have any.
const ISCSI_BYTES: u32 = 96;
/// Bounds of the snapshot length: headers at least; at most the length of a super-packet.
const SNAP_BYTES: std::ops::RangeInclusive<i64> = 64..=262_144;
/// The rings of a capture lie in memory that cannot be swapped.
const RING_BYTES: std::ops::RangeInclusive<u64> = 4 << 20..=4 << 30;
const DEVICES_MAX: usize = 8;

/// Record the headers of packets, with their times, without holding them up
///
/// Writes pcapng files with stamps in nanoseconds: farlun analyze, tshark and Wireshark read them. What could not be kept
/// is counted: on the terminal, in the JSON document and in the files. Ends on SIGINT and SIGTERM. Needs root or
/// CAP_NET_RAW.
///
/// Terms of a filter: tcp, udp, icmp, icmp6, ip, ip6, [src|dst] host ADDR, [src|dst] net ADDR/BITS,
/// [tcp|udp] [src|dst] port N; joined by and, or (both bind alike, from the left), not and parentheses.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  farlun capture -i eth0 -o run --filter 'tcp port 3260' --iscsi
  farlun capture -i mirror0 -i mirror1 -o run --time 600s          both directions of a tapped line, in order
  farlun capture -i eth0 -o run --rotate-size 1GiB --files 20      for as long as it takes to happen again
  farlun capture -i eth0 --to logger:5260 --filter 'tcp port 3260' kept by farlun recorder on logger
  farlun capture --at-wan -o run -- --delay 50ms --far 'iperf3 -s -1' -- iperf3 -c 198.18.0.2
  farlun analyze run/capture-00001.pcapng")]
pub(crate) struct CaptureArgs {
    /// A device, such as eth0; given again, further ones in the same file
    #[arg(short, long = "interface", value_name = "DEVICE", required_unless_present = "at_wan")]
    interfaces: Vec<String>,
    /// Capture at both ends of an emulated path instead: what follows -- is what follows farlun wan
    #[arg(long, requires = "words", conflicts_with_all = ["interfaces", "filter", "stamps", "ring", "time", "packets"])]
    at_wan: bool,
    /// Write files into DIR: capture-00001.pcapng and so on
    #[arg(short, long, value_name = "DIR", required_unless_present = "to", conflicts_with = "to")]
    output: Option<PathBuf>,
    /// Send everything to a farlun recorder instead
    #[arg(long, value_name = "HOST:PORT")]
    to: Option<String>,
    /// Which packets, in a few of tcpdump's words (see above) [default: all]
    #[arg(long, default_value = "", hide_default_value = true, value_name = "WORDS")]
    filter: Filter,
    /// Bytes of each packet: 74 keep TCP's options at a connection's beginning (94 with IPv6), without which windows are not
    /// known; 64 to 160 keep headers, more keep data too
    #[arg(long, default_value_t = 96, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(SNAP_BYTES))]
    snap: u32,
    /// Keep TCP's headers whole and 96 bytes of payload behind them, for basic headers of iSCSI
    #[arg(long)]
    iscsi: bool,
    /// Whose clock stamps packets
    #[arg(long, value_enum, default_value_t = Stamps::Kernel)]
    stamps: Stamps,
    /// Memory of each device for packets that wait to be written
    #[arg(long, default_value = "64MiB", value_name = "SIZE")]
    ring: Bytes,
    #[command(flatten)]
    rotation: RotationArgs,
    /// End after this time
    #[arg(long, value_parser = parse_delay)]
    time: Option<Duration>,
    /// End after so many packets
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    packets: Option<u64>,
    /// Print one line of JSON when it begins, and one with what was captured at the end
    #[arg(long)]
    json: bool,
    /// Flags and command of farlun wan, with --at-wan
    #[arg(last = true, value_name = "WAN", requires = "at_wan")]
    words: Vec<OsString>,
}

/// When a new file begins.
#[derive(Args, Debug)]
pub(super) struct RotationArgs {
    /// Begin a new file when one has so many bytes
    #[arg(long, value_name = "SIZE")]
    rotate_size: Option<Bytes>,
    /// Begin a new file when one is so old
    #[arg(long, value_name = "TIME", value_parser = parse_delay)]
    rotate_time: Option<Duration>,
    /// Keep so many files, and remove the oldest when there are more
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    files: Option<u32>,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Stamps {
    /// The kernel, when it gets the packet
    Kernel,
    /// The network card, which must be able to; its clock need not be that of this host
    Hardware,
}

impl RotationArgs {
    pub(super) fn rotation(&self) -> anyhow::Result<Rotation> {
        let RotationArgs { rotate_size, rotate_time, files } = *self;
        if let Some(size) = rotate_size.filter(|size| size.0 < FILE_BYTES_MIN) {
            return Err(Exit::usage(format!(
                "--rotate-size {size}: expected at least {}",
                Bytes(FILE_BYTES_MIN)
            )));
        }
        if rotate_time.is_some_and(|time| time < Duration::from_secs(1)) {
            return Err(Exit::usage("--rotate-time: expected at least 1s"));
        }
        if files.is_some() && rotate_size.is_none() && rotate_time.is_none() {
            return Err(Exit::usage(
                "--files says how many files are kept: add --rotate-size or --rotate-time",
            ));
        }
        Ok(Rotation { bytes: rotate_size.map(|size| size.0), time: rotate_time, files })
    }
}

pub(crate) fn run(args: CaptureArgs) -> anyhow::Result<u8> {
    let rotation = args.rotation.rotation()?;
    let destination = match (&args.to, &args.output) {
        (Some(_), _) if rotation != Rotation::default() => {
            return Err(Exit::usage(
                "files are rotated where they are written: give these flags to the recorder",
            ));
        }
        (Some(address), _) => Destination::Recorder(address.clone()),
        (None, Some(dir)) => Destination::Files { dir: dir.clone(), rotation },
        (None, None) => return Err(Exit::usage("expected -o DIR or --to HOST:PORT")),
    };
    let keep = Keep { snap_bytes: args.snap, payload_bytes: args.iscsi.then_some(ISCSI_BYTES) };
    if args.at_wan {
        return at_wan(args.words, &wan::Capturing { destination, keep, json: args.json });
    }
    let interfaces = args.interfaces;
    if interfaces.len() > DEVICES_MAX {
        return Err(Exit::usage(format!("{} devices, expected at most {DEVICES_MAX}", interfaces.len())));
    }
    if let Some(twice) =
        interfaces.iter().find(|name| interfaces.iter().filter(|other| other == name).count() > 1)
    {
        return Err(Exit::usage(format!("-i {twice} is there twice")));
    }
    if !RING_BYTES.contains(&args.ring.0) {
        return Err(Exit::usage(format!("--ring {}: expected 4MiB to 4GiB", args.ring)));
    }
    let settings = Settings {
        devices: interfaces,
        filter: args.filter,
        keep,
        hardware_stamps: args.stamps == Stamps::Hardware,
        ring_bytes: args.ring.0 as usize,
        time: args.time,
        packets: args.packets,
        destination,
    };
    let signals = EndSignals::take_over()?;
    let bar = spinner();
    let outcome = capture::run::run(&settings, &signals, notices(), &mut |progress| match progress {
        Progress::Ready if args.json => say!("{}", json!({"ready": true, "interfaces": settings.devices})),
        Progress::Ready => note!("farlun: capturing on {}", settings.devices.join(", ")),
        Progress::Running(captured) => bar.set_message(running(captured)),
    });
    bar.finish_and_clear();
    let outcome = outcome.map_err(unusable)?;
    if args.json {
        say!("{}", serde_json::to_string(&outcome)?);
    } else {
        tell(&outcome);
    }
    warn(&outcome);
    whole(&outcome)?;
    Ok(DONE)
}

/// Runs `farlun wan` with `words`, and captures at both ends.
fn at_wan(words: Vec<OsString>, capturing: &wan::Capturing) -> anyhow::Result<u8> {
    let program = ["farlun", "wan"].map(OsString::from);
    match Cli::try_parse_from(program.into_iter().chain(words)) {
        Ok(Cli { command: Command::Wan(args) }) => wan::run_captured(*args, capturing),
        Ok(_) => Err(Exit::usage("expected flags of farlun wan behind --")),
        Err(error) => Err(Exit::usage(format!("behind --, which is for farlun wan: {}", error.render()))),
    }
}

/// Sentences that cannot wait.
pub(super) fn notices() -> Notices {
    Notices::new(|text| note!("farlun: {text}"))
}

/// Error of a capture; one that can never succeed is a usage error.
pub(super) fn unusable(error: CaptureError) -> anyhow::Error {
    let is_usage = match &error {
        CaptureError::NoDevice { .. } => true,
        CaptureError::Device { source, .. } => source.kind() == std::io::ErrorKind::Unsupported,
        _ => false,
    };
    if is_usage { Exit::usage(error) } else { error.into() }
}

/// Prints the counts of the capture.
pub(super) fn tell(outcome: &Outcome) {
    for Captured { name, packets, dropped_kernel, dropped_queue, .. } in &outcome.interfaces {
        let dropped = dropped_kernel + dropped_queue;
        say!("{name}: {packets} packets, {dropped} dropped (kernel {dropped_kernel}, queue {dropped_queue})");
    }
    for file in &outcome.kept.files {
        say!("{file}");
    }
    if let Some(sent) = &outcome.kept.recorder {
        let (address, acknowledged) = (&sent.address, sent.acknowledged_packets);
        let (lost, reconnects) = (sent.unacknowledged_packets, sent.reconnects);
        say!("{address}: {acknowledged} packets recorded, {lost} not acknowledged, {reconnects} reconnects");
    }
}

/// Prints a warning about packets or stamps that are missing.
pub(super) fn warn(outcome: &Outcome) {
    let dropped: u64 = outcome.interfaces.iter().map(|one| one.dropped_kernel + one.dropped_queue).sum();
    let unstamped: u64 = outcome.interfaces.iter().map(|one| one.unstamped).sum();
    if unstamped > 0 {
        note!("farlun: {unstamped} packets are left out: the network card did not stamp them");
    }
    let lost = outcome.kept.recorder.as_ref().map_or(0, |sent| sent.unacknowledged_packets);
    if dropped + lost > 0 {
        let advice = "a larger --ring, a narrower --filter, a smaller --snap or a faster disk keep more";
        note!("farlun: {} packets are missing from the capture; {advice}", dropped + lost);
    }
}

/// Returns an error if a failure ended the capture early.
pub(super) fn whole(outcome: &Outcome) -> anyhow::Result<()> {
    outcome.kept.failure.as_ref().map_or(Ok(()), |failure| Err(anyhow::anyhow!("{failure}")))
}

/// The document of `farlun capture`, for one that says more.
pub(super) fn document(outcome: &Outcome) -> anyhow::Result<Value> {
    Ok(serde_json::to_value(outcome)?)
}

fn running(captured: &[Captured]) -> String {
    let words = captured.iter().map(|Captured { name, packets, dropped_kernel, dropped_queue, .. }| {
        format!("{name}: {packets} packets, {} dropped", dropped_kernel + dropped_queue)
    });
    words.collect::<Vec<_>>().join("   ")
}

/// Progress spinner, hidden unless stderr is a terminal.
fn spinner() -> ProgressBar {
    if stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() }
}
