//! Cleans up when the runner is killed without a chance to do it itself.
//!
//! The kernel ends the runner's own children with it; what they started (daemons, shells in the background)
//! would live on, and its namespaces with it. A guard is a process that waits for the end of the pipe to the
//! runner and then kills whatever still is in the run's namespaces. It runs `farlun wan guard`.

use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

use net::child::{Signal, signal};
use net::namespace::members;

/// A guard that runs. Dropped, it cleans up and ends.
pub(crate) struct Guard {
    process: Child,
    line: Option<ChildStdin>,
}

impl Guard {
    /// Starts `program wan guard` for these namespaces, out of reach of a Ctrl-C at the terminal.
    pub(crate) fn start(program: &Path, namespaces: &[u64]) -> io::Result<Guard> {
        let mut process = Command::new(program)
            .args(["wan", "guard"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()?;
        let mut line = process.stdin.take().expect("stdin is a pipe");
        let words: Vec<String> = namespaces.iter().map(u64::to_string).collect();
        writeln!(line, "{}", words.join(" "))?;
        Ok(Guard { process, line: Some(line) })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.line = None;
        let _ = self.process.wait();
    }
}

/// What `farlun wan guard` does: reads the inodes of namespaces, waits for the end of its input, cleans up.
pub fn stand() -> io::Result<()> {
    let mut namespaces = Vec::new();
    for line in io::stdin().lock().lines() {
        namespaces.extend(line?.split_whitespace().filter_map(|word| word.parse::<u64>().ok()));
    }
    kill_all(&namespaces);
    Ok(())
}

/// Kills every process in `namespaces` until none is left; a process may start others while we look.
pub(crate) fn kill_all(namespaces: &[u64]) {
    for _ in 0..500 {
        let left = members(namespaces);
        if left.is_empty() {
            return;
        }
        left.iter().for_each(|pid| signal(*pid, Signal::Kill));
        thread::sleep(Duration::from_millis(10));
    }
}
