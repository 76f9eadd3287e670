//! The commands at the two ends: how they start, what they print, how they end.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};

use net::child;

use crate::host::Host;
use crate::{Side, WanError};

/// A line longer than this is not kept.
const LINE_MAX_BYTES: u64 = 64 << 20;

/// A command that was started at one end.
pub(crate) struct Running {
    child: Child,
    ending: OwnedFd,
    last_line: Option<JoinHandle<Option<serde_json::Value>>>,
}

impl Running {
    /// Starts COMMAND in near: standard input and error are ours, and standard output unless `keep` wants its
    /// last line.
    pub(crate) fn near(host: &Host, words: &[OsString], keep: bool) -> Result<Running, WanError> {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        if keep {
            command.stdout(Stdio::piped());
        }
        Running::start(host, command, &shown(words))
    }

    /// Starts the far command with a shell, as the leader of a process group, so that all of it can be ended and
    /// a Ctrl-C at the terminal does not reach it. What it prints goes to our standard error: standard output
    /// belongs to COMMAND.
    pub(crate) fn far(host: &Host, line: &str, keep: bool) -> Result<Running, WanError> {
        let mut command = Command::new("sh");
        command.arg("-c").arg(line).process_group(0).stdin(Stdio::null());
        command.stdout(if keep { Stdio::piped() } else { Stdio::from(io::stderr()) });
        Running::start(host, command, line)
    }

    fn start(host: &Host, mut command: Command, shown: &str) -> Result<Running, WanError> {
        let side = host.side;
        command.envs(Side::environment(host.only_ipv6));
        let failed = |source| WanError::Start { side: side.name(), command: shown.to_owned(), source };
        let mut child = child::spawn_in(&host.namespace, &mut command).map_err(failed)?;
        let last_line = child.stdout.take().map(|output| thread::spawn(move || last_json(output)));
        let ending = child::ending(&child).map_err(failed)?;
        Ok(Running { child, ending, last_line })
    }

    /// The leader of the command's processes.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The exit code, if the command has ended.
    pub(crate) fn ended(&mut self) -> Result<Option<u8>, WanError> {
        let failed = |source| WanError::System { what: "wait for a command", source };
        Ok(self.child.try_wait().map_err(failed)?.map(code_of))
    }

    /// The last line of JSON that the command printed, if its output was kept. Waits until everybody who holds
    /// that output is gone.
    pub(crate) fn output(&mut self) -> Option<serde_json::Value> {
        self.last_line.take()?.join().ok().flatten()
    }
}

impl AsFd for Running {
    /// Readable when the command has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ending.as_fd()
    }
}

/// A command as a shell would show it.
fn shown(words: &[OsString]) -> String {
    words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// As a shell says it: 128 and the number of the signal that ended it.
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
