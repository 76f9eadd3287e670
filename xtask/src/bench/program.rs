//! farlun builds as processes: their command lines, JSON documents and targets; CPU time of any process.
//!
//! Another build may lack a flag or a field. Such an error is one sentence that names the command; the caller adds the
//! name of the build.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use e2e::ours::Target;
use e2e::process::try_run;
use e2e::{Finished, Service, farlun_path};
use serde_json::Value;

use crate::step::line;

/// Time beyond the load until its process has ended, on the slowest of machines.
pub(super) const GRACE: Duration = Duration::from_secs(60);

/// A farlun binary.
#[derive(Clone)]
pub(super) struct Build {
    name: String,
    path: PathBuf,
}

impl Build {
    /// The binary of the end-to-end tests: `FARLUN_BIN`, or a release build of the working tree.
    pub(super) fn current() -> Build {
        Build::at("farlun".to_owned(), farlun_path().to_owned())
    }

    /// The binary at `path`; tables and messages call it `name`.
    pub(super) fn at(name: String, path: PathBuf) -> Build {
        Build { name, path }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A command that starts it.
    pub(super) fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(&self.path);
        command.args(args);
        command
    }

    /// The document of a command that takes `seconds`.
    pub(super) fn document(&self, args: &[&str], seconds: u32) -> Result<Document> {
        Document::of(&mut self.command(args), Duration::from_secs(seconds.into()) + GRACE)
    }

    /// The flags of `bench` for an operation. A load writes only with `--overwrite`, which builds from before that flag
    /// refuse.
    pub(super) fn op(&self, op: &'static str) -> Vec<&'static str> {
        let mut flags = vec!["--op", op];
        if op == "write" {
            let help = finish(&mut self.command(["bench", "--help"]), GRACE);
            let has_flag = help.is_ok_and(|help| help.stdout.contains("--overwrite"));
            flags.extend(has_flag.then_some("--overwrite"));
        }
        flags
    }

    /// A target of its own that serves `luns` on loopback, at a port that the kernel picks.
    pub(super) fn target(&self, luns: &[&str]) -> Result<Target> {
        let mut command = self.command(["target", "--json", "--listen", "127.0.0.1:0"]);
        for lun in luns {
            command.args(["--lun", lun]);
        }
        start_target(&mut command)
    }

    /// Writes a LUN of `len_bytes` as a whole: a page that was never written takes no memory and no time to copy.
    pub(super) fn fill(&self, url: &str, len_bytes: u64) -> Result<()> {
        const SECONDS: [u32; 6] = [1, 2, 4, 8, 16, 32];
        for seconds in SECONDS {
            let time = format!("{seconds}s");
            let args = ["bench", url, "--json", "--block", "1MiB", "--depth", "8", "--time", time.as_str()];
            let document = self.document(&[&args[..], &self.op("write")].concat(), seconds)?;
            // Sequential from the LUN's start.
            if document.number("/bytes")? >= len_bytes as f64 {
                return Ok(());
            }
        }
        bail!("{len_bytes} bytes of {url} were not written within {} s", SECONDS[SECONDS.len() - 1])
    }
}

/// Starts a command that ends in a `farlun target --json`.
pub(super) fn start_target(command: &mut Command) -> Result<Target> {
    Target::try_start(command).map_err(|problem| silent(command, &problem))
}

/// The next line of a service that `command` has started.
pub(super) fn next_line(service: &mut Service, command: &Command, limit: Duration) -> Result<String> {
    service.try_next_line(limit).map_err(|problem| silent(command, &problem))
}

/// A service that printed no line as expected: the second line of `problem` is the first of standard error, if there is
/// any, and says more than that none came.
fn silent(command: &Command, problem: &str) -> anyhow::Error {
    let mut lines = problem.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next().unwrap_or_default();
    anyhow!("`{}` failed: {}", line(command), lines.next().unwrap_or(first).trim())
}

/// A JSON document and the command that printed it.
pub(super) struct Document {
    command: String,
    value: Value,
}

impl Document {
    /// The document of a command that ends with 0 within `limit`.
    pub(super) fn of(command: &mut Command, limit: Duration) -> Result<Document> {
        let finished = finish(command, limit)?;
        ensure!(finished.code == 0, "{}", ended(command, &finished));
        Document::printed(command, &finished)
    }

    /// The document of a command that prints one whatever its exit code.
    pub(super) fn of_any_code(command: &mut Command, limit: Duration) -> Result<Document> {
        let finished = finish(command, limit)?;
        Document::printed(command, &finished)
    }

    /// A line that `command` has printed.
    pub(super) fn parse(command: &Command, text: &str) -> Result<Document> {
        let command = line(command);
        let value = serde_json::from_str(text).with_context(|| format!("`{command}` printed no document"))?;
        Ok(Document { command, value })
    }

    fn printed(command: &Command, finished: &Finished) -> Result<Document> {
        Document::parse(command, &finished.stdout).with_context(|| ended(command, finished))
    }

    /// The number at a JSON pointer such as `/cpu/near_ns`.
    pub(super) fn number(&self, pointer: &str) -> Result<f64> {
        let number = self.value.pointer(pointer).and_then(Value::as_f64);
        number.with_context(|| format!("no number at {pointer} in the document of `{}`", self.command))
    }

    pub(super) fn value(&self) -> &Value {
        &self.value
    }
}

/// Runs a command to its end.
pub(super) fn finish(command: &mut Command, limit: Duration) -> Result<Finished> {
    // The text behind the first line is the output so far.
    try_run(command, limit).map_err(|problem| anyhow!("{}", problem.lines().next().unwrap_or_default()))
}

/// Exit code and first line of standard error.
fn ended(command: &Command, finished: &Finished) -> String {
    let said = finished.stderr.lines().find(|line| !line.trim().is_empty()).unwrap_or("no message");
    format!("`{}` ended with {}: {}", line(command), finished.code, said.trim())
}

/// CPU time of the threads that a process has, in ns (`/proc/PID/task/*/schedstat`).
pub(super) fn cpu_ns(pid: u32) -> Result<u64> {
    let mut sum = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task")).context("the process is gone")? {
        let text = match fs::read_to_string(task?.path().join("schedstat")) {
            // The thread ended meanwhile.
            Err(error) if matches!(error.raw_os_error(), Some(2 | 3)) => continue,
            text => text?,
        };
        let first = text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
        sum += first.with_context(|| format!("schedstat says '{text}'"))?;
    }
    ensure!(sum > 0, "this kernel does not count what threads run (CONFIG_SCHED_INFO)");
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script, "farlun", "--new"]);
        command
    }

    fn message<T>(result: Result<T>) -> String {
        result.err().map(|error| format!("{error:#}")).unwrap_or_default()
    }

    #[test]
    fn errors_are_one_sentence_with_the_command() {
        let refused = "echo; echo \"error: unexpected argument '--new'\" >&2; echo usage >&2; exit 2";
        let said = message(Document::of(&mut shell(refused), GRACE));
        assert!(said.ends_with("farlun --new` ended with 2: error: unexpected argument '--new'"), "{said}");
        let said = message(start_target(&mut shell(&refused[6..])));
        assert!(said.ends_with("farlun --new` failed: error: unexpected argument '--new'"), "{said}");
        let said = message(start_target(&mut shell("echo ready")));
        assert!(said.ends_with("failed: the first line is no ready line: ready"), "{said}");
        let said = message(Document::of(&mut shell("echo words"), GRACE));
        assert!(
            said.contains("ended with 0: no message: `sh -c echo words farlun --new` printed no"),
            "{said}"
        );
    }

    #[test]
    fn a_missing_number_is_named() -> Result<()> {
        let prints = "echo '{\"cpu\": {\"near_ns\": 7, \"far_ns\": null}}'";
        let document = Document::of(&mut shell(prints), GRACE)?;
        assert_eq!(document.number("/cpu/near_ns")?, 7.0);
        let said = message(document.number("/cpu/far_ns"));
        assert!(said.starts_with("no number at /cpu/far_ns in the document of `sh -c "), "{said}");
        Ok(())
    }

    #[test]
    fn this_process_uses_cpu_time() {
        assert!(cpu_ns(std::process::id()).is_ok_and(|ns| ns > 0));
        assert!(cpu_ns(u32::MAX).is_err());
    }
}
