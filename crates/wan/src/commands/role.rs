//! Commands on the hosts: start, captured output, exit.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use event::Instant;
use net::namespace::pid::Nursery;
use net::{child, clock};
use serde::Serialize;

use super::environment::environment;
use crate::namespaces::Host;
use crate::{HostName, Spec, WanError};

/// A line longer than this is not kept.
const LINE_MAX_BYTES: u64 = 64 << 20;
/// Timeout for the last line of a command that has ended. All processes of its host are gone by then; only one that
/// left the host could still hold the output.
const LAST_LINE_TIMEOUT: Duration = Duration::from_secs(5);

/// A command that ran on a host.
#[derive(Clone, Debug, Serialize)]
pub struct Role {
    /// The host: `near`, `near2`, … `far`.
    pub host: String,
    /// The command's words, without secrets; a command of `--near` or `--far` is a single word for a shell.
    pub command: Vec<String>,
    /// Its exit code; 128 and the signal's number if a signal ended it.
    pub exit_code: u8,
    /// Start of the command, on CLOCK_MONOTONIC.
    pub t_start_ns: u64,
    /// End of the command as observed, on CLOCK_MONOTONIC.
    pub t_end_ns: u64,
    /// True if it was ended by the run, rather than by itself.
    pub asked_to_end: bool,
    /// The last line it printed, if that is JSON and was kept.
    pub output: Option<serde_json::Value>,
}

impl Role {
    /// True if it ran at the near end. Commands at the far end are servers, whose exit codes mean little.
    pub fn is_near(&self) -> bool {
        self.host.starts_with("near")
    }

    /// True if it failed by itself: an exit code other than 0, and not ended by the run.
    pub const fn failed_by_itself(&self) -> bool {
        self.exit_code != 0 && !self.asked_to_end
    }
}

/// A command that was started on a host.
pub(crate) struct Running {
    host: HostName,
    /// Without secrets.
    words: Vec<String>,
    child: Collected,
    ending: OwnedFd,
    started: Instant,
    /// End of the command as observed, and its exit code.
    ended: Option<(Instant, u8)>,
    last_line: Option<Receiver<Option<serde_json::Value>>>,
}

/// A child that is always reaped: the init of a PID namespace cannot end before its last process is reaped.
struct Collected(Child);

impl Drop for Collected {
    fn drop(&mut self) {
        // One that has been waited for is not killed again.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Starts COMMAND with our standard input and error, and with our standard output unless `keep` is set.
    pub(crate) fn command(
        nursery: &Nursery,
        spec: &Spec,
        host: &Host,
        words: &[OsString],
        keep: bool,
    ) -> Result<Running, WanError> {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        if keep {
            command.stdout(Stdio::piped());
        }
        let words = event::shown_words(words);
        Running::start(nursery, (spec, host), command, words)
    }

    /// Starts the command of `--near` or `--far` with a shell, as the leader of a process group: the run can end all
    /// of it, and a Ctrl-C at the terminal does not reach it. Its standard output goes to our standard error:
    /// standard output belongs to COMMAND.
    pub(crate) fn shell(
        nursery: &Nursery,
        spec: &Spec,
        host: &Host,
        line: &str,
        keep: bool,
    ) -> Result<Running, WanError> {
        let mut command = Command::new("sh");
        command.arg("-c").arg(line).process_group(0).stdin(Stdio::null());
        command.stdout(if keep { Stdio::piped() } else { Stdio::from(io::stderr()) });
        Running::start(nursery, (spec, host), command, event::shown_words([line]))
    }

    fn start(
        nursery: &Nursery,
        (spec, host): (&Spec, &Host),
        mut command: Command,
        words: Vec<String>,
    ) -> Result<Running, WanError> {
        command.envs(environment(spec, host.name));
        let failed = |source| WanError::Start { host: host.name, command: words.join(" "), source };
        let started = clock::now();
        let mut child = Collected(nursery.spawn_in(&host.namespace, command).map_err(failed)?);
        let last_line = child.0.stdout.take().map(|output| {
            let (sender, last_line) = channel();
            // The receiver gives up after a timeout.
            thread::spawn(move || sender.send(last_json(output)));
            last_line
        });
        let ending = child::ending(&child.0).map_err(failed)?;
        Ok(Running { host: host.name, words, child, ending, started, ended: None, last_line })
    }

    /// The leader of the command's processes.
    pub(crate) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// The command without secrets, as messages show it.
    pub(crate) fn shown(&self) -> String {
        self.words.join(" ")
    }

    /// The exit code, if the command has ended.
    pub(crate) fn ended(&mut self) -> Result<Option<u8>, WanError> {
        let failed = |source| WanError::System { what: "wait for a command", source };
        if self.ended.is_none() {
            let status = self.child.0.try_wait().map_err(failed)?;
            self.ended = status.map(|status| (clock::now(), code_of(status)));
        }
        Ok(self.ended.map(|(_, code)| code))
    }

    /// Result of the command, which has ended. Waits until all holders of its output have closed it, up to
    /// [`LAST_LINE_TIMEOUT`].
    pub(crate) fn into_role(self, asked_to_end: bool) -> Role {
        let (ended, exit_code) = self.ended.expect("it was seen to have ended");
        let output = self.last_line.and_then(|line| line.recv_timeout(LAST_LINE_TIMEOUT).ok().flatten());
        Role {
            host: self.host.to_string(),
            command: self.words,
            exit_code,
            t_start_ns: self.started.as_nanos(),
            t_end_ns: ended.as_nanos(),
            asked_to_end,
            output,
        }
    }
}

impl AsFd for Running {
    /// Readable when the command has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ending.as_fd()
    }
}

/// Exit code as shells report it: 128 plus the number of the signal that ended the process.
fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    code as u8
}

/// Passes lines on to standard error, but keeps the last if it is JSON.
fn last_json(output: impl Read) -> Option<serde_json::Value> {
    let mut output = BufReader::new(output);
    let mut last = Vec::new();
    loop {
        let mut line = Vec::new();
        let read = (&mut output).take(LINE_MAX_BYTES).read_until(b'\n', &mut line);
        if !matches!(read, Ok(1..)) {
            break;
        }
        let before = std::mem::replace(&mut last, line);
        let _ = io::stderr().write_all(&before);
    }
    let json = serde_json::from_slice(&last).ok();
    if json.is_none() {
        let _ = io::stderr().write_all(&last);
    }
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_last_line_of_json_is_kept() {
        for (printed, kept) in [
            ("progress\n{\"a\":1}\n", Some(serde_json::json!({"a": 1}))),
            ("{\"a\":1}", Some(serde_json::json!({"a": 1}))),
            ("{\"a\":1}\ndone\n", None),
            ("", None),
        ] {
            assert_eq!(last_json(printed.as_bytes()), kept, "{printed:?}");
        }
    }
}
