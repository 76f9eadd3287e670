//! Cleans up when the runner is killed without a chance to do it itself.
//!
//! The kernel ends the runner's own children with it; what they started (daemons, shells in the background)
//! would live on, and its namespaces with it. A guard is a process that waits for the end of the pipe to the
//! runner and then kills whatever still is in the run's namespaces. It runs `farlun wan guard`.
//!
//! Processes are known by the number of their namespace, which the kernel gives again to another namespace once this one
//! is gone: so the guard holds the namespaces open until it has ended.

use std::io::{self, BufRead, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

use net::Namespace;
use net::child::{Signal, signal};
use net::namespace::members;

/// What the guard says when it holds the namespaces.
const HELD: &[u8] = b"held\n";

/// A guard that runs. Dropped, it cleans up and ends.
pub(crate) struct Guard {
    process: Child,
    line: Option<ChildStdin>,
}

impl Guard {
    /// Starts `program wan guard` for these namespaces of ours, out of reach of a Ctrl-C at the terminal, and waits until it
    /// holds them.
    pub(crate) fn start(program: &Path, namespaces: &[&Namespace]) -> io::Result<Guard> {
        let mut process = Command::new(program)
            .args(["wan", "guard"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let (line, answer) = (process.stdin.take(), process.stdout.take());
        let guard = Guard { process, line };
        let own = std::process::id();
        let places = namespaces.iter().map(|namespace| format!("/proc/{own}/fd/{}", namespace.descriptor()));
        let mut line = guard.line.as_ref().expect("stdin is a pipe");
        writeln!(line, "{}", places.collect::<Vec<_>>().join(" "))?;
        answer.expect("stdout is a pipe").read_exact(&mut [0; HELD.len()])?;
        Ok(guard)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.line = None;
        let _ = self.process.wait();
    }
}

/// What `farlun wan guard` does: reads where namespaces are, holds them, waits for the end of its input, cleans up.
pub fn stand() -> io::Result<()> {
    let mut input = io::stdin().lock();
    let mut line = String::new();
    input.read_line(&mut line)?;
    let open = |place: &str| Namespace::open(Path::new(place));
    let namespaces = line.split_whitespace().map(open).collect::<io::Result<Vec<_>>>()?;
    let inodes = namespaces.iter().map(Namespace::inode).collect::<io::Result<Vec<_>>>()?;
    let mut output = io::stdout();
    output.write_all(HELD)?;
    output.flush()?;
    // Nothing more comes: the end of the input is that of the runner.
    io::copy(&mut input, &mut io::sink())?;
    kill_all(&inodes);
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
