//! `farlun doctor URL`: a short load on a target, its limit, and with `--fix` the load without that limit.
//!
//! The loop is [`lab::doctor::treat`]; the load is that of `farlun bench`, through the same engine.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use control::Choice;
use diagnosis::steps::{StepLoad, StepRole};
use diagnosis::{Performance, Verdict};
use engine::CongestionControl;
use event::{Bytes, Op, format_delay, parse_delay};
use initiator::{Options, Shape};
use lab::Pacing;
use lab::doctor::{Caller, Examined, Patient, Record, treat};
use proto::params::Wishes;
use tables::manifest::Run;

use super::pace::Pace;
use super::steps;
use super::temporary::{Ending, Temporary};
use crate::command::bench;
use crate::command_line::command_line;
use crate::exit::{DONE, Exit};
use crate::session::{BulkArgs, close};

/// Flags of the load.
#[derive(Args, Debug)]
#[command(next_help_heading = "The load on a target (iscsi://…), as its caller runs it")]
pub(super) struct LiveArgs {
    /// read, or write, which needs --overwrite
    #[arg(long, default_value = "read", value_parser = bench::parse_op)]
    op: Op,
    /// Write over what is on the LUN; without it nothing is ever written
    #[arg(long)]
    overwrite: bool,
    /// Length of a request, in whole blocks of the LUN [default: 1MiB, with --random 4KiB]
    #[arg(long, value_name = "SIZE")]
    block: Option<Bytes>,
    /// Requests outstanding, 1 to 65535 [default: follows the path]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    depth: Option<u16>,
    /// Requests that a session gives to iSCSI at a time [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    queue_limit: Option<u16>,
    /// Sessions that load the LUN at the same time, 1 to 1024
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    sessions: u16,
    /// At random places of the LUN instead of one after the other
    #[arg(long)]
    random: bool,
    /// How long each measurement is, after the path has been filled
    #[arg(long, default_value = "3s", value_parser = parse_delay)]
    time: Duration,
    /// Where random places come from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Change what limits where the initiator can, and measure again, until the path is the limit
    #[arg(long)]
    fix: bool,
    /// Never have more outstanding than the load that is described here: no step goes beyond it
    #[arg(long, conflicts_with = "fix")]
    gentle: bool,
    /// Keep the run directory, with its tables and a report [default: it is removed in the end]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    session: BulkArgs,
}

const BULK_BLOCK_BYTES: u64 = 1 << 20;
const RANDOM_BLOCK_BYTES: u64 = 4 << 10;

/// A load on a target.
pub(super) struct Live<'a> {
    pub(super) url: &'a str,
    /// The same without a secret.
    shown: String,
    pub(super) options: Options,
    pub(super) caller: Caller,
    op: Op,
    is_random: bool,
    /// Times of its steps.
    pub(super) pace: Pace,
    pub(super) is_gentle: bool,
    seed: u64,
    pub(super) record: Record,
    /// Measurements so far.
    pub(super) measurements: u64,
}

pub(super) fn run(url: &str, args: LiveArgs, is_json: bool) -> anyhow::Result<u8> {
    bench::check_overwrite(&[args.op], args.overwrite)?;
    let options = args.session.options()?;
    if options.trace.is_some() {
        return Err(Exit::usage("the doctor's tables go to --out DIR; leave --trace out"));
    }
    let usual = if args.random { RANDOM_BLOCK_BYTES } else { BULK_BLOCK_BYTES };
    let mut caller = Caller {
        block_bytes: args.block.map_or(usual, |block| block.0),
        block_most_bytes: u64::MAX,
        depth: args.depth.map(u32::from),
        queue_limit: args.queue_limit.map(u32::from),
        sessions: args.sessions.into(),
        connections: options.connections.unwrap_or(1).into(),
        has_small_bursts: has_small_bursts(&options.wishes),
        pacing: match options.pacing {
            engine::Pacing::Follow => Pacing::Follow,
            engine::Pacing::AtMost(rate) => Pacing::AtMost(rate),
            engine::Pacing::Off => Pacing::Off,
        },
        warmup: Duration::ZERO,
    };
    // Before any thread starts: threads inherit which signals are taken over.
    let ending = args.out.is_none().then(Ending::watch).transpose().context("cannot take over signals")?;
    // A missing or inaccessible LUN is reported before anything is created.
    let disk = crate::session::open(url, &options)?;
    let rtt = disk.session().min_rtt().unwrap_or_default();
    caller.block_most_bytes = disk.transfer_max_bytes().into();
    bench::check_block(caller.block_bytes, &disk)?;
    let pace = Pace { rtt, time: args.time };
    caller.warmup = pace.warmup(StepRole::Nominal);
    close(disk)?;
    let temporary = ending.as_ref().map(Temporary::create).transpose();
    let temporary = temporary.context("cannot create a temporary folder; set TMPDIR, or give --out DIR")?;
    let kept = args.out;
    let out = kept.as_deref().or(temporary.as_ref().map(Temporary::path));
    let Some(out) = out else { unreachable!("what is not kept is temporary") };
    // As it is shown, a URL has no secret.
    let shown = crate::session::url(url)?.to_string();
    let commit = option_env!("FARLUN_COMMIT").map(str::to_owned);
    let order = if args.random { "random" } else { "sequential" };
    let title = format!("{} {} {order} at {shown}", args.op.name(), Bytes(caller.block_bytes));
    let begun = lab::begun(command_line(), env!("CARGO_PKG_VERSION").to_owned(), commit);
    let begun = Run { plan: serde_json::json!({ "title": title }), ..begun };
    let record = Record::create(out, begun).map_err(|error| match error {
        error @ (lab::LabError::NotEmpty(_) | lab::LabError::Begun(_)) => Exit::usage(error),
        other => other.into(),
    })?;
    let (op, is_random, is_gentle, seed) = (args.op, args.random, args.gentle, args.seed);
    let measurements = 0;
    let mut live =
        Live { url, shown, options, caller, op, is_random, pace, is_gentle, seed, record, measurements };
    let treatment = treat(&mut live, args.fix, &mut |steps| {
        if !is_json {
            steps::say(steps);
        }
    })?;
    let report = live.record.finish()?;
    if is_json {
        say!("{}", steps::json(&treatment, kept.as_ref().map(|_| report.as_path())));
        return Ok(DONE);
    }
    say!("\n{}", steps::ending(treatment.ending));
    if kept.is_some() {
        say!("report: {}", report.display());
    }
    Ok(DONE)
}

impl Live<'_> {
    /// The load of a step.
    pub(super) fn shape(&self, load: StepLoad, span_bytes: u64, patience: Option<Duration>) -> Shape {
        let warmup = self.warmup(load.role);
        Shape {
            op: self.op,
            // Checked, and a fix stays within the limits of the target.
            block_bytes: u32::try_from(load.request_bytes).unwrap_or(u32::MAX),
            depth: load.depth.map(|depth| depth as usize),
            is_random: self.is_random,
            span_bytes,
            time: warmup + self.pace.time(load.role),
            warmup,
            seed: self.seed,
            start_bytes: 0,
            patience,
        }
    }

    /// Time before the figures of a step count: a fix may have made that of the caller's own load longer.
    fn warmup(&self, role: StepRole) -> Duration {
        match role {
            StepRole::Nominal => self.caller.warmup,
            role => self.pace.warmup(role),
        }
    }

    /// The requested load.
    pub(super) fn asked(&self) -> StepLoad {
        let Caller { sessions, depth, block_bytes, .. } = self.caller;
        StepLoad { role: StepRole::Nominal, sessions, depth, request_bytes: block_bytes }
    }

    /// The command that runs a step alone.
    pub(super) fn command(&self, load: StepLoad) -> String {
        let caller = &self.caller;
        let warmup = self.warmup(load.role);
        let total = format_delay(warmup + self.pace.time(load.role));
        let mut words = ["farlun", "bench", &self.shown, "--op", self.op.name()].map(str::to_owned).to_vec();
        let several = |count: u32| (count > 1).then(|| count.to_string());
        let pace = match caller.pacing {
            Pacing::AtMost(rate) => Some(rate.to_string()),
            Pacing::Follow | Pacing::Off => None,
        };
        let Options { wishes, near, policy, .. } = &self.options;
        let burst = |bytes: u32| caller.has_small_bursts.then(|| format!("{bytes}B"));
        let r2ts = caller.has_small_bursts.then(|| wishes.max_outstanding_r2t.to_string());
        let flags = [
            ("--block", Some(Bytes(load.request_bytes).to_string())),
            ("--depth", load.depth.map(|depth| depth.to_string())),
            ("--queue-limit", caller.queue_limit.map(|limit| limit.to_string())),
            ("--sessions", several(load.sessions)),
            ("--connections", Some(caller.connections.to_string())),
            ("--pace", pace),
            ("--policy", (*policy != Choice::default()).then(|| policy.to_string())),
            ("--cc", (near.congestion != CongestionControl::default()).then(|| near.congestion.to_string())),
            ("--initiator-name", near.name.as_given().map(str::to_owned)),
            ("--bind", near.source.as_ref().map(ToString::to_string)),
            ("--first-burst", burst(wishes.first_burst_len)),
            ("--max-burst", burst(wishes.max_burst_len)),
            ("--r2ts", r2ts),
            ("--seed", (self.is_random && self.seed != 1).then(|| self.seed.to_string())),
            ("--time", Some(total)),
            ("--warmup", Some(format_delay(warmup))),
        ];
        for (flag, value) in flags {
            words.extend(value.into_iter().flat_map(|value| [flag.to_owned(), value]));
        }
        let asks_first = caller.has_small_bursts && wishes.initial_r2t;
        let switches = [
            ("--overwrite", self.op == Op::Write),
            ("--no-pacing", caller.pacing == Pacing::Off),
            ("--initial-r2t", asks_first),
            ("--random", self.is_random),
        ];
        words.extend(switches.into_iter().filter(|(_, is_on)| *is_on).map(|(flag, _)| flag.to_owned()));
        lab::quoted(&words)
    }
}

impl Patient for Live<'_> {
    type Error = anyhow::Error;

    fn examine(&mut self) -> anyhow::Result<Examined> {
        self.measure()
    }

    fn relieve(&mut self, verdict: &Verdict, current: Performance) -> Option<String> {
        let Performance { bytes_per_s, latency_s } = verdict.predicted;
        self.caller.relieve(verdict.limiter, verdict.gain(current), bytes_per_s * latency_s)
    }
}

fn has_small_bursts(wishes: &Wishes) -> bool {
    let bursts = |w: &Wishes| (w.initial_r2t, w.max_burst_len, w.first_burst_len, w.max_outstanding_r2t);
    bursts(wishes) != bursts(&Wishes::default())
}
