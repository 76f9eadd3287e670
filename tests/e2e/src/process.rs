//! Processes with a limit on their time: run to their end, or kept as a service until they are dropped.
//!
//! Each is the leader of a process group of its own, so that whatever it starts ends with it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How often a condition is looked at while waiting for it.
const LOOK: Duration = Duration::from_millis(5);

/// How long a process may take to end after it was asked to, on the slowest of machines.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// How long one that is not needed any more has to end by itself.
const GRACE: Duration = Duration::from_secs(8);

/// A process that came to its end.
#[derive(Debug)]
pub struct Finished {
    /// Its exit code; 128 + the signal's number if a signal ended it.
    pub code: i32,
    /// All it wrote to standard output.
    pub stdout: String,
    /// All it wrote to standard error.
    pub stderr: String,
    /// What was started, for messages.
    pub command: String,
}

impl Finished {
    /// Panics with all that was printed unless the exit code is `code`.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Finished {
        assert_eq!(self.code, code, "unexpected exit code\n{self:#?}");
        self
    }

    /// Panics unless standard error is a sentence of at most three lines that contains one of `words` (in any case).
    #[track_caller]
    pub fn expect_sentence(self, words: &[&str]) -> Finished {
        let said = self.stderr.to_lowercase();
        assert!(
            words.iter().any(|word| said.contains(&word.to_lowercase())),
            "none of {words:?} is said\n{self:#?}"
        );
        assert!(!said.contains("panicked"), "a panic is no error message\n{self:#?}");
        assert!(said.trim().lines().count() <= 3, "an error is one clear sentence\n{self:#?}");
        self
    }

    /// Panics unless standard error says `words`.
    #[track_caller]
    pub fn expect_said(self, words: &str) -> Finished {
        assert!(self.stderr.contains(words), "'{words}' is not said\n{self:#?}");
        self
    }

    /// Standard output as one JSON document.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("no JSON document: {error}\n{self:#?}"))
    }
}

/// Runs `command` with nothing on its standard input; panics if it takes longer than `limit`.
#[track_caller]
pub fn run(command: &mut Command, limit: Duration) -> Finished {
    try_run(command, limit).unwrap_or_else(|problem| panic!("{problem}"))
}

/// Like [`run`], with an error instead of a panic; its first line is the sentence, its others the output so far.
pub fn try_run(command: &mut Command, limit: Duration) -> Result<Finished, String> {
    let line = format!("{command:?}");
    let (stdout, stderr) = (scratch(), scratch());
    command.stdin(Stdio::null()).stdout(clone(&stdout)).stderr(clone(&stderr)).process_group(0);
    let mut child = command.spawn().map_err(|error| format!("cannot start {line}: {error}"))?;
    let Some(status) = wait(&mut child, limit) else {
        kill_group(&mut child);
        let output = [read_all(&stdout), read_all(&stderr)].join("\n");
        return Err(format!("{line} ran longer than {limit:?}\n{output}"));
    };
    Ok(Finished { code: code(status), stdout: read_all(&stdout), stderr: read_all(&stderr), command: line })
}

/// Runs `command` for at most a minute and panics unless it ends with 0; its standard output.
#[track_caller]
pub fn output(command: &mut Command) -> String {
    run(command, Duration::from_secs(60)).expect_code(0).stdout
}

/// Looks at `condition` until it holds; panics, naming `what`, when it does not within `limit`.
#[track_caller]
pub fn until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < limit, "waited {limit:?} in vain: {what}");
        std::thread::sleep(LOOK);
    }
}

/// A process that runs until it is dropped, and its lines.
pub struct Service {
    child: Child,
    lines: Receiver<String>,
    stderr: File,
    line: String,
}

impl Service {
    /// Starts `command` with nothing on its standard input.
    #[track_caller]
    pub fn start(command: &mut Command) -> Service {
        let line = format!("{command:?}");
        let stderr = scratch();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(clone(&stderr)).process_group(0);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {line}: {error}"));
        let stdout = child.stdout.take().expect("standard output is a pipe");
        let (sender, lines) = mpsc::channel();
        // The reader ends with the process: its pipe closes then.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Service { child, lines, stderr, line }
    }

    /// The next line of its standard output; panics if none comes within `limit`.
    #[track_caller]
    pub fn next_line(&mut self, limit: Duration) -> String {
        self.try_next_line(limit).unwrap_or_else(|problem| panic!("{problem}"))
    }

    /// Like [`Service::next_line`], with an error instead of a panic; its first line is the sentence, its others
    /// standard error so far.
    pub fn try_next_line(&mut self, limit: Duration) -> Result<String, String> {
        self.lines
            .recv_timeout(limit)
            .map_err(|error| format!("no line from {}: {error}\n{}", self.line, read_all(&self.stderr)))
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it is still running.
    pub fn alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Memory of the process that is resident now (VmRSS of /proc/PID/status), in bytes.
    #[track_caller]
    pub fn resident_bytes(&self) -> u64 {
        self.status_number("VmRSS:") << 10
    }

    /// How often its first thread has slept until something happened.
    #[track_caller]
    pub fn sleeps(&self) -> u64 {
        self.status_number("voluntary_ctxt_switches:")
    }

    /// A number of /proc/PID/status.
    #[track_caller]
    fn status_number(&self, name: &str) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        number.unwrap_or_else(|| panic!("{path} names no {name}\n{status}"))
    }

    /// Ends it at once, as a crash would.
    pub fn kill(&mut self) {
        kill_group(&mut self.child);
    }

    /// Ends the process alone at once; what it started must look after itself.
    pub fn kill_alone(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// What it has written to standard error.
    pub fn stderr(&self) -> String {
        read_all(&self.stderr)
    }

    /// Waits until it has ended by itself; its exit code. Panics if it does not within `limit`.
    #[track_caller]
    pub fn ended(&mut self, limit: Duration) -> i32 {
        match wait(&mut self.child, limit) {
            Some(status) => code(status),
            None => panic!("{} still runs after {limit:?}\n{}", self.line, read_all(&self.stderr)),
        }
    }

    /// Sends it a signal, such as `HUP`.
    pub fn signal(&self, name: &str) {
        signal(name, &self.child);
    }

    /// Asks it to end (SIGTERM) and returns its exit code; panics if it does not.
    #[track_caller]
    pub fn terminate(&mut self) -> i32 {
        // A process that has ended already may have lent its id to another.
        if self.alive() {
            signal("TERM", &self.child);
        }
        self.ended(ENDS_WITHIN)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if self.alive() {
            signal("TERM", &self.child);
            let _ = wait(&mut self.child, GRACE);
        }
        kill_group(&mut self.child);
    }
}

fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return Some(status);
        }
        if began.elapsed() > limit {
            return None;
        }
        std::thread::sleep(LOOK);
    }
}

/// Sends a signal to one process, by its id.
fn signal(name: &str, child: &Child) {
    let _ = Command::new("kill").args(["-s", name, &child.id().to_string()]).stderr(Stdio::null()).status();
}

/// Kills what is left of the child's process group, and the child.
fn kill_group(child: &mut Child) {
    if matches!(child.try_wait(), Ok(None)) {
        let group = format!("-{}", child.id());
        let _ = Command::new("kill").args(["-s", "KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// An unnamed file: unlike a pipe it can never be full, nor be held open by a grandchild.
fn scratch() -> File {
    tempfile::tempfile().expect("a temporary file")
}

fn clone(file: &File) -> Stdio {
    file.try_clone().expect("a file handle can be cloned").into()
}

/// Read at positions: those who write share the file's own, and would write where a reader has set it.
fn read_all(file: &File) -> String {
    let mut bytes = vec![0; file.metadata().expect("a temporary file has a length").len() as usize];
    file.read_exact_at(&mut bytes, 0).expect("a temporary file can be read");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_while_it_is_read_is_not_lost() {
        let script = "for i in $(seq 2000); do echo $i >&2; done; echo done; exec sleep 1000";
        let mut service = Service::start(Command::new("sh").args(["-c", script]));
        until("all lines are written", ENDS_WITHIN, || service.stderr().lines().count() == 2_000);
        assert_eq!(service.next_line(ENDS_WITHIN), "done");
        let numbers: Vec<String> = (1..=2_000).map(|number| number.to_string()).collect();
        assert!(service.stderr().lines().eq(numbers), "{}", service.stderr());
        service.kill();
    }
}
