//! Runs one `farlun wan` as a child, and ends it on a timeout, a signal or a panic.
//!
//! `farlun wan` ends its own children, so only that one process is signalled.
//!
//! Its output goes to files in the cell's directory: no pipe has to be drained, and it can be read after a failure.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use net::EndSignals;
use net::child::{Signal, ending, signal, spawn};

/// Standard output of the command: its result.
pub(in crate::run) const OUTPUT_FILE: &str = "wan.json";
/// Standard error of the command.
pub(in crate::run) const LOG_FILE: &str = "wan.log";
/// Largest part of either that is read.
const MAX_OUTPUT_BYTES: u64 = 16 << 20;
/// Time from SIGTERM to SIGKILL; `farlun wan` gives its own children 5 s.
const GRACE: Duration = Duration::from_secs(8);

/// End of a command.
#[derive(Debug)]
pub(in crate::run) enum Ended {
    /// By itself, with this exit code (128 plus the number of the signal that ended it).
    Exited(i32),
    /// It had not ended after this time, and was ended.
    TimedOut(Duration),
    /// A signal ended the lab, and so the command.
    Interrupted,
}

/// A child that is ended on drop.
struct Running {
    child: Child,
}

/// Runs `words` and waits for its end.
pub(in crate::run) fn run(
    words: &[String],
    dir: &Path,
    limit: Duration,
    signals: Option<&EndSignals>,
) -> io::Result<Ended> {
    let (program, arguments) = words.split_first().expect("a command line begins with its program");
    let mut command = Command::new(program);
    command.args(arguments).process_group(0).stdin(Stdio::null());
    command.stdout(File::create(dir.join(OUTPUT_FILE))?).stderr(File::create(dir.join(LOG_FILE))?);
    let mut running = Running { child: spawn(&mut command)? };
    let ended = running.wait(limit, signals)?;
    if ended.is_none() {
        running.end();
    }
    Ok(match ended {
        Some(code) => Ended::Exited(code),
        None if signals.is_some_and(EndSignals::came) => Ended::Interrupted,
        None => Ended::TimedOut(limit),
    })
}

impl Running {
    /// Its exit code; `None` if the limit passed or a signal came before it ended.
    fn wait(&mut self, limit: Duration, signals: Option<&EndSignals>) -> io::Result<Option<i32>> {
        let end = ending(&self.child)?;
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let (ended, interrupted) = match signals {
                Some(signals) => {
                    let [ended, came] = net::wait::readable([end.as_fd(), signals.as_fd()], Some(left))?;
                    (ended, came)
                }
                None => (net::wait::readable([end.as_fd()], Some(left))?[0], false),
            };
            if ended {
                let status = self.child.wait()?;
                return Ok(status.code().or(status.signal().map(|signal| 128 + signal)));
            }
            if interrupted || left.is_zero() {
                return Ok(None);
            }
        }
    }

    /// Sends SIGTERM, waits, and kills it.
    fn end(&mut self) {
        signal(self.child.id(), Signal::Terminate);
        if !matches!(self.wait(GRACE, None), Ok(Some(_))) {
            signal(self.child.id(), Signal::Kill);
            let _ = self.child.wait();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Only a panic or a failed wait comes here with a child that still runs.
        if matches!(self.child.try_wait(), Ok(None)) {
            self.end();
        }
    }
}

/// The last line of a file that is JSON.
pub(in crate::run) fn document(path: &Path) -> Option<serde_json::Value> {
    let text = text(path);
    text.lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .and_then(|line| serde_json::from_str(line).ok())
        // A document may also be spread over several lines.
        .filter(serde_json::Value::is_object)
        .or_else(|| serde_json::from_str(&text).ok())
}

/// The line of a log that names the failure: the last error of farlun without the program's name, else the last of
/// another program, else the last line that is not JSON.
pub(in crate::run) fn last_error(path: &Path) -> Option<String> {
    let text = text(path);
    let lines =
        || text.lines().rev().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('{'));
    let ours = lines().find_map(|line| line.strip_prefix("farlun: "));
    let other = || lines().find_map(|line| line.strip_prefix("error: "));
    ours.or_else(other).or_else(|| lines().next()).map(str::to_owned)
}

fn text(path: &Path) -> String {
    let mut bytes = Vec::new();
    // An unreadable file counts as empty.
    let _ = File::open(path).and_then(|file| file.take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Empties a cell's directory, so that tables of an earlier attempt are not taken for this one's.
pub(in crate::run) fn clear(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        match path.is_dir() {
            true => fs::remove_dir_all(path)?,
            false => fs::remove_file(path)?,
        }
    }
    Ok(())
}
