//! `farlun lab`: runs a plan, lists the plans that ship, or reports the errors of one. The crate `lab` defines and runs
//! plans; here are flags, progress and the final output.

use std::fmt::Write as _;
use std::io::{IsTerminal, stderr, stdout};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use lab::{
    Countdown, Lab, LabError, MachineUse, Order, Outcome, Plan, PlanError, Progress, SHIPPED, Source, Step,
    Variant,
};
use net::EndSignals;
use report::terminal::{self, Colour};
use serde_json::json;

use crate::command_line::command_line;
use crate::exit::{self, Exit};

/// Run a plan over emulated paths and draw a report
///
/// Without a PLAN it is the tour: how near iSCSI comes to the raw line, from 0 to 100 ms round trip.
/// Every cell of the plan runs as one `farlun wan` command, which the report shows. Needs no root where users may
/// make namespaces; as root the path keeps its time better.
///
/// The machine is looked at first: programs that keep its processors busy are named. A run stops after a few cells that
/// are not valid for the same reason. With --validity off every cell yields figures; they are marked as unvalidated, no
/// check uses them, and farlun compare refuses them.
///
/// The exit code is 1 if a check of the plan does not hold or a command failed, 4 if the machine was too busy
/// for valid figures.
#[derive(clap::Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
        farlun lab --quick\n  \
        farlun lab tour --out runs/tour\n  \
        farlun lab tour --out runs/tour --resume        (after it was interrupted)\n  \
        farlun lab check mine.toml && farlun lab mine.toml"
)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    part: Option<Part>,
    /// A plan that ships, by its name, or a file
    #[arg(default_value = SHIPPED[0].name)]
    plan: String,
    /// Write the run to DIR, which is made [default: farlun-runs/PLAN-DATE-TIME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Go on with the run in --out DIR: what has valid figures there is kept, the rest is run. The plan, the seed
    /// and the program must be those it was begun with; where there is no run yet, it is begun
    #[arg(long, requires = "out")]
    resume: bool,
    /// Run the plan's quick variant
    #[arg(long)]
    quick: bool,
    /// Try the plan's commands: every load once, for a fraction of a second. Figures of so short a run mean nothing, and
    /// its checks do not count
    #[arg(long, conflicts_with = "quick")]
    smoke: bool,
    /// off: apply no rule of validity; every figure is marked as unvalidated, and no check uses one
    #[arg(long, value_enum, conflicts_with = "smoke")]
    validity: Option<Rules>,
    /// Decides the order of the cells within a repeat
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one JSON document instead of tables
    #[arg(long)]
    json: bool,
}

/// Rules of validity instead of the plan's.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Rules {
    Off,
}

#[derive(clap::Subcommand, Debug)]
enum Part {
    /// List the plans that ship
    #[command(after_help = "Example: farlun lab list")]
    List {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Say everything that is wrong with a plan
    #[command(after_help = "Example: farlun lab check mine.toml")]
    Check {
        /// A plan that ships, by its name, or a file
        plan: String,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
}

/// Runs the subcommand.
pub(crate) fn run(args: LabArgs) -> anyhow::Result<u8> {
    match args.part {
        Some(Part::List { json }) => list(json),
        Some(Part::Check { plan, json }) => check(&plan, json),
        None => experiment(args),
    }
}

fn list(json: bool) -> anyhow::Result<u8> {
    let mut plans = Vec::new();
    for shipped in SHIPPED {
        let source = Source::find(shipped.name)?;
        let (full, quick) = (source.plan(Variant::Full)?, source.plan(Variant::Quick)?);
        let (full_s, quick_s) = (time_of(&full).as_secs(), time_of(&quick).as_secs());
        let (name, title) = (full.name, full.title);
        if !json {
            say!("{name:<14} {title} ({}, --quick {})", about(full_s), about(quick_s));
        }
        plans.push(json!({"name": name, "title": title, "expected_s": full_s, "quick_expected_s": quick_s}));
    }
    if json {
        say!("{}", json!({"plans": plans}));
    }
    Ok(exit::DONE)
}

fn check(plan: &str, json: bool) -> anyhow::Result<u8> {
    let found = Source::find(plan).and_then(|source| source.plan(Variant::Full));
    let problems = match &found {
        Ok(_) => Vec::new(),
        Err(PlanError::Wrong { problems, .. }) => problems.clone(),
        Err(error) => return Err(Exit::usage(error)),
    };
    if json {
        let listed: Vec<_> =
            problems.iter().map(|p| json!({"line": p.line, "column": p.column, "text": p.text})).collect();
        say!("{}", json!({"plan": plan, "problems": listed}));
        return Ok(if problems.is_empty() { exit::DONE } else { exit::USAGE });
    }
    let found = found.map_err(Exit::usage)?;
    let (cells, time) = (found.cells().len(), about(time_of(&found).as_secs()));
    say!("{plan}: no problems; {cells} cells × {} repeats, {time}", found.repeats);
    Ok(exit::DONE)
}

fn experiment(args: LabArgs) -> anyhow::Result<u8> {
    let variant = match (args.quick, args.smoke) {
        (_, true) => Variant::Smoke,
        (true, false) => Variant::Quick,
        (false, false) => Variant::Full,
    };
    let plan = Source::find(&args.plan).and_then(|source| source.plan(variant)).map_err(Exit::usage)?;
    let plan = match plan.traces_kernel() && !net::tracing::is_allowed() {
        true => {
            note!("farlun: without root the plan goes without the table kernel, and what it expects of it");
            plan.without_kernel()
        }
        false => plan,
    };
    let plan = match args.validity {
        Some(Rules::Off) => plan.without_validity(),
        None => plan,
    };
    let (plan, left_out) = plan.without_missing();
    for sentence in &left_out {
        note!("farlun: {sentence}");
    }
    let machine = looked_at(&plan);
    let out = args.out.unwrap_or_else(|| PathBuf::from(format!("farlun-runs/{}-{}", plan.name, stamp())));
    let order = Order {
        plan,
        out,
        resume: args.resume,
        seed: args.seed,
        command_line: command_line(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: option_env!("FARLUN_COMMIT").map(str::to_owned),
        machine,
        left_out,
    };
    // Before the progress bar starts its thread: threads inherit which signals are taken over.
    let signals = EndSignals::take_over().context("cannot take over signals")?;
    let lab = Lab::new(std::env::current_exe().context("cannot find this program")?).ended_by(signals);
    let mut progress: Box<dyn Progress> = match stderr().is_terminal() {
        true => Box::new(Bar::new()),
        false => Box::new(Lines::default()),
    };
    let outcome = lab.run(&order, progress.as_mut());
    drop(progress);
    let outcome = outcome.map_err(|error| match error {
        LabError::NotEmpty(_)
        | LabError::NotADirectory(_)
        | LabError::Begun(_)
        | LabError::Different { .. } => Exit::usage(error),
        other => other.into(),
    })?;
    show(&outcome, args.json)?;
    Ok(code(&outcome))
}

/// Names the programs that keep the machine busy before anything is measured.
fn looked_at(plan: &Plan) -> Option<MachineUse> {
    if plan.variant == Variant::Smoke {
        return None;
    }
    let machine = lab::look();
    let trouble = machine.as_ref().and_then(MachineUse::trouble);
    match (plan.is_waived(), trouble, &machine) {
        (true, Some(_), Some(machine)) => note!("farlun: this machine is busy: {}", machine.words()),
        (false, Some(trouble), _) => note!("farlun: this machine is busy: {trouble}"),
        _ => {}
    }
    if plan.is_waived() {
        note!(
            "farlun: no rule of validity applies: figures are marked as unvalidated, and no check uses them"
        );
    }
    machine
}

fn show(outcome: &Outcome, json: bool) -> anyhow::Result<()> {
    let Outcome { tour, report_path, invalid, failed, stopped, cases, variant, is_waived: _ } = outcome;
    if json {
        let mut document = serde_json::to_value(&tour.run)?;
        document["report"] = json!(report_path);
        document["invalid"] = json!(invalid);
        document["failed"] = json!(failed);
        document["stopped"] = json!(stopped);
        say!("{document}");
    } else {
        let colour = Colour::on(&stdout());
        match cases {
            None => say!("{}", terminal::summary(tour, colour).trim_end()),
            // A summary, since hundreds of cells would hide the result.
            Some(cases) => say!("{cases}\n{}", terminal::checks(tour, colour).trim_end()),
        }
        say!("\nreport: {}", report_path.display());
    }
    if *variant == Variant::Smoke {
        note!("farlun: a smoke run: the commands of every load were tried once; its figures mean nothing");
    }
    if let Some(reason) = stopped {
        note!("farlun: {reason}");
    }
    if !failed.is_empty() {
        note!("farlun: failed: {}", failed.join("; "));
    }
    if !invalid.is_empty() {
        // The reason of the stop already names the next step.
        let next = if stopped.is_some() { "" } else { "; try again when this machine is quiet" };
        note!("farlun: no figures for cells without a valid attempt: {}{next}", invalid.join("; "));
    }
    Ok(())
}

fn code(outcome: &Outcome) -> u8 {
    match outcome.good() {
        true => exit::DONE,
        false if !outcome.invalid.is_empty() => exit::INVALID,
        false => exit::FAILED,
    }
}

fn time_of(plan: &Plan) -> Duration {
    if !plan.cases.is_empty() {
        return lab::doctor::expected(plan);
    }
    plan.cells().iter().map(lab::expected_time).sum::<Duration>() * plan.repeats
}

fn about(seconds: u64) -> String {
    match seconds {
        0..100 => format!("about {seconds} s"),
        _ => format!("about {} min", seconds.div_ceil(60)),
    }
}

/// Now as `20261121-093000`, UTC.
fn stamp() -> String {
    let s = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
    let (year, month, day) = date(s / 86_400);
    format!("{year:04}{month:02}{day:02}-{:02}{:02}{:02}", s / 3600 % 24, s / 60 % 60, s % 60)
}

/// Year, month and day, so many days after 1970-01-01 (Gregorian calendar).
fn date(mut days: u64) -> (u64, u64, u64) {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

/// A line for every attempt, for logs.
#[derive(Default)]
struct Lines(Countdown);

impl Progress for Lines {
    fn begins(&mut self, step: &Step) {
        let now = Instant::now();
        self.0.begins(step, now);
        note!("{}, {} left", words(step), about(self.0.shown(now).unwrap_or_default().as_secs()));
    }

    fn ended(&mut self, step: &Step, trouble: Option<&str>) {
        if let Some(trouble) = trouble {
            note!("{}: {trouble}", words(step));
        }
    }
}

/// A bar with the remaining time and the present cell, for people.
struct Bar {
    bar: ProgressBar,
    left: Arc<Mutex<Countdown>>,
}

impl Bar {
    fn new() -> Bar {
        let left = Arc::new(Mutex::new(Countdown::default()));
        let shared = Arc::clone(&left);
        let remaining = move |_: &ProgressState, out: &mut dyn std::fmt::Write| {
            let countdown = *shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let shown = countdown.shown(Instant::now()).unwrap_or_default();
            // An error while drawing is ignored: it would not help the user.
            let _ = write!(out, "{}", about(shown.as_secs()));
        };
        let style = ProgressStyle::with_template("{bar:30} {remaining} left · {wide_msg}")
            .expect("the template is right")
            .with_key("remaining", remaining);
        let bar = ProgressBar::new(0).with_style(style);
        bar.enable_steady_tick(Duration::from_millis(250));
        Bar { bar, left }
    }
}

impl Progress for Bar {
    fn begins(&mut self, step: &Step) {
        let mut left = self.left.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        left.begins(step, Instant::now());
        drop(left);
        self.bar.set_length(step.of as u64);
        self.bar.set_position(step.number as u64 - 1);
        self.bar.set_message(words(step));
    }

    fn ended(&mut self, step: &Step, trouble: Option<&str>) {
        if let Some(trouble) = trouble {
            let mut line = words(step);
            let _ = write!(line, ": {trouble}");
            self.bar.suspend(|| note!("{line}"));
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn words(step: &Step) -> String {
    let mut words = format!("{}/{} {}", step.number, step.of, step.words);
    if step.repeat > 1 {
        let _ = write!(words, ", repeat {}", step.repeat);
    }
    if step.attempt > 1 {
        let _ = write!(words, ", attempt {}", step.attempt);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (days, expected) in
            [(0, (1970, 1, 1)), (58, (1970, 2, 28)), (789, (1972, 2, 29)), (20_778, (2026, 11, 21))]
        {
            assert_eq!(date(days), expected);
        }
    }
}
