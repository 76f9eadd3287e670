//! Flags and small services that every command which talks to a target shares.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use control::Choice;
use engine::trace::Sampling;
use engine::{CongestionControl, Pacing, RouteMemory};
use event::{BitRate, Bytes};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use initiator::{Disk, Error, Options, Url};
use proto::params::{Digest, Wishes};
use tables::manifest::Trace;

use crate::exit::{Exit, REFUSED};
use crate::near_end::NearEndArgs;

/// Flags of a session.
#[derive(Args, Debug)]
pub(crate) struct SessionArgs {
    /// How long the target may take to connect, to log in, or to answer a command, and how long a lost session is
    /// tried to be made again; at least 1ms. SYNCHRONIZE CACHE, and what waits for it, may take four times as long. A
    /// target that says nothing at all is lost after 12s, or 24 round trips if that is longer, and after this time at
    /// the latest
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = timeout)]
    timeout: Duration,
    /// CRC32C digests of headers and data: none (unless the target insists), prefer, or crc32c (always)
    #[arg(long, value_enum, default_value = "none")]
    digest: DigestWish,
    #[command(flatten)]
    near: NearEndArgs,
    #[command(flatten)]
    sending: SendingArgs,
    #[command(flatten)]
    bursts: BurstArgs,
}

/// How what goes out on a connection is sent.
#[derive(Args, Debug)]
pub(crate) struct SendingArgs {
    /// Congestion control of a connection: auto is the host's, and BBR while packets are lost without a queue; host is
    /// the host's always; or a name such as cubic
    #[arg(long = "cc", value_name = "NAME", default_value = "auto")]
    pub(crate) congestion: CongestionControl,
    /// Leave it to TCP how fast its window is sent, without pacing: for comparison
    #[arg(long)]
    no_pacing: bool,
    /// Send on each connection at most so fast, such as 100mbit, to leave room for others
    #[arg(long, value_name = "RATE", conflicts_with = "no_pacing")]
    pace: Option<BitRate>,
}

impl SendingArgs {
    pub(crate) fn pacing(&self) -> Pacing {
        match self.pace {
            _ if self.no_pacing => Pacing::Off,
            Some(rate) => Pacing::AtMost(rate),
            None => Pacing::Follow,
        }
    }
}

/// What is asked for at the login of how data of writes may come, for comparisons: the defaults cost no round trip.
#[derive(Args, Debug)]
pub(crate) struct BurstArgs {
    /// Send at most so much of a write before the target asks for more (FirstBurstLength) [default: all of it]
    #[arg(long, value_name = "SIZE", value_parser = burst)]
    first_burst: Option<u32>,
    /// Let the target ask for at most so much at a time (MaxBurstLength) [default: 16 MiB less 4 KiB]
    #[arg(long, value_name = "SIZE", value_parser = burst)]
    max_burst: Option<u32>,
    /// Let the target ask for so many such pieces at once (MaxOutstandingR2T)
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    r2ts: u16,
    /// Send nothing of a write before the target asks, but what fits into the command (InitialR2T)
    #[arg(long)]
    initial_r2t: bool,
}

impl BurstArgs {
    fn wishes(&self) -> Wishes {
        let usual = Wishes::default();
        let max_burst_len = self.max_burst.unwrap_or(usual.max_burst_len);
        Wishes {
            initial_r2t: self.initial_r2t,
            max_burst_len,
            first_burst_len: self.first_burst.unwrap_or(usual.first_burst_len).min(max_burst_len),
            max_outstanding_r2t: self.r2ts,
            ..usual
        }
    }
}

fn burst(text: &str) -> Result<u32, String> {
    let bytes = Bytes::parse(text).map_err(|error| error.to_string())?;
    let most = Wishes::LONGEST_BURST;
    u32::try_from(bytes)
        .ok()
        .filter(|bytes| (512..=most).contains(bytes))
        .ok_or_else(|| format!("{text} is no burst of 512 bytes to {most} bytes"))
}

/// Which requests have rows in the tables.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct SamplingArgs {
    /// Of one request in N, its way through the layers goes into the table layers
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    trace_sample: u32,
    /// Of one request in N, every PDU goes into the table pdus, with the times of TCP; 0 for none
    #[arg(long, value_name = "N", default_value_t = 256)]
    trace_pdus: u32,
}

impl SamplingArgs {
    /// As the tracer takes it.
    pub(crate) fn sampling(self) -> Sampling {
        Sampling { layers: self.trace_sample, pdus: self.trace_pdus }
    }
}

/// Flags of a session that moves much. What it moves can be recorded; a session that only asks has no rows to write.
#[derive(Args, Debug)]
pub(crate) struct BulkArgs {
    #[command(flatten)]
    session: SessionArgs,
    /// Write the tables sockets, sessions, io, layers and pdus (-near.parquet) to this directory
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    sampling: SamplingArgs,
    /// Connections of each session, 1 to 64, as far as the target offers as many; auto is one, and up to four where
    /// losses keep it below what the path carries
    #[arg(long, value_name = "N", default_value = "auto", value_parser = connections)]
    connections: Count,
    /// What decides blocks, what is outstanding and how it is sent: auto, or for comparison none, study or pace
    /// (docs/internals/control.md)
    #[arg(long, value_name = "NAME", default_value_t, hide_default_value = true)]
    policy: Choice,
}

impl BulkArgs {
    /// What the session is made with.
    pub(crate) fn options(self) -> anyhow::Result<Options> {
        let (trace, sampling) = (trace_dir(self.trace)?, self.sampling.sampling());
        let options = self.session.options()?;
        let connections = match self.connections {
            Count::Fixed(count) => Some(count),
            // Other policies serve comparisons, and a pacing limit means the total rate: both get a single connection.
            Count::Auto if self.policy == Choice::Auto && !matches!(options.pacing, Pacing::AtMost(_)) => {
                None
            }
            Count::Auto => Some(1),
        };
        Ok(Options { policy: self.policy, connections, trace, sampling, ..options })
    }
}

/// The directory of the tables, made if it is not there.
pub(crate) fn trace_dir(dir: Option<PathBuf>) -> anyhow::Result<Option<PathBuf>> {
    if let Some(dir) = &dir {
        std::fs::create_dir_all(dir).map_err(|error| anyhow::anyhow!("{}: {error}", dir.display()))?;
    }
    Ok(dir)
}

/// Value of `--connections`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Count {
    Fixed(u16),
    Auto,
}

/// Connections of a session at most.
const CONNECTIONS_MAX: u16 = 64;

fn connections(text: &str) -> Result<Count, String> {
    if text == "auto" {
        return Ok(Count::Auto);
    }
    let count = text.parse().ok().filter(|count| (1..=CONNECTIONS_MAX).contains(count));
    count.map(Count::Fixed).ok_or_else(|| format!("expected auto or 1 to {CONNECTIONS_MAX}"))
}

/// What `--digest` may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum DigestWish {
    /// No digest, unless the other side insists on one
    None,
    /// A digest, unless the other side would rather have none
    Prefer,
    /// A digest, or no session
    Crc32c,
}

impl DigestWish {
    /// The digests to offer, the preferred one first.
    pub(crate) fn digests(self) -> &'static [Digest] {
        match self {
            DigestWish::None => Wishes::DIGEST_IF_ASKED,
            DigestWish::Prefer => Wishes::DIGEST_IF_POSSIBLE,
            DigestWish::Crc32c => Wishes::DIGEST_ALWAYS,
        }
    }
}

impl SessionArgs {
    /// Options for opening the session.
    pub(crate) fn options(self) -> anyhow::Result<Options> {
        let pacing = self.sending.pacing();
        let (near, chap) = self.near.ends(self.sending.congestion)?;
        Ok(Options {
            timeout: self.timeout,
            chap,
            wishes: self.bursts.wishes().with_digests(self.digest.digests()),
            connections: Some(1),
            near,
            policy: Choice::default(),
            pacing,
            depth: None,
            queue_limit: None,
            trace: None,
            sampling: Sampling::default(),
            routes: RouteMemory::default(),
            notice: |text| note!("farlun: {text}"),
        })
    }
}

/// Shortest timeout: with 0 nothing could be answered, and the loop that looks for late requests would never rest.
const TIMEOUT_MIN: Duration = Duration::from_millis(1);

pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    let time = event::parse_delay(text).map_err(|error| error.to_string())?;
    if time < TIMEOUT_MIN {
        return Err(format!("{text} leaves no time for an answer, expected at least 1ms"));
    }
    Ok(time)
}

/// Reads a URL; one that cannot be read is bad usage.
pub(crate) fn url(text: &str) -> anyhow::Result<Url> {
    text.parse::<Url>().map_err(Exit::usage)
}

/// Opens the LUN that a URL names.
pub(crate) fn open(text: &str, options: &Options) -> anyhow::Result<Disk> {
    let url = url(text)?;
    url.unit().map_err(Exit::usage)?;
    let disk = Disk::open(&url, options).map_err(failed)?;
    tell_connections(&disk, options);
    Ok(disk)
}

/// The same with several sessions.
pub(crate) fn open_many(text: &str, options: &Options, sessions: usize) -> anyhow::Result<Vec<Disk>> {
    let url = url(text)?;
    url.unit().map_err(Exit::usage)?;
    let disks = Disk::open_many(&url, options, sessions).map_err(failed)?;
    tell_connections(&disks[0], options);
    Ok(disks)
}

fn tell_connections(disk: &Disk, options: &Options) {
    let found = disk.session().connections();
    if let Some(wanted) = options.connections.filter(|wanted| found < *wanted) {
        note!("farlun: the target has room for {found} of {wanted} connections in a session");
    }
}

/// Note about the effect of several connections on other flows, and about their choice; empty for one connection.
pub(crate) fn connections_words(connections: u64, is_chosen: bool) -> Option<String> {
    let chosen =
        if is_chosen { "chosen because losses kept fewer below what the path carries; " } else { "" };
    (connections > 1).then(|| {
        format!(
            "{connections}, {chosen}on a line that is full they take the shares of {connections} TCP flows"
        )
    })
}

/// Logs out of a LUN after a load; before that, prints advice about limits of this host. Returns the trace, once the
/// last session is closed.
pub(crate) fn close(mut disk: Disk) -> anyhow::Result<Option<Trace>> {
    if let Some(advice) = disk.client().advice() {
        note!("farlun: {advice}");
    }
    disk.close().map_err(failed)
}

/// Gives an error of a session its exit code.
pub(crate) fn failed(error: Error) -> anyhow::Error {
    match error {
        Error::Chap(error) => Exit::usage(error),
        error if error.is_refusal() => Exit::error(REFUSED, error),
        error => error.into(),
    }
}

/// A bar for something of known length in bytes; drawn only on a terminal.
pub(crate) fn bytes_bar(len: u64) -> ProgressBar {
    let style = ProgressStyle::with_template(
        "{bar:30} {percent:>3} %  {binary_bytes} of {binary_total_bytes}  {binary_bytes_per_sec}  {eta} left",
    );
    bar(ProgressBar::new(len), style)
}

/// A bar for something that lasts for a known time in milliseconds.
pub(crate) fn time_bar(time: Duration) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}  {eta} left");
    bar(ProgressBar::new(time.as_millis() as u64), style)
}

fn bar(bar: ProgressBar, style: Result<ProgressStyle, indicatif::style::TemplateError>) -> ProgressBar {
    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
