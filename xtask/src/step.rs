//! Named steps with sections and timings.

use std::fmt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Outcome of a step that did not fail.
pub(crate) enum Outcome {
    /// Passed.
    Passed,
    /// Not possible on this machine; the reason is shown with the totals.
    Skipped(String),
}

/// The steps of one run so far, with their times.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<Done>,
}

struct Done {
    name: &'static str,
    took: Duration,
    state: State,
}

enum State {
    Passed,
    Skipped(String),
    Failed,
}

impl Steps {
    /// Runs one step under its heading; its error goes to the caller.
    pub(crate) fn run(&mut self, name: &'static str, work: impl FnOnce() -> Result<Outcome>) -> Result<()> {
        println!("\n== {name}");
        let began = Instant::now();
        let outcome = work();
        let took = began.elapsed();
        let (state, outcome) = match outcome {
            Ok(Outcome::Passed) => (State::Passed, Ok(())),
            Ok(Outcome::Skipped(reason)) => {
                println!("skipped: {name}: {reason}");
                (State::Skipped(reason), Ok(()))
            }
            Err(error) => (State::Failed, Err(error.context(format!("step `{name}` failed")))),
        };
        println!("-- {name}: {:.1} s", took.as_secs_f64());
        self.done.push(Done { name, took, state });
        outcome
    }

    /// Number of steps that passed.
    pub(crate) fn passed(&self) -> u64 {
        self.done.iter().filter(|step| matches!(step.state, State::Passed)).count() as u64
    }

    /// Number of steps that failed.
    pub(crate) fn failed(&self) -> u64 {
        self.done.iter().filter(|step| matches!(step.state, State::Failed)).count() as u64
    }

    /// The skipped steps as (name, reason).
    pub(crate) fn skips(&self) -> impl Iterator<Item = (&str, &str)> {
        self.done.iter().filter_map(|step| match &step.state {
            State::Skipped(reason) => Some((step.name, reason.as_str())),
            _ => None,
        })
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut total = Duration::ZERO;
        for step in &self.done {
            let state = match step.state {
                State::Passed => "ok",
                State::Skipped(_) => "skipped",
                State::Failed => "FAILED",
            };
            writeln!(f, "{:>8.1} s  {:<28} {state}", step.took.as_secs_f64(), step.name)?;
            total += step.took;
        }
        write!(f, "{:>8.1} s  all", total.as_secs_f64())
    }
}

/// Runs `command` with the caller's output and nothing on its standard input; an error unless it ends with 0.
pub(crate) fn shown(command: &mut Command) -> Result<()> {
    println!("$ {}", line(command));
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot start `{}`", command.get_program().display()))?;
    if !status.success() {
        bail!("`{}` ended with {status}", line(command));
    }
    Ok(())
}

/// Runs `command` silently and hands back its standard output; an error with its last words unless it ends with 0.
pub(crate) fn captured(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start `{}`", command.get_program().display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{}` ended with {}: {}", line(command), output.status, said.trim());
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("`{}` printed bytes that are no text", line(command)))
}

/// Returns true if a program of this name is on the search path.
pub(crate) fn have(program: &str) -> bool {
    let Some(path) = std::env::var_os("PATH") else { return false };
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// The command as it would be typed, without quoting: for headings and messages only.
pub(crate) fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
